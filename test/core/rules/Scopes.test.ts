/** Where rules count: what a set says of it, and which scopes are refused. */
import { assert, describe, it } from "@effect/vitest"
import { kinds, type Tag, type ToolRule } from "../../../src/core/rules/RuleKinds.ts"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import * as RuleWalk from "../../../src/policy/RuleWalk.ts"

const names = ["a", "b", "c"]
const known = new Map(names.map((name) => [name, {}]))

/** A rule of each kind that takes a scope. */
const scoped: ReadonlyArray<ToolRule> = [
  { _tag: "StartConstraint", tool: "a" },
  { _tag: "RequiresPrecedingTools", tool: "b", tools: ["a"] },
  { _tag: "RequiresFollowingTools", tool: "b", tools: ["c"] },
  { _tag: "ChildTools", tool: "a", children: ["b"] },
  { _tag: "ParentTools", tool: "a", children: ["b"] },
  { _tag: "Conditional", tool: "a", path: "kind", cases: [{ equals: 1, tool: "b" }] },
  { _tag: "MaxCalls", tool: "a", max: 2 },
  { _tag: "ExclusiveGroup", tools: ["a", "b"] },
  { _tag: "RequiredBeforeExit", tool: "a" },
  { _tag: "Cooldown", tool: "a", duration: "1 minute" },
  { _tag: "AlwaysDedupe", tool: "a" }
]

const unscoped: ReadonlyArray<ToolRule> = [
  { _tag: "AllowedOperations", tool: "a", field: "mode", allowed: ["x"] },
  { _tag: "ExitLoop", tool: "a" },
  { _tag: "ContinueLoop", tool: "a" },
  { _tag: "NeverDedupe", tool: "a" },
  { _tag: "Periodic", tool: "a", schedule: "1 minute" }
]

const within = (rule: ToolRule, scope: string): ToolRule => ({ ...rule, scope }) as ToolRule

describe("the scope of a rule", () => {
  it("is taken or refused by every kind, and consent has its own", { tags: ["R10"] }, () => {
    const all = [...scoped, ...unscoped].map((it) => it._tag)
    assert.sameMembers([...all, "RequiresConsent"], Object.keys(kinds) as Array<Tag>)
    for (const rule of scoped) {
      for (const scope of ["process", "batch", "session"]) {
        assert.deepStrictEqual(RuleSet.problems([within(rule, scope)], known), [], `${rule._tag} ${scope}`)
      }
      const [problem] = RuleSet.problems([within(rule, "conversation")], known)
      assert.strictEqual(problem?.path, "rules[0].scope", rule._tag)
    }
  })

  for (const rule of unscoped) {
    it(`is refused by ${rule._tag}, with why`, () => {
      const { none } = kinds[rule._tag].scope as { readonly none: string }
      assert.deepStrictEqual(RuleSet.problems([within(rule, "session")], known), [{
        path: "rules[0].scope",
        problem: `${rule._tag} takes no scope: ${none}`,
        expected: "the rule without it"
      }])
    })
  }

  it("is in the sentence of the rule, where it is not the default of its kind", () => {
    for (const rule of scoped) {
      const plain = RuleSet.sentence(rule)
      const { scope } = kinds[rule._tag]
      if (scope === "process") assert.strictEqual(RuleSet.sentence(within(rule, "process")), plain)
      if (scope === "batch") assert.strictEqual(RuleSet.sentence(within(rule, "batch")), plain)
      assert.match(RuleSet.sentence(within(rule, "session")), /^In this conversation, ["a-z]/)
      assert.deepStrictEqual(
        RuleSet.describe(RuleSet.make([within(rule, "session")], names)),
        [RuleSet.sentence(within(rule, "session"))]
      )
    }
  })

  for (
    const [scope, rule, sentence] of [
      [
        "session",
        scoped[1]!,
        "In this conversation, \"b\" may be called only after \"a\" has succeeded."
      ],
      ["session", scoped[2]!, "In this conversation, \"b\" may no longer be called once \"c\" has succeeded."],
      ["session", scoped[3]!, "In this conversation, right after \"a\" only \"b\" may be called."],
      ["session", scoped[6]!, "In this conversation, \"a\" may be called at most 2 times."],
      ["process", scoped[6]!, "In this turn, \"a\" may be called at most 2 times."],
      ["batch", scoped[0]!, "In this request, \"a\" has to succeed before any other tool is called."],
      [
        "session",
        scoped[7]!,
        "In this conversation, use only one of \"a\" and \"b\": whichever is called first. That one may be called again."
      ]
    ] as const
  ) {
    it(`reads well: ${sentence}`, () => assert.strictEqual(RuleSet.sentence(within(rule, scope)), sentence))
  }

  it("is on the arrows and notes of the picture", () => {
    const graph = RuleSet.graph(RuleSet.make([within(scoped[1]!, "session"), within(scoped[6]!, "session")], names))
    assert.include(graph, "t0 -->|\"per conversation\"| t1")
    assert.include(graph, "at most 2 per conversation")
  })

  it("is told apart: each rule looks at the past of its own scope", () => {
    const rules = [within(scoped[1]!, "session"), { _tag: "RequiresPrecedingTools", tool: "c", tools: ["a"] }] as const
    const set = RuleSet.make(rules, names)
    const before = (past: Parameters<typeof RuleSet.history>[2]) =>
      RuleSet.allowedNext(set, RuleSet.history(set, [], past)).join("")
    assert.strictEqual(before({}), "a")
    assert.strictEqual(before({ session: [{ tool: "a" }] }), "ab")
    assert.strictEqual(before({ batch: [{ tool: "a" }] }), "ab")
    assert.strictEqual(RuleSet.allowedNext(set, RuleSet.history(set, [{ tool: "a" }])).join(""), "abc")
  })

  it("decides which rules contradict each other", () => {
    const needs = (scope: string) => within({ _tag: "RequiresPrecedingTools", tool: "b", tools: ["a"] }, scope)
    const notAfter = (scope: string) => within({ _tag: "RequiresFollowingTools", tool: "b", tools: ["a"] }, scope)
    const group = (scope: string) => within({ _tag: "ExclusiveGroup", tools: ["a", "b"] }, scope)
    const isWrong = (...rules: ReadonlyArray<ToolRule>) => {
      const [quick, whole] = [RuleSet.problems(rules, known), RuleWalk.problems(rules, known)]
      assert.strictEqual(quick.length > 0, whole.length > 0, JSON.stringify(rules))
      return quick.length > 0
    }
    const order = ["process", "batch", "session"]
    for (const [narrow, one] of order.entries()) {
      for (const [wide, other] of order.entries()) {
        // what was needed earlier in a conversation may be forbidden after something of this turn
        assert.strictEqual(isWrong(needs(one), notAfter(other)), narrow <= wide, `${one} ${other}`)
        assert.strictEqual(isWrong(needs(one), group(other)), narrow <= wide, `${one} ${other}`)
      }
    }
    const periodic: ToolRule = { _tag: "Periodic", tool: "b", schedule: "1 minute" }
    assert.deepStrictEqual(order.map((scope) => isWrong(needs(scope), periodic)), [true, true, false])
    assert.isTrue(isWrong(needs("session"), within({ _tag: "MaxCalls", tool: "a", max: 0 }, "session")))
    const cycle = within({ _tag: "RequiresPrecedingTools", tool: "a", tools: ["b"] }, "session")
    assert.isTrue(isWrong(needs("process"), cycle))
  })
})
