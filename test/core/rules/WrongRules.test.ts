/** What a rule set can have wrong with it, and what it may well have. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import * as RuleWalk from "../../../src/policy/RuleWalk.ts"

const schema = {
  type: "object",
  properties: { op: { enum: ["x", "y"] }, n: { type: "integer" } },
  required: ["n"],
  additionalProperties: false
}

const tools = new Map<string, RuleSet.RuleTool>([
  ["a", {}],
  ["b", {}],
  ["c", {}],
  ["d", {}],
  ["typed", { jsonSchema: schema }]
])

type Rule = { readonly _tag: string; readonly [key: string]: unknown }

const rule = (_tag: string, fields: object): Rule => ({ _tag, ...fields })

const start = (tool: string, mode?: string) => rule("StartConstraint", mode === undefined ? { tool } : { tool, mode })
const before = (tool: string, ...needed: ReadonlyArray<string>) =>
  rule("RequiresPrecedingTools", { tool, tools: needed })
const never = (tool: string, ...after: ReadonlyArray<string>) => rule("RequiresFollowingTools", { tool, tools: after })
const children = (tool: string, ...names: ReadonlyArray<string>) => rule("ChildTools", { tool, children: names })
const parent = (tool: string, ...names: ReadonlyArray<string>) => rule("ParentTools", { tool, children: names })
const max = (tool: string, most: number) => rule("MaxCalls", { tool, max: most })
const group = (...names: ReadonlyArray<string>) => rule("ExclusiveGroup", { tools: names })
const required = (tool: string, ...when: ReadonlyArray<string>) =>
  rule("RequiredBeforeExit", when.length === 0 ? { tool } : { tool, when })
const exit = (tool: string) => rule("ExitLoop", { tool })
const periodic = (tool: string, schedule = "1 minute", params?: object) =>
  rule("Periodic", params === undefined ? { tool, schedule } : { tool, schedule, params })
const prefilled = (child: string, values: object) =>
  rule("ChildTools", { tool: "a", children: ["b", "typed"], prefilled: { [child]: values } })
const operations = (tool: string, field: string, ...allowed: ReadonlyArray<unknown>) =>
  rule("AllowedOperations", { tool, field, allowed })
const route = (more: object) =>
  rule("Conditional", { tool: "a", path: "kind", cases: [{ equals: 1, tool: "b" }], ...more })

const wrong: ReadonlyArray<readonly [what: string, rules: ReadonlyArray<unknown>, ...expected: ReadonlyArray<string>]> =
  [
    [
      "no object",
      ["x", null, [], 3],
      "rules[0]: it is \"x\"",
      "rules[1]: it is null",
      "rules[2]: it is []",
      "rules[3]: it is 3"
    ],
    ["no tag", [{ tool: "a" }], "rules[0]._tag: it is missing"],
    ["an unknown tag", [rule("MaxCals", { tool: "a" })], "rules[0]._tag: it is \"MaxCals\""],
    ["a tag that every object has", [rule("constructor", { tool: "a" })], "rules[0]._tag: it is \"constructor\""],
    ["a negative cap", [max("a", -1)], "rules[0].max: it is -1"],
    ["half a call", [max("a", 0.5)], "rules[0].max: it is 0.5"],
    ["a missing field", [rule("MaxCalls", { tool: "a" })], "rules[0].max: it is missing"],
    ["an unknown key", [rule("ExitLoop", { tool: "a", tol: 1 })], "rules[0].tol: this key is unknown"],
    ["a malformed duration", [rule("Cooldown", { tool: "a", duration: "soon" })], "rules[0].duration: it is \"soon\""],
    ["no duration", [rule("Cooldown", { tool: "a", duration: "0 millis" })], "rules[0].duration: it is \"0 millis\""],
    ["a malformed schedule", [periodic("a", "61 * * * *")], "rules[0].schedule: it is \"61 * * * *\""],
    ["a malformed path", [route({ path: "a..b" })], "rules[0].path: it is \"a..b\""],
    ["an empty list", [rule("ExclusiveGroup", { tools: [] })], "rules[0].tools"],
    ["an unknown subject", [max("z", 1)], "rules[0].tool: there is no tool \"z\""],
    ["an unknown prerequisite", [before("a", "b", "z")], "rules[0].tools[1]: there is no tool \"z\""],
    ["an unknown child", [children("a", "z")], "rules[0].children[0]: there is no tool \"z\""],
    [
      "an unknown case",
      [route({ cases: [{ equals: 1, tool: "z" }], default: "y" })],
      "rules[0].cases[0].tool",
      "rules[0].default"
    ],
    ["an unknown condition", [required("a", "z")], "rules[0].when[0]: there is no tool \"z\""],
    ["an unknown member", [group("a", "z")], "rules[0].tools[1]: there is no tool \"z\""],
    ["a prefilled stranger", [prefilled("z", {})], "rules[0].prefilled.z: there is no tool \"z\""],
    ["* as a start tool", [start("*")], "rules[0].tool: * cannot be used here"],
    ["* as a periodic tool", [periodic("*")], "rules[0].tool: * cannot be used here"],
    ["* in a list", [before("a", "*")], "rules[0].tools[0]: * cannot be used here"],
    ["a tool that needs itself", [before("a", "a")], "rules[0]: a cycle: \"a\" needs \"a\""],
    ["a cycle of two", [before("a", "b"), before("b", "a")], "rules[0]: a cycle: \"a\" needs \"b\" needs \"a\""],
    ["a cycle of three", [before("a", "b"), before("b", "c"), before("c", "a")], "rules[0]: a cycle"],
    ["a cycle through a start tool", [start("a"), before("a", "b")], "a cycle: "],
    ["a cycle through a parent", [parent("a", "b"), before("a", "b")], "a cycle: "],
    ["a required tool that may not run", [required("a"), max("a", 0)], "rules[0].tool: \"a\" can never run: MaxCalls"],
    ["a start tool that may not run", [start("a"), max("*", 0)], "rules[0].tool: \"a\" can never run"],
    ["a prerequisite that may not run", [before("a", "b"), max("b", 0)], "rules[0].tools[0]: \"b\" can never run"],
    [
      "an exit tool behind one that may not run",
      [exit("a"), before("a", "b"), max("b", 0)],
      "rules[0].tool: \"a\" can never run"
    ],
    ["needed and forbidden", [before("a", "b"), never("a", "b")], "rules[1]: a contradiction: \"a\" needs \"b\""],
    ["needed at the start and forbidden", [start("b"), never("a", "b")], "rules[1]: a contradiction"],
    ["needed and excluded", [before("a", "b"), group("a", "b")], "rules[1]: a contradiction"],
    [
      "both required and only one allowed",
      [required("a"), required("b"), group("a", "b")],
      "rules[2]: \"a\" (rules[0])"
    ],
    [
      "nothing left to follow",
      [children("a", "b"), children("a", "c")],
      "rules[1]: a contradiction: right after \"a\""
    ],
    ["a child that may not follow", [children("a", "b"), parent("c", "b")], "right after \"a\" nothing may be called"],
    ["a parent that forbids its child", [parent("a", "b"), children("a", "c")], "a contradiction"],
    [
      "both never and always",
      [rule("NeverDedupe", { tool: "a" }), rule("AlwaysDedupe", { tool: "a" })],
      "rules[1]: it contradicts"
    ],
    [
      "an exit tool that waits for what waits for it",
      [start("a"), parent("a", "c"), before("c", "b"), exit("b")],
      "rules[1]: a contradiction: right after \"a\"",
      "rules[1]: \"c\" can never run",
      "rules[2].tools[0]: \"b\" can never run",
      "rules[3].tool: \"b\" can never run"
    ],
    [
      "two prerequisites of which one may be used",
      [before("a", "b", "c"), group("b", "c")],
      "rules[0]: \"a\" can never"
    ],
    [
      "a parent and its child of which one may be used",
      [parent("a", "b"), group("a", "b")],
      "rules[1]: a contradiction"
    ],
    [
      "a child that needs what comes only after its parent",
      [parent("a", "b"), before("b", "c"), before("c", "a"), max("a", 1)],
      "\"b\" can never run",
      "\"c\" can never run"
    ],
    ["conditions of one tool that lead apart", [
      route({ cases: [], default: "b" }),
      route({ cases: [], default: "c" })
    ], "rules[1]: a contradiction: right after \"a\""],
    [
      "start tools that forbid each other",
      [start("a"), start("b"), never("a", "b"), never("b", "a")],
      "rules[1]: a contradiction: the start tools"
    ],
    ["all required and one not allowed", [required("*"), max("a", 0)], "rules[0]: a contradiction: the work can never"],
    ["all required and a group", [required("*"), group("a", "b")], "rules[0]: a contradiction: the work can never"],
    [
      "three lists of values without one in common",
      [operations("a", "op", "x", "y"), operations("a", "op", "y", "z"), operations("a", "op", "x", "z")],
      "rules[2]: it has no value in common"
    ],
    [
      "values of one tool against those of all",
      [operations("*", "op", "x"), operations("a", "op", "y")],
      "rules[1]: it"
    ],
    ["values of all against those of one", [operations("a", "op", "y"), operations("*", "op", "x")], "rules[1]: it"],
    ["a rest without end", [rule("Cooldown", { tool: "a", duration: "Infinity" })], "rules[0].duration: it is"],
    ["a schedule that never comes", [periodic("a", "0 0 30 2 *")], "rules[0].schedule: it is"],
    [
      "a path with a hole at its beginning",
      [route({ path: "$..a" }), route({ path: ".a" })],
      "rules[0].path",
      "rules[1].path"
    ],
    ["a group of one", [group("a", "a")], "rules[0].tools: it lists only one tool"],
    ["a condition on itself", [required("a", "a")], "rules[0].when: it waits for \"a\" itself"],
    ["a case that is never reached", [
      route({ cases: [{ equals: { x: 1 }, tool: "b" }, { equals: { x: 1 }, tool: "c" }] })
    ], "rules[0].cases[1]"],
    ["strict beside a default", [route({ default: "c", strict: true })], "rules[0].strict: it has no effect"],
    ["no case at all", [route({ cases: [] })], "rules[0].cases: it is empty"],
    [
      "an argument that is not there",
      [operations("typed", "m", 1)],
      "rules[0].field: \"typed\" has no parameter \"m\""
    ],
    [
      "a value that is not there",
      [operations("typed", "op", "x", "z")],
      "rules[0].allowed[1]: \"z\" is not a valid \"op\""
    ],
    ["no value in common", [operations("a", "f", 1), operations("a", "f", 2)], "rules[1]: it has no value in common"],
    ["a prefilled tool that is no child", [prefilled("c", {})], "rules[0].prefilled.c: it is not among the children"],
    [
      "a prefilled argument that is not there",
      [prefilled("typed", { m: 1 })],
      "rules[0].prefilled.typed.m: \"typed\" has no"
    ],
    [
      "a prefilled value that does not fit",
      [prefilled("typed", { n: "1" })],
      "rules[0].prefilled.typed.n: \"1\" is not a valid \"n\""
    ],
    [
      "two prefilled values",
      [prefilled("b", { x: 1 }), prefilled("b", { x: 2 })],
      "rules[1].prefilled.b.x: another rule"
    ],
    [
      "a prefilled value that is not allowed",
      [prefilled("b", { f: 2 }), operations("b", "f", 1)],
      "rules[0].prefilled.b.f: it is 2"
    ],
    ["a periodic tool that needs others", [periodic("a"), before("a", "b")], "rules[0].tool: \"a\" needs \"b\" first"],
    ["a periodic tool behind a start tool", [periodic("a"), start("b")], "rules[0].tool: \"a\" needs \"b\" first"],
    ["a periodic tool without its arguments", [periodic("typed")], "rules[0].params: they do not match"],
    [
      "a periodic tool with other arguments",
      [periodic("typed", "1 minute", { n: "1" })],
      "rules[0].params: they do not match"
    ]
  ]

const right: ReadonlyArray<readonly [what: string, rules: ReadonlyArray<unknown>]> = [
  ["nothing", []],
  ["a chain", [before("b", "a"), before("c", "b"), before("d", "c", "a")]],
  ["* but the listed", [before("*", "a", "b")]],
  ["* forbidden after one", [never("*", "d")]],
  ["a start tool and a chain", [start("a"), before("c", "b")]],
  ["two start tools in order", [start("a"), start("b"), before("b", "a")]],
  ["alternatives at the start", [start("a", "any"), start("b", "any"), max("a", 1)]],
  ["alternatives of which only one may be used", [start("a", "any"), start("b", "any"), group("a", "b")]],
  ["a tool that nobody needs and may not run", [max("d", 0)]],
  ["mutual exclusion", [never("a", "b"), never("b", "a")]],
  ["once and never again", [never("a", "a")]],
  ["children that lead back", [children("a", "b"), children("b", "a")]],
  ["children of any tool", [children("*", "a", "b")]],
  ["several parents", [parent("a", "c"), parent("b", "c")]],
  ["parents of any tool", [parent("*", "c")]],
  ["children and parents of one pair", [children("a", "b"), parent("a", "b")]],
  ["a loop of conditions", [
    route({}),
    rule("Conditional", { tool: "b", path: "", cases: [{ equals: true, tool: "a" }] })
  ]],
  ["a condition that leads nowhere else", [route({ strict: true })]],
  ["a condition with a default alone", [route({ cases: [], default: "c" })]],
  ["an exit behind what is required", [required("a"), exit("b"), before("b", "a")]],
  ["required only when", [required("b", "a"), required("c", "a"), group("b", "c")]],
  ["required in the batch", [rule("RequiredBeforeExit", { tool: "a", scope: "batch" })]],
  ["required after which it is forbidden", [required("a"), never("a", "a")]],
  ["an exclusive pair with a prerequisite for both", [group("a", "b"), before("a", "c"), before("b", "c")]],
  ["limits and rests of all", [max("*", 5), rule("Cooldown", { tool: "*", duration: "1 second" }), max("a", 1)]],
  ["values in common", [operations("typed", "op", "x", "y"), operations("typed", "op", "x")]],
  ["values of any tool", [operations("*", "op", "x")]],
  ["arguments from the host", [prefilled("typed", { n: 1, op: "x" }), operations("typed", "op", "x")]],
  ["equal arguments from two rules", [prefilled("b", { x: { y: 1 } }), prefilled("b", { x: { y: 1 } })]],
  ["never of one, always of the rest", [rule("NeverDedupe", { tool: "a" }), rule("AlwaysDedupe", { tool: "*" })]],
  ["a periodic tool with arguments", [periodic("typed", "0 6 * * *", { n: 1 })]],
  ["a periodic start tool", [periodic("a"), start("a")]],
  ["consent of every kind", ["call", "resources", "tool"].map((scope) => rule("RequiresConsent", { tool: "a", scope }))]
]

/** Only `rules check`, which tries every order of calls, finds these. */
const onlyByWalk = new Set([
  "an exit tool that waits for what waits for it",
  "conditions of one tool that lead apart",
  "two prerequisites of which one may be used",
  "a child that needs what comes only after its parent",
  "start tools that forbid each other",
  "all required and one not allowed",
  "all required and a group"
])

