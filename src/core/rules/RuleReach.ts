/**
 * Which tools can ever run under a rule set, and which rules count on one that cannot. Pure.
 *
 * A tool can run if some order of successes leads to it. A least fixpoint finds most of those that cannot. `RuleWalk`
 * tries every order and finds all, which takes too long for a layer.
 */
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import * as RuleIndex from "./RuleIndex.ts"
import type * as Kind from "./RuleKind.ts"
import { kindOf, type ToolRule } from "./RuleKinds.ts"
import { namesIn } from "./RuleNames.ts"
import { quote } from "./RuleWords.ts"

type Placed = Kind.Placed<ToolRule>

/** What can happen under a rule set, by every order of successes. */
export interface Walk {
  /** Tools that some order of successes leads to. */
  readonly runnable: ReadonlySet<string>
  /** Tools whose neighbours' rules let something follow, in some order of successes. */
  readonly followed: ReadonlySet<string>
  /** All start tools can succeed in one process. */
  readonly starts: boolean
  /** The work can end with everything that is required before. */
  readonly ends: boolean
}

/**
 * Gives the problems of rules that count on a tool which can never run, and of tools after which nothing may follow.
 * `walk` tries every order of calls.
 */
export const unreachable = (
  rules: ReadonlyArray<Placed>,
  names: ReadonlyArray<string>,
  walk?: (set: RuleIndex.RuleSet) => Walk | undefined
): ReadonlyArray<Problem> => {
  const set = RuleIndex.make(rules.map(({ rule }) => rule), names)
  const reach = new Reach(set, walk?.(set))
  const pathTo = (rule: ToolRule): string => rules.find((it) => it.rule === rule)!.path
  const exclusive = exclusions(set, pathTo)
  const found = [
    ...contradictions(reach, pathTo),
    ...rules.flatMap(({ path, rule }) => kindOf(rule).countsOn(rule).flatMap((it) => counted(reach, path, it))),
    ...deadEnds(reach, pathTo),
    ...alone(reach, pathTo),
    ...exclusive.length > 0 ? exclusive : together(reach, pathTo)
  ]
  return [...found, ...stuck(reach, rules, found.length > 0)]
}

class Reach {
  readonly set: RuleIndex.RuleSet
  readonly runnable: ReadonlySet<string>
  /** Every order there is, where the set is small enough for that. */
  readonly walk: Walk | undefined
  private readonly prerequisites = new Map<string, ReadonlySet<string>>()
  /** The widest scope in which something is needed: what is narrower may have been otherwise there. */
  private readonly width: Kind.Scope

