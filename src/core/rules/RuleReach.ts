/**
 * Which tools can ever run under a rule set, and which rules count on one that
 * cannot. Pure.
 *
 * A tool can run if some order of successes leads to it. Of a small set every
 * order is looked at (`RuleWalk`). Of others it is looked for as a least
 * fixpoint, which finds most; cycles of prerequisites need no search of their
 * own; they are only named.
 *
 * @since 0.1.0
 */
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import * as RuleIndex from "./RuleIndex.ts"
import { namesIn } from "./RuleNames.ts"
import * as RuleWalk from "./RuleWalk.ts"
import type { ToolRule } from "./ToolRule.ts"

interface Placed {
  readonly path: string
  readonly rule: ToolRule
}

/**
 * Gives the problems of rules that count on a tool which can never run, and of
 * tools after which nothing may follow. Where more tools exist than are named,
 * those may come before and after.
 *
 * @category checking
 * @since 0.1.0
 */
export const unreachable = (
  rules: ReadonlyArray<Placed>,
  names: ReadonlyArray<string>,
  isComplete: boolean
): ReadonlyArray<Problem> => {
  const reach = new Reach(RuleIndex.make(rules.map(({ rule }) => rule), names), isComplete)
  const pathTo = (rule: ToolRule): string => rules.find((it) => it.rule === rule)!.path
  const exclusive = exclusions(rules)
  const found = [
    ...contradictions(reach, pathTo),
    ...rules.flatMap((it) => demands(it).flatMap(([place, tool]) => counted(reach, it.path, place, tool))),
    ...deadEnds(reach, pathTo),
    ...rules.flatMap((it) => alone(reach, it)),
    ...exclusive.length > 0 ? exclusive : together(reach, pathTo)
  ]
  return [...found, ...stuck(reach, rules, found.length > 0)]
}

/**
 * Gives what rules that are right each can be led into: an order of calls after which
 * something that they require can never succeed.
 *
 * @category checking
 * @since 0.1.0
 */
export const traps = (
  rules: ReadonlyArray<Placed>,
  names: ReadonlyArray<string>,
  isComplete: boolean
): ReadonlyArray<Problem> => {
  const set = RuleIndex.make(rules.map(({ rule }) => rule), isComplete ? names : [...names, anotherTool])
  const trap = RuleWalk.trap(set, set.required)
  if (trap === undefined) return []
  const { order, required, start } = trap
  const rule = start ?? required?.rule ?? set.starts[0]!
  const tool = start?.tool ?? required?.tool ?? rule.tool
  return [{
    path: rules.find((it) => it.rule === rule)!.path,
    problem: `after ${order.map((it) => it === anotherTool ? "another tool" : quote(it)).join(", then ")} ` +
      `${quote(tool)} can never succeed, and it is required`,
    expected: `rules under which ${quote(tool)} can still come then`
  }]
}

// Utilities

/** No tool has this name. */
const anotherTool = ""

const quote = (name: string): string => `"${name}"`

class Reach {
  readonly set: RuleIndex.RuleSet
  readonly runnable: ReadonlySet<string>
  /** Every order there is, where the set is small enough for that. */
  readonly walk: RuleWalk.Walk | undefined
  private readonly prerequisites = new Map<string, ReadonlySet<string>>()

  constructor(set: RuleIndex.RuleSet, isComplete: boolean) {
    this.set = set
    this.walk = RuleWalk.walk(isComplete ? set : RuleIndex.make(set.rules, [...set.tools, anotherTool]), set.required)
    this.runnable = this.walk?.runnable ?? this.fixpoint()
  }

  private fixpoint(): ReadonlySet<string> {
    const found = new Set<string>()
    for (let before = -1; before < found.size;) {
      before = found.size
      for (const tool of this.set.tools) if (this.isNext(tool, found)) found.add(tool)
    }
    return found
  }

  /** What has to succeed right before anything else can lead to the tool. */
  direct(tool: string): ReadonlyArray<string> {
    const rules = this.set.forTool(tool)
    const [parent, ...others] = rules.parents
    return [
      ...rules.preceding.flatMap((rule) => rule.tools),
      ...parent !== undefined && others.length === 0 && parent.tool !== "*" ? [parent.tool] : [],
      ...rules.start === undefined ? this.set.starts.filter((it) => it.mode !== "any").map((it) => it.tool) : []
    ]
  }

