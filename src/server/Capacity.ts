/**
 * Capacity for so much at once, of one user and of all together. Whoever finds none waits in line behind those who came
 * before, and holds nothing meanwhile.
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"

/** How much at once, of one user and of all together. */
export interface Bounds {
  readonly perUser: number
  readonly ofAll: number
}

/** The room. */
export class Capacity {
  private readonly bounds: Bounds
  private readonly all: Semaphore.Semaphore
  private readonly users = new Map<string, { readonly line: Semaphore.Semaphore; count: number }>()

  constructor(bounds: Bounds) {
    this.bounds = bounds
    this.all = Semaphore.makeUnsafe(bounds.ofAll)
  }

  /**
   * Takes so much for the rest of the scope; gives a way to keep only some of it. What is larger than all that a
   * user may have is alone in it.
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
