import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { HostedSession } from "../../src/cluster/HostedSession.ts"
import * as MemorySessions from "../../src/core/store/MemorySessions.ts"
import type { Left } from "../../src/core/store/SessionRegistry.ts"
import { Unavailable } from "../../src/server/api/ApiProblems.ts"
import type { SessionHost } from "../../src/server/sessions/SessionHost.ts"
import { Moved } from "../../src/server/sessions/SessionMethods.ts"

const owner = { user: "ada", session: "one" }
const principal = "ada/one"

/** What a host does, in order, and whether something runs in it. */
class Scripted {
  readonly log: Array<string> = []
  left: Left = { _tag: "Nothing" }
  idle: Effect.Effect<void> = Effect.void
  problem: Unavailable | undefined
  isHere = true
  closing: Effect.Effect<unknown> = Effect.void
  readonly host: SessionHost["Service"] = {
    open: () =>
      Effect.suspend(() => {
        this.log.push("open")
        return this.problem === undefined ? Effect.void : Effect.fail(this.problem)
      }),
    idle: () => Effect.suspend(() => this.idle),
    close: () =>
      this.closing.pipe(
        Effect.map(() => {
          this.log.push("close")
          return this.left
        })
      ),
    lose: () => Effect.sync(() => void this.log.push("lose"))
  }
}

const make = Effect.fnUntraced(function*(world = MemorySessions.world()) {
  const scripted = new Scripted()
  const registry = MemorySessions.make(world)
  const counts = { held: 0, lost: 0 }
  const session: HostedSession = new HostedSession(
    owner,
    {
      registry,
      host: scripted.host,
      isHere: () => Effect.sync(() => scripted.isHere),
      refresh: () => Effect.sync(() => void scripted.log.push("refresh")),
      scope: yield* Effect.scope,
      linger: 5_000,
      within: 20_000,
      counts
    },
    Effect.suspend(() => session.stay)
  )
  return { counts, log: scripted.log, registry, scripted, session, world }
})

