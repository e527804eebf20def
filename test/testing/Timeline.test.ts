import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Lanes from "../../src/core/facts/Lanes.ts"
import * as Scenario from "../../src/testing/Scenario.ts"
import * as ScenarioRunner from "../../src/testing/ScenarioRunner.ts"
import * as Timeline from "../../src/testing/Timeline.ts"

const play = Effect.fnUntraced(function*(input: unknown) {
  return yield* ScenarioRunner.run(yield* Scenario.decode(input))
})

describe("Timeline", () => {
  it("tells waiting, asking and running apart", () => {
    const lines = Timeline.bars([
      { label: "a", queuedAt: 1000, startedAt: 1000, end: 1040, result: "Succeeded" },
      { label: "bcd", queuedAt: 1000, asking: [[1010, 1030]], startedAt: 1040, end: 1100, result: "Succeeded" },
      { label: "e", queuedAt: 1000, end: 1050, result: "Skipped" },
      { label: "f", queuedAt: 1000, end: 1000, result: "Denied" }
    ], { width: 10 })
    assert.deepStrictEqual(lines, [
      "a    ████        0–40 ms    Succeeded",
      "bcd  ·??·██████  40–100 ms  Succeeded",
      "e    ·····|      50 ms      Skipped",
      "f    |           0 ms       Denied"
    ])
  })

  it("gives whatever took time a place, however short it was", () => {
    const [line] = Timeline.bars([
      { label: "a", queuedAt: 0, startedAt: 0, end: 1, result: "" },
      { label: "b", queuedAt: 0, startedAt: 1, end: 100_000, result: "" }
    ], { width: 10 })
    assert.include(line, "█")
  })

  it("draws calls of no time, and none at all", () => {
    assert.deepStrictEqual(Timeline.bars([]), [])
    assert.lengthOf(Timeline.bars([{ label: "a", queuedAt: 5, startedAt: 5, end: 5, result: "" }]), 1)
  })

  it.effect("draws the waves of a scenario, then what differs", () =>
    Effect.gen(function*() {
      const report = yield* play({
        name: "two calls",
        tools: { read: { class: "ReadOnly", takes: "50 millis" } },
        script: [{
          wave: [{ id: "1", name: "read", params: {} }, { id: "2", name: "nope", params: {} }],
          expect: { outcomes: [{ tag: "Failed", end: 50 }, { tag: "Denied" }] }
        }]
      })
      assert.strictEqual(
        Timeline.render(report, { width: 4 }),
        [
          "✗ two calls",
          "",
          "  Wave 1, script[0]: 2 calls, 50 ms",
          "    1 read  ████  0–50 ms  Succeeded",
          "    2 nope  |     0 ms     Denied: ToolNotFound",
          "",
          `  ${Timeline.legend}`,
          "",
          "  Differences",
          "    script[0].expect.outcomes[0].tag",
          "      expected \"Failed\"",
          "      got      \"Succeeded\""
        ].join("\n")
      )
    }))

  it.effect("keeps hostile names on their line", () =>
    Effect.gen(function*() {
      const report = yield* play({
        name: "n\u001b[2J\nfake",
        tools: {},
        script: [{ wave: [{ id: "1\n2", name: "x\u001b[31m\ny", params: {} }] }]
      })
      const text = Timeline.render(report)
      assert.notInclude(text, "\u001b")
      assert.lengthOf(text.split("\n"), 6)
    }))

  it.effect("says which rule refused a call, and what the model is told", () =>
    Effect.gen(function*() {
      const report = yield* play({
        name: "a rule",
        tools: { read: { class: "ReadOnly" }, post: {} },
        rules: [{ _tag: "MaxCalls", tool: "post", max: 3 }, { _tag: "Cooldown", tool: "post", duration: "2 seconds" }],
        script: [
          { wave: [{ id: "1", name: "post", params: {} }] },
          { wave: [{ id: "2", name: "read", params: {} }, { id: "3", name: "post", params: { n: 1 } }] }
        ]
      })
      const said = Timeline.render(report).split("\n").filter((line) => line.includes("rules["))
      assert.deepStrictEqual(said, [
        "      3: rules[1] Cooldown. \"post\" may be called again no sooner than 2 seconds after its previous call. Try again in 2 s."
      ])
    }))

  it.effect("names the short reason of every outcome", () =>
    Effect.gen(function*() {
      const report = yield* play({
        name: "reasons",
        tools: {
          read: { class: "ReadOnly" },
          fail: { class: "ReadOnly", fails: "no" },
          hang: { class: "ReadOnly", never: true, timeout: "1 second" },
          big: { class: "ReadOnly", returns: "x".repeat(20_000) },
          once: { class: "ReadOnly" },
          closed: { class: "ReadOnly" }
        },
        rules: [{ _tag: "MaxCalls", tool: "once", max: 0 }],
        policy: { deny: ["closed"] },
        config: { onExecutionError: "continue" },
        script: [
          { cancelCall: "9", at: "500 millis" },
          {
            wave: ["read", "read", "fail", "hang", "big", "once", "closed", "nope"].map((name, index) => ({
              id: String(index + 1),
              name,
              params: {}
            })).concat([{ id: "9", name: "hang", params: { other: true } as {} }])
          }
        ]
      })
      assert.deepStrictEqual(report.waves[0]?.outcomes.map(({ outcome }) => Lanes.summary(outcome)), [
        "Succeeded",
        "Denied: DuplicateCall of 1, which is still running",
        "Failed: handler",
        "TimedOut: tool limit of 1 s",
        "Succeeded, Artifact",
        "Denied: RuleViolation, MaxCalls",
        "Denied: PolicyDenied, deny closed",
        "Denied: ToolNotFound",
        "Cancelled: the user stopped it"
      ])
    }))
})
