import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import {
  ClusterError,
  MessageStorage,
  RunnerHealth,
  Runners,
  RunnerStorage,
  ShardId,
  Sharding,
  ShardingConfig
} from "effect/cluster"
import { TestClock } from "effect/testing"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"

/** Whether a runner has a shard while its database does not answer, and two seconds after it does. */
const stumbling = Effect.gen(function*() {
  const settings = yield* RunnerOptions.read({})
  let isAway = true
  const storage = Effect.map(RunnerStorage.makeMemory, (memory) =>
    RunnerStorage.RunnerStorage.of({
      ...memory,
      acquire: (...of) =>
        isAway ? Effect.fail(new ClusterError.PersistenceError({ cause: "away" })) : memory.acquire(...of)
    }))
  const sharding = Sharding.layer.pipe(
    Layer.provide([Runners.layerNoop, RunnerHealth.layerNoop]),
    Layer.provide(MessageStorage.layerNoop),
    Layer.provide(Layer.effect(RunnerStorage.RunnerStorage, storage)),
    Layer.provide(Layer.succeed(ShardingConfig.ShardingConfig, RunnerOptions.shardingConfig(settings, 1, 9_000)))
  )
  const seen: Array<boolean> = []
  const { hasShardId } = yield* Effect.provide(Sharding.Sharding, yield* Layer.build(sharding))
  const look = Effect.sync(() => void seen.push(hasShardId(ShardId.make("default", 1))))
  yield* Effect.sleep("1500 millis")
  yield* look
  isAway = false
  yield* Effect.sleep("2 seconds")
  yield* look
  return seen
})

describe("a runner of a cluster", () => {
  it.effect("takes its shards soon after its database stumbled", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(Effect.scoped(stumbling))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* Fiber.join(fiber), [false, true])
    }))
})
