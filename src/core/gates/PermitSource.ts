/**
 * A source of permits that a pool shares with other code or other machines.
 *
 * A pool of a given size counts its permits. A pool over a source takes a lease for each running call.
 */
import * as Context from "effect/Context"
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
  /**
   * Whether the permit is still held, by a clock that also runs while the process stands still. The executor asks before
   * a handler starts and before each commit. Absent if it cannot be lost.
   */
  readonly isHeld?: (() => boolean) | undefined
  /**
   * Refuses those who wait for the permit, also in other processes, until it goes back: a handler that does not stop
   * holds it. Absent: they wait.
   */
  readonly block?: ((because: string) => void) | undefined
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

/** A pool of permits with a name, which several processes share. */
export interface SharedPool {
  readonly name: string
  /** How many permits it has; 1 or more. */
  readonly size: number
}

/**
 * The permits that the processes of a service share. If it is provided, the caps of tools and the resource keys of calls
 * hold for all of those processes together (`Pools.Options.shared`).
 */
export class SharedPermits extends Context.Service<SharedPermits, {
  /**
   * A source whose leases hold one permit of each of the pools: all or none. Sources that name the same pools in any
   * order never wait for each other in a circle.
   */
  readonly source: (pools: ReadonlyArray<SharedPool>) => PermitSource
}>()("effect-tool-executor/gates/PermitSource/SharedPermits") {}

/** Takes permits from a semaphore that other code may use too. */
export const fromSemaphore = (semaphore: Semaphore.Semaphore): PermitSource => ({
  lease: Effect.as(semaphore.takeScoped(1), held)
})

const held: Lease = {}