  /** What has to succeed before the tool, and what before that; itself if there is a cycle. */
  before(tool: string): ReadonlySet<string> {
    let found = this.prerequisites.get(tool)
    if (found === undefined) {
      const all = new Set<string>()
      const open = [...this.direct(tool)]
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        if (all.has(next)) continue
        all.add(next)
        open.push(...this.direct(next))
      }
      this.prerequisites.set(tool, found = all)
    }
    return found
  }

  /** Why the rules about the tool itself contradict each other. */
  contradiction(tool: string): { readonly rule: ToolRule; readonly why: string } | undefined {
    const { following, groups, parents } = this.set.forTool(tool)
    const before = this.before(tool)
    for (const rule of following) {
      const clash = rule.tools.find((it) => it !== tool && before.has(it))
      if (clash !== undefined) {
        return { rule, why: `${quote(tool)} needs ${quote(clash)} first and is forbidden once it succeeded` }
      }
    }
    for (const { rule } of groups) {
      const clash = rule.tools.find((it) => it !== tool && before.has(it))
      if (clash !== undefined) {
        return { rule, why: `${quote(tool)} needs ${quote(clash)} first, and only one of the group may be used` }
      }
    }
    const [rule] = parents
    if (rule === undefined || parents.some((it) => this.parentsOf(it).some((parent) => this.lets(parent, tool)))) {
      return undefined
    }
    return { rule, why: `${quote(tool)} has to come right after ${quote(rule.tool)}, where another rule forbids it` }
  }

  parentsOf(rule: Extract<ToolRule, { readonly _tag: "ParentTools" }>): ReadonlyArray<string> {
    return rule.tool === "*" ? this.set.tools : [rule.tool]
  }

  /** Whether the rules of neighbours let a tool come right after another. */
  lets(last: string, tool: string): boolean {
    const { parents } = this.set.forTool(tool)
    return this.set.forTool(last).children.every((rule) => rule.children.includes(tool)) &&
      (parents.length === 0 || parents.some((rule) => rule.tool === "*" || rule.tool === last))
  }

  private isNext(tool: string, runnable: ReadonlySet<string>): boolean {
    if (runnable.has(tool)) return false
    const rules = this.set.forTool(tool)
    if (rules.maxCalls?.max === 0 || this.contradiction(tool) !== undefined) return false
    if (!this.direct(tool).every((it) => runnable.has(it))) return false
    const any = this.set.starts.filter((it) => it.mode === "any")
    if (rules.start === undefined && any.length > 0 && !any.some((it) => runnable.has(it.tool))) return false
    return rules.parents.length === 0 ||
      rules.parents.some((rule) =>
        this.parentsOf(rule).some((parent) => runnable.has(parent) && this.lets(parent, tool))
      )
  }

  /** Why a tool that cannot run cannot. */
  why(tool: string): string {
    if (this.set.forTool(tool).maxCalls?.max === 0) return "MaxCalls lets it run 0 times"
    if (this.before(tool).has(tool)) return "it would have to succeed before itself"
    const contradiction = this.contradiction(tool)
    if (contradiction !== undefined) return contradiction.why
    const dead = Array.from(this.before(tool)).find((it) => !this.runnable.has(it))
    return dead === undefined
      ? "no order of calls leads to it"
      : `${quote(dead)}, which it needs, can never run`
  }
}

