/** The bounds of an operation: each ends it for a reason of its own, with a sound history. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import { AgentEvent, type AgentLimits, SubAgent } from "../../src/agent/index.ts"
import * as Spending from "../../src/agent/Spending.ts"
import type { ConfigurationError } from "../../src/core/vocabulary/ConfigurationError.ts"
import type { Approvals } from "../../src/index.ts"
import type * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { agentTool, type Env, events, problemsOf, run, words } from "../support/Agents.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })

/** Goes on for ever, with so many calls a turn. */
const endless =
  (calls = 1, usage?: { readonly input: number; readonly output: number }): ScriptedModel.Answer => ({ turn }) => ({
    text: `turn ${turn}`,
    calls: Array.from({ length: calls }, (_, n) => call("", "read", { turn, n })),
    ...usage === undefined ? {} : { usage }
  })

const read = () => Effect.as(Effect.sleep("1 second"), "text")

const limited = (limits: AgentLimits.AgentLimits) => (env: Env) =>
  Effect.gen(function*() {
    const { end } = yield* events(env, { prompt: "Go", limits })
    assert.deepStrictEqual(problemsOf(end.history), [])
    return { ...end, asked: (yield* env.model.requests).length }
  })

describe("an operation with a bound", () => {
  it.effect(
    "of turns asks the model so often, and the calls of the last turn still run",
    () =>
      run({ read }, endless(), limited({ turns: 3 })).pipe(Effect.map((end) => {
        assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "turns", max: 3 })
        assert.deepStrictEqual([end.asked, end.turns, end.calls], [3, 3, 3])
        assert.strictEqual(words(end.history).filter((it) => it.startsWith("result")).length, 3)
      })),
    { tags: ["AG7"] }
  )

  it.effect("asks the model a hundred times if nothing is said of it", () =>
    run({ read }, endless(), limited({})).pipe(Effect.map((end) => {
      assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "turns", max: 100 })
      assert.strictEqual(end.asked, 100)
    })))

  it.effect(
    "of calls starts so many, refuses the rest of the turn, and ends",
    () =>
      run({ read }, endless(3), limited({ calls: 4 })).pipe(Effect.map((end) => {
        assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "calls", max: 4 })
        assert.deepStrictEqual([end.asked, end.calls], [2, 4])
        assert.strictEqual(words(end.history).filter((it) => it.startsWith("result")).length, 4)
        assert.strictEqual(words(end.history).filter((it) => it.startsWith("error")).length, 2)
      })),
    { tags: ["AG7"] }
  )

  it.effect("of tokens counts what goes in and what comes out", () =>
    run({ read }, endless(1, { input: 90, output: 10 }), limited({ tokens: 300 })).pipe(Effect.map((end) => {
      assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "tokens", max: 300 })
      assert.deepStrictEqual([end.asked, end.usage.inputTokens, end.usage.outputTokens], [3, 270, 30])
    })))

  for (
    const [what, answer] of [
      ["text", { text: "x".repeat(1_500) }],
      ["reasoning", { reasoning: "x".repeat(1_500) }],
      ["arguments", { calls: [call("", "read", { text: "x".repeat(1_500) })] }]
    ] as const
  ) {
    it.effect(
      `of characters of an answer cuts off the ${what} beyond it, and ends`,
      () =>
        run({ read }, [{ text: "y".repeat(900), calls: [call("", "read")] }, answer], limited({ answerChars: 1_000 }))
          .pipe(
            Effect.map((end) => {
              assert.deepInclude(end.reason, {
                _tag: "ModelFailed",
                message:
                  "its answer has more than 1000 characters. Raise `limits.answerChars` if answers may be that long"
              })
              assert.strictEqual(end.asked, 2)
              assert.isBelow(JSON.stringify(end.history).length, 2_500)
            })
          ),
      { tags: ["AG7"] }
    )
  }

  it.effect("of cost counts by the prices of its model, what was cached at its own", () =>
    run(
      { read },
      ({ turn }) => ({
        calls: [call("", "read", { turn })],
        usage: { input: 1_000_000, cacheRead: 500_000, output: 100_000 }
      }),
      // half a million at 2, half a million at 1, a tenth of one at 10: 2.5 a turn
      limited({ cost: { max: 7.5, prices: { "scripted:scripted": { input: 2, cachedInput: 1, output: 10 } } } })
    ).pipe(Effect.map((end) => {
      assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "cost", max: 7.5 })
      assert.deepStrictEqual([end.asked, end.usage.cachedInputTokens], [3, 1_500_000])
    })))

  it.effect(
    "of cost counts what is written to a cache at the price of that, a quarter more if nothing is said",
    () =>
      Effect.gen(function*() {
        const turn: ScriptedModel.Answer = ({ turn }) => ({
          calls: [call("", "read", { turn })],
          usage: { input: 10_000_000, cacheWrite: 8_000_000, cacheRead: 1_000_000, output: 0 }
        })
        const spending = (prices: Partial<AgentLimits.Price>) =>
          run({ read }, turn, limited({ cost: { max: 30, prices: { "*": { input: 1, output: 1, ...prices } } } }))
        // one at 1, eight at 1.25, one at 1: 12 a turn
        const end = yield* spending({})
        assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "cost", max: 30 })
        assert.deepStrictEqual([end.asked, end.usage.cacheWriteInputTokens], [3, 24_000_000])
        // one at 1, eight at 2, one at 0: 17 a turn
        assert.strictEqual((yield* spending({ cacheWrite: 2, cachedInput: 0 })).asked, 2)
        assert.strictEqual((yield* spending({ cacheWrite: 0, cachedInput: 0 })).asked, 30)
      }),
    { tags: ["AG7"] }
  )

  it("counts tokens of a cache once, whether or not the total has them, and gives nothing back", () => {
    const of = (inputTokens: object) =>
      Spending.usageOf({ inputTokens, outputTokens: { total: 1 } } as never) as unknown as Record<string, number>
    const cache = { cacheRead: 50, cacheWrite: 30 }
    const counted = { outputTokens: 1, cachedInputTokens: 50, cacheWriteInputTokens: 30 }
    assert.deepStrictEqual(of({ total: 90, ...cache }), { inputTokens: 90, ...counted })
    assert.deepStrictEqual(of({ uncached: 10, ...cache }), { inputTokens: 90, ...counted })
    assert.deepStrictEqual(of({ total: 10, ...cache }), { inputTokens: 90, ...counted })
    assert.strictEqual(of({ total: -10, cacheWrite: -5 }).inputTokens, 0)
  })

  it.effect("of cost does not ask a model whose price nobody knows", () =>
    Effect.map(
      Effect.flip(run({}, endless(), limited({ cost: { max: 1, prices: { other: { input: 1, output: 1 } } } }))),
      (error) => {
        assert.propertyVal(error, "_tag", "ConfigurationError")
        assert.include(
          String(error),
          "limits.cost.prices: the price of scripted:scripted is missing; expected the price of its tokens, as \"scripted:scripted\", \"scripted\" or \"*\""
        )
      }
    ))

  it.effect("of tokens or cost is said to be none where the model does not count, once", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => {
        lines.push(String(message))
      })
      const free = { scripted: { input: 0, output: 0 } }
      const paid = { scripted: { input: 0, output: 1 } }
      const said = (limits: AgentLimits.AgentLimits, usage: { readonly input: number; readonly output: number }) =>
        run({ read }, endless(1, usage), limited({ turns: 2, ...limits })).pipe(
          Effect.provide(Logger.layer([logger])),
          Effect.map(() => lines.splice(0).length)
        )
      const none = { input: 0, output: 0 }
      assert.strictEqual(yield* said({ tokens: 100 }, none), 1)
      assert.strictEqual(yield* said({ cost: { max: 1, prices: paid } }, none), 1)
      assert.strictEqual(yield* said({ cost: { max: 1, prices: free } }, none), 0)
      assert.strictEqual(yield* said({}, none), 0)
      assert.strictEqual(yield* said({ tokens: 100 }, { input: 1, output: 0 }), 0)
    }))

  it("is told by what it bounds", () => {
    const said = (limit: AgentEvent.Limit, max: number) => AgentEvent.describe({ _tag: "LimitReached", limit, max })
    assert.deepStrictEqual([said("turns", 1), said("tokens", 1), said("calls", 2), said("cost", 0.5)], [
      "The limit of 1 turn was reached.",
      "The limit of 1 token was reached.",
      "The limit of 2 calls was reached.",
      "The limit of 0.5 for what tokens cost was reached."
    ])
    const waiting = (...calls: ReadonlyArray<string>) => AgentEvent.describe({ _tag: "Suspended", calls })
    assert.strictEqual(waiting("a"), "The host stops; 1 call waits to be resumed.")
    assert.strictEqual(waiting("a", "b"), "The host stops; 2 calls wait to be resumed.")
  })

  it.effect("of time ends whatever is under way, a model that says nothing as well", () =>
    Effect.gen(function*() {
      const mute = yield* run({ read }, [{ never: true }], limited({ time: "90 seconds" }))
      assert.deepStrictEqual(mute.reason, { _tag: "LimitReached", limit: "time", max: 90_000 })
      assert.strictEqual(mute.at, 90_000)
      const slow = yield* run(
        { read: () => Effect.never },
        [{ calls: [call("1", "read")] }],
        limited({ time: "30 seconds" })
      )
      assert.deepStrictEqual([slow.reason._tag, slow.at], ["LimitReached", 30_000])
      const busy = yield* run({ read }, () => ({ fails: "busy" }), limited({ time: "1500 millis" }))
      assert.deepStrictEqual([busy.reason._tag, busy.at], ["LimitReached", 1_500])
    }))

  it.effect("of time has time that stands still while people are asked", () =>
    run(
      { read },
      [{ calls: [call("1", "read")], takes: "3 seconds" }, { never: true }],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive", limits: { time: "10 seconds" } })
          yield* Effect.sleep("103 seconds")
          const [{ id }] = yield* agent.pending as Effect.Effect<[Approvals.ApprovalRequest]>
          yield* Effect.orDie(agent.answer(id, { _tag: "ApproveOnce" }))
          const end = yield* agent.result
          assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "time", max: 10_000 })
          assert.strictEqual(end.at, 110_000)
        }),
      { policy: { default: "ask" } }
    ), { tags: ["AG7"] })

  it.effect("names every bound that is none", () =>
    run({}, [], ({ agents }) =>
      Effect.gen(function*() {
        const limits = {
          turns: 0,
          calls: -1,
          tokens: Number.NaN,
          time: "soon" as never,
          cost: { max: 0, prices: { one: { input: -1, output: Infinity } } }
        }
        const error = (yield* Effect.flip(agents.run({ prompt: "Go", limits }))) as ConfigurationError
        assert.deepStrictEqual(
          new Set(error.problems.map((it) => it.path)),
          new Set([
            "limits.turns",
            "limits.calls",
            "limits.tokens",
            "limits.time",
            "limits.cost.max",
            "limits.cost.prices[\"one\"].input",
            "limits.cost.prices[\"one\"].output"
          ])
        )
      })))
})

