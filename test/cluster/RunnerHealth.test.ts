import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Logger, Option } from "effect"
import * as ShardId from "effect/cluster/ShardId"
import { Sharding } from "effect/cluster/Sharding"
import { TestClock } from "effect/testing"
import * as ClusterRunner from "../../src/cluster/ClusterRunner.ts"
import * as RoutedDirectory from "../../src/cluster/RoutedDirectory.ts"
import * as RunnerHealth from "../../src/cluster/RunnerHealth.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"
import * as SessionHandlers from "../../src/cluster/SessionHandlers.ts"
import { NotFound } from "../../src/server/api/ApiProblems.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import { Moved } from "../../src/server/sessions/SessionMethods.ts"

/** A runner with a lease and shards that a test takes from it, and what it logs. */
const runner = Effect.gen(function*() {
  const state = { hasShards: true, isHeld: true, isLeaving: false }
  const logged: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => void logged.push(`${logLevel}: ${String(message)}`))
  const { health, unready } = yield* RunnerHealth.make({
    health: { now: Effect.succeed({ status: "ready", checks: [] }) },
    isBegun: Effect.sync(() => state.isLeaving),
    runner: {
      name: "one",
      leaseMillis: 9_000,
      get isHeld() {
        return state.isHeld
      },
      renew: Effect.succeed(true)
    },
    shards: 3
  }).pipe(
    Effect.provide([
      Layer.mock(Sharding, { getShardId: () => ShardId.make("default", 1), hasShardId: () => state.hasShards }),
      Logger.layer([logger])
    ])
  )
  return { health, logged, state, unready }
})

/** Sessions of another runner, which does not answer. */
class Silent extends SessionHandlers.Hosted {
  answer: Effect.Effect<unknown, Moved | NotFound> = Effect.never
  override open() {
    const answer = () => Effect.suspend(() => this.answer)
    const names = ["endSession", "endTurn", "revoke", "undo", "undoPlan", "wave"]
    return Object.fromEntries(names.map((it) => [it, answer])) as unknown as SessionHandlers.Messages
  }
}

