import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type * as Clause from "../../../src/core/gates/Clause.ts"
import * as Policy from "../../../src/core/gates/Policy.ts"
import * as ToolPolicy from "../../../src/core/gates/ToolPolicy.ts"

const tool = (name: string, more: Partial<ToolPolicy.Subject> = {}): ToolPolicy.Subject => ({
  name,
  openWorld: false,
  edits: false,
  guardsTargets: false,
  declaresTargets: true,
  readOnly: false,
  ...more
})

const merged = (...policies: ReadonlyArray<Policy.Policy>) =>
  Result.getOrThrow(Policy.parseTiers(policies.map((policy, index) => ({ name: `tier${index}`, policy }))))

const call = (more: Partial<ToolPolicy.Given> = {}): ToolPolicy.Given => ({
  targets: [],
  needsApproval: false,
  ...more
})

const decide = (policies: ReadonlyArray<Policy.Policy>, more?: Partial<ToolPolicy.Given>, subject = tool("t")) =>
  ToolPolicy.forTool(merged(...policies), subject).decide(call(more))

const tags = (...policies: ReadonlyArray<Policy.Policy>) => decide(policies)._tag

describe("tiers of a policy", () => {
  it("hold what each of them denies and asks, in whichever tier something allows", () => {
    assert.strictEqual(tags({ deny: ["t"] }, { allow: ["t"] }), "Deny")
    assert.strictEqual(tags({ allow: ["t"] }, { deny: ["t"] }), "Deny")
    assert.strictEqual(tags({ ask: ["t"] }, { allow: ["t"] }), "Ask")
    assert.strictEqual(tags({ allow: ["t"] }, { ask: ["t"] }), "Ask")
    assert.strictEqual(tags({}, { allow: ["t"] }), "Allow")
    assert.strictEqual(tags({ mode: "readOnly" }, { allow: ["t"], mode: "acceptEdits" }), "Deny")
    assert.strictEqual(tags({ allow: ["t"] }, { mode: "plan" }), "Deny")
  })

  it("have the strictest of their defaults", () => {
    assert.strictEqual(tags({ default: "allow" }, {}), "Allow")
    assert.strictEqual(tags({}, { default: "allow" }), "Allow")
    assert.strictEqual(tags({ default: "cautious" }, { default: "allow" }), "Ask")
    assert.strictEqual(tags({ default: "allow" }, { default: "deny" }), "Deny")
    assert.strictEqual(tags({ default: "deny" }, { default: "allow" }), "Deny")
  })

  it("allow nothing below one that locks", () => {
    const loose: Policy.Policy = {
      allow: ["t"],
      default: "allow",
      sandboxed: "allow",
      mode: "acceptEdits",
      skipApproval: ["t"],
      review: { allow: ["t"] }
    }
    const sandbox = { _tag: "Confined", driver: "x", network: "none", holds: [], missing: [] } as const
    const edits = tool("t", { edits: true })
    assert.deepStrictEqual(decide([loose], { sandbox, needsApproval: true }, edits)._tag, "Allow")
    assert.deepStrictEqual(decide([{ lock: true }, loose], { sandbox }, edits), {
      _tag: "Ask",
      why: "the tool changes things (tier0)",
      because: []
    })
    assert.strictEqual(tags({ lock: true, allow: ["t"] }, {}), "Allow")
    assert.strictEqual(tags({ allow: ["t"] }, { lock: true }), "Allow")
    assert.strictEqual(tags({ lock: true, allow: ["t"] }, { ask: ["t"] }), "Ask")
    assert.deepStrictEqual(merged({ lock: true }, loose).locked.map((it) => [it.tier, it.list, it.source]), [
      ["tier1", "allow", "t"],
      ["tier1", "review.allow", "t"]
    ])
  })

  it("are named by what they refuse and ask", () => {
    assert.deepInclude(decide([{}, { deny: ["t"] }]), { _tag: "Deny", rule: "deny t (tier1)" })
    assert.deepInclude(decide([{}, { ask: ["t"] }]), { _tag: "Ask", why: "the policy asks about t (tier1)" })
    assert.deepInclude(decide([{ default: "deny" }]), { _tag: "Deny", rule: "default deny (tier0)" })
    assert.deepInclude(decide([{}, { mode: "plan" }]), { rule: "mode plan: nothing may be changed (tier1)" })
  })

  it("let a reviewer approve only what no tier above it asks about", () => {
    const review = (...policies: ReadonlyArray<Policy.Policy>) => {
      const decision = decide(policies)
      return decision._tag === "Ask" ? decision.review : undefined
    }
    const reviewed = { review: { allow: ["t"] } }
    const yes = { mayAllow: true, mayDeny: false }
    assert.deepStrictEqual(review(reviewed), yes)
    assert.deepStrictEqual(review({ ...reviewed, ask: ["t"] }), yes)
    assert.deepStrictEqual(review(reviewed, { ask: ["t"] }), yes)
    assert.isUndefined(review({ ask: ["t"] }, reviewed))
    assert.isUndefined(review({ ...reviewed, askAlways: ["t"] }))
    assert.deepStrictEqual(review({ askAlways: ["t"], review: { deny: ["*"] } }), { mayAllow: false, mayDeny: true })
  })

  it("are checked as a whole: each problem has its tier, and shared tiers may be about tools that are elsewhere", () => {
    const tier = (name: string, deny: ReadonlyArray<Clause.Entry>, isShared = false) => ({
      name,
      policy: { deny },
      isShared
    })
    const problems = Policy.parseTiers([
      tier("organisation", ["elsewhere", "a(", { tool: "t", when: {} }], true),
      tier("project", ["t", "elsewhere", { tool: "t", when: { "a..b": 1, c: {} }, approvers: { remind: "soon" } }]),
      tier("project", [])
    ], ["t"])
    assert.deepStrictEqual(Result.isFailure(problems) && problems.failure.map((it) => it.path), [
      "tiers[2].name",
      "organisation.deny[1]",
      "organisation.deny[2].when",
      "project.deny[1]",
      "project.deny[2].when.a..b",
      "project.deny[2].when.c",
      "project.deny[2].approvers",
      "project.deny[2].approvers.remind"
    ])
  })
})

