/** What the waves, and the operations, of a server do for one session at a time. */
import type * as Effect from "effect/Effect"
import type { Unavailable } from "./ApiProblems.ts"
import type { Owner } from "./Principals.ts"

/** What one part of a server does for one session at a time; see `SessionHost`. */
export interface SessionPart {
  /** Continues what has no end in the store and does not run here. */
  readonly open: (owner: Owner) => Effect.Effect<void, Unavailable>
  readonly state: (owner: Owner) => SessionState
  /** Whether approval requests are pending: only then it may soon wait for nothing else. */
  readonly isAsking: (owner: Owner) => boolean
  /** Waits until the state may have changed since this was called. */
  readonly changed: (owner: Owner) => Effect.Effect<void>
  /** What is suspended from now on is not reported: readers connect again. */
  readonly leave: (owner: Owner) => Effect.Effect<void>
  /** Stops what runs, as if the server stopped. */
  readonly stop: (owner: Owner) => Effect.Effect<void>
  /** When what could not continue is tried again; infinite if there is nothing. */
  readonly retryAt: (owner: Owner, now: number) => number
  /** Forgets a session of which nothing runs any more. */
  readonly forget: (owner: Owner) => Effect.Effect<Unfinished>
  /** Interrupts everything at once without writing anything, and forgets it. */
  readonly lose: (owner: Owner) => Effect.Effect<void>
}

/** After this time, what could not continue is tried again, or after a longer one. */
export const retryMillis = 60_000

/** `waiting`: everything that runs waits for nothing but approvals. `over`: nothing runs. */
export type SessionState = "running" | "waiting" | "over"

/**
 * What a forgotten session has left in the store. `waiting`: only approvals are missing. `stopped`: it can continue at
 * once. `failed`: it could not continue.
 */
export type Unfinished = "nothing" | "waiting" | "stopped" | "failed"

/** The state of all of these together. */
export const stateOf = (states: ReadonlyArray<SessionState>): SessionState =>
  states.includes("running") ? "running" : states.includes("waiting") ? "waiting" : "over"

/** What all of these have left together. */
export const unfinished = (left: ReadonlyArray<Unfinished>): Unfinished =>
  order.findLast((it) => left.includes(it)) ?? "nothing"

const order: ReadonlyArray<Unfinished> = ["nothing", "waiting", "failed", "stopped"]
