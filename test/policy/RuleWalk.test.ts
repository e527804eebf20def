/**
 * The check of rule sets beside an oracle that tries every order of calls in
 * plain steps: no set passes under which a tool can never run, and none is
 * refused without a reason that the oracle sees, too.
 */
import { assert, describe, it } from "@effect/vitest"
import { RuleSet, type ToolRule } from "../../src/index.ts"
import { type Dice, dice } from "../support/randomCase.ts"

const names = ["a", "b", "c", "d"]
const known = new Map(names.map((name) => [name, {}]))

const randomRule = ({ chance, int, pick }: Dice): ToolRule.ToolRule => {
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
        open.push({ history: { succeeded, inBatch: succeeded, last, exitWanted }, counts: more })
      }
    }
  }
  const stuck = names.filter((it) => !runnable.has(it) && maxOf(it) > 0)
  return { stuck, followed, runnable, starts, ends }
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
  it("agrees with an oracle that tries every order", () => {
    let [accepted, refused] = [0, 0]
    for (let seed = 1; seed <= 250; seed++) {
      const random = dice(seed)
      const rules = Array.from({ length: 1 + random.int(5) }, () => randomRule(random))
      const problems = RuleSet.problems(rules, known).filter((it) => !isOwn(it))
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
    assert.isAbove(accepted, 50)
    assert.isAbove(refused, 50)
  }, 60_000)

  const named = (...all: ReadonlyArray<string>) => new Map(all.map((it) => [it, {}]))
  const large = Array.from({ length: 40 }, (_, index) => `t${index}`)

  it("takes what it cannot walk through as it always did: what is wrong by its own rules is found", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      ...large.map((tool) => ({ _tag: "MaxCalls" as const, tool, max: 2 })),
      { _tag: "RequiresPrecedingTools", tool: "t1", tools: ["t2"] },
      { _tag: "RequiresPrecedingTools", tool: "t2", tools: ["t1"] }
    ]
    assert.isNotEmpty(RuleSet.problems(rules, named(...large)))
    assert.isEmpty(RuleSet.problems(rules.slice(0, -1), named(...large)))
  })

  it("does not take the tools that it knows for all there are, where others may come", () => {
    const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "ParentTools", tool: "*", children: ["a"] }]
    assert.isNotEmpty(RuleSet.problems(rules, named("a")))
    assert.isEmpty(RuleSet.problems(rules, named("a", "b")))
    assert.isEmpty(RuleSet.problems(rules))
    assert.isEmpty(RuleSet.problems(rules, new Map(), (it) => it === "a"))
  })
})
