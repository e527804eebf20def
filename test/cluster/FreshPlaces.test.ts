import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as ClusterRunner from "../../src/cluster/ClusterRunner.ts"
import * as FreshPlaces from "../../src/cluster/FreshPlaces.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"

describe("a runner that cannot renew its shards", () => {
  it.effect("takes no session until it can", () =>
    Effect.gen(function*() {
      const settings = yield* RunnerOptions.read({})
      let renewed = 0
      const isHere = yield* FreshPlaces.make(9_000).pipe(
        Effect.provideService(FreshPlaces.Renewals, { age: Effect.sync(() => renewed) }),
        Effect.provide(yield* Layer.build(ClusterRunner.layerSingle(settings)))
      )
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(yield* isHere("ada/one"))
      renewed = 9_000
      const late = yield* Effect.forkChild(isHere("ada/one"))
      yield* TestClock.adjust("5 seconds")
      renewed = 0
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* Fiber.join(late))
      renewed = 9_000
      const never = yield* Effect.forkChild(isHere("ada/one"))
      yield* TestClock.adjust("10 seconds")
      assert.isFalse(yield* Fiber.join(never))
    }))
})
