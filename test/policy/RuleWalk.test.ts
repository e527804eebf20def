/**
 * The check of rule sets beside an oracle that tries every order of calls in
 * plain steps: no set passes under which a tool can never run, and none is
 * refused without a reason that the oracle sees, too.
 */
import { assert, describe, it } from "@effect/vitest"
import * as RuleSet from "../../src/core/rules/RuleSet.ts"
import { type ToolRule } from "../../src/index.ts"
import * as RuleWalk from "../../src/policy/RuleWalk.ts"
import { randomFrom, type SeededRandom } from "../support/randomCase.ts"
import { seeds, share, timeout } from "../support/seeds.ts"

const names = ["a", "b", "c", "d"]
const known = new Map(names.map((name) => [name, {}]))

const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const one = () => pick(names)
  const any = () => chance(0.15) ? "*" : one()
  const some = (): [string, ...Array<string>] => chance(0.7) ? [one()] : [one(), one()]
  switch (int(10)) {
    case 0:
      return { _tag: "StartConstraint", tool: one(), ...(chance(0.3) ? { mode: "any" as const } : {}) }
    case 1:
    case 2:
      return { _tag: "RequiresPrecedingTools", tool: any(), tools: some() }
    case 3:
      return { _tag: "RequiresFollowingTools", tool: any(), tools: some() }
    case 4:
      return { _tag: "ChildTools", tool: any(), children: some() }
    case 5:
      return { _tag: "ParentTools", tool: any(), children: some() }
    case 6:
      return {
        _tag: "Conditional",
        tool: any(),
        path: chance(0.5) ? "kind" : "sort",
        cases: [{ equals: 0, tool: one() }, ...(chance(0.5) ? [{ equals: 1, tool: one() }] : [])],
        ...(chance(0.3) ? { default: one() } : chance(0.3) ? { strict: true } : {})
      }
    case 7:
      return { _tag: "MaxCalls", tool: any(), max: int(3) }
    case 8:
      return { _tag: "ExclusiveGroup", tools: [one(), one()] }
    default:
      return chance(0.5)
        ? { _tag: "ExitLoop", tool: one() }
        : { _tag: "RequiredBeforeExit", tool: any(), ...(chance(0.3) ? { when: [one()] } : {}) }
  }
}

/** Every output that conditions may tell apart. */
const outputs = [0, 1, 2].flatMap((kind) => [0, 1, 2].map((sort) => ({ kind, sort })))

/** Tries every order of successes, with every output, by the rules themselves. */
const oracle = (rules: ReadonlyArray<ToolRule.ToolRule>) => {
  const set = RuleSet.make(rules, names)
  const runnable = new Set<string>()
  /** Tools after which something came, and those after which something should. */
  const followed = new Set<string>()
  let starts = false
  let ends = false
  const maxOf = (tool: string) =>
    rules.reduce(
      (least, rule) =>
        rule._tag === "MaxCalls" && (rule.tool === "*" || rule.tool === tool) ? Math.min(least, rule.max) : least,
      Infinity
    )
  const isOtherOfGroup = (tool: string, counts: Readonly<Record<string, number>>) =>
    rules.some((rule) =>
      rule._tag === "ExclusiveGroup" && rule.tools.includes(tool) &&
      rule.tools.some((it) => it !== tool && counts[it]! > 0)
    )
  const seen = new Set<string>()
  const open: Array<{ readonly history: RuleSet.History; readonly counts: Readonly<Record<string, number>> }> = [
    { history: RuleSet.history(set, []), counts: Object.fromEntries(names.map((it) => [it, 0])) }
  ]
  for (const { counts, history } of open) {
    starts ||= RuleSet.startPending(set, history).length === 0
    const exits = rules.filter((rule) => rule._tag === "ExitLoop")
    ends ||= (exits.length === 0 || history.exitWanted) && RuleSet.exitPending(set, history).length === 0
    for (const tool of RuleSet.allowedNext(set, history)) {
      if (history.last !== undefined) followed.add(history.last.tool)
      if (counts[tool]! >= maxOf(tool) || isOtherOfGroup(tool, counts)) continue
      runnable.add(tool)
      for (const output of outputs) {
        const last = RuleSet.success(set, tool, output)
        const succeeded = new Set([...history.succeeded, tool])
        const exitWanted = history.exitWanted || set.forTool(tool).exits
        // more than three times is the same as three: no cap here is higher
        const more = { ...counts, [tool]: Math.min(3, counts[tool]! + 1) }
        const routes = last.routes.map((it) => it.tools)
        const key = JSON.stringify([Array.from(succeeded).toSorted(), tool, routes, more])
        if (seen.has(key)) continue
        seen.add(key)
        const past = { succeeded, last }
        open.push({ history: { ...past, batch: past, session: past, exitWanted }, counts: more })
      }
    }
  }
  const stuck = names.filter((it) => !runnable.has(it) && maxOf(it) > 0)
  return { stuck, followed, runnable, starts, ends }
}

