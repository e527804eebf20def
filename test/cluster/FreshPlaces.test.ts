import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as ClusterRunner from "../../src/cluster/ClusterRunner.ts"
import * as FreshPlaces from "../../src/cluster/FreshPlaces.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"

describe("a runner that cannot renew its lease", () => {
  it.effect("takes no session until it can, and none whose shard it has lost", () =>
    Effect.gen(function*() {
      const settings = yield* RunnerOptions.read({})
      const runner = { isHeld: true, leaseMillis: 9_000 }
      let hasShards = true
      const isHere = yield* FreshPlaces.make(runner, () => hasShards).pipe(
        Effect.provide(yield* Layer.build(ClusterRunner.layerSingle(settings)))
      )
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(yield* isHere("ada/one"))
      runner.isHeld = false
      const late = yield* Effect.forkChild(isHere("ada/one"))
      yield* TestClock.adjust("5 seconds")
      runner.isHeld = true
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* Fiber.join(late))
      runner.isHeld = false
      const never = yield* Effect.forkChild(isHere("ada/one"))
      yield* TestClock.adjust("10 seconds")
      assert.isFalse(yield* Fiber.join(never))
      runner.isHeld = true
      hasShards = false
      assert.isFalse(yield* isHere("ada/one"))
    }), { tags: ["CL6"] })
})