describe("a clause", () => {
  const refund = (amount: unknown, ...policies: ReadonlyArray<Policy.Policy>) =>
    decide(policies, { args: { amount } })._tag
  const large = { tool: "t", when: { amount: { gt: 100 } } }
  const small = { tool: "t", when: { amount: { lte: 100 } } }

  it("holds for the arguments that its conditions are about", () => {
    assert.strictEqual(refund(200, { deny: [large], default: "allow" }), "Deny")
    assert.strictEqual(refund(100, { deny: [large], default: "allow" }), "Allow")
    assert.strictEqual(refund(100, { allow: [small] }), "Allow")
    assert.strictEqual(refund(101, { allow: [small] }), "Ask")
  })

  it("denies and asks where its conditions cannot be decided, and does not allow", { tags: ["P8"] }, () => {
    for (const amount of ["200", "1", undefined, null, {}, [200], NaN, true]) {
      assert.strictEqual(refund(amount, { deny: [large], default: "allow" }), "Deny")
      assert.strictEqual(refund(amount, { ask: [large], default: "allow" }), "Ask")
      assert.strictEqual(refund(amount, { askAlways: [large], default: "allow" }), "Ask")
      assert.strictEqual(refund(amount, { allow: [small] }), "Ask")
    }
  })

  it("takes what the tool's schema puts where an argument is missing", () => {
    const forced = { tool: "t", when: { "push.force": true } }
    const subject = (value: unknown) => ({
      ...tool("t"),
      jsonSchema: { properties: { push: { properties: { force: { type: "boolean", default: value } } } } }
    })
    const policy = [{ deny: [forced], default: "allow" }] as const
    assert.strictEqual(decide(policy, { args: {} })._tag, "Allow")
    assert.strictEqual(decide(policy, { args: {} }, subject(true))._tag, "Deny")
    assert.strictEqual(decide(policy, { args: { push: { force: false } } }, subject(true))._tag, "Allow")
    assert.strictEqual(decide(policy, { args: {}, params: { push: { force: true } } })._tag, "Deny")
    // only what the arguments have themselves
    assert.strictEqual(
      decide([{ deny: [{ tool: "t", when: { constructor: { exists: true } } }], default: "allow" }], { args: {} })._tag,
      "Allow"
    )
  })

  it("holds for principals with one of its roles, and where nobody knows the roles on the stricter side", {
    tags: ["P8"]
  }, () => {
    const of = (policy: Policy.Policy, roles?: ReadonlyArray<string>) => decide([policy], { roles })._tag
    const allow: Policy.Policy = { allow: [{ tool: "t", roles: ["admin", "lead"] }] }
    const deny: Policy.Policy = { deny: [{ tool: "t", roles: ["guest"] }], default: "allow" }
    assert.deepStrictEqual([of(allow, ["lead"]), of(allow, ["guest"]), of(allow, []), of(allow)], [
      "Allow",
      "Ask",
      "Ask",
      "Ask"
    ])
    assert.deepStrictEqual([of(deny, ["guest"]), of(deny, ["lead"]), of(deny, []), of(deny)], [
      "Deny",
      "Allow",
      "Allow",
      "Deny"
    ])
  })

  it("cannot be decided for a tool that acts as its tool, whose arguments are others, and without arguments", () => {
    const secret = { tool: "read", when: { path: { like: "secret*" } } }
    const search = tool("search", { actsAs: ["read"], readOnly: true })
    const policy = [{ deny: [secret], default: "allow" }] as const
    assert.strictEqual(decide(policy, { args: { path: "public", query: "x" } }, search)._tag, "Deny")
    assert.strictEqual(decide(policy, { args: { path: "public" } }, tool("read"))._tag, "Allow")
    assert.strictEqual(decide(policy, { args: undefined }, tool("read"))._tag, "Deny")
    // one that names the tool itself is about its arguments
    assert.strictEqual(
      decide([{ deny: [{ ...secret, tool: "*" }], default: "allow" }], { args: {} }, search)._tag,
      "Allow"
    )
  })

  it("hides no tool of which some call may run", { tags: ["P10"] }, () => {
    const sees = (policy: Policy.Policy) => ToolPolicy.sees(merged(policy), tool("t"))
    assert.isTrue(sees({ deny: [large], default: "allow" }))
    assert.isTrue(sees({ deny: [{ tool: "t", roles: ["guest"] }], default: "allow" }))
    assert.isTrue(sees({ allow: [small], default: "deny" }))
    assert.isTrue(sees({ askAlways: [large], default: "deny" }))
    assert.isFalse(sees({ deny: [large, "t"], default: "allow" }))
  })

  it("is asked about each time in askAlways, before anything else asks", () => {
    const approvers = { people: ["ada"], count: 2 }
    assert.deepInclude(
      decide([{ ask: ["t"], allow: ["t"] }, { askAlways: [{ tool: "t", approvers }] }]),
      { _tag: "Ask", isAlways: true, approvers: [approvers], why: "the policy asks about t (tier1)" }
    )
  })

  it("is told step by step why it decides", () => {
    const { decision, steps } = ToolPolicy.explain(
      merged({ allow: [small] }, { ask: [large] }),
      tool("t"),
      call({ args: { amount: 7 } })
    )
    assert.strictEqual(decision._tag, "Allow")
    assert.deepStrictEqual(steps.map((it) => [it.step, it.says]), [
      ["deny", "nothing"],
      ["mode", "nothing"],
      ["ask", "nothing"],
      ["needsApproval", "nothing"],
      ["allow", "Allow"]
    ])
  })
})

