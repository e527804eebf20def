/**
 * Whether a session is placed in this process, for sure: what a runner knows of its shards is as old as the last renewal
 * of their locks. A process that was frozen takes shards for its own that others have by now, until it renews them.
 */
import * as Clock from "effect/Clock"
import * as EntityId from "effect/cluster/EntityId"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import { Sharding } from "effect/cluster/Sharding"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"

/** When the locks were last renewed. */
export class Renewals extends Context.Service<Renewals, {
  /** Milliseconds since then, by a monotonic clock. */
  readonly age: Effect.Effect<number>
}>()("effect-tool-executor/cluster/FreshPlaces/Renewals") {}

/** Layer that notes each renewal of a storage. */
export const layer: Layer.Layer<Renewals | RunnerStorage.RunnerStorage, never, RunnerStorage.RunnerStorage> = Layer
  .effectContext(Effect.gen(function*() {
    const storage = yield* RunnerStorage.RunnerStorage
    const clock = yield* Clock.Clock
    const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
    let since = -Infinity
    return Context.make(RunnerStorage.RunnerStorage, {
      ...storage,
      refresh: (address, shards) =>
        Effect.suspend(() => {
          const asked = now()
          return Effect.tap(storage.refresh(address, shards), () => {
            since = asked
            return Effect.void
          })
        })
    }).pipe(Context.add(Renewals, { age: Effect.sync(() => now() - since) }))
  }))

/**
 * Tells of a principal whether its session is placed here; waits for a renewal if the last one is too old to say. Without
 * one it is not: others may have it.
 */
export const make = Effect.fnUntraced(function*(
  /** Milliseconds for which a renewal says so. */
  validMillis: number
): Effect.fn.Return<(principal: string) => Effect.Effect<boolean>, never, Renewals | Sharding> {
  const { age } = yield* Renewals
  const { getShardId, hasShardId } = yield* Sharding
  const fresh = Effect.repeat(age, { until: (age) => age < validMillis, schedule: Schedule.spaced("100 millis") }).pipe(
    Effect.timeoutOption(validMillis),
    Effect.map(Option.isSome)
  )
  return (principal) =>
    Effect.map(
      Effect.flatMap(age, (it) => it < validMillis ? Effect.succeed(true) : fresh),
      (isFresh) => isFresh && hasShardId(getShardId(EntityId.make(principal), "default"))
    )
})
