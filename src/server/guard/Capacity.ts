/**
 * Limits an amount in use, per user and in total. Requests that do not fit wait in order and hold nothing meanwhile.
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"

/** The amounts per user and in total. */
export interface Bounds {
  readonly perUser: number
  readonly ofAll: number
}

export class Capacity {
  private readonly bounds: Bounds
  private readonly all: Semaphore.Semaphore
  private readonly users = new Map<string, { readonly line: Semaphore.Semaphore; count: number }>()

  constructor(bounds: Bounds) {
    this.bounds = bounds
    this.all = Semaphore.makeUnsafe(bounds.ofAll)
  }

  /**
   * Takes an amount for the rest of the scope; the result gives back all but a part of it. An amount above a user's
   * limit counts as the whole limit.
   */
  take(user: string, wanted: number): Effect.Effect<(kept: number) => Effect.Effect<void>, never, Scope.Scope> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.scope, (scope) => {
        const of = this.users.get(user) ?? { line: Semaphore.makeUnsafe(this.bounds.perUser), count: 0 }
        let amount = Math.min(wanted, this.bounds.perUser, this.bounds.ofAll)
        this.users.set(user, of)
        of.count++
        const leave = Effect.sync(() => {
          if (--of.count === 0) this.users.delete(user)
        })
        const taken = (line: Semaphore.Semaphore) =>
          Effect.andThen(
            restore(line.take(amount)),
            Scope.addFinalizer(scope, Effect.suspend(() => line.release(amount)))
          )
        const keep = (kept: number) =>
          Effect.suspend(() => {
            const surplus = Math.max(0, amount - kept)
            amount -= surplus
            return Effect.asVoid(Effect.andThen(of.line.release(surplus), this.all.release(surplus)))
          })
        return Effect.as(
          Effect.andThen(Scope.addFinalizer(scope, leave), Effect.andThen(taken(of.line), taken(this.all))),
          keep
        )
      })
    )
  }
}
