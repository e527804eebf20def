/** An epoch of a session, and what a registry says of sessions and of this process. */
import type * as Effect from "effect/Effect"
import type { Term } from "./JournalEntry.ts"

/** The time in which this process holds a session. It ends for good once the session is released or lost. */
export interface Epoch extends Term {
  readonly principal: string
  /** Rises with each activation of the session. */
  readonly number: number
  /** Notes that a store found a later epoch: this one is over. */
  readonly lose: () => void
}

/** What is unfinished in a session when it is released. */
export type Left =
  /** Nothing: it is activated again when somebody needs it. */
  | { readonly _tag: "Nothing" }
  /** It waits for approvals until this time (epoch milliseconds), when it must be activated again. */
  | { readonly _tag: "Waiting"; readonly until: number | undefined }
  /** Calls or agents continue as soon as some process activates it. */
  | { readonly _tag: "Open" }

/** What became of a release. `Ready`: somebody woke the session meanwhile, so activate it again. */
export type Released = "Released" | "Ready" | "Lost"

/** This process, as the registry knows it. */
export interface Runner {
  /** Differs in each life of a process. */
  readonly name: string
  /** Milliseconds after its last renewal until others may have its sessions; 0: they cannot. */
  readonly leaseMillis: number
  /** Whether its lease has not expired, by a monotonic clock of this process. */
  readonly isHeld: boolean
  /** Renews the lease now; false if that failed. It is renewed in the background, too. */
  readonly renew: Effect.Effect<boolean>
}
