import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { ToolCall } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { call, calls, run, tags, value } from "../support/Harness.ts"

/** Gives the number of its execution. */
const counter = (millis = 0) => {
  let runs = 0
  return () => Effect.suspend(() => Effect.as(Effect.sleep(millis), ++runs))
}

const same = (...ids: ReadonlyArray<string>) => ids.map((id) => call(id, "t", { a: 1 }))

describe("Dedupe", () => {
  describe("the key", () => {
    it.effect("is the same whatever the order of keys, at every depth", () =>
      run({ t: counter() }, {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeBatch([
            call("1", "t", { a: 1, b: { c: 1, d: [1, 2] } }),
            call("2", "t", { b: { d: [1, 2], c: 1 }, a: 1 }),
            call("3", "t", { a: 1, b: { c: 1, d: [2, 1] } })
          ])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded"])
          assert.deepInclude(wave.outcomes[1], { reason: { _tag: "DuplicateCall", of: "1", running: true } })
        })))

    const different: ReadonlyArray<readonly [string, string, string]> = [
      ["numbers and their texts", `{"a": 1}`, `{"a": "1"}`],
      ["null and nothing", `{"a": null}`, `{}`],
      ["a list and an object", `{"a": [1]}`, `{"a": {"0": 1}}`],
      ["__proto__ and nothing", `{"__proto__": {"a": 1}}`, `{}`],
      ["a number too large for a double and null", `{"a": 1e400}`, `{"a": null}`],
      ["two numbers too large for a double", `{"a": 1e400}`, `{"a": -1e400}`],
      ["toJSON as a key", `{"a": {"toJSON": 1}}`, `{"a": {"toJSON": 2}}`],
      ["texts with quotes", `{"a": "b\\",\\"c\\":\\"d"}`, `{"a": "b", "c": "d"}`]
    ]
    for (const [what, a, b] of different) {
      it.effect(`tells ${what} apart`, () =>
        run({ t: counter() }, {}, ({ process }) =>
          Effect.map(
            process.executeBatch([ToolCall.fromText("1", "t", a), ToolCall.fromText("2", "t", b)]),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          )))
    }

    it.effect("takes decoded values by their encoding", () => {
      const tool = Tool.make("t", {
        parameters: Schema.Struct({ on: Schema.DateFromString, csv: Schema.FiniteFromString }),
        success: Schema.Unknown
      }).annotate(Tool.Readonly, true)
      return run({ t: { handler: counter(), tool } }, {}, ({ process }) =>
        Effect.map(
          process.executeBatch([
            call("1", "t", { on: "2020-01-01T00:00:00.000Z", csv: "1" }),
            call("2", "t", { on: "2021-01-01T00:00:00.000Z", csv: "1" }),
            call("3", "t", { on: "2020-01-01T00:00:00Z", csv: "1.0" })
          ]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "DuplicateCall"])
        ))
    })

    it.effect("tells maps, sets and dates that the host passes apart", () => {
      const tool = Tool.make("t", {
        parameters: Schema.Struct({ map: Schema.ReadonlyMap(Schema.String, Schema.Finite), date: Schema.Date }),
        success: Schema.Unknown
      }).annotate(Tool.Readonly, true)
      return run({ t: { handler: counter(), tool } }, {}, ({ process }) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* process.call(tool, { map: new Map([["a", 1]]), date: new Date(0) }), 1)
          assert.strictEqual(yield* process.call(tool, { map: new Map([["a", 2]]), date: new Date(0) }), 2)
          assert.strictEqual(yield* process.call(tool, { map: new Map([["a", 1]]), date: new Date(1) }), 3)
        }))
    })

    it.effect("leaves the control argument out", () =>
      run({ t: counter() }, {}, ({ process }) =>
        Effect.map(
          process.executeBatch([call("1", "t", { a: 1, request_heartbeat: true }), call("2", "t", { a: 1 })]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall"])
        )))

    it.effect("is the tool's own", () =>
      run(
        { t: counter(), u: counter() },
        {},
        ({ process }) =>
          Effect.map(
            process.executeBatch(calls(["t", {}], ["u", {}])),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          )
      ))
  })

  describe("the window", () => {
    it.effect("counts from settlement and is over at exactly its length", () =>
      run({ t: counter(1_000) }, { dedupe: { window: "1 minute" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeBatch(same("1"))
          yield* Effect.sleep(59_999)
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("2"))), ["DuplicateCall"])
          yield* Effect.sleep(1)
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("3"))), ["Succeeded"])
        })))

    it.effect("is not made longer by duplicates", () =>
      run({ t: counter() }, { dedupe: { window: 1_000 } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeBatch(same("1"))
          yield* Effect.sleep(900)
          yield* process.executeBatch(same("2"))
          yield* Effect.sleep(100)
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("3"))), ["Succeeded"])
        })))

    it.effect("holds over batches", () =>
      run({ t: counter() }, {}, ({ executor, process }) =>
        Effect.gen(function*() {
          yield* process.executeBatch(same("1"))
          const next = yield* (yield* executor.batch()).process
          assert.deepStrictEqual(tags(yield* next.executeBatch(same("2"))), ["DuplicateCall"])
        })))
  })

  describe("what keeps a key", () => {
    const once = (first: Effect.Effect<unknown, unknown>) => {
      let runs = 0
      return () => Effect.suspend(() => ++runs === 1 ? first : Effect.succeed("again"))
    }
    for (
      const [what, first] of [
        ["failed", Effect.fail("no")],
        ["died", Effect.die("no")],
        ["timed out", Effect.never]
      ] as const
    ) {
      it.effect(`is not a call that ${what}`, () =>
        run({ t: once(first) }, { tools: { t: { timeout: 100 } } }, ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeBatch(same("1"))
            assert.deepStrictEqual(tags(yield* process.executeBatch(same("2"))), ["Succeeded"])
          })))
    }

    it.effect("is not a call that was cancelled", () =>
      run({ t: once(Effect.never) }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("1"))), ["Cancelled"])
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("2"))), ["Succeeded"])
        })))

    it.effect("is a failure where the policy says so", () =>
      run(
        { t: once(Effect.fail("no")) },
        { dedupe: { outcomes: ["Succeeded", "Failed"], onDuplicate: "replay" } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeBatch(same("1"))
            const wave = yield* process.executeBatch(same("2"))
            assert.deepInclude(wave.outcomes[0], { _tag: "Failed", error: "no", replayOf: "1", attempt: 0 })
          })
      ))

    it.effect("is an orphan, and its text says that the old one still runs", () =>
      run(
        { t: once(Effect.uninterruptible(Effect.sleep("1 minute"))) },
        { tools: { t: { timeout: 100 } }, dedupe: { inFlight: "join" } },
        ({ process }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(tags(yield* process.executeBatch(same("1"))), ["TimedOut"])
            const wave = yield* process.executeBatch(same("2"))
            assert.deepInclude(wave.outcomes[0], { reason: { _tag: "DuplicateCall", of: "1", running: true } })
            assert.include(wave.toolMessages[0]!.text, "still running")
            yield* Effect.sleep("1 minute")
            assert.deepStrictEqual(tags(yield* process.executeBatch(same("3"))), ["Succeeded"])
          })
      ))
  })

  describe("a ReadOnly key", () => {
    const tools = () => ({ t: counter(), w: { class: "SerialMut" as const, handler: counter(10) } })

    it.effect("dies when a mutating call starts", () =>
      run(tools(), {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeBatch([...same("1", "2"), call("w", "w"), ...same("3", "4")])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded", "Succeeded", "DuplicateCall"])
        })))

    it.effect("lives on when a mutating call is refused or fails to start", () =>
      run(tools(), { rules: [{ _tag: "MaxCalls", tool: "w", max: 0 }] }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeBatch([...same("1"), call("w", "w"), ...same("2")])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "RuleViolation", "DuplicateCall"])
        })))

    it.effect("of a read that runs while a mutating call starts is not kept", () =>
      run(
        { t: counter(100), w: { class: "SerialMut", handler: counter(10) } },
        { mode: "parallel" },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeBatch([...same("1"), call("w", "w")])
            assert.deepStrictEqual(tags(yield* process.executeBatch(same("2"))), ["Succeeded"])
          })
      ))

    it.effect("is no mutating call's: that key lives on", () =>
      run(
        { t: { class: "SerialMut", handler: counter() }, w: { class: "SerialMut", handler: counter() } },
        {},
        ({ process }) =>
          Effect.map(
            process.executeBatch([...same("1"), call("w", "w"), ...same("2")]),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "DuplicateCall"])
          )
      ))
  })

  describe("replay", () => {
    it.effect("gives the outcome again, with the call's own id, place and wish to go on", () =>
      run({ t: counter(10) }, { dedupe: { onDuplicate: "replay" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeBatch(same("1"))
          const wave = yield* process.executeBatch([
            call("x", "nope"),
            call("2", "t", { a: 1, request_heartbeat: true })
          ])
          const outcome = wave.outcomes[1]!
          assert.deepInclude(outcome, {
            _tag: "Succeeded",
            callId: "2",
            index: 1,
            replayOf: "1",
            attempt: 0,
            requestsContinuation: true
          })
          assert.strictEqual(value(outcome), 1)
          assert.isUndefined(outcome.startedAt)
          assert.isTrue(wave.needsContinuation)
        })))

    it.effect("spends no call", () =>
      run(
        { t: counter() },
        { dedupe: { onDuplicate: "replay" }, rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }], turn: { maxCalls: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeBatch(same("1"))
            const wave = yield* process.executeBatch(same("2"))
            assert.include(["Succeeded", "CallBudgetExhausted"], tags(wave)[0])
          })
      ))

    it.effect("of a replay gives the first one's id", () =>
      run({ t: counter() }, { dedupe: { onDuplicate: "replay" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeBatch(same("1"))
          yield* process.executeBatch(same("2"))
          assert.deepInclude((yield* process.executeBatch(same("3"))).outcomes[0], { replayOf: "1" })
        })))

    it.effect("in flight is still a refusal", () =>
      run(
        { t: counter(10) },
        { dedupe: { onDuplicate: "replay" } },
        ({ process }) =>
          Effect.map(
            process.executeBatch(same("1", "2")),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall"])
          )
      ))

    it.effect("never gives the host a cut output for a whole one", () => {
      const tool = Tool.make("t", { parameters: Schema.Struct({ a: Schema.Finite }), success: Schema.String })
        .annotate(Tool.Readonly, true)
      const whole = "x".repeat(50_000)
      return run(
        { t: { handler: () => Effect.succeed(whole), tool } },
        { dedupe: { onDuplicate: "replay" } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeBatch(same("1"))
            const exit = yield* Effect.exit(process.call(tool, { a: 1 }))
            if (exit._tag === "Success") assert.strictEqual(exit.value.length, whole.length)
          })
      )
    })
  })

  describe("joining", () => {
    const dedupe = { inFlight: "join" as const }

    it.effect("gives one execution's outcome to all equal calls of a wave", () =>
      run({ t: counter(10) }, { dedupe }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeBatch(same("1", "2", "3"))
          assert.deepStrictEqual(wave.outcomes.map(value), [1, 1, 1])
          assert.deepStrictEqual(wave.outcomes.map((it) => it._tag === "Succeeded" && it.replayOf), [
            undefined,
            "1",
            "1"
          ])
          assert.strictEqual(yield* VirtualTime.now, 10)
        })))

    it.effect("works across waves and processes", () =>
      run({ t: counter(100) }, { dedupe }, ({ batch, process }) =>
        Effect.gen(function*() {
          const other = yield* batch.process
          const first = yield* Effect.forkChild(process.executeBatch(same("1")))
          yield* Effect.sleep(10)
          const second = yield* other.executeBatch(same("2"))
          assert.deepStrictEqual(value(second.outcomes[0]), 1)
          assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
        })))

    for (
      const [what, handler, expected] of [
        ["fails", Effect.fail("no"), "Failed"],
        ["dies", Effect.die("no"), "Failed"],
        ["times out", Effect.never, "TimedOut"]
      ] as const
    ) {
      it.effect(`shares the end of a leader that ${what}`, () =>
        run(
          { t: () => Effect.andThen(Effect.sleep(10), handler) },
          { dedupe, tools: { t: { timeout: 100 } } },
          ({ process }) =>
            Effect.map(process.executeBatch(same("1", "2")), (wave) => {
              assert.deepStrictEqual(tags(wave), [expected, expected])
              assert.deepInclude(wave.outcomes[1], { replayOf: "1", commits: 0 })
            })
        ))
    }

    it.effect("runs itself where its leader is cancelled: it shares an execution, not who stopped it", () =>
      run({ t: counter(100) }, { dedupe }, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
          assert.deepStrictEqual(tags(yield* process.executeBatch(same("1", "2"))), ["Cancelled", "Succeeded"])
        })))

    it.effect("dispatches the first who waits anew when the leader never started", () =>
      run(
        { t: counter(100), block: () => Effect.sleep(50) },
        { dedupe, pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
            const wave = yield* process.executeBatch([call("b", "block"), ...same("1", "2", "3")])
            assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded", "Succeeded"])
            assert.deepInclude(wave.outcomes[3], { replayOf: "2" })
            assert.strictEqual(yield* VirtualTime.now, 150)
          })
      ))

    it.effect("dispatches who waits in another wave anew when the leader's caller is interrupted", () =>
      run(
        { t: counter(100), block: () => Effect.sleep(50) },
        { dedupe, pools: { read: 1 } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            const other = yield* batch.process
            const block = yield* Effect.forkChild(process.executeBatch([call("b", "block")]))
            yield* Effect.sleep(1)
            const leader = yield* Effect.forkChild(process.executeBatch(same("1")))
            yield* Effect.sleep(1)
            const follower = yield* Effect.forkChild(other.executeBatch(same("2")))
            yield* Effect.sleep(1)
            yield* Fiber.interrupt(leader)
            assert.deepStrictEqual(tags(yield* Fiber.join(follower)), ["Succeeded"])
            yield* Fiber.join(block)
          })
      ))

    it.effect("ends for a follower that is cancelled, not for the leader", () =>
      run({ t: counter(100) }, { dedupe }, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          const wave = yield* process.executeBatch(same("1", "2", "3"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded"])
        })))

    it.effect("counts one call", () =>
      run(
        { t: counter(10) },
        { dedupe, rules: [{ _tag: "MaxCalls", tool: "*", max: 1 }] },
        ({ process }) =>
          Effect.map(
            process.executeBatch(same("1", "2")),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          )
      ))
  })

  describe("rules", () => {
    it.effect("NeverDedupe lets equal calls run", () =>
      run(
        { t: counter() },
        { rules: [{ _tag: "NeverDedupe", tool: "t" }] },
        ({ process }) =>
          Effect.map(
            process.executeBatch(same("1", "2")),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), [1, 2])
          )
      ))

    it.effect("AlwaysDedupe holds where dedupe is off", () =>
      run(
        { t: counter(), u: counter() },
        { dedupe: false, rules: [{ _tag: "AlwaysDedupe", tool: "t" }] },
        ({ process }) =>
          Effect.map(process.executeBatch([...same("1", "2"), call("3", "u"), call("4", "u")]), (wave) =>
            assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded", "Succeeded"]))
      ))
  })
})