describe("a hosted session", () => {
  it.effect(
    "is activated by its first use, and closed once it has not been used for a while",
    () =>
      Effect.gen(function*() {
        const { counts, log, registry, session } = yield* make()
        assert.strictEqual(yield* session.use(Effect.succeed(1)), 1)
        assert.isDefined(registry.current(principal))
        yield* TestClock.adjust("4 seconds")
        yield* session.use(Effect.void)
        yield* TestClock.adjust("4 seconds")
        assert.deepStrictEqual([log, counts.held], [["open"], 1])
        yield* TestClock.adjust("5 seconds")
        assert.deepStrictEqual([log, counts.held], [["open", "close"], 0])
        assert.isUndefined(registry.current(principal))
        yield* session.use(Effect.void)
        assert.deepStrictEqual(log, ["open", "close", "open"])
      }),
    { tags: ["CL5"] }
  )

  it.effect("stays open while something of it runs, and while somebody watches", () =>
    Effect.gen(function*() {
      const { log, scripted, session } = yield* make()
      const running = yield* Deferred.make<void>()
      scripted.idle = Deferred.await(running)
      const watching = yield* Stream.runDrain(session.stream(Effect.succeed(Stream.never))).pipe(Effect.forkChild)
      yield* TestClock.adjust("1 hour")
      yield* Fiber.interrupt(watching)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(log, ["open"])
      yield* Deferred.succeed(running, undefined)
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(log, ["open", "close"])
    }), { tags: ["CL5"] })

  it.effect("looks for what has changed when it is poked", () =>
    Effect.gen(function*() {
      const { log, registry, session } = yield* make()
      yield* session.poke
      assert.deepStrictEqual(log, ["open"])
      yield* registry.wake(principal)
      yield* session.poke
      assert.deepStrictEqual(log, ["open", "refresh", "open"])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* registry.due(10), [])
    }), { tags: ["CL5"] })

  it.effect("is opened again if somebody has woken it while it was closed", () =>
    Effect.gen(function*() {
      const { log, registry, scripted, session } = yield* make()
      scripted.left = { _tag: "Waiting", until: undefined }
      yield* session.use(Effect.void)
      // the poke was lost
      yield* registry.wake(principal)
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(log, ["open", "close", "open"])
    }), { tags: ["CL5"] })

  it.effect(
    "moves: nothing new begins, what runs has its time, and whoever waits asks again",
    () =>
      Effect.gen(function*() {
        const { log, registry, scripted, session } = yield* make()
        const running = yield* Deferred.make<void>()
        scripted.idle = Deferred.await(running)
        scripted.left = { _tag: "Open" }
        scripted.closing = Effect.repeat(Effect.yieldNow, { times: 3 })
        const asking = yield* session.use(Effect.never).pipe(
          Effect.exit,
          Effect.tap(() => Effect.sync(() => log.push("asks again"))),
          Effect.forkChild
        )
        yield* TestClock.adjust(0)
        const moving = yield* Effect.forkChild(session.move)
        yield* TestClock.adjust("19 seconds")
        assert.deepStrictEqual(yield* Effect.exit(session.use(Effect.void)), Exit.fail(new Moved()))
        assert.isUndefined(asking.pollUnsafe())
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(moving)
        assert.deepStrictEqual(yield* Fiber.join(asking), Exit.fail(new Moved()))
        // whoever waits is not told that what it waits for is suspended
        assert.deepStrictEqual(log, ["open", "asks again", "close"])
        assert.deepStrictEqual(yield* registry.due(10), [principal])
      }),
    { tags: ["CL6"] }
  )

  it.effect("moves at once if nothing of it runs", () =>
    Effect.gen(function*() {
      const { log, session } = yield* make()
      yield* session.use(Effect.void)
      yield* session.move
      assert.deepStrictEqual(log, ["open", "close"])
      yield* session.move
    }))

  it.effect(
    "ends at once when another process has it, writes nothing, and may come back later",
    () =>
      Effect.gen(function*() {
        const { counts, log, session, world } = yield* make()
        const asking = yield* session.use(Effect.never).pipe(Effect.exit, Effect.forkChild)
        yield* TestClock.adjust(0)
        const other = yield* MemorySessions.make(world).activate(principal)
        assert.deepStrictEqual(yield* Fiber.join(asking), Exit.fail(new Moved()))
        yield* TestClock.adjust(0)
        assert.deepStrictEqual([log, counts], [["open", "lose"], { held: 0, lost: 1 }])
        assert.isFalse(other.isOver)
        yield* session.use(Effect.void)
        assert.isTrue(other.isOver)
      }),
    { tags: ["CL6"] }
  )

  it.effect("has what a store refused because it is lost asked again elsewhere", () =>
    Effect.gen(function*() {
      const { session, world } = yield* make()
      const refused = yield* Effect.exit(session.use(Effect.gen(function*() {
        yield* MemorySessions.make(world).activate(principal)
        return yield* new Unavailable({})
      })))
      assert.deepStrictEqual(refused, Exit.fail(new Moved()))
    }), { tags: ["CL6"] })

  it.effect(
    "is free for others if it cannot be opened, and opened again by the next use or after a while",
    () =>
      Effect.gen(function*() {
        const { log, registry, scripted, session } = yield* make()
        scripted.problem = new Unavailable({})
        assert.strictEqual((yield* Effect.flip(session.use(Effect.void)))._tag, "Unavailable")
        yield* TestClock.adjust("4 seconds")
        // thousands of such sessions must not ask their store without a pause
        assert.deepStrictEqual(yield* registry.due(10), [])
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* registry.due(10), [principal])
        scripted.problem = undefined
        yield* session.use(Effect.void)
        assert.deepStrictEqual(log, ["open", "close", "open"])
      }),
    { tags: ["CL7"] }
  )

  it.effect("is not taken by a process that is not the one to hold it", () =>
    Effect.gen(function*() {
      const { log, scripted, session, world } = yield* make()
      const other = yield* MemorySessions.make(world).activate(principal)
      scripted.isHere = false
      assert.deepStrictEqual(yield* Effect.exit(session.use(Effect.void)), Exit.fail(new Moved()))
      assert.deepStrictEqual([log, other.isOver], [[], false])
      scripted.isHere = true
      yield* session.use(Effect.void)
      assert.isTrue(other.isOver)
    }), { tags: ["CL6"] })

  it.effect("moves when it has lost its place, and is opened again by the next use if the place is its own again", () =>
    Effect.gen(function*() {
      const { log, registry, scripted } = yield* make()
      const place = yield* Deferred.make<void>()
      let isBack = false
      const session = new HostedSession(
        owner,
        {
          registry,
          host: scripted.host,
          isHere: () => Effect.succeed(true),
          refresh: () => Effect.void,
          scope: yield* Effect.scope,
          linger: 5_000,
          within: 20_000,
          counts: { held: 0, lost: 0 }
        },
        Effect.suspend(() => isBack ? Effect.never : Deferred.await(place))
      )
      yield* session.use(Effect.void)
      yield* Deferred.succeed(place, undefined)
      yield* TestClock.adjust("1 milli")
      assert.deepStrictEqual(log, ["open", "close"])
      isBack = true
      yield* session.use(Effect.void)
      assert.deepStrictEqual(log, ["open", "close", "open"])
    }))
})
