/**
 * Which tools can ever run under a rule set, and which rules count on one that
 * cannot. Pure.
 *
 * A tool can run if some order of successes leads to it. The order is looked
 * for as a least fixpoint, so cycles of prerequisites need no search of their
 * own; they are only named.
 *
 * @since 0.1.0
 */
import type { Problem } from "../ConfigurationError.ts"
import type { ToolRule } from "../ToolRule.ts"
import * as RuleIndex from "./RuleIndex.ts"

interface Placed {
  readonly path: string
  readonly rule: ToolRule
}

/**
 * Gives the problems of rules that count on a tool which can never run, and of
 * tools after which nothing may follow.
 *
 * @category checking
 * @since 0.1.0
 */
export const unreachable = (rules: ReadonlyArray<Placed>, names: ReadonlyArray<string>): ReadonlyArray<Problem> => {
  const reach = new Reach(RuleIndex.make(rules.map(({ rule }) => rule), names))
  const pathTo = (rule: ToolRule): string => rules.find((it) => it.rule === rule)!.path
  return [
    ...contradictions(reach, pathTo),
    ...rules.flatMap((it) => demands(it).flatMap(([place, tool]) => counted(reach, it.path, place, tool))),
    ...deadEnds(reach, pathTo),
    ...rules.flatMap((it) => alone(reach, it)),
    ...exclusions(rules)
  ]
}

// Utilities

const quote = (name: string): string => `"${name}"`

class Reach {
  readonly set: RuleIndex.RuleSet
  readonly runnable = new Set<string>()
  private readonly prerequisites = new Map<string, ReadonlySet<string>>()

  constructor(set: RuleIndex.RuleSet) {
    this.set = set
    for (let before = -1; before < this.runnable.size;) {
      before = this.runnable.size
      for (const tool of set.tools) if (this.isNext(tool)) this.runnable.add(tool)
    }
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
    return { rule, why: `${quote(tool)} is to come right after ${quote(rule.tool)}, where another rule forbids it` }
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

  private isNext(tool: string): boolean {
    if (this.runnable.has(tool)) return false
    const rules = this.set.forTool(tool)
    if (rules.maxCalls?.max === 0 || this.contradiction(tool) !== undefined) return false
    if (!this.direct(tool).every((it) => this.runnable.has(it))) return false
    const any = this.set.starts.filter((it) => it.mode === "any")
    if (rules.start === undefined && any.length > 0 && !any.some((it) => this.runnable.has(it.tool))) return false
    return rules.parents.length === 0 ||
      rules.parents.some((rule) =>
        this.parentsOf(rule).some((parent) => this.runnable.has(parent) && this.lets(parent, tool))
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
      ? "what has to come before it can never run"
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
    const { children } = reach.set.forTool(tool)
    if (children.length === 0 || !reach.runnable.has(tool)) return []
    const done = new Set([tool, ...reach.before(tool)])
    const follows = reach.set.tools.some((next) =>
      reach.runnable.has(next) && reach.lets(tool, next) &&
      !reach.set.forTool(next).following.some((rule) => rule.tools.some((it) => done.has(it)))
    )
    return follows ? [] : [{
      path: pathTo(children.at(-1)!),
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
