/**
 * The runner beyond what scenario files show: executors of one's own, and what
 * is wrong with a file.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Dedupe from "effect-tool-executor/policy/Dedupe"
import * as Permissions from "effect-tool-executor/policy/Permissions"
import { Scenario, ScenarioRunner, ScriptedTools } from "effect-tool-executor/testing"
import * as ToolExecutor from "effect-tool-executor/ToolExecutor"
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
