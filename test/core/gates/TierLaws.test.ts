import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as Clause from "../../../src/core/gates/Clause.ts"
import * as Policy from "../../../src/core/gates/Policy.ts"
import * as ToolPolicy from "../../../src/core/gates/ToolPolicy.ts"
import * as Grant from "../../../src/core/vocabulary/Grant.ts"
import { randomFrom, type SeededRandom } from "../../../src/testing/SeededRandom.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { approval } from "../../support/Asking.ts"
import * as plainPolicy from "../../support/plainPolicy.ts"
import * as random from "../../support/randomPolicies.ts"
import { seeds, timeout } from "../../support/seeds.ts"

const merged = (tiers: ReadonlyArray<Policy.Tier>) => Result.getOrThrow(Policy.parseTiers(tiers))

const decide = (tiers: ReadonlyArray<Policy.Tier>, tool: ToolPolicy.Subject, call: ToolPolicy.Given) =>
  ToolPolicy.forTool(merged(tiers), tool).decide(call)

/** Tiers of a seed, a tool, and calls of it. */
const world = (seed: number, most = 4) => {
  const of = randomFrom(seed)
  const tiers = Array.from({ length: 1 + of.int(most) }, (_, index): Policy.Tier => ({
    name: `tier${index}`,
    policy: random.policy(of)
  }))
  const tool = random.tool(of)
  return { of, tiers, tool, calls: Array.from({ length: 8 }, (): ToolPolicy.Given => random.call(of, tool)) }
}

const strictness = { Allow: 0, Ask: 1, Deny: 2 } as const

/** What is judged as protected because a command may run: stricter below, fewer commands run, and less is protected. */
const withoutRunBy = (call: ToolPolicy.Given): ToolPolicy.Given => ({
  ...call,
  targets: call.targets?.map(({ runBy: _, ...it }) => it)
})

const each = (count: number, check: (seed: number) => void) => {
  for (const seed of seeds(count)) {
    try {
      check(seed)
    } catch (cause) {
      throw new Error(`seed ${seed}: ${String(cause)}`, { cause })
    }
  }
}

describe("tiers of a policy, for random tiers and calls", () => {
  it("decide as a plain reading of all of them does", { tags: ["P7"], timeout }, () => {
    each(10_000, (seed) => {
      const { calls, tiers, tool } = world(seed)
      for (const call of calls) {
        const wanted = plainPolicy.decide(tiers, tool, call)
        const parsed = merged(tiers)
        const decision = ToolPolicy.forTool(parsed, tool).decide(call)
        const asks = decision._tag === "Ask" ? decision : undefined
        assert.deepStrictEqual({
          outcome: decision._tag,
          isAlways: asks?.isAlways === true,
          review: asks?.review ?? { mayAllow: false, mayDeny: false }
        }, wanted)
        assert.deepStrictEqual(ToolPolicy.explain(parsed, tool, call).decision, decision)
      }
    })
  })

  it("loosen nothing that a tier above denies, asks or locks", { tags: ["P7"], timeout }, () => {
    each(10_000, (seed) => {
      const { calls, of, tiers, tool } = world(seed)
      const above = tiers.slice(0, 1 + of.int(tiers.length))
      const isLocked = above.at(-1)!.policy.lock === true
      for (const call of calls) {
        const one = decide(above, tool, withoutRunBy(call))
        const all = decide(tiers, tool, withoutRunBy(call))
        const isHeld = isLocked || one._tag === "Deny" && (one.clause !== undefined || one.rule.startsWith("mode")) ||
          one._tag === "Ask" && one.clause !== undefined
        if (isHeld) assert.isAtLeast(strictness[all._tag], strictness[one._tag], `${JSON.stringify(call)}`)
        if (one._tag === "Ask" && all._tag === "Ask" && one.isAlways === true) assert.isTrue(all.isAlways)
        if (one._tag === "Ask" && all._tag === "Ask" && isHeld && one.review?.mayAllow !== true) {
          assert.isNotTrue(all.review?.mayAllow)
        }
      }
    })
  })

  it("mean the same in any order, unless one of them locks", { tags: ["P7"], timeout }, () => {
    each(10_000, (seed) => {
      const { calls, of, tiers, tool } = world(seed)
      const open = tiers.map((it) => ({ ...it, policy: { ...it.policy, lock: false } }))
      const other = open.map((it) => [of.int(1_000), it] as const).toSorted(([a], [b]) => a - b).map(([, it]) => it)
      for (const call of calls) {
        const [one, two] = [decide(open, tool, call), decide(other, tool, call)]
        assert.strictEqual(one._tag, two._tag)
        if (one._tag === "Ask" && two._tag === "Ask") assert.strictEqual(one.isAlways, two.isAlways)
      }
    })
  })

  it("name a clause that is in the tier they name", () => {
    each(5_000, (seed) => {
      const { calls, tiers, tool } = world(seed)
      for (const call of calls) {
        const decision = decide(tiers, tool, call)
        const clause = decision._tag === "Allow" ? undefined : decision.clause
        if (clause === undefined) continue
        const { policy } = tiers[clause.level]!
        assert.strictEqual(tiers[clause.level]!.name, clause.tier)
        const entry = policy[clause.list as "deny" | "ask" | "askAlways"]![clause.index]!
        assert.strictEqual(Result.getOrThrow(Clause.parse(entry, clause)).source, clause.source)
        assert.include(
          decision._tag === "Deny" ? decision.rule : decision._tag === "Ask" ? decision.why : "",
          `${clause.source} (${clause.tier})`
        )
      }
    })
  }, timeout)
})