describe("a sandbox that holds", () => {
  const whole = { _tag: "Confined", driver: "x", network: "none", holds: [], missing: [] } as const

  it("lets a call run that nothing else allows, unless something asks or its network is open", () => {
    const of = (policy: Policy.Policy, sandbox: ToolPolicy.Given["sandbox"], more: Partial<ToolPolicy.Given> = {}) =>
      decide([{ sandboxed: "allow", ...policy }], { sandbox, ...more })._tag
    assert.strictEqual(of({}, whole), "Allow")
    assert.strictEqual(of({ default: "deny" }, whole), "Allow")
    assert.strictEqual(of({}, undefined), "Ask")
    assert.strictEqual(of({}, { ...whole, _tag: "Open" }), "Ask")
    assert.strictEqual(of({}, { ...whole, network: "listed" }), "Ask")
    assert.strictEqual(of({ ask: ["t"] }, whole), "Ask")
    assert.strictEqual(of({ deny: ["t"] }, whole), "Deny")
    assert.strictEqual(of({}, whole, { needsApproval: true }), "Ask")
    assert.strictEqual(of({}, whole, { targets: [{ text: "x", kind: "protected" }] }), "Ask")
    assert.strictEqual(of({}, whole, { targets: [{ text: "a | b", kind: "exact" }] }), "Allow")
    assert.strictEqual(decide([{}], { sandbox: whole })._tag, "Ask")
  })
})