/** Whether what is required can be locked out, from the beginning or after an order of calls that the rules allow. */
const isTrap = (rules: ReadonlyArray<ToolRule.ToolRule>, order: ReadonlyArray<string> = []): boolean => {
  const set = RuleSet.make(rules, names)
  if (set.starts.length === 0 && set.required.length === 0) return false
  interface Moment {
    readonly history: RuleSet.History
    readonly counts: Readonly<Record<string, number>>
  }
  const maxOf = (tool: string) => set.forTool(tool).maxCalls[0]?.max ?? Infinity
  const next = ({ counts, history }: Moment, tool: string): ReadonlyArray<Moment> => {
    const isOther = rules.some((rule) =>
      rule._tag === "ExclusiveGroup" && rule.tools.includes(tool) &&
      rule.tools.some((it) => it !== tool && counts[it]! > 0)
    )
    if (!RuleSet.allowedNext(set, history).includes(tool) || counts[tool]! >= maxOf(tool) || isOther) return []
    return outputs.map((output) => {
      const succeeded = new Set([...history.succeeded, tool])
      const past = { succeeded, last: RuleSet.success(set, tool, output) }
      return {
        history: { ...past, batch: past, session: past, exitWanted: false },
        counts: { ...counts, [tool]: Math.min(3, counts[tool]! + 1) }
      }
    })
  }
  const keyOf = ({ counts, history: { last, succeeded } }: Moment) =>
    JSON.stringify([Array.from(succeeded).toSorted(), last?.tool, last?.routes.map((it) => it.tools), counts])
  const first: Moment = {
    history: RuleSet.history(set, []),
    counts: Object.fromEntries(names.map((it) => [it, 0]))
  }
  const begins = order.reduce<ReadonlyArray<Moment>>((all, tool) => all.flatMap((it) => next(it, tool)), [first])
  const moments = new Map(begins.map((it) => [keyOf(it), it]))
  const from = new Map<string, Array<string>>()
  for (const [key, moment] of moments) {
    for (const it of names.flatMap((tool) => next(moment, tool))) {
      const then = keyOf(it)
      if (!moments.has(then)) moments.set(then, it)
      from.set(then, [...from.get(then) ?? [], key])
    }
  }
  const inBatch = new Set(rules.flatMap((it) => it._tag === "RequiredBeforeExit" && it.scope === "batch" ? [it] : []))
  const isGood = ({ history }: Moment) =>
    RuleSet.startPending(set, history).length === 0 &&
    (inBatch.size > 0 || RuleSet.exitPending(set, history).length === 0)
  const good = new Set<string>()
  const open = Array.from(moments).flatMap(([key, it]) => isGood(it) ? [key] : [])
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (good.has(key)) continue
    good.add(key)
    open.push(...from.get(key) ?? [])
  }
  return order.length > 0 ? begins.some((it) => !good.has(keyOf(it))) : good.size < moments.size
}

/** Tools after which rules of neighbours let something follow, if an output leads anywhere. */
const isBound = (rules: ReadonlyArray<ToolRule.ToolRule>, tool: string): boolean =>
  rules.some((rule) =>
    (rule._tag === "ChildTools" || rule._tag === "ParentTools" || rule._tag === "Conditional") &&
    (rule.tool === tool || rule.tool === "*")
  )

/** What is said of one rule by itself, however it goes with the others. */
const isOwn = ({ problem }: { readonly problem: string }): boolean =>
  ["it lists only one tool", "it waits for", "comes first for the same value", "it has no effect"].some((it) =>
    problem.includes(it)
  )

