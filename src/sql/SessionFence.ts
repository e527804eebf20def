/** What tables of a session are written with: a fence that lets through only rows of current epochs. */
import type { Epoch } from "../core/store/Epoch.ts"
import { remembered } from "../internal/remembered.ts"
import { digest } from "./StateRecords.ts"

/** The id of a session in tables: a hash of its principal. */
export const sessionId: (principal: string) => string = remembered(digest, 10_000)

/**
 * A common table expression `owned (id, epoch)` with those of some epochs that are current, and stay so until the
 * statement is committed. Its parameter is `epochsOf` them. A statement that writes only rows with a session in `owned`
 * writes nothing for a process that lost the session.
 */
export const owned = (parameter: `$${number}`): string =>
  `owned AS (
    SELECT it.id, it.epoch FROM tool_executor_sessions AS it
    JOIN json_to_recordset(${parameter}::json) AS mine (id text, epoch bigint)
      ON it.id = mine.id AND it.epoch = mine.epoch
    ORDER BY it.id FOR SHARE OF it
  )`

/** The parameter of `owned`. */
export const epochsOf = (epochs: Iterable<Epoch>): string =>
  JSON.stringify(Array.from(epochs, ({ number, principal }) => ({ id: sessionId(principal), epoch: number })))
