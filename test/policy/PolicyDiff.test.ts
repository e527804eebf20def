import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type { GateCall } from "../../src/core/gates/Gate.ts"
import * as Permissions from "../../src/core/gates/Permissions.ts"
import * as Policy from "../../src/core/gates/Policy.ts"
import * as PolicyDiff from "../../src/policy/PolicyDiff.ts"
import type * as PolicyExamples from "../../src/policy/PolicyExamples.ts"
import * as PolicyQuestion from "../../src/policy/PolicyQuestion.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import * as Random from "../support/randomPolicies.ts"
import { runs, seeds, timeout } from "../support/seeds.ts"

type Tiers = ReadonlyArray<Policy.Tier>

const parsed = (tiers: Tiers) => Result.getOrThrow(Policy.parseTiers(tiers))

const service = (tiers: Tiers) =>
  Effect.runSync(Effect.scoped(
    Effect.map(Layer.build(Permissions.layerTiers(tiers)), (it) => Context.get(it, Permissions.Permissions))
  ))

const asCall = (question: PolicyQuestion.Question) => question as unknown as GateCall

const pairs = runs(100)

describe("the difference of two policies", () => {
  it("agrees with the permissions for random policies and calls", { tags: ["PA1"], timeout: timeout * 4 }, () => {
    let differing = 0
    for (const seed of seeds(200)) {
      for (let pair = 0; pair < pairs; pair++) {
        const random = randomFrom(seed * pairs + pair)
        const [from, to] = Random.pair(random)
        const tool = Random.tool(random)
        const diff = PolicyDiff.diff(parsed(from), parsed(to), {
          tools: [{ subject: tool, runBy: ["x"] }],
          isOpen: false
        })
        const context = () => `seed ${seed * pairs + pair}: ${JSON.stringify([from, to, tool])}`
        assert.deepStrictEqual(diff.undecided, [], context())
        const services = [service(from), service(to)]
        const outcomes = (question: PolicyQuestion.Question) =>
          services.map((it) =>
            PolicyQuestion.outcomeOf(it.decide({ ...asCall(question), tool: tool as GateCall["tool"] }))
          )
        // every example really differs, and as it is reported
        for (const { example, from, to } of diff.differences) {
          assert.deepStrictEqual(outcomes(example), [from.outcome, to.outcome], context())
          assert.notStrictEqual(from.outcome, to.outcome, context())
        }
        // every call that differs is of a reported kind
        const reported = new Set(diff.differences.map((it) => PolicyDiff.keyOf(it.tool, it)))
        const judges = [PolicyQuestion.judge(parsed(from)), PolicyQuestion.judge(parsed(to))] as const
        for (let index = 0; index < 8; index++) {
          const question: PolicyQuestion.Question = { ...Random.call(random, tool), tool }
          const [before, after] = outcomes(question)
          if (before === after) continue
          differing++
          const keys = kindsOf(question).filter((it) => outcomes(it).join() === `${before},${after}`).map((it) =>
            PolicyDiff.keyOf(tool.name, { from: judges[0](it), to: judges[1](it) })
          )
          assert.isTrue(
            keys.some((it) => reported.has(it)),
            `${context()} ${JSON.stringify(question)} ${keys.join("; ")}`
          )
        }
      }
    }
    assert.isAbove(differing, 100)
  })
})

describe("a difference", () => {
  const writer = {
    name: "w",
    readOnly: false,
    openWorld: false,
    edits: false,
    guardsTargets: false,
    declaresTargets: true
  } as const
  const differences = (from: Policy.Policy, to: Policy.Policy, more: Partial<PolicyExamples.Tool> = {}) =>
    PolicyDiff.diff(Result.getOrThrow(Policy.parse(from)), Result.getOrThrow(Policy.parse(to)), {
      tools: [{ subject: writer, kinds: [undefined], isSpelled: false, ...more }],
      isOpen: false
    }).differences

  it("is found where only calls with two targets differ", () => {
    const found = differences({ default: "deny", ask: ["w(a)"] }, { default: "deny", allow: ["w(a)"] }, {
      subject: { ...writer, needsApproval: true }
    })
    assert.deepStrictEqual(found.map(({ example }) => example.targets?.map(({ text }) => text)), [["example", "a"]])
    assert.deepStrictEqual(found.map(({ from, to }) => [from.outcome, to.outcome]), [["ask", "deny"]])
  })

  it("is found where only another spelling of the target differs", () => {
    const found = differences(
      { default: "allow", allow: ["w(a)"], deny: ["w(b)"] },
      { default: "deny", allow: ["w(a)"] },
      { isSpelled: true }
    )
    assert.deepInclude(
      found.filter(({ to }) => to.outcome === "allow").map(({ example }) => example.targets),
      [{ text: "a", spellings: ["b"] }]
    )
  })

  it("is found between and at the limits of conditions, for each role", () => {
    const policy = (limit: number): Policy.Policy => ({
      default: "allow",
      deny: [{ tool: "w", when: { amount: { gt: limit } }, roles: ["clerk"] }]
    })
    const [only, ...others] = differences(policy(100), policy(200))
    assert.deepStrictEqual(others, [])
    assert.deepInclude(only?.example, { args: { amount: 200 }, roles: ["clerk"] })
    assert.deepStrictEqual(differences(policy(100), policy(100)), [])
  })

  it("is found for tools that nobody knows, by the names that patterns can tell apart", () => {
    const { differences: found } = PolicyDiff.diff(
      Result.getOrThrow(Policy.parse({ default: "ask" })),
      Result.getOrThrow(Policy.parse({ default: "ask", allow: ["mcp_*"], deny: ["mcp_x"] })),
      { tools: [], isOpen: true }
    )
    assert.deepStrictEqual(
      Array.from(new Set(found.map(({ isAnyOther, to, tool }) => `${tool} ${isAnyOther} ${to.outcome}`))),
      ["mcp_x false deny", "mcp_example true allow"]
    )
  })

  it("is not claimed where patterns overlap in too many ways", { tags: ["PA1"] }, () => {
    const words = Array.from({ length: 16 }, (_, index) => `w(*${String.fromCharCode(97 + index)}*)`)
    const shuffled = (step: number) => words.map((_, index) => words[(index * step + step) % 16]!)
    const from = { deny: shuffled(1), review: { allow: shuffled(3), deny: shuffled(5) } }
    const to = { ask: shuffled(7), review: { allow: shuffled(11), deny: shuffled(13) } }
    const { undecided } = PolicyDiff.diff(
      Result.getOrThrow(Policy.parse(from)),
      Result.getOrThrow(Policy.parse(to)),
      { tools: [{ subject: writer }], isOpen: false }
    )
    assert.deepStrictEqual(undecided.map(({ tool }) => tool), ["w"])
  })
})

/** A call, and the same call about each of its targets alone, each two and each three of them. */
const kindsOf = (question: PolicyQuestion.Question): ReadonlyArray<PolicyQuestion.Question> => {
  const { targets } = question
  if (targets === undefined || targets.length < 2) return [question]
  const others = (few: typeof targets) => targets.filter((it) => !few.includes(it)).map((it) => [...few, it])
  const singles = targets.map((it) => [it])
  const pairs = singles.flatMap(others)
  return [...singles, ...pairs, ...pairs.flatMap(others)].map((targets) => ({ ...question, targets }))
}
