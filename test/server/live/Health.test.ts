/** What whoever sends work to a server is told of it, while what it keeps things in answers or not. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Ref, Stream } from "effect"
import { StateStore } from "effect-tool-executor"
import { WaveStore } from "effect-tool-executor/server"
import { TestClock } from "effect/testing"
import * as Journal from "../../../src/core/store/Journal.ts"
import * as Health from "../../../src/server/live/Health.ts"
import * as Draining from "../../../src/server/sessions/Draining.ts"

/** A server whose journal does what it is told to when it is read. */
const health = (reads: Effect.Effect<void, Journal.JournalError>) =>
  Health.layer.pipe(Layer.provide(Layer.mergeAll(
    Layer.mock(Draining.Draining, { isBegun: Effect.succeed(false) }),
    StateStore.layerMemory(),
    WaveStore.layerMemory(),
    Layer.succeed(Journal.Journal, {
      keeps: { arguments: "full", outputs: "full" },
      digest: (text) => text,
      append: () => Effect.void,
      claim: () => Effect.succeed({ _tag: "Claimed", ended: [] }),
      read: () => Stream.drain(Stream.fromEffect(reads)),
      page: () => Effect.as(reads, { entries: [] })
    })
  )))

describe("a server is", () => {
  it.effect("ready while all that it keeps things in answers", () =>
    Effect.gen(function*() {
      const { now } = yield* Health.Health
      assert.deepStrictEqual(yield* now, {
        status: "ready",
        checks: [{ name: "state", isOk: true }, { name: "journal", isOk: true }, { name: "waves", isOk: true }]
      })
    }).pipe(Effect.provide(health(Effect.void))))

  it.effect("failing where its journal cannot be read, without saying why, and ready again", () =>
    Effect.gen(function*() {
      const isBroken = yield* Ref.make(true)
      const cause = new Error("the password of the database is hunter2")
      const broken = new Journal.JournalError({ operation: "read", cause })
      const { now } = yield* Health.Health.pipe(
        Effect.provide(health(Effect.flatMap(Ref.get(isBroken), (is) => is ? Effect.fail(broken) : Effect.void)))
      )
      const { checks, status } = yield* now
      assert.strictEqual(status, "failing")
      assert.deepInclude(checks[1], { name: "journal", isOk: false })
      assert.notInclude(JSON.stringify(checks), "hunter2")
      yield* Ref.set(isBroken, false)
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual((yield* now).status, "ready")
    }))

  it.effect("failing where its journal hangs, and nobody who asks waits for long", () =>
    Effect.gen(function*() {
      const { now } = yield* Health.Health
      const fiber = yield* Effect.forkChild(now)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* fiber.pollUnsafe()!).status, "failing")
    }).pipe(Effect.provide(health(Effect.never))))

  it.effect("looked at every two seconds at most, however often somebody asks", () =>
    Effect.gen(function*() {
      const looks = yield* Ref.make(0)
      const { now } = yield* Health.Health.pipe(Effect.provide(health(Ref.update(looks, (n) => n + 1))))
      yield* Effect.all(Array.from({ length: 100 }, () => now), { concurrency: "unbounded" })
      assert.strictEqual(yield* Ref.get(looks), 1)
      yield* TestClock.adjust("2 seconds")
      yield* now
      assert.strictEqual(yield* Ref.get(looks), 2)
    }))
})
