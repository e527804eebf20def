import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { Tool, Toolkit } from "effect/ai"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { kindOf, kinds } from "../../../src/core/rules/RuleKinds.ts"
import * as ToolRule from "../../../src/core/rules/ToolRule.ts"
import { RuleSet, ToolAnnotations } from "../../../src/index.ts"

const Search = Tool.make("search", {
  parameters: Schema.Struct({ query: Schema.String, mode: Schema.Literals(["fast", "deep"]) })
})
const Login = Tool.make("login")
const kit = Toolkit.make(Search, Login)
const rule = ToolRule.for(kit)

describe("the constructors of rules", () => {
  it("make the data of every kind", () => {
    assert.deepStrictEqual<ReadonlyArray<ToolRule.ToolRule>>([
      rule.startConstraint("login"),
      rule.startConstraint("login", { mode: "any" }),
      rule.requiresPrecedingTools("*", ["login"]),
      rule.requiresFollowingTools("search", ["login"]),
      rule.childTools("login", ["search"], { prefilled: { search: { mode: "fast" } } }),
      rule.childTools("*", ["search"]),
      rule.parentTools("login", ["search"]),
      rule.conditional("search", { path: "kind", cases: [{ equals: 1, tool: "login" }], strict: true }),
      rule.allowedOperations("search", "mode", ["fast"]),
      rule.maxCalls("search", 3),
      rule.exclusiveGroup(["login", "search"]),
      rule.requiredBeforeExit("search", { when: ["login"], scope: "batch" }),
      rule.exitLoop("search"),
      rule.continueLoop("*"),
      rule.cooldown("search", "2 seconds"),
      rule.cooldown("search", { minutes: 1 }),
      rule.requiresConsent("login", { scope: "call" }),
      rule.neverDedupe("search"),
      rule.alwaysDedupe("login"),
      rule.periodic("search", "0 6 * * *", { query: "news", mode: "deep" })
    ], [
      { _tag: "StartConstraint", tool: "login" },
      { _tag: "StartConstraint", tool: "login", mode: "any" },
      { _tag: "RequiresPrecedingTools", tool: "*", tools: ["login"] },
      { _tag: "RequiresFollowingTools", tool: "search", tools: ["login"] },
      { _tag: "ChildTools", tool: "login", children: ["search"], prefilled: { search: { mode: "fast" } } },
      { _tag: "ChildTools", tool: "*", children: ["search"] },
      { _tag: "ParentTools", tool: "login", children: ["search"] },
      { _tag: "Conditional", tool: "search", path: "kind", cases: [{ equals: 1, tool: "login" }], strict: true },
      { _tag: "AllowedOperations", tool: "search", field: "mode", allowed: ["fast"] },
      { _tag: "MaxCalls", tool: "search", max: 3 },
      { _tag: "ExclusiveGroup", tools: ["login", "search"] },
      { _tag: "RequiredBeforeExit", tool: "search", when: ["login"], scope: "batch" },
      { _tag: "ExitLoop", tool: "search" },
      { _tag: "ContinueLoop", tool: "*" },
      { _tag: "Cooldown", tool: "search", duration: "2 seconds" },
      { _tag: "Cooldown", tool: "search", duration: "60000 millis" },
      { _tag: "RequiresConsent", tool: "login", scope: "call" },
      { _tag: "NeverDedupe", tool: "search" },
      { _tag: "AlwaysDedupe", tool: "login" },
      { _tag: "Periodic", tool: "search", schedule: "0 6 * * *", params: { query: "news", mode: "deep" } }
    ])
  })

  it("keep a duration that is none, for the check of the whole set", () => {
    const wrong = rule.cooldown("search", -1)
    assert.deepStrictEqual(RuleSet.problems([wrong]).map((it) => it.path), ["rules[0].duration"])
  })

  it("take no name, argument or value that the toolkit does not have", () => {
    // @ts-expect-error no such tool
    rule.maxCalls("serach", 3)
    // @ts-expect-error no such tool
    rule.requiresPrecedingTools("search", ["logon"])
    // @ts-expect-error * is no start tool
    rule.startConstraint("*")
    // @ts-expect-error a list with nothing in it
    rule.exclusiveGroup([])
    // @ts-expect-error no such argument
    rule.allowedOperations("search", "moode", ["fast"])
    // @ts-expect-error no such value
    rule.allowedOperations("search", "mode", ["slow"])
    // @ts-expect-error no such argument
    rule.childTools("login", ["search"], { prefilled: { search: { moode: "fast" } } })
    // @ts-expect-error no such tool
    rule.conditional("search", { path: "", cases: [{ equals: 1, tool: "logon" }] })
    // @ts-expect-error an argument is missing
    rule.periodic("search", "1 hour", { query: "news" })
    // @ts-expect-error a tool brings rules about itself
    Login.annotate(ToolAnnotations.Rules, [{ _tag: "MaxCalls", tool: "search", max: 1 }])
    Login.annotate(ToolAnnotations.Rules, [{ _tag: "MaxCalls", max: 1 }])
    expectTypeOf(rule.maxCalls("search", 3)).toEqualTypeOf<ToolRule.Of<"MaxCalls">>()
    expectTypeOf(ToolRule.for([kit, Toolkit.make(Tool.make("extra"))]).exitLoop).parameter(0)
      .toEqualTypeOf<"search" | "login" | "extra" | "*">()
  })
})

