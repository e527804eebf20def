/**
 * What this process itself changes in a workspace while confined commands run: protected files that its tools write, and
 * commands without a sandbox, which may make anything.
 *
 * A protected file is written while no confined command runs: the mount that protects it would be lost with it. What a
 * command without a sandbox makes is no confined command's doing.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"

/** Changes of one workspace. */
export class OwnChanges {
  private readonly watching = new Set<{ isOpen: boolean }>()
  private open = 0
  /** Commands that begin queue behind a write that waits for those that run. */
  private readonly entrance = Semaphore.makeUnsafe(1)
  private readonly places = Semaphore.makeUnsafe(Number.MAX_SAFE_INTEGER)

  /** Waits for the confined commands that run, and keeps others from beginning until the scope closes. */
  readonly write: Effect.Effect<void, never, Scope.Scope> = Effect.andThen(
    this.entrance.takeScoped(1),
    this.places.takeScoped(Number.MAX_SAFE_INTEGER)
  )

  /** Runs a command without a sandbox. */
  unconfined<A, E, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.open++
        for (const it of this.watching) it.isOpen = true
      }),
      () => command,
      () => Effect.sync(() => void this.open--)
    )
  }

  /** Runs a confined command; `isExpected` tells whether a command without a sandbox may have changed something. */
  confined<A, E, R>(
    command: (isExpected: () => boolean) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, Exclude<R, Scope.Scope>> {
    return Effect.scoped(Effect.gen({ self: this }, function*() {
      yield* this.entrance.withPermit(this.places.takeScoped(1))
      const seen = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const seen = { isOpen: this.open > 0 }
          this.watching.add(seen)
          return seen
        }),
        (seen) => Effect.sync(() => void this.watching.delete(seen))
      )
      return yield* command(() => seen.isOpen)
    }))
  }
}
