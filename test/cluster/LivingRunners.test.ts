import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Runner, RunnerAddress, RunnerHealth, RunnerStorage, ShardingConfig } from "effect/cluster"
import { TestClock } from "effect/testing"
import * as LivingRunners from "../../src/cluster/LivingRunners.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"

const address = (port: number) => RunnerAddress.make("127.0.0.1", port)

describe("a runner", () => {
  it.effect("places no sessions on another that does not answer it, until that answers again", () =>
    Effect.gen(function*() {
      const alive = new Set([2, 3])
      const asked = new Set<number>()
      const runners = yield* Effect.provide(
        RunnerStorage.RunnerStorage,
        yield* Layer.build(LivingRunners.layer.pipe(
          Layer.provide(RunnerStorage.layerMemory),
          Layer.provide(Layer.succeed(RunnerHealth.RunnerHealth, {
            isAlive: ({ port }) =>
              Effect.sync(() => {
                asked.add(port)
                return alive.has(port)
              })
          })),
          Layer.provide(Layer.effect(
            ShardingConfig.ShardingConfig,
            Effect.map(RunnerOptions.read({}), (settings) => RunnerOptions.shardingConfig(settings, 1))
          ))
        ))
      )
      for (const port of [1, 2, 3]) {
        yield* runners.register(Runner.make({ address: address(port), groups: ["default"], weight: 1 }), true)
      }
      const healthy = Effect.map(
        runners.getRunners,
        (all) => all.filter(([, isHealthy]) => isHealthy).map(([{ address }]) => address.port).sort()
      )
      assert.deepStrictEqual(yield* healthy, [1, 2, 3])
      alive.delete(2)
      yield* TestClock.adjust(RunnerOptions.defaults.healthCheck)
      assert.deepStrictEqual(yield* healthy, [1, 3])
      alive.add(2)
      yield* TestClock.adjust(RunnerOptions.defaults.healthCheck)
      assert.deepStrictEqual(yield* healthy, [1, 2, 3])
      assert.deepStrictEqual(Array.from(asked).sort(), [2, 3])
    }).pipe(Effect.scoped))
})
