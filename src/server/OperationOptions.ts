/** Limits of the operations of a server, and their defaults. */
import type * as Duration from "effect/Duration"
import { readOptions } from "../core/vocabulary/ConfigurationError.ts"

export interface Options {
  /** Operations that have not ended, including those that wait for approval; more are refused. */
  readonly maxOperations?: number | undefined
  readonly maxOperationsPerUser?: number | undefined
  /** Messages of one operation, including its prompt; more are refused until it has ended. */
  readonly maxMessages?: number | undefined
  /** Characters of these messages. */
  readonly maxMessageChars?: number | undefined
  /** Fragments of texts and reports of tools kept per operation, the latest ones. */
  readonly keptEvents?: number | undefined
  /** Characters of these events. */
  readonly keptChars?: number | undefined
  /** How long an ended operation is kept in memory; then it is read from the `OperationStore`. */
  readonly listed?: Duration.Input | undefined
  /** Operations of a session that are listed, the latest ones. Others are removed from the `OperationStore`. */
  readonly maxListed?: number | undefined
  /** How long an idle conversation is listed and kept in the `OperationStore`. */
  readonly retention?: Duration.Input | undefined
}

export const defaults = {
  maxOperations: 2_000,
  maxOperationsPerUser: 200,
  maxMessages: 1_000,
  maxMessageChars: 4_000_000,
  keptEvents: 2_000,
  keptChars: 500_000,
  listed: "1 minute",
  maxListed: 100,
  retention: "30 days"
} as const satisfies Options

/** Reads the options. Fails with all invalid ones. */
export const read = (options: Options) =>
  readOptions("Operations", (read) => {
    const given = { ...defaults, ...options }
    type Count =
      | "keptChars"
      | "keptEvents"
      | "maxListed"
      | "maxMessageChars"
      | "maxMessages"
      | "maxOperations"
      | "maxOperationsPerUser"
    const count = (name: Count) => read.count(name, given[name] ?? defaults[name], name.startsWith("max") ? 1 : 0)
    return {
      maxOperations: count("maxOperations"),
      maxOperationsPerUser: count("maxOperationsPerUser"),
      maxMessages: count("maxMessages"),
      maxMessageChars: count("maxMessageChars"),
      keptEvents: count("keptEvents"),
      keptChars: count("keptChars"),
      maxListed: count("maxListed"),
      listed: read.millis("listed", given.listed ?? defaults.listed),
      retention: read.millis("retention", given.retention ?? defaults.retention)
    }
  })