describe("every kind of rule", () => {
  const samples: { readonly [T in ToolRule.Tag]: ToolRule.Of<T> } = {
    StartConstraint: rule.startConstraint("login"),
    RequiresPrecedingTools: rule.requiresPrecedingTools("search", ["login"]),
    RequiresFollowingTools: rule.requiresFollowingTools("search", ["login"]),
    ChildTools: rule.childTools("login", ["search"]),
    ParentTools: rule.parentTools("login", ["search"]),
    Conditional: rule.conditional("search", { path: "kind", cases: [{ equals: 1, tool: "login" }] }),
    AllowedOperations: rule.allowedOperations("search", "mode", ["fast"]),
    MaxCalls: rule.maxCalls("search", 3),
    ExclusiveGroup: rule.exclusiveGroup(["login", "search"]),
    RequiredBeforeExit: rule.requiredBeforeExit("search"),
    ExitLoop: rule.exitLoop("search"),
    ContinueLoop: rule.continueLoop("search"),
    Cooldown: rule.cooldown("search", "2 seconds"),
    RequiresConsent: rule.requiresConsent("login"),
    NeverDedupe: rule.neverDedupe("search"),
    AlwaysDedupe: rule.alwaysDedupe("login"),
    Periodic: rule.periodic("login", "5 minutes")
  }

  it("says of the tools it names what is enforced, in words and in data", () => {
    for (const sample of Object.values(samples)) {
      const kind = kindOf(sample)
      const said = kind.names(sample).flatMap(({ tool }) => Object.values(kind.says(sample, tool)))
      assert.isTrue(said.some((it) => it !== undefined), sample._tag)
      assert.match(kind.sentence(sample), /"(?:login|search)".*\.$/u)
      assert.match(kind.explain({ rule: sample, tool: "search", names: ["login"], last: "login" }), /\.$/u)
    }
  })
})

describe("rules as JSON", () => {
  it.effect("are the same when they come back", () =>
    Effect.gen(function*() {
      const rules: ReadonlyArray<ToolRule.ToolRule> = [
        rule.childTools("login", ["search"], { prefilled: { search: { mode: "fast" } } }),
        rule.conditional("search", { path: "a[0]", cases: [{ equals: { x: [1] }, tool: "login" }], default: "search" }),
        rule.periodic("login", "5 minutes")
      ]
      const json: unknown = JSON.parse(JSON.stringify(rules))
      const decode = Schema.decodeUnknownEffect(Schema.Array(ToolRule.ToolRule))
      assert.deepStrictEqual(yield* Effect.orDie(decode(json)), rules)
      assert.sameMembers(
        Object.keys(kinds),
        ToolRule.ToolRule.members.map((it) => it.fields._tag.schema.literal)
      )
    }))
})
