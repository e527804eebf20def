/** Calls of one turn as one wave, by what a client says in `_meta`. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as SessionCalls from "../../src/mcp/SessionCalls.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { open, run, traced } from "../support/gateway.ts"

const at = (id: string, index: number, size: number) => ({ [SessionCalls.waveKey]: { id, index, size } })

const fork = <A>(effect: Effect.Effect<A>) => Effect.forkChild(effect, { startImmediately: true })

const tools = () => {
  const { handler, log } = traced()
  return {
    log,
    tools: { read: handler("r", 1_000), write: { class: "SerialMut" as const, handler: handler("w", 1_000) } }
  }
}

describe("calls that come alone", () => {
  it.effect("are refused in stop mode beside a refused one, and not for the rest of the session", () => {
    const { log, tools: kit } = tools()
    return run(
      kit,
      { onExecutionError: "stop", executionTimeout: 500 },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const first = yield* fork(call("write", { n: 0 }))
          const beside = yield* fork(call("read", { n: 1 }))
          yield* Fiber.join(first)
          assert.include((yield* Fiber.join(beside)).text, "was not run")
          yield* call("read", { n: 2 })
          assert.include(log, "+r2")
          assert.notInclude(log, "+r1")
        })
    )
  })
})

describe("the calls of one turn", () => {
  it.effect("run in the order of their places, whichever comes first", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const last = yield* fork(call("read", { n: 2 }, at("t", 2, 3)))
        const middle = yield* fork(call("write", { n: 1 }, at("t", 1, 3)))
        yield* Effect.sleep(500)
        assert.deepStrictEqual(log, [])
        assert.strictEqual((yield* call("read", { n: 0 }, at("t", 0, 3))).text, "r0")
        assert.deepStrictEqual([(yield* Fiber.join(middle)).text, (yield* Fiber.join(last)).text], ["w1", "r2"])
        assert.deepStrictEqual(log, "+r0 -r0 +w1 -w1 +r2 -r2".split(" "))
      }))
  })

  it.effect("run after ten seconds without those that do not come, which run later by themselves", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const first = yield* fork(call("read", { n: 0 }, at("t", 0, 3)))
        const third = yield* fork(call("read", { n: 2 }, at("t", 2, 3)))
        yield* Effect.sleep(9_999)
        assert.deepStrictEqual(log, [])
        assert.deepStrictEqual([(yield* Fiber.join(first)).text, (yield* Fiber.join(third)).text], ["r0", "r2"])
        assert.strictEqual(yield* VirtualTime.now, 11_000)
        assert.strictEqual((yield* call("read", { n: 1 }, at("t", 1, 3))).text, "r1")
        assert.strictEqual(yield* VirtualTime.now, 22_000)
      }))
  })

  it.effect("do not wait for one that was cancelled before they began, nor run it", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const cancelled = yield* fork(call("read", { n: 0 }, at("t", 0, 2)))
        yield* Effect.sleep(100)
        yield* Fiber.interrupt(cancelled)
        yield* Effect.sleep(100)
        assert.strictEqual((yield* call("read", { n: 1 }, at("t", 1, 2))).text, "r1")
        assert.deepStrictEqual(log, ["+r1", "-r1"])
        assert.strictEqual(yield* VirtualTime.now, 1_200)
      }))
  })

  it.effect("begin when the last that was missing is cancelled", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const stays = yield* fork(call("read", { n: 0 }, at("t", 0, 3)))
        const cancelled = yield* fork(call("read", { n: 1 }, at("t", 1, 3)))
        yield* Effect.sleep(100)
        yield* Fiber.interrupt(cancelled)
        // a place stays taken: another call in it would stand in for one that is still to come
        const again = yield* call("read", { n: 1 }, at("t", 1, 3))
        assert.include(again.text, "has its call 1 already")
        assert.deepStrictEqual(log, [])
        const last = yield* call("read", { n: 2 }, at("t", 2, 3))
        assert.deepStrictEqual([last.text, (yield* Fiber.join(stays)).text], ["r2", "r0"])
        assert.deepStrictEqual(log, "+r0 +r2 -r0 -r2".split(" "))
      }))
  })

  it.effect("leave nothing behind when all of them are cancelled", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const fibers = [
          yield* fork(call("read", { n: 0 }, at("t", 0, 2))),
          yield* fork(call("read", {}, at("t", 1, 3)))
        ]
        yield* Effect.sleep(1)
        yield* Fiber.interruptAll(fibers)
        yield* Effect.sleep("1 minute")
        assert.deepStrictEqual(log, [])
        assert.strictEqual((yield* call("read", { n: 1 }, at("t", 0, 1))).text, "r1")
      }))
  })

  it.effect("go on where one is cancelled that runs", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const cancelled = yield* fork(call("read", { n: 0 }, at("t", 0, 3)))
        const sibling = yield* fork(call("read", { n: 1 }, at("t", 1, 3)))
        const behind = yield* fork(call("write", { n: 2 }, at("t", 2, 3)))
        yield* Effect.sleep(500)
        yield* Fiber.interrupt(cancelled)
        yield* Effect.sleep(1)
        assert.deepStrictEqual(log, ["+r0", "+r1", "!r0"])
        assert.deepStrictEqual([(yield* Fiber.join(sibling)).text, (yield* Fiber.join(behind)).text], ["r1", "w2"])
      }))
  })

  it.effect("are refused where their place is taken or the size differs; the others are not", () => {
    const { tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const first = yield* fork(call("read", { n: 0 }, at("t", 0, 2)))
        yield* Effect.sleep(1)
        const twice = yield* call("read", { n: 9 }, at("t", 0, 2))
        assert.deepStrictEqual([twice.isError, twice.text], [
          true,
          `_meta["${SessionCalls.waveKey}"]: the turn has its call 0 already`
        ])
        const other = yield* call("read", { n: 9 }, at("t", 1, 3))
        assert.include(other.text, "the turn has 2 calls, not 3")
        assert.strictEqual((yield* call("read", { n: 1 }, at("t", 1, 2))).text, "r1")
        assert.strictEqual((yield* Fiber.join(first)).text, "r0")
      }))
  })

  it.effect("are a session's own: two clients may give the same id", () => {
    const { tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const [one, other] = [yield* connect(), yield* connect()]
        const first = yield* fork(one.call("read", { n: 0 }, at("t", 0, 2)))
        yield* fork(other.call("read", { n: 5 }, at("t", 0, 1)))
        yield* Effect.sleep(1)
        assert.isUndefined(first.pollUnsafe())
        yield* one.call("read", { n: 1 }, at("t", 1, 2))
        assert.strictEqual((yield* Fiber.join(first)).text, "r0")
      }))
  })

  it.effect("end with the client that is gone, begun or not", () => {
    const { log, tools: kit } = tools()
    return run(kit, {}, ({ connect }) =>
      Effect.gen(function*() {
        const [gone, stays] = [yield* connect(), yield* connect()]
        yield* fork(gone.call("read", { n: 0 }, at("a", 0, 1)))
        yield* fork(gone.call("read", { n: 1 }, at("b", 0, 2)))
        yield* Effect.sleep(100)
        gone.cut()
        yield* Effect.sleep("1 minute")
        assert.deepStrictEqual(log, ["+r0", "!r0"])
        assert.strictEqual((yield* stays.call("read", { n: 2 }, at("a", 0, 1))).text, "r2")
      }))
  })

  it.effect("end with the server, begun or not", () => {
    const { log, tools: kit } = tools()
    return VirtualTime.run(
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const { connect } = yield* Scope.provide(open(kit), scope)
        const { call } = yield* connect()
        yield* fork(call("read", { n: 0 }, at("a", 0, 1)))
        yield* fork(call("read", { n: 1 }, at("b", 0, 2)))
        yield* Effect.sleep(100)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(yield* VirtualTime.now, 100)
        assert.deepStrictEqual(log, ["+r0", "!r0"])
      }),
      { limit: "1 hour" }
    )
  })

  it.effect("are needed where people are asked about a whole wave first", () => {
    const { log, tools: kit } = tools()
    return run(kit, { approval: "upfront" }, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const alone = yield* call("read", { n: 0 })
        assert.isTrue(alone.isError)
        assert.include(alone.text, `Say in _meta["${SessionCalls.waveKey}"] which turn the call belongs to.`)
        assert.isFalse((yield* call("read", { n: 1 }, at("a", 0, 1))).isError)
        assert.deepStrictEqual(log, ["+r1", "-r1"])
      }))
  })

  for (
    const [what, place] of [
      ["no object", "t"],
      ["nothing", null],
      ["no id", { index: 0, size: 1 }],
      ["an id that is too long", { id: "x".repeat(201), index: 0, size: 1 }],
      ["a place below 0", { id: "t", index: -1, size: 1 }],
      ["a place that is no integer", { id: "t", index: 0.5, size: 1 }],
      ["a place beyond the size", { id: "t", index: 1, size: 1 }],
      ["no calls", { id: "t", index: 0, size: 0 }],
      ["too many calls", { id: "t", index: 0, size: 1_001 }],
      ["a text for a number", { id: "t", index: "0", size: 1 }]
    ] as const
  ) {
    it.effect(`are told what would be right where they say ${what}`, () => {
      const { log, tools: kit } = tools()
      return run(kit, {}, ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const { isError, text } = yield* call("read", {}, { [SessionCalls.waveKey]: place })
          assert.isTrue(isError)
          assert.include(text, `_meta["${SessionCalls.waveKey}"]: `)
          assert.include(text, "It is { id, index, size }")
          assert.deepStrictEqual(log, [])
        }))
    })
  }
})