describe("conditions, for random conditions and arguments", () => {
  const scalars = ["a", "ab", "1", "", 0, 1, 2, -1, true, false] as const
  const values = [...scalars, null, undefined, NaN, [], {}, [1], { b: 1 }, { b: "ab", c: { d: 2 } }] as const
  const paths = ["a", "a.b", "a.c.d", "b", "toString", "a.length"] as const

  it("hold, do not hold and cannot be decided as spelt out", { tags: ["P8"], timeout }, () => {
    each(20_000, (seed) => {
      const of = randomFrom(seed)
      const comparison = () => {
        const operator = of.pick(["eq", "ne", "gt", "gte", "lt", "lte", "in", "like", "exists"] as const)
        const wanted = operator === "in"
          ? Array.from({ length: 1 + of.int(2) }, () => of.pick(scalars))
          : operator === "like"
          ? of.pick(["a*", "*", "?", "1", "*b"])
          : operator === "exists"
          ? of.pick([true, false])
          : operator === "eq" || operator === "ne"
          ? of.pick(scalars)
          : of.int(4) - 1
        return { [operator]: wanted }
      }
      const when = Object.fromEntries(
        Array.from({ length: 1 + of.int(2) }, () => [
          of.pick(paths),
          of.int(3) === 0 ? of.pick(scalars) : { ...comparison(), ...(of.int(3) === 0 ? comparison() : {}) }
        ])
      )
      const args = { a: of.pick(values), ...(of.int(2) === 0 ? { b: of.pick(values) } : {}) }
      const clause = Result.getOrThrow(
        Clause.parse({ tool: "t", when }, { tier: "", level: 0, list: "deny", index: 0 })
      )
      const wanted = { yes: true, no: false, unknown: undefined }[plainPolicy.holds(when, args)]
      assert.strictEqual(Clause.holds(clause, { args }), wanted, JSON.stringify([when, args]))
    })
  })
})

describe("grants with patterns, for random grants and calls", () => {
  const texts = ["a", "a/b", "a/b/c", "b", "npm test", "npm test x", "npm test x y", "npm testing"] as const
  const patterns = ["a/*", "a/b/*", "npm test *", "*"] as const

  /** Whether a pattern that ends in `*` fits. */
  const fits = (pattern: string, text: string) => text.startsWith(pattern.slice(0, -1))

  const target = (of: SeededRandom) => ({
    text: of.pick(texts),
    ...of.pick([{}, {}, {}, {}, { kind: "exact" }, { kind: "protected" }, { runBy: "x" }] as const)
  })

  it("cover exactly the calls whose targets they name or fit", { tags: ["P11"], timeout }, () => {
    each(10_000, (seed) => {
      const of = randomFrom(seed)
      const grant: Grant.Grant = {
        id: "g",
        principal: "p",
        tool: "t",
        agentPath: [],
        targets: Array.from({ length: of.int(3) }, () => of.pick(texts)),
        patterns: Array.from({ length: of.int(3) }, () => of.pick(patterns)),
        answer: "ApproveForScope",
        grantedAt: 0
      }
      const targets = Array.from({ length: of.int(3) }, () => target(of))
      const isCovered = targets.length > 0 && targets.every((it) =>
        grant.targets!.includes(it.text) ||
        (!("kind" in it) && !("runBy" in it) && grant.patterns!.some((pattern) => fits(pattern, it.text)))
      )
      assert.strictEqual(Grant.covers(grant, { tool: "t", agentPath: [], targets }, 1), isCovered)
      assert.isFalse(Grant.covers(grant, { tool: "t", agentPath: [], targets: undefined }, 1))
    })
  })

  it.effect(
    "settle exactly the pending requests that they cover",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        for (const seed of seeds(300)) {
          const of = randomFrom(seed)
          const people = yield* Approvals.make()
          const asked = Array.from({ length: 6 }, (_, index) =>
            approval({
              callId: String(index),
              remember: of.pick(["tool", "tool", "resources", "call"] as const),
              targets: Array.from({ length: 1 + of.int(2) }, () => target(of)) as Approvals.NewRequest["targets"],
              wider: patterns
            }))
          const requests = yield* Effect.forEach(asked, (it) => people.request(it))
          const waiting = yield* Effect.forEach(
            requests,
            (it) => Effect.forkChild(people.submit(it), { startImmediately: true })
          )
          const first = requests[0]!
          const pattern = of.pick(patterns)
          yield* people.answer(first.id, { _tag: "ApproveForScope", scope: { pattern } })
          const exact = first.targets.map((it) => it.text)
          const left = requests.slice(1).filter((it) =>
            first.remember === "call" || it.remember === "call" ||
            !it.targets.every((one) =>
              exact.includes(one.text) || (!("kind" in one) && !("runBy" in one) && fits(pattern, one.text))
            )
          )
          assert.deepStrictEqual(
            (yield* people.list).map((it) => it.callId),
            left.map((it) => it.callId),
            `seed ${seed}`
          )
          yield* Fiber.interruptAll(waiting)
        }
      }))),
    timeout
  )
})
