/** The budget of a turn as a gate: swapped, layered, read from the configuration. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TurnBudget from "../../../src/core/gates/TurnBudget.ts"
import * as LayerConfig from "../../../src/core/vocabulary/LayerConfig.ts"
import { calls, run } from "../../support/Harness.ts"

const tools = { t: () => Effect.succeed(1) }

const begin = <E>(layer: Layer.Layer<TurnBudget.TurnBudget, E>, limits: Partial<TurnBudget.Limits> = {}) =>
  Effect.map(Layer.build(layer), (it) => Context.get(it, TurnBudget.TurnBudget).begin(limits, 0)).pipe(Effect.scoped)

describe("the budget of a turn", () => {
  it.effect("is decided by whatever layer is there", () => {
    const spent = Layer.succeed(TurnBudget.TurnBudget, {
      begin: (limits, now, parent) =>
        Object.assign(Object.create(TurnBudget.plain.begin(limits, now, parent)) as TurnBudget.Budget, {
          check: () => ({ _tag: "CallBudgetExhausted", max: 7 }) as const
        })
    })
    return run(
      tools,
      { turns: spent },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("t")),
          ({ outcomes: [outcome] }) =>
            assert.deepInclude(outcome, { _tag: "Denied", reason: { _tag: "CallBudgetExhausted", max: 7 } })
        )
    )
  }, { tags: ["G2"] })

  it.effect("is what its layer says, field by field over one around it", () =>
    Effect.gen(function*() {
      const outer = TurnBudget.layer({ timeout: "1 hour", maxCalls: 1 })
      const inner = TurnBudget.layer({ timeout: "1 minute" }).pipe(Layer.provide(outer))
      const budget = yield* begin(inner)
      assert.strictEqual(budget.limitMillis, 60_000)
      budget.take()
      assert.deepStrictEqual(budget.check(0, false), { _tag: "CallBudgetExhausted", max: 1 })
      // what a process is given wins over both
      const own = yield* begin(inner, { limitMillis: 5, maxCalls: 2 })
      own.take()
      assert.isUndefined(own.check(4, false))
      assert.deepStrictEqual(own.check(5, false), { _tag: "DeadlineExceeded", limitMillis: 5 })
    }))

  it.effect("has no limit where it is off, but for what a process is given", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* begin(TurnBudget.layerNoop)).left(1e12), Infinity)
      assert.strictEqual((yield* begin(TurnBudget.layerNoop, { limitMillis: 5 })).left(0), 5)
    }))

  it("is no longer than the time of the call that it works for, and says so", () => {
    const parent = { deadline: 400, ask: () => {}, execute: () => {} }
    const told = (limits: Partial<TurnBudget.Limits>, begun: number) =>
      TurnBudget.plain.begin(limits, begun, parent).check(400, false)
    assert.deepStrictEqual(told({}, 100), { _tag: "DeadlineExceeded", limitMillis: 300 })
    assert.deepStrictEqual(told({ limitMillis: 1_000 }, 100), { _tag: "DeadlineExceeded", limitMillis: 300 })
    assert.deepStrictEqual(told({ limitMillis: 200 }, 100), { _tag: "DeadlineExceeded", limitMillis: 200 })
    assert.deepStrictEqual(told({}, 500), { _tag: "DeadlineExceeded", limitMillis: 0 })
  })

  it.effect("comes from the configuration", () =>
    Effect.gen(function*() {
      const layer = LayerConfig.from(TurnBudget.layer, {
        maxCalls: Config.Int("CALLS"),
        timeout: Config.Duration("TIME")
      })
      const provide = (env: Record<string, string>) =>
        Layer.provide(layer, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      assert.strictEqual((yield* begin(provide({ CALLS: "2", TIME: "1 minute" }))).limitMillis, 60_000)
      const wrong = yield* Effect.flip(begin(provide({ CALLS: "0", TIME: "1 minute" })))
      assert.include(wrong.message, "turn.maxCalls: it is 0; expected 1 or more")
    }))

  it.effect("is no layer with options that are wrong", () =>
    Effect.gen(function*() {
      const wrong = { timeout: "soon", minimumSlice: NaN, maxCalls: NaN } as unknown as TurnBudget.Options
      const error = yield* Effect.flip(begin(TurnBudget.layer(wrong)))
      assert.strictEqual(
        error.message,
        "TurnBudget: 3 problems" +
          "\n  turn.timeout: it is \"soon\"; expected a duration above zero, such as \"30 seconds\"" +
          "\n  turn.minimumSlice: it is NaN; expected a duration, such as \"30 seconds\", or 0 for none" +
          "\n  turn.maxCalls: it is NaN; expected 1 or more"
      )
      yield* run(tools, {}, ({ executor }) =>
        Effect.gen(function*() {
          const refused = yield* Effect.flip(Effect.scoped(executor.fork({ turn: { timeout: -5 } })))
          assert.include(refused.message, "ToolExecutor.fork: 1 problem\n  turn.timeout: it is -5")
        }))
    }))
})