describe("the check of a rule set", () => {
  it("agrees with an oracle that tries every order", { tags: ["R2"], timeout }, () => {
    let [accepted, refused] = [0, 0]
    const tried = seeds(250)
    for (const seed of tried) {
      const random = randomFrom(seed)
      const rules = Array.from({ length: 1 + random.int(5) }, () => randomRule(random))
      const problems = RuleWalk.problems(rules, known).filter((it) => !isOwn(it))
      const { ends, followed, runnable, starts, stuck } = oracle(rules)
      const what = `seed ${seed}: ${JSON.stringify({ rules, problems }, null, 1)}`
      if (problems.length === 0) {
        accepted++
        assert.deepStrictEqual({ stuck, starts, ends }, { stuck: [], starts: true, ends: true }, what)
      } else {
        refused++
        const isDeadEnd = names.some((it) => runnable.has(it) && !followed.has(it) && isBound(rules, it))
        assert.isTrue(runnable.size < names.length || !starts || !ends || isDeadEnd, what)
      }
    }
    assert.isAbove(accepted, tried.length / 5)
    assert.isAbove(refused, tried.length / 5)
  })

  it(
    "warns, with the calls that lead there, of each set that can be led to where something required can never run",
    { tags: ["R2"], timeout },
    () => {
      let [warned, fine] = [0, 0]
      const tried = seeds(600)
      for (const seed of tried) {
        const random = randomFrom(seed)
        const rules = Array.from({ length: 1 + random.int(5) }, () => randomRule(random))
        if (RuleWalk.problems(rules, known).length > 0) continue
        const warnings = RuleWalk.warnings(rules, known)
        const what = `seed ${seed}: ${JSON.stringify({ rules, warnings }, null, 1)}`
        assert.strictEqual(warnings.length > 0, isTrap(rules), what)
        if (warnings.length > 0) warned++
        else fine++
        for (const { problem } of warnings) {
          // the order that is told is one that the rules allow
          const order = Array.from(
            problem.slice(0, problem.lastIndexOf(" \"")).matchAll(/"(\w+)"/g),
            ([, tool]) => tool!
          )
          assert.isTrue(isTrap(rules, order), what)
        }
      }
      if (share === "all") assert.isAbove(warned, 5)
      assert.isAbove(fine, tried.length / 12)
    }
  )

  it("says which calls lead there, and what they lock out", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      { _tag: "RequiredBeforeExit", tool: "a" },
      { _tag: "RequiresFollowingTools", tool: "a", tools: ["c"] },
      { _tag: "RequiresPrecedingTools", tool: "c", tools: ["b"] }
    ]
    assert.deepStrictEqual(RuleWalk.warnings(rules, known).map(({ path, problem }) => `${path}: ${problem}`), [
      "rules[0]: after \"b\", then \"c\" \"a\" can never succeed, and it is required"
    ])
  })

  it("looks at the rules of a chain twice as long not much more than four times as often", () => {
    const reads = (count: number): number => {
      let found = 0
      const chain = Array.from({ length: count }, (_, index) => `t${index}`)
      const rules = chain.slice(1).map((tool, index) => ({
        _tag: "RequiresPrecedingTools",
        tool,
        get tools() {
          found++
          return [`t${index}`]
        }
      })).reverse()
      assert.isEmpty(RuleWalk.problems(rules, named(...chain.toReversed())))
      return found
    }
    const [short, long] = [reads(100), reads(200)]
    assert.isAtMost(long / short, 4.4)
  })

  const named = (...all: ReadonlyArray<string>) => new Map(all.map((it) => [it, {}]))
  const large = Array.from({ length: 40 }, (_, index) => `t${index}`)

  it("takes what it cannot walk through as it always did: what is wrong by its own rules is found", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      ...large.map((tool) => ({ _tag: "MaxCalls" as const, tool, max: 2 })),
      { _tag: "RequiresPrecedingTools", tool: "t1", tools: ["t2"] },
      { _tag: "RequiresPrecedingTools", tool: "t2", tools: ["t1"] }
    ]
    assert.isNotEmpty(RuleWalk.problems(rules, named(...large)))
    assert.isEmpty(RuleWalk.problems(rules.slice(0, -1), named(...large)))
  })

  it("does not take the tools that it knows for all there are, where others may come", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "ParentTools", tool: "*", children: ["a"] }]
    assert.isNotEmpty(RuleWalk.problems(rules, named("a")))
    assert.isEmpty(RuleWalk.problems(rules, named("a", "b")))
    assert.isEmpty(RuleWalk.problems(rules))
    assert.isEmpty(RuleWalk.problems(rules, new Map(), (it) => it === "a"))
  })
})
