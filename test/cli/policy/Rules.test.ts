import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, run } from "../harness.ts"

const rules = [
  { _tag: "StartConstraint", tool: "login" },
  { _tag: "MaxCalls", tool: "request", max: 5 },
  { _tag: "RequiredBeforeExit", tool: "logout", when: ["login"] },
  { _tag: "Periodic", tool: "login", schedule: "1 hour" }
]

const cyclic = [
  { _tag: "RequiresPrecedingTools", tool: "a", tools: ["b"] },
  { _tag: "RequiresPrecedingTools", tool: "b", tools: ["a"] },
  { _tag: "MaxCals", tool: "a", max: 1 },
  { _tag: "MaxCalls", tool: "a", max: -1 },
  { _tag: "Cooldown", tool: "a", duration: "soon" }
]

describe("tool-executor rules check", () => {
  it.live("says how much it has checked", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "rules.json": rules })
      const { code, stderr, stdout } = yield* run(["rules", "check", file("rules.json")])
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, `${file("rules.json")}: 4 rules for 3 tools, no problems\n`)
      assert.strictEqual(stderr, "")
    }))

  it.live("ends with 1 and lists every problem at once, each with its path", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "rules.json": { tools: ["a", "b"], rules: [...cyclic, rules[0]] } })
      const { code, stderr, stdout } = yield* run(["rules", "check", file("rules.json")])
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "")
      assert.match(stderr, /rules\.json: 5 problems\n/)
      for (const place of ["rules[0]: a cycle", "rules[2]._tag: it is \"MaxCals\"", "rules[3].max: it is -1"]) {
        assert.include(stderr, `  ${place}`)
      }
      assert.include(stderr, "  rules[4].duration: it is \"soon\"; expected a duration")
      assert.include(stderr, "  rules[5].tool: there is no tool \"login\"; expected one of a, b")
    }))

  it.live("knows the tools of a scenario and those of a config", () =>
    Effect.gen(function*() {
      const parameters = { type: "object", properties: { mode: { enum: ["r"] } }, additionalProperties: false }
      const allowed = { _tag: "AllowedOperations", tool: "read", field: "mode", allowed: ["w"] }
      const { file } = yield* folder({
        "scenario.json": { name: "s", tools: { read: { parameters } }, rules: [allowed], script: [] },
        "config.json": { rules: [{ _tag: "MaxCalls", tool: "read_file", max: 3 }, rules[0]] }
      })
      const scenario = yield* run(["rules", "check", file("scenario.json")])
      assert.strictEqual(scenario.code, 1)
      assert.include(scenario.stderr, "rules[0].allowed[0]: \"w\" is not a valid \"mode\" of \"read\"")
      const config = yield* run(["rules", "check", file("config.json")])
      assert.strictEqual(config.code, 1)
      assert.include(config.stderr, "1 problem\n  rules[1].tool: there is no tool \"login\"; expected one of read_file")
    }))

  it.live("ends with 2 where there is nothing to check", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "none.json": { colour: 1 }, "syntax.json": "[" })
      for (
        const [name, says] of [["none.json", "the file contains no rules"], ["syntax.json", "it is not JSON"], [
          "gone.json",
          "there is no such file"
        ]] as const
      ) {
        const { code, stderr } = yield* run(["rules", "check", file(name)])
        assert.strictEqual(code, 2, name)
        assert.include(stderr, says)
      }
    }))

  it.live("shows no control characters of a file", () =>
    Effect.gen(function*() {
      const hostile = "evil\u001b[2J\u202e"
      const { file } = yield* folder({
        "bad.json": [{ _tag: hostile }],
        "good.json": [{ _tag: "MaxCalls", tool: hostile, max: 1 }]
      })
      for (const command of ["check", "explain", "graph"]) {
        for (const name of ["bad.json", "good.json"]) {
          const { stderr, stdout } = yield* run(["rules", command, file(name)])
          for (const hidden of ["\u001b", "\u202e"]) assert.notInclude(stdout + stderr, hidden, `${command} ${name}`)
        }
      }
    }))
})

describe("tool-executor rules explain", () => {
  it.live("lists no tool that may not be called among those that may come first", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "rules.json": { tools: ["a", "b"], rules: [{ _tag: "MaxCalls", tool: "b", max: 0 }] }
      })
      const { stdout } = yield* run(["rules", "explain", file("rules.json")])
      assert.deepStrictEqual(stdout.trim().split("\n"), [
        "\"b\" may not be called.",
        "",
        "Tools that may be called first: a"
      ])
    }))

  it.live("prints a sentence per rule and what may come first", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "rules.json": rules })
      const { code, stdout } = yield* run(["rules", "explain", file("rules.json")])
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(stdout.split("\n"), [
        "\"login\" has to succeed before any other tool is called.",
        "\"request\" may be called at most 5 times per request.",
        "Once \"login\" has succeeded, \"logout\" has to succeed before the work may end.",
        "\"login\" is run by the host, every 1 hour.",
        "",
        "Tools that may be called first: login",
        ""
      ])
    }))

  it.live("explains no set that is wrong", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "rules.json": cyclic })
      const { code, stderr, stdout } = yield* run(["rules", "explain", file("rules.json")])
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "")
      assert.include(stderr, "a cycle")
    }))
})

describe("tool-executor rules graph", () => {
  it.live("draws the order as a Mermaid flowchart", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "rules.json": {
          tools: ["login", "request", "logout", "search", "open", "say \"hi\"", "unrestrained"],
          rules: [
            ...rules.slice(0, 3),
            { _tag: "RequiresPrecedingTools", tool: "request", tools: ["search"] },
            { _tag: "RequiresFollowingTools", tool: "request", tools: ["logout"] },
            { _tag: "ParentTools", tool: "search", children: ["open"] },
            { _tag: "Conditional", tool: "open", path: "kind", cases: [{ equals: "a|b", tool: "say \"hi\"" }] },
            { _tag: "ExclusiveGroup", tools: ["request", "say \"hi\""] },
            { _tag: "ExitLoop", tool: "logout" }
          ]
        }
      })
      const { code, stdout } = yield* run(["rules", "graph", file("rules.json")])
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(stdout.trimEnd().split("\n").map((line) => line.trim()), [
        "flowchart TD",
        "start([\"start\"])",
        "t0[\"login\"]",
        "t1[\"request<br/>at most 5\"]",
        "t2[\"logout\"]",
        "t3[\"search\"]",
        "t4[\"open\"]",
        "t5[\"say #34;hi#34;\"]",
        "any[\"any tool\"]",
        "exit([\"exit\"])",
        "start ==>|\"first\"| t0",
        "t0 --> any",
        "t0 -->|\"demands\"| t2",
        "t2 -->|\"required\"| exit",
        "t3 --> t1",
        "t2 -.->|\"no more\"| t1",
        "t3 ==>|\"next, and only so\"| t4",
        "t4 ==>|\"kind = #34;a#124;b#34;\"| t5",
        "t1 -.-|\"only one\"| t5",
        "t2 ==>|\"ends\"| exit"
      ])
    }))

  it.live("writes whatever a file holds so that it stays one text", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "rules.json": [{ _tag: "MaxCalls", tool: "a\"] --> b\n%%<script>&quot;`#", max: 1 }]
      })
      const { stdout } = yield* run(["rules", "graph", file("rules.json")])
      assert.strictEqual(
        stdout,
        "flowchart TD\n  t0[\"a#34;#93; --#62; b#10;#37;#37;#60;script#62;#38;quot#59;#96;#35;<br/>at most 1\"]\n"
      )
    }))
})
