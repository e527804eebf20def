/** What tables of a session are written with: a fence that lets through only rows of current epochs. */
import type { Epoch } from "../core/store/Epoch.ts"
import { remembered } from "../internal/remembered.ts"
import { amongAll } from "./Among.ts"
import { digest } from "./StateRecords.ts"

/** The id of a session in tables: 132 bits of a hash of its principal, since rows and indexes repeat it. */
export const sessionId: (principal: string) => string = remembered(
  (principal) => digest(principal).slice(0, 22),
  10_000
)

/**
 * A common table expression `owned (id, epoch)` with those of some epochs that are current, and stay so until the
 * statement is committed. `epochs` is the parameter or expression that has what `epochsOf` gives. A statement that writes
 * only rows with a session in `owned` writes nothing for a process that lost the session.
 */
export const owned = (epochs: string): string =>
  `owned AS (
    SELECT it.id, it.epoch FROM tool_executor_sessions AS it
    JOIN ${mine(epochs)}
    ORDER BY it.id FOR SHARE OF it
  )`

/** Joins sessions with epochs that are current. */
export const mine = (epochs: string): string => {
  const given = `json_to_recordset(${epochs}::json) AS mine (id text, epoch bigint)`
  return `${given} ON it.id = mine.id AND it.epoch = mine.epoch AND it.id ${amongAll(`SELECT id FROM ${given}`)}`
}

/** An epoch as a statement takes it. */
export const epochOf = ({ number, principal }: Epoch): { readonly id: string; readonly epoch: number } => ({
  id: sessionId(principal),
  epoch: number
})

/** What `owned` needs, as a parameter in JSON. */
export const epochsOf = (epochs: Iterable<Epoch>): string => JSON.stringify(Array.from(epochs, epochOf))

/** Ends the epochs whose sessions are not in `owned`; gives them. */
export const loseOthers = (epochs: Iterable<Epoch>, owned: ReadonlySet<string>): ReadonlySet<Epoch> => {
  const lost = new Set(Array.from(epochs).filter((it) => !owned.has(sessionId(it.principal))))
  for (const it of lost) it.lose()
  return lost
}
