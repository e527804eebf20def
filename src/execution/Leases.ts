/**
 * Reservations that a store holds for a time only: one fiber renews them all, at
 * half time, until they are settled.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Reservation, StateStoreError } from "../store/StateStore.ts"

/**
 * Asks the store to hold reservations for longer; gives those that are still held.
 *
 * @category models
 * @since 0.1.0
 */
export type Renew = (
  reservations: ReadonlyArray<Reservation>,
  now: number,
  patience: number
) => Effect.Effect<ReadonlyArray<Reservation> | StateStoreError>

/**
 * The leases that an executor holds.
 *
 * @category models
 * @since 0.1.0
 */
export class Leases {
  private readonly renew: Renew
  private readonly context: Context.Context<never>
  private readonly held = new Map<string, Reservation>()
  private fiber: Fiber.Fiber<void> | undefined
  /** The shortest lease that the fiber knows of. */
  private millis = Infinity

  constructor(renew: Renew, context: Context.Context<never>) {
    this.renew = renew
    this.context = context
  }

  /** Renews a reservation from now on, if it has a lease. */
  add(reservation: Reservation): void {
    const { id, leaseMillis } = reservation
    if (leaseMillis === undefined) return
    this.held.set(id, reservation)
    if (leaseMillis >= this.millis) return
    this.stop()
    this.millis = leaseMillis
    this.fiber = Effect.runForkWith(this.context)(this.renewing)
  }

  /** Renews a reservation no longer. */
  delete({ id, leaseMillis }: Reservation): void {
    if (leaseMillis !== undefined && this.held.delete(id) && this.held.size === 0) this.stop()
  }

  /** Renews nothing any more: all that is held ends with its lease. */
  close(): void {
    this.held.clear()
    this.stop()
  }

  private stop(): void {
    this.fiber?.interruptUnsafe()
    this.fiber = undefined
    this.millis = Infinity
  }

  private readonly renewing = Effect.gen({ self: this }, function*() {
    const half = this.millis / 2
    // a store that could not be reached is asked again before the lease is over, more than once
    const pause = half / 4
    let wait = half
    while (true) {
      yield* Effect.sleep(wait)
      const asked = Array.from(this.held.values())
      const held = yield* this.renew(asked, yield* Clock.currentTimeMillis, pause)
      wait = "operation" in held ? pause : half
      if (!("operation" in held)) yield* this.keep(asked, new Set(held.map(({ id }) => id)))
    }
  })

  /** What is not held any more is told once: the call goes on, but what it has reserved may be another's. */
  private keep(asked: ReadonlyArray<Reservation>, held: ReadonlySet<string>): Effect.Effect<void> {
    const lost = asked.filter(({ id }) => !held.has(id) && this.held.delete(id))
    const told = lost.length === 0
      ? Effect.void
      : Effect.logWarning(`StateStore.renew: leases that were lost: ${lost.length}`)
    return this.held.size > 0 ? told : Effect.andThen(told, Effect.sync(() => this.stop()))
  }
}
