/**
 * A source of permits that a pool shares with other code or other machines.
 *
 * A pool of a given size counts its permits. A pool over a source takes a lease for each running call.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Semaphore from "effect/Semaphore"

/** One permit, held until its scope closes. */
export interface Lease {
  /**
   * Ends with a reason when the permit is lost before its scope closes. The call that holds it is then cancelled.
   * Absent if that cannot happen.
   */
  readonly lost?: Effect.Effect<string> | undefined
}

/**
 * A source of permits.
 *
 * `lease` waits for one permit, which goes back when the scope closes. Interruption gives up the place in line. The
 * source renews leases that expire, in that scope.
 */
export interface PermitSource {
  readonly lease: Effect.Effect<Lease, never, Scope.Scope>
}

/** Takes permits from a semaphore that other code may use too. */
export const fromSemaphore = (semaphore: Semaphore.Semaphore): PermitSource => ({
  lease: Effect.as(semaphore.takeScoped(1), held)
})

const held: Lease = {}
