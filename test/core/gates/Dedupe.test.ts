import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as ToolCall from "../../../src/core/vocabulary/ToolCall.ts"
import { type Dedupe, ToolAnnotations, type ToolProcess, type ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, type Options, run, tags, value } from "../../support/Harness.ts"

/** Gives the number of its execution. */
const counter = (millis = 0) => {
  let runs = 0
  return () => Effect.suspend(() => Effect.as(Effect.sleep(millis), ++runs))
}

/** The same of a tool that may change things. */
const writer = (millis = 0) => ({ class: "ConcurrentMut" as const, handler: counter(millis) })

const same = (...ids: ReadonlyArray<string>) => ids.map((id) => call(id, "t", { a: 1 }))

describe("Dedupe", () => {
  describe("the key", () => {
    it.effect(
      "is the same whatever the order of keys, at every depth",
      () =>
        run({ t: writer() }, {}, ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave([
              call("1", "t", { a: 1, b: { c: 1, d: [1, 2] } }),
              call("2", "t", { b: { d: [1, 2], c: 1 }, a: 1 }),
              call("3", "t", { a: 1, b: { c: 1, d: [2, 1] } })
            ])
            assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded"])
            assert.deepInclude(wave.outcomes[1], {
              reason: { _tag: "DuplicateCall", of: "1", running: true, runsAgain: "whenEnded", changedSince: false }
            })
          })),
      { tags: ["D1"] }
    )

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
        run({ t: writer() }, {}, ({ process }) =>
          Effect.map(
            process.executeWave([ToolCall.fromText("1", "t", a), ToolCall.fromText("2", "t", b)]),
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
          process.executeWave([
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
    }, { tags: ["D1"] })

    it.effect("leaves the control argument out", () =>
      run({ t: writer() }, {}, ({ process }) =>
        Effect.map(
          process.executeWave([call("1", "t", { a: 1, request_heartbeat: true }), call("2", "t", { a: 1 })]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall"])
        )))

    it.effect("is the tool's own", () =>
      run(
        { t: writer(), u: counter() },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls(["t", {}], ["u", {}])),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          )
      ))
  })

  describe("the window", () => {
    it.effect(
      "counts from settlement and is over at exactly its length",
      () =>
        run({ t: writer(1_000) }, { dedupe: { window: "1 minute" } }, ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(same("1"))
            yield* Effect.sleep(59_999)
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["DuplicateCall"])
            yield* Effect.sleep(1)
            assert.deepStrictEqual(tags(yield* process.executeWave(same("3"))), ["Succeeded"])
          })),
      { tags: ["D3"] }
    )

    it.effect("is not made longer by duplicates", () =>
      run({ t: writer() }, { dedupe: { window: 1_000 } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(same("1"))
          yield* Effect.sleep(900)
          yield* process.executeWave(same("2"))
          yield* Effect.sleep(100)
          assert.deepStrictEqual(tags(yield* process.executeWave(same("3"))), ["Succeeded"])
        })))
  })

  describe("the scope of a key", () => {
    const across = (scope: "process" | "batch" | "principal" | undefined) =>
      run(
        { t: writer() },
        { dedupe: { scope } },
        ({ batch, executor, process }) =>
          Effect.gen(function*() {
            const neighbour = yield* batch.process()
            const other = yield* executor.process()
            yield* process.executeWave(same("1"))
            return [
              ...tags(yield* process.executeWave(same("2"))),
              ...tags(yield* neighbour.executeWave(same("3"))),
              ...tags(yield* other.executeWave(same("4")))
            ]
          })
      )

    it.effect("is a batch: another conversation has not seen the result", () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* across(undefined), ["DuplicateCall", "DuplicateCall", "Succeeded"])
        assert.deepStrictEqual(yield* across("batch"), ["DuplicateCall", "DuplicateCall", "Succeeded"])
      }), { tags: ["D2"] })

    it.effect("may be a process", () =>
      Effect.map(across("process"), (it) => assert.deepStrictEqual(it, ["DuplicateCall", "Succeeded", "Succeeded"])))

    it.effect("may be everything that the principal does", () =>
      Effect.map(
        across("principal"),
        (it) => assert.deepStrictEqual(it, ["DuplicateCall", "DuplicateCall", "DuplicateCall"])
      ))

    it.effect("ends with its batch, also where another of the same name begins", () =>
      run({ t: writer() }, {}, ({ executor }) =>
        Effect.gen(function*() {
          const turn = (id: string) =>
            Effect.scoped(Effect.gen(function*() {
              const process = yield* executor.process({ batch: "chat" })
              return tags(yield* process.executeWave(same(id)))
            }))
          assert.deepStrictEqual(yield* turn("1"), ["Succeeded"])
          assert.deepStrictEqual(yield* turn("2"), ["Succeeded"])
        })))

    it.effect("ends with a batch that nobody used for an hour, however long the window is", () =>
      run({ t: writer() }, { dedupe: { window: "1 day" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(same("1"))
          yield* Effect.sleep(3_599_999)
          assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["DuplicateCall"])
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(tags(yield* process.executeWave(same("3"))), ["Succeeded"])
        })))

    it.effect("lets a read die by a write in another batch of the principal", () =>
      run(
        { t: counter(), w: { class: "SerialMut", handler: counter(10) } },
        { dedupe: { readWindow: "5 minutes" } },
        ({ executor, process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(same("1"))
            yield* (yield* executor.process()).executeWave([call("w", "w")])
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["Succeeded"])
          })
      ))
  })

  describe("a result that no model was told", () => {
    const tool = Tool.make("t", { parameters: Schema.Struct({ a: Schema.Finite }), success: Schema.Finite })
      .annotate(ToolAnnotations.Promoted, true)
    const tools = (millis = 0) => ({ t: { handler: counter(millis), tool } })

    it.effect(
      "refuses nobody, and no host is refused for a result that a model has read",
      () =>
        run(tools(), {}, ({ process }) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* process.call(tool, { a: 1 }), 1)
            assert.strictEqual(yield* process.call(tool, { a: 1 }), 2)
            assert.deepStrictEqual(tags(yield* process.executeWave(same("1"))), ["Succeeded"])
            assert.strictEqual(yield* process.call(tool, { a: 1 }), 4)
            // and takes nothing from the model's own
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["DuplicateCall"])
          })),
      { tags: ["D2"] }
    )

    it.effect("refuses nobody while it is on its way", () =>
      run(tools(100), {}, ({ batch, process }) =>
        Effect.gen(function*() {
          const host = yield* Effect.forkChild(process.call(tool, { a: 1 }), { startImmediately: true })
          const wave = yield* (yield* batch.process()).executeWave(same("1", "2"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall"])
          assert.strictEqual(yield* Fiber.join(host), 1)
        })))

    it.effect("is replayed, and joined, where that is wanted", () =>
      run(
        tools(100),
        { dedupe: { onDuplicate: "replay", inFlight: "join" } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            const host = yield* Effect.forkChild(process.call(tool, { a: 1 }), { startImmediately: true })
            const wave = yield* (yield* batch.process()).executeWave(same("1"))
            assert.strictEqual(value(wave.outcomes[0]), 1)
            assert.strictEqual(yield* Fiber.join(host), 1)
            assert.strictEqual(value((yield* process.executeWave(same("2"))).outcomes[0]), 1)
            assert.strictEqual(yield* process.call(tool, { a: 1 }), 1)
          })
      ))

    it.effect("refuses nobody where equal calls are replayed, but not joined, and the other way round", () =>
      Effect.gen(function*() {
        const both = (dedupe: Dedupe.Options) =>
          run(tools(100), { dedupe }, ({ batch, process }) =>
            Effect.gen(function*() {
              const host = yield* Effect.forkChild(process.call(tool, { a: 1 }), { startImmediately: true })
              const first = yield* (yield* batch.process()).executeWave(same("1"))
              yield* Fiber.join(host)
              yield* process.call(tool, { a: 2 })
              const second = yield* process.executeWave([call("2", "t", { a: 2 })])
              return [...first.outcomes, ...second.outcomes].map(value)
            }))
        assert.deepStrictEqual(yield* both({ onDuplicate: "replay" }), [2, 3])
        assert.deepStrictEqual(yield* both({ inFlight: "join" }), [1, 3])
      }))

    it.effect("is not what the host's start and exit calls give: their messages are for the model", () =>
      run(
        { t: writer() },
        { rules: [{ _tag: "StartConstraint", tool: "t" }] },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.startConstraints({ t: { a: 1 } })
            assert.deepStrictEqual(tags(yield* process.executeWave(same("1"))), ["DuplicateCall"])
          })
      ))

    it.effect("is that of a periodic call", () =>
      run(
        { t: writer() },
        {
          dedupe: { scope: "principal" },
          rules: [{ _tag: "Periodic", tool: "t", schedule: "1 minute", params: { a: 1 } }]
        },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.sleep(60_001)
            const wave = yield* process.executeWave(same("1"))
            assert.deepStrictEqual(wave.outcomes.map(value), [2])
            yield* Effect.sleep(60_000)
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["DuplicateCall"])
          })
      ))
  })

  describe("a tool whose answer changes by itself", () => {
    const annotated = (annotate: (tool: Tool.Any) => Tool.Any) => ({ t: { handler: counter(), annotate } })
    const twice = (annotate: (tool: Tool.Any) => Tool.Any, rules: ReadonlyArray<ToolRule.ToolRule> = []) =>
      run(annotated(annotate), { dedupe: { readWindow: "5 minutes" }, rules }, ({ process }) =>
        Effect.gen(function*() {
          const first = tags(yield* process.executeWave(same("1", "2")))
          return [...first, ...tags(yield* process.executeWave(same("3")))]
        }))

    it.effect("is compared within one message only, whatever it changes", () =>
      Effect.gen(function*() {
        for (const readOnly of [true, false]) {
          assert.deepStrictEqual(
            yield* twice((it) => it.annotate(ToolAnnotations.Volatile, true).annotate(Tool.Readonly, readOnly)),
            ["Succeeded", "DuplicateCall", "Succeeded"]
          )
        }
      }), { tags: ["D4"] })

    it.effect("is a read that is annotated to reach outside, unless it says otherwise", () =>
      Effect.gen(function*() {
        const outside = (more: (tool: Tool.Any) => Tool.Any) => twice((it) => more(it.annotate(Tool.OpenWorld, true)))
        assert.deepStrictEqual(yield* outside((it) => it), ["Succeeded", "DuplicateCall", "Succeeded"])
        assert.deepStrictEqual(
          yield* outside((it) => it.annotate(ToolAnnotations.Volatile, false)),
          ["Succeeded", "DuplicateCall", "DuplicateCall"]
        )
        assert.deepStrictEqual(
          yield* outside((it) => it.annotate(Tool.Readonly, false)),
          ["Succeeded", "DuplicateCall", "DuplicateCall"]
        )
      }))

    it.effect("is compared over the whole window where a rule says so", () =>
      Effect.map(
        twice((it) => it.annotate(Tool.OpenWorld, true), [{ _tag: "AlwaysDedupe", tool: "t" }]),
        (it) => assert.deepStrictEqual(it, ["Succeeded", "DuplicateCall", "DuplicateCall"])
      ))
  })

  describe("a duplicate", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      { _tag: "RequiresFollowingTools", tool: "t", tools: ["w"] },
      { _tag: "MaxCalls", tool: "t", max: 1 },
      { _tag: "Cooldown", tool: "t", duration: "1 minute" }
    ]
    const tools = () => ({
      t: { class: "SerialMut" as const, handler: counter(10) },
      w: { class: "SerialMut" as const, handler: counter() }
    })
    const third = (dedupe: Dedupe.Options) =>
      run(tools(), { dedupe, rules }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(same("1"))
          const before = tags(yield* process.executeWave(same("2")))
          yield* process.executeWave([call("w", "w")])
          return [...before, ...tags(yield* process.executeWave(same("3")))]
        }))

    it.effect("that is refused is told so, whatever comes after dedupe", () =>
      Effect.map(third({}), (it) => assert.deepStrictEqual(it, ["DuplicateCall", "DuplicateCall"])))

    it.effect("that is replayed passes the rules of order, but spends no call and no rest", () =>
      Effect.map(
        third({ onDuplicate: "replay" }),
        (it) => assert.deepStrictEqual(it, ["Succeeded", "RuleViolation"])
      ))

    const asked = (dedupe: Dedupe.Options, approval: "perCall" | "upfront") =>
      Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        return yield* run(tools(), { dedupe, approval, approvals, policy: { default: "ask" } }, ({ process }) =>
          Effect.gen(function*() {
            const prompts: Array<string> = []
            const got: Array<string> = []
            for (const id of ["1", "2"]) {
              const wave = yield* Effect.forkChild(process.executeWave(same(id)), { startImmediately: true })
              yield* Effect.sleep(1)
              for (const it of yield* approvals.list) {
                prompts.push(it.callId)
                yield* approvals.answer(it.id, { _tag: "ApproveOnce" })
              }
              got.push(...tags(yield* Fiber.join(wave)))
            }
            return { prompts, got }
          }))
      })

    for (const approval of ["perCall", "upfront"] as const) {
      it.effect(`is asked about where it would be replayed, and not where it is refused (${approval})`, () =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* asked({}, approval), { prompts: ["1"], got: ["Succeeded", "DuplicateCall"] })
          assert.deepStrictEqual(yield* asked({ onDuplicate: "replay" }, approval), {
            prompts: ["1", "2"],
            got: ["Succeeded", "Succeeded"]
          })
        }))
    }
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
            yield* process.executeWave(same("1"))
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["Succeeded"])
          })))
    }

    it.effect("is not a call that was cancelled", () =>
      run({ t: once(Effect.never) }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
          assert.deepStrictEqual(tags(yield* process.executeWave(same("1"))), ["Cancelled"])
          assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["Succeeded"])
        })))

    it.effect("is a failure where the policy says so", () =>
      run(
        { t: { class: "SerialMut", handler: once(Effect.fail("no")) } },
        { dedupe: { outcomes: ["Succeeded", "Failed"], onDuplicate: "replay" } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(same("1"))
            const wave = yield* process.executeWave(same("2"))
            assert.deepInclude(wave.outcomes[0], { _tag: "Failed", error: "no", replayOf: "1", attempt: 0 })
          })
      ))

    it.effect("is an orphan, and its text says that the old one still runs", () =>
      run(
        { t: once(Effect.uninterruptible(Effect.sleep("1 minute"))) },
        { tools: { t: { timeout: 100 } }, dedupe: { inFlight: "join" } },
        ({ process }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(tags(yield* process.executeWave(same("1"))), ["TimedOut"])
            const wave = yield* process.executeWave(same("2"))
            assert.deepInclude(wave.outcomes[0], {
              reason: { _tag: "DuplicateCall", of: "1", running: true, runsAgain: "whenEnded", changedSince: false }
            })
            assert.include(wave.toolMessages[0]!.text, "still running")
            yield* Effect.sleep("1 minute")
            assert.deepStrictEqual(tags(yield* process.executeWave(same("3"))), ["Succeeded"])
          })
      ))
  })

  describe("a ReadOnly key", () => {
    const tools = () => ({ t: counter(), w: { class: "SerialMut" as const, handler: counter(10) } })

    it.effect("dies when a mutating call starts", () =>
      run(tools(), {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([...same("1", "2"), call("w", "w"), ...same("3", "4")])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded", "Succeeded", "DuplicateCall"])
        })))

    it.effect("lives on when a mutating call is refused or fails to start", () =>
      run(tools(), { rules: [{ _tag: "MaxCalls", tool: "w", max: 0 }] }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([...same("1"), call("w", "w"), ...same("2")])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "RuleViolation", "DuplicateCall"])
        })))

    it.effect("dies when a mutating call ends, and when its handler ends that outlived it", () =>
      run(
        { t: counter(), w: { class: "SerialMut", handler: () => Effect.uninterruptible(Effect.sleep(1_000)) } },
        { dedupe: { readWindow: "5 minutes" }, tools: { w: { timeout: 100 } } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            const write = yield* Effect.forkChild(process.executeWave([call("w", "w")]), { startImmediately: true })
            const other = yield* batch.process()
            const read = (id: string) => Effect.map(other.executeWave(same(id)), tags)
            yield* Effect.sleep(50)
            assert.deepStrictEqual([...yield* read("1"), ...yield* read("2")], ["Succeeded", "DuplicateCall"])
            assert.deepStrictEqual(tags(yield* Fiber.join(write)), ["TimedOut"])
            assert.deepStrictEqual([...yield* read("3"), ...yield* read("4")], ["Succeeded", "DuplicateCall"])
            yield* Effect.sleep(1_000)
            assert.deepStrictEqual([...yield* read("5"), ...yield* read("6")], ["Succeeded", "DuplicateCall"])
          })
      ), { tags: ["D4"] })

    it.effect("of a read that runs while a mutating call starts is not kept", () =>
      run(
        { t: counter(100), w: { class: "SerialMut", handler: counter(10) } },
        { mode: "parallel" },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeWave([...same("1"), call("w", "w")])
            assert.deepStrictEqual(tags(yield* process.executeWave(same("2"))), ["Succeeded"])
          })
      ))

    it.effect("is no mutating call's: that key lives on", () =>
      run(
        { t: { class: "SerialMut", handler: counter() }, w: { class: "SerialMut", handler: counter() } },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave([...same("1"), call("w", "w"), ...same("2")]),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "DuplicateCall"])
          )
      ))
  })

  describe("replay", () => {
    it.effect("gives the outcome again, with the call's own id, place and wish to go on", () =>
      run({ t: writer(10) }, { dedupe: { onDuplicate: "replay" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(same("1"))
          const wave = yield* process.executeWave([
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
        { t: writer() },
        { dedupe: { onDuplicate: "replay" }, rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }], turn: { maxCalls: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(same("1"))
            const wave = yield* process.executeWave(same("2"))
            assert.include(["Succeeded", "CallBudgetExhausted"], tags(wave)[0])
          })
      ))

    it.effect("of a replay gives the first one's id", () =>
      run({ t: writer() }, { dedupe: { onDuplicate: "replay" } }, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(same("1"))
          yield* process.executeWave(same("2"))
          assert.deepInclude((yield* process.executeWave(same("3"))).outcomes[0], { replayOf: "1" })
        })))

    it.effect("in flight is still a refusal", () =>
      run(
        { t: writer(10) },
        { dedupe: { onDuplicate: "replay" } },
        ({ process }) =>
          Effect.map(
            process.executeWave(same("1", "2")),
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
            yield* process.executeWave(same("1"))
            const exit = yield* Effect.exit(process.call(tool, { a: 1 }))
            if (exit._tag === "Success") assert.strictEqual(exit.value.length, whole.length)
          })
      )
    })
  })

  describe("joining", () => {
    const dedupe = { inFlight: "join" as const }

    it.effect("gives one execution's outcome to all equal calls of a wave", () =>
      run({ t: writer(10) }, { dedupe }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(same("1", "2", "3"))
          assert.deepStrictEqual(wave.outcomes.map(value), [1, 1, 1])
          assert.deepStrictEqual(wave.outcomes.map((it) => it._tag === "Succeeded" && it.replayOf), [
            undefined,
            "1",
            "1"
          ])
          assert.strictEqual(yield* VirtualTime.now, 10)
        })))

    it.effect("works across waves and processes", () =>
      run({ t: writer(100) }, { dedupe }, ({ batch, process }) =>
        Effect.gen(function*() {
          const other = yield* batch.process()
          const first = yield* Effect.forkChild(process.executeWave(same("1")))
          yield* Effect.sleep(10)
          const second = yield* other.executeWave(same("2"))
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
            Effect.map(process.executeWave(same("1", "2")), (wave) => {
              assert.deepStrictEqual(tags(wave), [expected, expected])
              assert.deepInclude(wave.outcomes[1], { replayOf: "1", commits: 0 })
            })
        ))
    }

    it.effect(
      "runs itself where its leader is cancelled: it shares an execution, not who stopped it",
      () =>
        run({ t: writer(100) }, { dedupe }, ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
            assert.deepStrictEqual(tags(yield* process.executeWave(same("1", "2"))), ["Cancelled", "Succeeded"])
          })),
      { tags: ["D8"] }
    )

    const limits: ReadonlyArray<readonly [string, Options, ToolProcess.ExecuteOptions, ReadonlyArray<string>]> = [
      ["its turn is over", { turn: { timeout: 50, minimumSlice: 1 } }, {}, ["TimedOut", "Succeeded", "Succeeded"]],
      ["its caller gave it less time", {}, { timeout: 50 }, ["TimedOut", "Succeeded", "Succeeded"]],
      ["the tool has no more time", { tools: { t: { timeout: 50 } } }, { timeout: 60 }, [
        "TimedOut",
        "TimedOut",
        "TimedOut"
      ]]
    ]
    for (const [why, options, execute, expected] of limits) {
      it.effect(`${expected[1] === "TimedOut" ? "shares the end of" : "runs once more after"} a leader when ${why}`, () =>
        run({ t: writer(100) }, { dedupe, ...options }, ({ batch, process }) =>
          Effect.gen(function*() {
            const leader = yield* Effect.forkChild(process.executeWave(same("1"), execute), { startImmediately: true })
            yield* Effect.sleep(40)
            const others = [yield* batch.process({ turn: {} }), yield* batch.process({ turn: {} })]
            const waves = yield* Effect.forEach(others, (it, index) => it.executeWave(same(String(index + 2))), {
              concurrency: 2
            })
            assert.deepStrictEqual([...tags(yield* Fiber.join(leader)), ...waves.flatMap(tags)], expected)
            // who waited shares one execution
            assert.deepInclude(waves[1]!.outcomes[0], { replayOf: expected[1] === "TimedOut" ? "1" : "2" })
          })))
    }

    it.effect("shares the end of a leader whose limit holds for both: that of one wave", () =>
      run({ t: writer(100) }, { dedupe }, ({ process }) =>
        Effect.map(
          process.executeWave(same("1", "2"), { timeout: 50 }),
          (wave) => assert.deepStrictEqual(tags(wave), ["TimedOut", "TimedOut"])
        )))

    it.effect("is what an awaited call does with an equal one of another process, whatever the policy", () =>
      run(
        { t: writer(100) },
        { rules: [{ _tag: "StartConstraint", tool: "t" }] },
        ({ batch, process }) =>
          Effect.gen(function*() {
            const first = yield* Effect.forkChild(process.executeWave(same("1")), { startImmediately: true })
            const other = yield* batch.process()
            const [joined] = (yield* other.executeWave(same("2"))).outcomes
            assert.deepInclude(joined, { _tag: "Succeeded", replayOf: "1" })
            assert.deepStrictEqual(yield* other.startPending, [])
            assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
            // what is awaited no more is a duplicate
            assert.deepStrictEqual(tags(yield* other.executeWave(same("3"))), ["DuplicateCall"])
          })
      ))

    it.effect("runs an awaited call anew whose leader is cancelled", () =>
      run(
        { t: writer(100) },
        { rules: [{ _tag: "StartConstraint", tool: "t" }] },
        ({ batch, process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(process.executeWave(same("1")), { startImmediately: true })
            yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
            assert.deepStrictEqual(tags(yield* (yield* batch.process()).executeWave(same("2"))), ["Succeeded"])
          })
      ))

    it.effect("is allowed by a person first where one has to be asked", () =>
      Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const answered = (after: number) =>
          run(
            { t: writer(100) },
            { dedupe, approvals, policy: { default: "ask" } },
            ({ batch, process }) =>
              Effect.gen(function*() {
                const answer = Effect.gen(function*() {
                  const [request] = yield* approvals.list
                  yield* approvals.answer(request!.id, { _tag: "ApproveOnce" })
                })
                const leader = yield* Effect.forkChild(process.executeWave(same("1")), { startImmediately: true })
                yield* answer
                const other = yield* batch.process()
                const follower = yield* Effect.forkChild(other.executeWave(same("2")), { startImmediately: true })
                yield* Effect.sleep(after)
                yield* answer
                return [
                  ...tags(yield* Fiber.join(leader)),
                  ...(yield* Fiber.join(follower)).outcomes.map((it) => it._tag === "Succeeded" ? it.replayOf : it._tag)
                ]
              })
          )
        assert.deepStrictEqual(yield* answered(10), ["Succeeded", "1"])
        // it was to join: whoever was asked has not been asked for nothing
        assert.deepStrictEqual(yield* answered(200), ["Succeeded", "1"])
      }))

    it.effect("dispatches the first who waits anew when the leader never started", () =>
      run(
        { t: writer(100), block: () => Effect.sleep(50) },
        { dedupe, pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
            const wave = yield* process.executeWave([call("b", "block"), ...same("1", "2", "3")])
            assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded", "Succeeded"])
            assert.deepInclude(wave.outcomes[3], { replayOf: "2" })
            assert.strictEqual(yield* VirtualTime.now, 150)
          })
      ))

    it.effect("dispatches who waits in another wave anew when the leader's caller is interrupted", () =>
      run(
        { t: writer(100), block: () => Effect.sleep(50) },
        { dedupe, pools: { read: 1 } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            const other = yield* batch.process()
            const block = yield* Effect.forkChild(process.executeWave([call("b", "block")]))
            yield* Effect.sleep(1)
            const leader = yield* Effect.forkChild(process.executeWave(same("1")))
            yield* Effect.sleep(1)
            const follower = yield* Effect.forkChild(other.executeWave(same("2")))
            yield* Effect.sleep(1)
            yield* Fiber.interrupt(leader)
            assert.deepStrictEqual(tags(yield* Fiber.join(follower)), ["Succeeded"])
            yield* Fiber.join(block)
          })
      ))

    it.effect("ends for a follower that is cancelled, not for the leader", () =>
      run({ t: writer(100) }, { dedupe }, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          const wave = yield* process.executeWave(same("1", "2", "3"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded"])
        })))

    it.effect("counts one call", () =>
      run(
        { t: writer(10) },
        { dedupe, rules: [{ _tag: "MaxCalls", tool: "*", max: 1 }] },
        ({ process }) =>
          Effect.map(
            process.executeWave(same("1", "2")),
            (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          )
      ))
  })

  describe("rules", () => {
    it.effect("NeverDedupe lets equal calls run", () =>
      run(
        { t: writer() },
        { rules: [{ _tag: "NeverDedupe", tool: "t" }] },
        ({ process }) =>
          Effect.map(
            process.executeWave(same("1", "2")),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), [1, 2])
          )
      ), { tags: ["AlwaysDedupe", "NeverDedupe"] })

    it.effect("AlwaysDedupe holds where dedupe is off", () =>
      run(
        { t: writer(), u: counter() },
        { dedupe: false, rules: [{ _tag: "AlwaysDedupe", tool: "t" }] },
        ({ process }) =>
          Effect.map(process.executeWave([...same("1", "2"), call("3", "u"), call("4", "u")]), (wave) =>
            assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded", "Succeeded"]))
      ), { tags: ["AlwaysDedupe", "NeverDedupe"] })
  })
})