  constructor(set: RuleIndex.RuleSet, walk: Walk | undefined) {
    this.set = set
    this.walk = walk
    this.width = widthOf(set)
    this.runnable = walk?.runnable ?? this.fixpoint()
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
    const parents = rules.onlyAfter.flatMap((it) => it.tools)
    return [
      ...rules.needs.flatMap((it) => it.tools),
      ...parents.length === 1 && parents[0] !== "*" ? parents : [],
      ...rules.start === undefined ? this.set.starts.filter((it) => it.mode === "all").map((it) => it.tool) : []
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
    const { groups, notAfter, onlyAfter } = this.set.forTool(tool)
    const before = this.before(tool)
    const clashIn = (tools: ReadonlyArray<string>) => tools.find((it) => it !== tool && before.has(it))
    for (const { rule, scope, tools } of notAfter) {
      const clash = RuleIndex.isWithin(this.width, scope) ? clashIn(tools) : undefined
      if (clash !== undefined) {
        return { rule, why: `${quote(tool)} needs ${quote(clash)} first and is forbidden once it succeeded` }
      }
    }
    for (const { rule, scope, tools } of groups) {
      const clash = RuleIndex.isWithin(this.width, scope) ? clashIn(tools) : undefined
      if (clash !== undefined) {
        return { rule, why: `${quote(tool)} needs ${quote(clash)} first, and only one of the group may be used` }
      }
    }
    const [first] = onlyAfter
    if (
      first === undefined || !isOneScope(this.set) || this.parentsOf(tool).some((parent) => this.lets(parent, tool))
    ) return undefined
    const why = `${quote(tool)} has to come right after ${quote(first.tools[0]!)}, where another rule forbids it`
    return { rule: first.rule, why }
  }

  /** The tools that it may come right after, if some rule lists them. */
  private parentsOf(tool: string): ReadonlyArray<string> {
    const parents = this.set.forTool(tool).onlyAfter.flatMap((it) => it.tools)
    return parents.includes("*") ? this.set.tools : parents
  }

  /** Whether the rules of neighbours let a tool come right after another. */
  lets(last: string, tool: string): boolean {
    const { onlyAfter } = this.set.forTool(tool)
    return (!isOneScope(this.set) || this.set.forTool(last).onlyNext.every((it) => it.tools.includes(tool))) &&
      (onlyAfter.length === 0 || this.parentsOf(tool).includes(last))
  }

  private isNext(tool: string, runnable: ReadonlySet<string>): boolean {
    if (runnable.has(tool)) return false
    const rules = this.set.forTool(tool)
    if (neverRuns(rules) || this.contradiction(tool) !== undefined) return false
    if (!this.direct(tool).every((it) => runnable.has(it))) return false
    const any = this.set.starts.filter((it) => it.mode === "any")
    if (rules.start === undefined && any.length > 0 && !any.some((it) => runnable.has(it.tool))) return false
    return rules.onlyAfter.length === 0 ||
      this.parentsOf(tool).some((parent) => runnable.has(parent) && this.lets(parent, tool))
  }

  /** Why a tool that cannot run cannot. */
  why(tool: string): string {
    if (neverRuns(this.set.forTool(tool))) return "MaxCalls lets it run 0 times"
    if (this.before(tool).has(tool)) return "it would have to succeed before itself"
    const contradiction = this.contradiction(tool)
    if (contradiction !== undefined) return contradiction.why
    const dead = Array.from(this.before(tool)).find((it) => !this.runnable.has(it))
    return dead === undefined
      ? "no order of calls leads to it"
      : `${quote(dead)}, which it needs, can never run`
  }
}

/** The widest scope in which some rule needs a success. */
export const widthOf = (set: RuleIndex.RuleSet): Kind.Scope => {
  const needs = set.tools.flatMap((tool) => set.forTool(tool).needs)
  return [...set.starts, ...set.required, ...needs, ...neighbours(set)].reduce<Kind.Scope>(
    (wide, { scope }) => RuleIndex.widest<Kind.Scope>(wide, scope),
    "process"
  )
}

/** What rules say of what comes right before or after a tool. */
const neighbours = (set: RuleIndex.RuleSet): ReadonlyArray<Kind.Scoped<ToolRule>> =>
  set.tools.flatMap((tool) => {
    const { onlyAfter, onlyNext, routes } = set.forTool(tool)
    return [...onlyAfter, ...onlyNext, ...routes]
  })

/** Whether all rules about what comes right before or after count in one scope: others are distinguished by scope. */
export const isOneScope = (set: RuleIndex.RuleSet): boolean =>
  new Set(neighbours(set).map(({ scope }) => scope)).size < 2

const neverRuns = ({ maxCalls }: RuleIndex.ToolRules): boolean => maxCalls.some(({ max }) => max === 0)

/** Cycles, and tools whose own rules contradict each other; each cycle once. */
const contradictions = (reach: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> => {
  const told = new Set<string>()
  return reach.set.tools.flatMap((tool) => {
    if (reach.before(tool).has(tool)) {
      if (told.has(tool)) return []
      const cycle = cycleOf(reach, tool)
      for (const name of cycle) told.add(name)
      const { needs, onlyAfter } = reach.set.forTool(tool)
      const link = needs.find((it) => it.tools.includes(cycle[1] ?? tool)) ?? onlyAfter[0] ?? needs[0] ??
        reach.set.starts.find((it) => it.tool === tool) ?? reach.set.starts[0]!
      return [{
        path: pathTo(link.rule),
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

const counted = (reach: Reach, path: string, { place, tool }: Kind.NamedTool): ReadonlyArray<Problem> => {
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
    const { onlyNext, routes } = reach.set.forTool(tool)
    const last = [...routes, ...onlyNext].at(-1)
    if (last === undefined || !reach.runnable.has(tool)) return []
    const done = new Set([tool, ...reach.before(tool)])
    const follows = reach.walk?.followed.has(tool) ??
      reach.set.tools.some((next) =>
        reach.runnable.has(next) && reach.lets(tool, next) &&
        !reach.set.forTool(next).notAfter.some(({ tools }) => tools.some((it) => done.has(it)))
      )
    return follows ? [] : [{
      path: pathTo(last.rule),
      problem: `a contradiction: right after ${quote(tool)} nothing may be called`,
      expected: "a child that may come next"
    }]
  })

/** A periodic call is alone in its process: whatever it needs before it never comes. */
const alone = (reach: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> =>
  reach.set.periodic.flatMap(({ rule, tool }) => {
    if (!reach.runnable.has(tool)) return []
    const { needs: direct, onlyAfter, start } = reach.set.forTool(tool)
    // what its conversation needs may have succeeded in another process
    const own = [...direct, ...onlyAfter, ...start === undefined ? reach.set.starts : []]
    if (own.every(({ scope }) => scope === "session")) return []
    const needs = [
      ...reach.before(tool),
      ...onlyAfter.flatMap((it) => it.tools),
      ...start === undefined ? reach.set.starts.map((it) => it.tool) : []
    ]
    return needs.length === 0 ? [] : [{
      path: `${pathTo(rule)}.tool`,
      problem: `${quote(tool)} needs ${quote(needs[0]!)} first, and a periodic call is alone in its process`,
      expected: "a tool without prerequisites"
    }]
  })

/** What has to succeed in one process, and cannot together, though each of it can. */
const together = ({ set, walk }: Reach, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> => {
  if (walk === undefined) return []
  const isPossible = (tool: string) => walk.runnable.has(tool)
  if (!walk.starts && set.starts.every((it) => isPossible(it.tool))) {
    return [{
      path: pathTo(set.starts.at(-1)!.rule),
      problem: "a contradiction: the start tools cannot all succeed in one process",
      expected: "start tools that let each other run"
    }]
  }
  const last = set.required.at(-1)
  const isTold = set.required.some(({ isEach, tool }) => !isEach && !isPossible(tool))
  return walk.ends || last === undefined || isTold ? [] : [{
    path: pathTo(last.rule),
    problem: "a contradiction: the work can never end, for what is required before cannot all succeed",
    expected: "required tools that can all succeed before the end"
  }]
}

/**
 * Tools that no order leads to, where nothing else says so already. One that no rule names is cut off by what is wrong
 * with others, if anything is.
 */
const stuck = (reach: Reach, rules: ReadonlyArray<Placed>, isExplained: boolean): ReadonlyArray<Problem> => {
  const { set, walk } = reach
  if (walk?.starts === false) return []
  const told = new Set(rules.flatMap(({ rule }) => kindOf(rule).countsOn(rule).map(({ tool }) => tool)))
  return set.tools.flatMap((tool) => {
    if (
      reach.runnable.has(tool) || told.has(tool) || neverRuns(set.forTool(tool)) ||
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
const exclusions = (set: RuleIndex.RuleSet, pathTo: (rule: ToolRule) => string): ReadonlyArray<Problem> => {
  const place = new Map(set.rules.map((rule, index) => [rule, index]))
  const needed = [
    ...set.required.filter(({ isEach, when }) => when === undefined && !isEach),
    ...set.starts.filter(({ mode }) => mode === "all")
  ].toSorted((a, b) => place.get(a.rule)! - place.get(b.rule)!)
  const groups = new Map(
    needed.flatMap(({ scope, tool }) =>
      set.forTool(tool).groups.filter((it) => RuleIndex.isWithin(scope, it.scope)).map((it) => [it.rule, it.tools])
    )
  )
  return Array.from(groups).flatMap(([rule, tools]) => {
    const both = needed.filter((it) => tools.includes(it.tool))
    const other = both.find((it) => it.tool !== both[0]!.tool)
    if (other === undefined) return []
    const named = (it: { readonly rule: ToolRule; readonly tool: string }) => `${quote(it.tool)} (${pathTo(it.rule)})`
    return [{
      path: pathTo(rule),
      problem: `${named(both[0]!)} and ${named(other)} are both required`,
      expected: "at most one required tool in the group"
    }]
  })
}
