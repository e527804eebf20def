/**
 * Leases of an executor: what a store holds for a limited time. One fiber renews them all at half time, until they are
 * settled.
 *
 * A lease that cannot be renewed is given up before it ends: its call is stopped before another call can have what it
 * holds. Time is counted from before the store was asked, by a monotonic clock that also runs while the machine sleeps,
 * so a lease never ends later here than in the store.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Reservation, StateStoreError } from "../../store/StateStore.ts"

/** Asks the store to hold reservations for longer; gives those that are still held. */
export type Renew = (
  reservations: ReadonlyArray<Reservation>,
  now: number,
  timeout: number
) => Effect.Effect<ReadonlyArray<Reservation> | StateStoreError>

/** A lease, in milliseconds of the monotonic clock. */
interface Lease {
  readonly reservation: Reservation
  readonly leaseMillis: number
  since: number
  /** It is no longer renewed. */
  isLost: boolean
  onLost: (() => void) | undefined
}

/** A lease is given up after this part of its duration. */
const givenUp = 7 / 8

/** The leases that an executor holds. */
export class StoreLeases {
  private readonly renew: Renew
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  private readonly all = new Map<string, Lease>()
  private fiber: Fiber.Fiber<void> | undefined
  /** The shortest lease that the fiber knows of. */
  private millis = Infinity

  constructor(renew: Renew, context: Context.Context<never>) {
    this.renew = renew
    this.context = context
    this.clock = Context.get(context, Clock.Clock)
  }

  /** Milliseconds of the monotonic clock; a lease counts from before the store was asked. */
  now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  /** Renews a reservation from now on, if it has a lease. */
  add(reservation: Reservation, since: number): void {
    const { id, leaseMillis = Infinity } = reservation
    this.all.set(id, { reservation, leaseMillis, since, isLost: false, onLost: undefined })
    if (leaseMillis >= this.millis) return
    this.stop()
    this.millis = leaseMillis
    this.fiber = Effect.runForkWith(this.context)(this.renewing)
  }

  /** Calls back once, if the lease is given up or lost before the reservation is settled. */
  watch({ id }: Reservation, onLost: () => void): void {
    const lease = this.all.get(id)
    if (lease !== undefined) lease.onLost = onLost
  }

  /** Whether a reservation still holds what it claims. */
  holds({ id, leaseMillis }: Reservation): boolean {
    if (leaseMillis === undefined) return true
    const lease = this.all.get(id)
    return lease !== undefined && this.now() < lease.since + lease.leaseMillis
  }

  /** Whether the store has said less than so many milliseconds ago that a reservation is held. */
  isFresh({ id }: Reservation, millis: number): boolean {
    const lease = this.all.get(id)
    return lease !== undefined && this.now() < lease.since + Math.min(millis, lease.leaseMillis)
  }

  /** Stops renewing a reservation. */
  delete({ id, leaseMillis }: Reservation): void {
    if (leaseMillis !== undefined && this.all.delete(id) && this.all.size === 0) this.stop()
  }

  /** Stops renewing: all that is held ends with its lease. */
  close(): void {
    this.all.clear()
    this.stop()
  }

  private stop(): void {
    this.fiber?.interruptUnsafe()
    this.fiber = undefined
    this.millis = Infinity
  }

  private readonly renewing = Effect.gen({ self: this }, function*() {
    const half = this.millis / 2
    // if the store cannot be reached, leave time for several attempts before the lease ends
    const pause = this.millis / 10
    let wait = half
    while (true) {
      yield* Effect.sleep(Math.min(wait, this.left()))
      yield* this.giveUp()
      const asked = Array.from(this.all.values()).filter((it) => !it.isLost)
      if (asked.length === 0) {
        this.fiber = undefined
        this.millis = Infinity
        return
      }
      const since = this.now()
      const timeout = Math.min(pause, this.left())
      const held = yield* this.renew(asked.map((it) => it.reservation), yield* Clock.currentTimeMillis, timeout)
      wait = "operation" in held ? pause : half
      if (!("operation" in held)) yield* this.keep(asked, new Set(held.map(({ id }) => id)), since)
    }
  })

  /** Milliseconds until the first lease is given up. */
  private left(): number {
    let first = Infinity
    for (const { isLost, leaseMillis, since } of this.all.values()) {
      if (!isLost) first = Math.min(first, since + leaseMillis * givenUp)
    }
    return Math.max(0, first - this.now())
  }

  private giveUp(): Effect.Effect<void> {
    const now = this.now()
    return this.lose((it) => now >= it.since + it.leaseMillis * givenUp, "could not be renewed")
  }

  private keep(
    asked: ReadonlyArray<Lease>,
    held: ReadonlySet<string>,
    since: number
  ): Effect.Effect<void> {
    const gone = new Set<Lease>()
    for (const lease of asked) {
      if (held.has(lease.reservation.id)) lease.since = since
      else {
        gone.add(lease)
        // another call may hold it by now
        lease.since = -Infinity
      }
    }
    return this.lose((it) => gone.has(it), "were lost")
  }

  private lose(isGone: (lease: Lease) => boolean, what: string): Effect.Effect<void> {
    const lost = Array.from(this.all.values()).filter((it) => !it.isLost && isGone(it))
    if (lost.length === 0) return Effect.void
    for (const lease of lost) lease.isLost = true
    for (const { onLost } of lost) onLost?.()
    return Effect.ignoreCause(Effect.logWarning(`StateStore.renew: leases that ${what}: ${lost.length}`))
  }
}