const told = (rules: ReadonlyArray<unknown>) =>
  RuleWalk.problems(rules, tools).map(({ path, problem }) => `${path}: ${problem}`)

describe("a wrong rule set", () => {
  for (const [what, rules, ...expected] of wrong) {
    it(`says what is wrong with ${what}`, () => {
      const problems = told(rules)
      for (const text of expected) {
        assert.isTrue(problems.some((it) => it.includes(text)), `${text} in ${JSON.stringify(problems)}`)
      }
      assert.isAtMost(problems.length, expected.length + 1, JSON.stringify(problems))
      for (const { expected, problem } of RuleWalk.problems(rules, tools)) assert.isNotEmpty(`${expected}${problem}`)
      assert.strictEqual(RuleSet.problems(rules, tools).length === 0, onlyByWalk.has(what), "a layer finds it")
    })
  }

  it("reports all problems together, in the order of the rules", { tags: ["R1", "Y1"] }, () => {
    const problems = RuleSet.problems([
      before("a", "b"),
      rule("MaxCals", {}),
      max("z", -1),
      before("b", "a"),
      rule("Cooldown", { tool: "c", duration: "x" }),
      max("z", 1)
    ], tools)
    assert.deepStrictEqual(problems.map((it) => it.path), [
      "rules[0]",
      "rules[1]._tag",
      "rules[2].max",
      "rules[4].duration",
      "rules[5].tool"
    ])
  })

  it("finds the rules that tools bring, at their place", () => {
    const own = new Map<string, RuleSet.RuleTool>([["a", { rules: [{ _tag: "MaxCalls", max: -1 }] }], ["b", {}]])
    assert.deepStrictEqual(RuleSet.problems([max("b", -1)], own).map((it) => it.path), [
      "rules[0].max",
      "tools.a.rules[0].max"
    ])
  })

  it.prop(
    "is any JSON without a rule in it, and is told so without a crash",
    [Schema.Array(Schema.Json).check(Schema.isMaxLength(4))],
    ([rules]) => {
      const problems = RuleSet.problems(rules, tools)
      assert.isAtLeast(problems.length, rules.length)
    }
  )

  it("may name tools as it likes", () => {
    const names = ["__proto__", "constructor", "toString", "", "\n", "x".repeat(100_000)]
    for (const name of names) {
      for (const rules of [[max(name, 1)], [prefilled(name, { __proto__: 1 })], [before("a", name)]]) {
        assert.isNotEmpty(told(rules), JSON.stringify(name.slice(0, 20)))
      }
      if (name === "") continue
      const strange = new Map<string, RuleSet.RuleTool>([[name, {}], ["a", {}]])
      assert.deepStrictEqual(RuleSet.problems([max(name, 1), before("a", name), children(name, "a")], strange), [])
    }
  })
})

describe("a rule set", () => {
  for (const [what, rules] of right) {
    it(`may have ${what}`, () => {
      assert.deepStrictEqual(told(rules), [])
      assert.deepStrictEqual(RuleSet.problems(rules, tools), [])
      const set = RuleSet.make(rules as ReadonlyArray<never>, tools.keys())
      const history = RuleSet.history(set, [])
      assert.isNotEmpty(RuleSet.allowedNext(set, history), "something may come first")
      for (const tool of RuleSet.forcedNext(set, history)) assert.include(RuleSet.allowedNext(set, history), tool)
      for (const sentence of RuleSet.describe(set)) assert.match(sentence, /^["A-Z].*\.$/su)
      assert.match(RuleSet.graph(set), /^flowchart TD/u)
    })
  }

  it("is checked without knowing the tools", () => {
    assert.deepStrictEqual(RuleSet.problems([before("x", "y"), max("z", 1)]), [])
    assert.deepStrictEqual(RuleSet.namesIn([before("x", "y"), max("*", 1)] as unknown as ReadonlyArray<never>), [
      "x",
      "y"
    ])
    assert.lengthOf(RuleSet.problems([before("x", "y"), before("y", "x")]), 1)
  })
})
