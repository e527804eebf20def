/** Limits of the operations of a server, and their defaults. */
import {
  type Checked as Read,
  count,
  defaultsOf,
  millis,
  type Options as Given,
  read as readTable
} from "../../core/vocabulary/OptionTable.ts"

const table = {
  /** Operations that have not ended, including those that wait for approval; more are refused. */
  maxOperations: count(2_000),
  maxOperationsPerUser: count(200),
  /** Messages of one operation, including its prompt; more are refused until it has ended. */
  maxMessages: count(1_000),
  /** Characters of these messages. */
  maxMessageChars: count(4_000_000),
  /** Fragments of texts and reports of tools kept per operation, the latest ones. */
  keptEvents: count(2_000, 0),
  /** Characters of these events. */
  keptChars: count(500_000, 0),
  /** How long an ended operation is kept in memory; then it is read from the `OperationStore`. */
  listed: millis("1 minute"),
  /** Operations of a session that are listed, the latest ones. Others are removed from the `OperationStore`. */
  maxListed: count(100),
  /** How long an idle conversation is listed and kept in the `OperationStore`. */
  retention: millis("30 days")
}

export interface Options extends Given<typeof table> {}

export type Checked = Read<typeof table>

export const defaults = defaultsOf(table)

/** Reads the options. Fails with all invalid ones. */
export const read = (options: Options) => readTable("Operations", table, options)
