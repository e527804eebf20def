/**
 * The runner beyond what scenario files show: executors of one's own, and what
 * is wrong with a file.
 */
import { assert, describe, it } from "@effect/vitest"
import { Dedupe, Permissions, ToolExecutor } from "effect-tool-executor"
import { Scenario, ScenarioRunner, ScriptedTools } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const twice = {
  name: "one call twice",
  tools: { read: { class: "ReadOnly" } },
  script: [{
    wave: [{ id: "1", name: "read" }, { id: "2", name: "read" }],
    expect: { outcomes: [{ tag: "Succeeded" }, { tag: "Denied", reason: "DuplicateCall" }] }
  }]
}

describe("ScenarioRunner", () => {
  it.effect("plays a scenario against an executor with one gate of another kind", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode(twice)
      const tagsWith = Effect.fnUntraced(function*(executor: ScenarioRunner.Options["executor"]) {
        const { waves } = yield* ScenarioRunner.run(scenario, { executor })
        return waves[0]!.outcomes.map(({ outcome }) => outcome._tag)
      })
      assert.deepStrictEqual(yield* tagsWith(undefined), ["Succeeded", "Denied"])
      assert.deepStrictEqual(
        yield* tagsWith(ToolExecutor.layer.pipe(Layer.provide(Dedupe.layerNoop))),
        ["Succeeded", "Succeeded"]
      )
      assert.deepStrictEqual(
        yield* tagsWith(ToolExecutor.layer.pipe(Layer.provide(Permissions.layerDenyAll))),
        ["Denied", "Denied"]
      )
    }))

  it.effect("says which wave of several differs", () =>
    Effect.gen(function*() {
      const wave = [{ id: "1", name: "read" }]
      const scenario = yield* Scenario.decode({
        ...twice,
        script: [{
          waves: [
            { process: "a", wave, expect: { outcomes: [{ tag: "Succeeded" }] } },
            { process: "b", principal: "ada", wave, expect: { outcomes: [{ tag: "Failed" }] } }
          ]
        }]
      })
      const { differences } = yield* ScenarioRunner.run(scenario)
      assert.deepStrictEqual(differences, [
        { where: "script[0].waves[1].expect.outcomes[0].tag", expected: "Failed", got: "Succeeded" }
      ])
    }))

  it.effect("tells nobody whether to go on whose caller was interrupted", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode({
        name: "interrupted",
        tools: { slow: { takes: "1 minute" } },
        script: [{ interrupt: true, at: "1 seconds" }, { wave: [{ id: "1", name: "slow" }] }, {
          wave: [{ id: "2", name: "slow" }]
        }]
      })
      const { waves } = yield* ScenarioRunner.run(scenario)
      assert.deepStrictEqual(waves.map((it) => it.needsContinuation), [undefined, true])
      assert.deepStrictEqual(waves.map((it) => it.outcomes[0]?.outcome._tag), ["Cancelled", "Succeeded"])
    }))

  it.effect("refuses a principal where it would say nothing, and settings that no executor has", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Scenario.decode({
        ...twice,
        config: { pools: { read: 0 }, heartbeat: true },
        script: [{ advance: "1 seconds", principal: "ada" }]
      }))
      assert.include(error.message, "a principal only with process, completeBatch, revoke")
      assert.include(error.message, "config.pools.read")
      assert.include(error.message, "heartbeat")
    }))
})

describe("ScriptedTools", () => {
  it("brings what a script says about equal calls as rules of the tool", () => {
    const { toolkit } = ScriptedTools.make({ a: { dedupe: false }, b: { dedupe: "always" }, c: {} })
    const rulesOf = (name: string) =>
      Array.from(toolkit.tools[name]!.annotations.mapUnsafe.values()).flatMap((it) => Array.isArray(it) ? it : [])
    assert.deepStrictEqual(["a", "b", "c"].map(rulesOf), [[{ _tag: "NeverDedupe" }], [{ _tag: "AlwaysDedupe" }], []])
  })
})

describe("a scenario with crashes, resumes and agents", () => {
  const script = (...steps: ReadonlyArray<unknown>) => ({ name: "n", tools: { pay: {} }, script: steps })
  const wave = { wave: [{ id: "1", name: "pay" }] }
  const wrong: Record<string, readonly [input: unknown, says: string]> = {
    "a store that there is none of": [{ ...script(wave), store: "redis" }, "store"],
    "an entry that no journal has": [script({ crash: "1:Ended" }, wave), "\"ID:ENTRY\""],
    "a crash of nothing": [script({ crash: 1 }, { advance: "1 second" }), "after each crash"],
    "something expected of what dies": [
      script({ crash: 1 }, { ...wave, expect: { outcomes: [] } }),
      "after each crash"
    ],
    "a resume of nothing": [script({ resume: true }), "before each resume"],
    "an end of an agent that is expected of a wave": [script({ ...wave, expect: { turns: 1 } }), "of an agent only"],
    "a key that agents do not have": [script({ agent: { prompt: "p", model: [], modes: "x" } }), "modes"],
    "a key that answers of models do not have": [
      script({ agent: { prompt: "p", model: [{ breakOff: true }] } }),
      "breakOff"
    ],
    "a key that reconciling does not have": [
      { ...script(wave), tools: { pay: { reconcile: { happend: 1 } } } },
      "reconcile"
    ],
    "a setting that there is none of": [{ ...script(wave), config: { onUnknown: "guess" } }, "onUnknown"]
  }
  for (const [what, [input, says]] of Object.entries(wrong)) {
    it.effect(`refuses ${what}`, () =>
      Effect.gen(function*() {
        assert.include((yield* Effect.flip(Scenario.decode(input))).message, says)
      }))
  }

  it.effect("says where a process did not die, and goes on as if it had", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode(script({ crash: 99 }, wave, {
        resume: true,
        expect: { outcomes: [{ tag: "Succeeded" }] }
      }, { expectRuns: { pay: 2 } }))
      const { differences } = yield* ScenarioRunner.run(scenario)
      assert.deepStrictEqual(differences.map((it) => it.where), ["script[1]", "script[3].expectRuns.pay"])
    }))

  it.effect("does not take a wave that never ends for one that died as it should", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode({
        ...script({ crash: "1:Settled" }, wave, { resume: true }),
        tools: { pay: { never: true } },
        config: { executionTimeout: "Infinity" }
      })
      assert.deepInclude(yield* Effect.flip(ScenarioRunner.run(scenario)), { _tag: "Stuck", because: "idle" })
    }))

  it.effect("says that there is no store of that name", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode({ ...script(wave), store: "sqlite" })
      assert.include((yield* Effect.flip(ScenarioRunner.run(scenario))).message, "there is no sqlite here")
    }))
})
