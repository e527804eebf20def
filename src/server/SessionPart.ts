/** What the waves, and the operations, of a server are to the session they run in; see `SessionHost`. */
import type * as Deferred from "effect/Deferred"
import type * as Effect from "effect/Effect"
import type { Unavailable } from "./ApiProblems.ts"
import type { Owner } from "./Principals.ts"

/** A wave or an operation in memory. */
export interface Work {
  /** Nothing of it runs. */
  readonly isOver: boolean
  /** It runs and waits for nothing but approvals. */
  readonly isWaiting: boolean
  /** Approval requests are pending: only then it may soon wait for nothing else. */
  readonly isAsking: boolean
  /** Completes once it is over. */
  readonly over: Deferred.Deferred<void>
  readonly log: { close(): void }
  /** Why it does not continue by itself. */
  left: "closed" | "stopped" | "lost" | undefined
  /** What it has left in the store, once it is over. */
  readonly remains: Unfinished
  /** When it is tried again if it could not continue; otherwise infinite. */
  retryAt(now: number): number
}

/** The works of a server of one kind. */
export interface SessionPart {
  /** Continues what has no end in the store and does not run here. */
  readonly open: (owner: Owner) => Effect.Effect<void, Unavailable>
  readonly works: (owner: Owner) => ReadonlyArray<Work>
  /** Waits until something may have changed since this was called. */
  readonly changed: (owner: Owner) => Effect.Effect<void>
  /** The session is about to leave: its approval requests will be suspended. */
  readonly leaves?: ((owner: Owner) => void) | undefined
  /** Stops works, as if the server stopped. */
  halt(owner: Owner, works: ReadonlyArray<Work>): Effect.Effect<void>
  /** Interrupts a work at once. */
  interrupt(work: Work): Effect.Effect<void>
  /** Leaves nothing of a session in memory. */
  readonly drop: (owner: Owner) => Effect.Effect<void>
}

/** After this time, what could not continue is tried again, or after a longer one. */
export const retryMillis = 60_000

/**
 * What a forgotten session has left in the store. `waiting`: only approvals are missing. `stopped`: it can continue at
 * once. `failed`: it could not continue.
 */
export type Unfinished = "nothing" | "waiting" | "stopped" | "failed"

/** What all of these have left together. */
export const unfinished = (left: ReadonlyArray<Unfinished>): Unfinished =>
  order.findLast((it) => left.includes(it)) ?? "nothing"

const order: ReadonlyArray<Unfinished> = ["nothing", "waiting", "failed", "stopped"]