/** Cycles, and tools whose own rules contradict each other; each cycle once. */
const contradictions = (reach: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> => {
  const told = new Set<string>()
  return reach.set.tools.flatMap((tool) => {
    if (reach.before(tool).has(tool)) {
      if (told.has(tool)) return []
      const cycle = cycleOf(reach, tool)
      for (const name of cycle) told.add(name)
      const { parents, preceding, start } = reach.set.forTool(tool)
      const rule = preceding.find((it) => it.tools.includes(cycle[1] ?? tool)) ?? parents[0] ?? preceding[0] ?? start ??
        reach.set.starts[0]!
      return [{
        path: pathTo(rule),
        problem: `a cycle: ${[...cycle, tool].map(quote).join(" needs ")}`,
        expected: "prerequisites without a cycle"
      }]
    }
    const contradiction = reach.contradiction(tool)
    return contradiction === undefined ? [] : [{
      path: pathTo(contradiction.rule),
      problem: `a contradiction: ${contradiction.why}`,
      expected: `an order in which ${quote(tool)} can run`
    }]
  })
}

/** A shortest way from a tool back to itself, without the return. */
const cycleOf = (reach: Reach, tool: string): ReadonlyArray<string> => {
  const from = new Map<string, string>()
  const open = [tool]
  for (const name of open) {
    for (const next of reach.direct(name)) {
      if (next === tool) {
        const cycle = [name]
        while (cycle[0] !== tool) cycle.unshift(from.get(cycle[0]!)!)
        return cycle
      }
      if (from.has(next)) continue
      from.set(next, name)
      open.push(next)
    }
  }
  return [tool]
}

/** The tools that a rule counts on, each with its place. */
const demands = ({ rule }: Placed): ReadonlyArray<readonly [place: string, tool: string]> => {
  switch (rule._tag) {
    case "StartConstraint":
    case "ParentTools":
    case "RequiredBeforeExit":
    case "ExitLoop":
    case "Periodic":
      return rule.tool === "*" ? [] : [["tool", rule.tool]]
    case "RequiresPrecedingTools":
      return rule.tools.map((tool, index) => [`tools[${index}]`, tool])
    default:
      return []
  }
}

const counted = (reach: Reach, path: string, place: string, tool: string): ReadonlyArray<Problem> => {
  // a cycle or contradiction has been told at its own place
  if (reach.runnable.has(tool) || reach.before(tool).has(tool) || reach.contradiction(tool) !== undefined) return []
  return [{
    path: `${path}.${place}`,
    problem: `${quote(tool)} can never run: ${reach.why(tool)}`,
    expected: "a tool that can run"
  }]
}

/** Tools after which the rules of neighbours let nothing follow. */
const deadEnds = (reach: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> =>
  reach.set.tools.flatMap((tool) => {
    const { children, conditionals } = reach.set.forTool(tool)
    const rule = [...conditionals, ...children].at(-1)
    if (rule === undefined || !reach.runnable.has(tool)) return []
    const done = new Set([tool, ...reach.before(tool)])
    const follows = reach.walk?.followed.has(tool) ??
      reach.set.tools.some((next) =>
        reach.runnable.has(next) && reach.lets(tool, next) &&
        !reach.set.forTool(next).following.some((rule) => rule.tools.some((it) => done.has(it)))
      )
    return follows ? [] : [{
      path: pathTo(rule),
      problem: `a contradiction: right after ${quote(tool)} nothing may be called`,
      expected: "a child that may come next"
    }]
  })

/** A periodic call is alone in its process: whatever it needs before it never comes. */
const alone = (reach: Reach, { path, rule }: Placed): ReadonlyArray<Problem> => {
  if (rule._tag !== "Periodic" || !reach.runnable.has(rule.tool)) return []
  const { parents, start } = reach.set.forTool(rule.tool)
  const needs = [
    ...reach.before(rule.tool),
    ...parents.map((it) => it.tool),
    ...start === undefined ? reach.set.starts.map((it) => it.tool) : []
  ]
  return needs.length === 0 ? [] : [{
    path: `${path}.tool`,
    problem: `${quote(rule.tool)} needs ${quote(needs[0]!)} first, and a periodic call is alone in its process`,
    expected: "a tool without prerequisites"
  }]
}

/** What has to succeed in one process, and cannot together, though each of it can. */
const together = ({ set, walk }: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> => {
  if (walk === undefined) return []
  const isPossible = (tool: string) => walk.runnable.has(tool)
  if (!walk.starts && set.starts.every((it) => isPossible(it.tool))) {
    return [{
      path: pathTo(set.starts.at(-1)!),
      problem: "a contradiction: the start tools cannot all succeed in one process",
      expected: "start tools that let each other run"
    }]
  }
  const last = set.required.at(-1)
  const isTold = set.required.some(({ rule, tool }) => rule.tool !== "*" && !isPossible(tool))
  return walk.ends || last === undefined || isTold ? [] : [{
    path: pathTo(last.rule),
    problem: "a contradiction: the work can never end, for what is required before cannot all succeed",
    expected: "required tools that can all succeed before the end"
  }]
}

/**
 * Tools that no order leads to, where nothing else says so already. One that no
 * rule names is cut off by what is wrong with others, if anything is.
 */
const stuck = (reach: Reach, rules: ReadonlyArray<Placed>, isExplained: boolean): ReadonlyArray<Problem> => {
  const { set, walk } = reach
  if (walk?.starts === false) return []
  const told = new Set(rules.flatMap((it) => demands(it).map(([, tool]) => tool)))
  return set.tools.flatMap((tool) => {
    if (
      reach.runnable.has(tool) || told.has(tool) || set.forTool(tool).maxCalls?.max === 0 ||
      reach.before(tool).has(tool) || reach.contradiction(tool) !== undefined
    ) return []
    const named = rules.find(({ rule }) => namesIn([rule]).includes(tool))
    return named === undefined && isExplained ? [] : [{
      path: (named ?? rules[0]!).path,
      problem: `${quote(tool)} can never run: ${reach.why(tool)}`,
      expected: "an order of calls that leads to it"
    }]
  })
}

/** Two tools that are both needed in a request in which only one may be used. */
const exclusions = (rules: ReadonlyArray<Placed>): ReadonlyArray<Problem> => {
  const needed = rules.flatMap(({ path, rule }) =>
    (rule._tag === "RequiredBeforeExit" && rule.when === undefined) ||
      (rule._tag === "StartConstraint" && rule.mode !== "any")
      ? [{ path, tool: rule.tool }]
      : []
  )
  return rules.flatMap(({ path, rule }) => {
    if (rule._tag !== "ExclusiveGroup") return []
    const both = needed.filter((it) => rule.tools.includes(it.tool))
    const other = both.find((it) => it.tool !== both[0]!.tool)
    return other === undefined ? [] : [{
      path: `${path}.tools`,
      problem: `${quote(both[0]!.tool)} (${both[0]!.path}) and ${quote(other.tool)} (${other.path}) are both required`,
      expected: "at most one required tool in the group"
    }]
  })
}