describe("bounds and sub-agents", () => {
  /** A child that goes on for ever under a parent that calls it twice at once, and what became of all of it. */
  const tree = (
    limits: AgentLimits.AgentLimits,
    own?: AgentLimits.AgentLimits
  ) => {
    const child = agentTool(SubAgent.make("child", {
      description: "Works",
      parameters: Schema.Struct({ n: Schema.Finite }),
      prompt: ({ n }) => `child ${n}`,
      limits: own
    }))
    const script: ScriptedModel.Script = (request) => {
      const [first] = words(request.prompt)
      if (first === "user: Go") {
        return words(request.prompt).length > 1
          ? { text: "Done.", usage: { input: 1, output: 1 } }
          : { calls: [call("a", "child", { n: 1 }), call("b", "child", { n: 2 })], usage: { input: 1, output: 1 } }
      }
      const calls = [call("", "read", { first, turn: request.turn })]
      return { calls, usage: { input: 9, output: 1 }, takes: "1 second" }
    }
    return run({ read, child }, script, limited(limits))
  }

  it.effect("tokens that sub-agents use are their caller's", () =>
    Effect.gen(function*() {
      const end = yield* tree({ tokens: 50 })
      assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "tokens", max: 50 })
      // both ask for the last time at 42
      assert.strictEqual(end.usage.inputTokens + end.usage.outputTokens, 62)
      assert.strictEqual(words(end.history).filter((it) => /error [ab]: .*tokens/.test(it)).length, 2)
    }), { tags: ["AG7"] })

  it.effect("calls that sub-agents start are their caller's", () =>
    Effect.gen(function*() {
      const end = yield* tree({ calls: 7 })
      assert.strictEqual(end.calls, 7)
      assert.strictEqual(words(end.history).filter((it) => /error [ab]: /.test(it)).length, 2)
    }), { tags: ["AG7"] })

  it.effect("a sub-agent's own bound ends it, and its caller goes on", () =>
    Effect.gen(function*() {
      const end = yield* tree({}, { turns: 2 })
      assert.deepStrictEqual([end.reason._tag, end.text], ["Finished", "Done."])
      assert.deepStrictEqual([end.turns, end.calls, end.asked], [2, 6, 6])
      assert.strictEqual(words(end.history).filter((it) => /error [ab]: .*turns/.test(it)).length, 2)
    }))

  it.effect("time of the caller ends its sub-agents", () =>
    Effect.gen(function*() {
      const end = yield* tree({ time: "4500 millis" })
      assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "time", max: 4_500 })
      assert.strictEqual(end.at, 4_500)
    }))
})
