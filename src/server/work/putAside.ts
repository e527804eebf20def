/** Keeps a record that cannot be opened from affecting others. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { annotated, type Owner } from "../users/Principals.ts"

/** Opens what a session has left. If that fails, it is logged, and the record stays for the next start. */
export const orPutAside = (owner: Owner, what: string) => <A, E, R>(opening: Effect.Effect<A, E, R>) =>
  Effect.catchCause(
    opening,
    (cause): Effect.Effect<undefined> =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(
          annotated(owner)(Effect.logError(`${what} could not be opened and is left for the next start`, cause)),
          undefined
        )
  )
