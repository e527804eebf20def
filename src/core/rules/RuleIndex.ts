/**
 * A rule set indexed by tool: what the rules say of one tool is collected once, however many rules there are about
 * others. Pure.
 */
import type * as Kind from "./RuleKind.ts"
import { kindOf, type ToolRule } from "./RuleKinds.ts"

/** What the rules say of one tool. */
export type ToolRules = Kind.ToolRules<ToolRule>

/** A tool that has to succeed before the work may end. */
export type Required = Kind.Required<ToolRule>

/** A rule set, indexed by tool. Made by `RuleSet.make`. */
export type RuleSet = Kind.RuleSet<ToolRule>

/** Creates a rule set for tools. It does not look for mistakes; `RuleSet.problems` does. */
export const make = (rules: ReadonlyArray<ToolRule>, tools: Iterable<string>): RuleSet => {
  const names = Array.from(tools)
  const ordering = new Ordering()
  const starts: Array<RuleSet["starts"][number]> = []
  const required: Array<Required> = []
  const periodic: Array<RuleSet["periodic"][number]> = []
  let countsInBatches = false
  for (const rule of rules) {
    const kind = kindOf(rule)
    const named = kind.names(rule).map((it) => it.tool)
    for (const tool of new Set(named)) {
      const says = kind.says(rule, tool)
      ordering.add(says, tool, named)
      if (says.start !== undefined) starts.push({ rule, tool, mode: says.start })
      if (says.fires !== undefined) periodic.push({ rule, tool, ...says.fires })
      countsInBatches ||= says.maxCalls !== undefined || says.group !== undefined
      if (says.required === undefined) continue
      const isEach = tool === "*"
      for (const it of isEach ? names : [tool]) required.push({ rule, tool: it, isEach, ...says.required })
    }
  }
  // a tool's rules are collected when they are first asked for
  const byTool = new Map<string, ToolRules | undefined>(names.map((name) => [name, undefined]))
  return {
    rules,
    tools: names,
    forTool: (tool) => {
      const found = byTool.get(tool)
      if (found !== undefined) return found
      const collected = collect(rules, tool, ordering)
      // names that are not tools come from a model: they are not kept
      if (byTool.has(tool)) byTool.set(tool, collected)
      return collected
    },
    starts,
    required,
    periodic,
    looksBack: ordering.looksBack,
    countsInBatches
  }
}

/** What the rules of order of a set are about. */
class Ordering {
  /** Tools that a rule of order names, as subject or condition. */
  readonly named = new Set<string>()
  /** Tools that others have to wait for. */
  readonly prerequisites = new Set<string>()
  /** Some rule asks what came right before. */
  looksBack = false
  /** Every tool decides what may come next. */
  namesAll = false
  hasStarts = false

  add(says: Kind.Says, tool: string, named: ReadonlyArray<string>): void {
    const isNeighbour = says.onlyNext !== undefined || says.onlyAfter !== undefined || says.routes !== undefined
    const isStart = says.start !== undefined
    if (says.needs !== undefined) { for (const it of says.needs) this.prerequisites.add(it) }
    this.looksBack ||= isNeighbour
    this.hasStarts ||= isStart
    this.namesAll ||= isNeighbour && tool === "*"
    const isOrder = isNeighbour || isStart || says.needs !== undefined || says.notAfter !== undefined ||
      says.forbids !== undefined
    if (isOrder) { for (const it of named) this.named.add(it) }
  }
}

const collect = (rules: ReadonlyArray<ToolRule>, tool: string, ordering: Ordering): ToolRules => {
  const lists = {
    needs: [] as Array<Kind.ListedTools<ToolRule>>,
    notAfter: [] as Array<Kind.ListedTools<ToolRule>>,
    forbids: [] as Array<ToolRules["forbids"][number]>,
    onlyAfter: [] as Array<Kind.ListedTools<ToolRule>>,
    onlyNext: [] as Array<Kind.ListedTools<ToolRule>>,
    routes: [] as Array<ToolRules["routes"][number]>,
    arguments: [] as Array<ToolRules["arguments"][number]>,
    groups: [] as Array<ToolRules["groups"][number]>
  }
  let start: ToolRules["start"]
  let maxCalls: ToolRules["maxCalls"]
  let cooldown: ToolRules["cooldown"]
  let consent: ToolRules["consent"]
  let dedupe: ToolRules["dedupe"]
  let prefilled: ToolRules["prefilled"]
  let [continues, exits, isRequired] = [false, false, false]
  for (const rule of rules) {
    const says = kindOf(rule).says(rule, tool)
    if (says.needs !== undefined) lists.needs.push({ rule, tools: says.needs })
    if (says.notAfter !== undefined) lists.notAfter.push({ rule, tools: says.notAfter })
    if (says.forbids !== undefined) lists.forbids.push({ rule, now: says.forbids })
    if (says.onlyAfter !== undefined) lists.onlyAfter.push({ rule, tools: says.onlyAfter })
    if (says.onlyNext !== undefined) lists.onlyNext.push({ rule, tools: says.onlyNext })
    if (says.routes !== undefined) lists.routes.push({ rule, ...says.routes })
    if (says.argument !== undefined) lists.arguments.push({ rule, ...says.argument })
    if (says.group !== undefined) {
      lists.groups.push({ rule, tools: says.group, id: JSON.stringify(says.group.toSorted()) })
    }
    if (says.start !== undefined) start = says.start
    if (says.maxCalls !== undefined && says.maxCalls < (maxCalls?.max ?? Infinity)) {
      maxCalls = { rule, max: says.maxCalls }
    }
    if (says.cooldown !== undefined && says.cooldown > (cooldown?.millis ?? 0)) {
      cooldown = { rule, millis: says.cooldown }
    }
    consent ??= says.consent
    // "never" wins: the host has asked for such calls to be repeated
    if (says.dedupe !== undefined && dedupe !== "never") dedupe = says.dedupe
    if (says.prefilled !== undefined) prefilled = { ...prefilled, ...says.prefilled }
    continues ||= says.continues === true
    exits ||= says.exits === true
    isRequired ||= says.required !== undefined
  }
  const isPrerequisite = ordering.prerequisites.has(tool)
  return {
    ...lists,
    start,
    maxCalls,
    cooldown,
    consent,
    dedupe,
    prefilled,
    continues,
    exits,
    isPrerequisite,
    mayBeAwaited: start !== undefined || exits || isPrerequisite || isRequired,
    isFree: !ordering.hasStarts && !ordering.looksBack && lists.needs.length === 0 && lists.notAfter.length === 0 &&
      lists.forbids.length === 0 && lists.arguments.length === 0,
    closesRun: ordering.namesAll || ordering.named.has(tool)
  }
}
