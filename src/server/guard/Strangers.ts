/**
 * Places of requests without a user, per address and in total. One whose body is still to come makes room for a newer
 * one, so that nobody keeps the others out by bodies that never end.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

/** Concurrent requests per address and in total. */
export interface Bounds {
  readonly perAddress: number
  readonly ofAll: number
}

/** Reads a body, or fails once the place is given to somebody else. */
export type Reading<E2, R2> = <A, E, R>(body: Effect.Effect<A, E, R>) => Effect.Effect<A, E | E2, R | R2>

interface Place {
  readonly address: string
  /** Completed when the place is given to another; absent unless the body is being read. */
  given?: Deferred.Deferred<void> | undefined
}

export class Strangers {
  private readonly bounds: Bounds
  /** Oldest first. */
  private readonly places = new Set<Place>()

  constructor(bounds: Bounds) {
    this.bounds = bounds
  }

  /** Takes a place for the rest of the scope. `refuse` is given whether the address itself has too many. */
  take<E2, R2>(
    address: string,
    refuse: (isOfAddress: boolean) => Effect.Effect<never, E2, R2>
  ): Effect.Effect<Reading<E2, R2>, E2, R2 | Scope.Scope> {
    return Effect.flatMap(Effect.scope, (scope) => {
      const isOfAddress = !this.makeRoom((it) => it.address === address, this.bounds.perAddress)
      if (isOfAddress || !this.makeRoom(() => true, this.bounds.ofAll)) return refuse(isOfAddress)
      const place: Place = { address }
      this.places.add(place)
      const reading: Reading<E2, R2> = (body) =>
        Effect.suspend(() => {
          const given = place.given = Deferred.makeUnsafe<void>()
          return Effect.ensuring(
            Effect.raceFirst(body, Effect.andThen(Deferred.await(given), refuse(true))),
            Effect.sync(() => void (place.given = undefined))
          )
        })
      return Effect.as(Scope.addFinalizer(scope, Effect.sync(() => void this.places.delete(place))), reading)
    })
  }

  /** Whether there is room, after the oldest whose body is still to come has left if need be. */
  private makeRoom(counts: (place: Place) => boolean, most: number): boolean {
    const held = [...this.places].filter(counts)
    if (held.length < most) return true
    const oldest = held.find((it) => it.given !== undefined)
    if (oldest?.given === undefined) return false
    this.places.delete(oldest)
    Deferred.doneUnsafe(oldest.given, Effect.void)
    return true
  }
}
