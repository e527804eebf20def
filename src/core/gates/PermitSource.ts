/**
 * Where the permits of a pool come from when they are not the executor's own.
 *
 * A pool of a given size counts its permits itself. One whose permits are shared
 * with other code, or with other machines, gets a lease for each call that runs.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Semaphore from "effect/Semaphore"

/**
 * One permit, held for as long as the scope that it was taken in.
 *
 * @category models
 * @since 0.1.0
 */
export interface Lease {
  /**
   * Ends, with the reason, once the permit is lost although nobody gave it back: the
   * call that holds it is then cancelled. Absent if that cannot happen.
   */
  readonly lost?: Effect.Effect<string> | undefined
}

/**
 * A source of permits.
 *
 * **Details**
 *
 * `lease` waits in line with whoever else takes from the source, and gives one
 * permit, which goes back when the scope closes. Interruption gives up the place
 * in line. A lease that has to be renewed is renewed by the source, in that scope.
 *
 * @category models
 * @since 0.1.0
 */
export interface PermitSource {
  readonly lease: Effect.Effect<Lease, never, Scope.Scope>
}

/**
 * Takes permits from a semaphore, in turn with all other code that does.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromSemaphore = (semaphore: Semaphore.Semaphore): PermitSource => ({
  lease: Effect.as(semaphore.takeScoped(1), held)
})

// Utilities

const held: Lease = {}