describe("a runner", () => {
  it.effect("that is not ready says why, once, and when it is over", () =>
    Effect.gen(function*() {
      const { health, logged, state } = yield* runner
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* health.now).status, "ready")
      state.isHeld = false
      assert.strictEqual((yield* health.now).status, "failing")
      // it was slow for a moment
      yield* TestClock.adjust("1 second")
      state.isHeld = true
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(logged, [])
      state.isHeld = false
      yield* TestClock.adjust("1 minute")
      assert.match(logged.join("\n"), /^Warn: This runner is not ready\. Its lease has expired[^\n]*$/)
      state.isHeld = true
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(logged.slice(1), ["Info: This runner is ready again."])
      state.hasShards = false
      yield* TestClock.adjust("1 minute")
      assert.match(logged.slice(2).join("\n"), /^Warn: This runner is not ready\. It has no shards[^\n]*$/)
      assert.strictEqual((yield* health.now).status, "failing")
    }), { tags: ["CL6"] })

  it.effect("that has just started, or leaves, is not said to be unready", () =>
    Effect.gen(function*() {
      const { health, logged, state } = yield* runner
      state.hasShards = false
      yield* TestClock.adjust("8 seconds")
      state.hasShards = true
      yield* TestClock.adjust("8 seconds")
      Object.assign(state, { hasShards: false, isLeaving: true })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(logged, [])
      assert.strictEqual((yield* health.now).status, "stopping")
    }))

  it.effect("that is not ready answers soon that it cannot, also who waits already", () =>
    Effect.gen(function*() {
      const { state, unready } = yield* runner
      const settings = yield* RunnerOptions.read({})
      const { directory } = yield* RoutedDirectory.make(yield* Effect.service(SessionDirectory), new Silent(), {
        unready,
        departed: Effect.never
      })
        .pipe(Effect.provide(yield* Layer.build(ClusterRunner.layerSingle(settings))))
      const asked = Effect.option(Effect.flip(directory.wave({ user: "ada", session: "one" }, "w")))
      const first = yield* Effect.forkChild(asked)
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(first.pollUnsafe())
      state.isHeld = false
      yield* TestClock.adjust("3 seconds")
      for (const error of [yield* Fiber.join(first), yield* asked]) {
        assert.strictEqual(Option.getOrUndefined(error)?._tag, "Unavailable")
      }
    }).pipe(Effect.provide(Layer.mock(SessionDirectory, {}))), { tags: ["CL6"] })

  it.effect("that is ready again is waited for at once, and not only after the next look", () =>
    Effect.gen(function*() {
      const { health, state, unready } = yield* runner
      state.isHeld = false
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* health.now).status, "failing")
      state.isHeld = true
      const waiting = yield* Effect.forkChild(unready, { startImmediately: true })
      assert.strictEqual((yield* health.now).status, "ready")
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(waiting.pollUnsafe())
      state.isHeld = false
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.join(waiting)
    }))

  it.effect("that is frozen is not waited for once its lease has expired: the next one is asked", () =>
    Effect.gen(function*() {
      const settings = yield* RunnerOptions.read({})
      const sessions = new Silent()
      let departure = yield* Deferred.make<void>()
      const { directory } = yield* RoutedDirectory.make(yield* Effect.service(SessionDirectory), sessions, {
        unready: Effect.never,
        departed: Effect.suspend(() => Deferred.await(departure))
      }).pipe(Effect.provide(yield* Layer.build(ClusterRunner.layerSingle(settings))))
      const asked = yield* Effect.forkChild(Effect.flip(directory.wave({ user: "ada", session: "one" }, "w")))
      yield* TestClock.adjust("8 seconds")
      assert.isUndefined(asked.pollUnsafe())
      sessions.answer = Effect.fail(new NotFound({}))
      yield* Deferred.succeed(departure, undefined)
      departure = yield* Deferred.make<void>()
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(asked))._tag, "NotFound")
    }).pipe(Effect.provide(Layer.mock(SessionDirectory, {}))))

  it.effect(
    "that did something and whose answer was lost has done it: what is gone then is not an error",
    () =>
      Effect.gen(function*() {
        const settings = yield* RunnerOptions.read({})
        const sessions = new Silent()
        const { directory } = yield* RoutedDirectory.make(yield* Effect.service(SessionDirectory), sessions, {
          unready: Effect.never,
          departed: Effect.never
        }).pipe(Effect.provide(yield* Layer.build(ClusterRunner.layerSingle(settings))))
        const owner = { user: "ada", session: "one" }
        const plan = { steps: [] }
        const asked: ReadonlyArray<readonly [Effect.Effect<unknown, { readonly _tag: string }>, ...Array<unknown>]> = [
          [directory.endSession(owner)],
          [directory.endTurn(owner, "t")],
          [directory.revoke(owner, "g")],
          [directory.undo(owner, "c", false), plan]
        ]
        for (const [ask, ...before] of asked) {
          for (const answers of [[], [new Moved()], [new Moved(), new Moved()]]) {
            const next: Array<typeof sessions.answer> = [
              ...before.map(Effect.succeed),
              ...answers.map((it) => Effect.fail(it))
            ]
            sessions.answer = Effect.suspend(() => next.shift() ?? Effect.fail(new NotFound({})))
            const answer = yield* Effect.forkChild(Effect.match(ask, {
              onFailure: ({ _tag }) => _tag,
              onSuccess: (it) => it
            }))
            yield* TestClock.adjust("1 second")
            assert.deepStrictEqual(yield* Fiber.join(answer), answers.length === 0 ? "NotFound" : before[0])
          }
        }
      }).pipe(Effect.provide(Layer.mock(SessionDirectory, {}))),
    { tags: ["CL1", "CL2"] }
  )
})
