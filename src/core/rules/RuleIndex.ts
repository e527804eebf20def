/**
 * A rule set indexed by tool: what the rules say of one tool is collected once, however many rules there are about
 * others. Pure.
 */
import type * as Kind from "./RuleKind.ts"
import { kindOf, scopeOf, type ToolRule } from "./RuleKinds.ts"

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
  let countsInProcesses = false
  for (const rule of rules) {
    const kind = kindOf(rule)
    const named = kind.names(rule).map((it) => it.tool)
    const counts = scopeOf(rule)
    const scope = counts === "principal" ? "process" : counts
    for (const tool of new Set(named)) {
      const says = kind.says(rule, tool)
      ordering.add(says, tool, named, scope)
      if (says.start !== undefined) starts.push({ rule, scope, tool, mode: says.start })
      if (says.fires !== undefined) periodic.push({ rule, tool, ...says.fires })
      const isLimit = says.maxCalls !== undefined || says.group !== undefined || says.cooldown !== undefined
      countsInProcesses ||= isLimit && counts === "process"
      // what counts in a process is part of its batch
      countsInBatches ||= isLimit && (counts === "process" || counts === "batch")
      if (says.required === undefined) continue
      const isEach = tool === "*"
      for (const it of isEach ? names : [tool]) required.push({ rule, scope, tool: it, isEach, ...says.required })
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
    countsInProcesses,
    countsInBatches: countsInBatches || ordering.noted.has("batch"),
    remembers: Array.from(ordering.noted.keys())
  }
}

/** What the rules of order of a set are about. */
class Ordering {
  /** Tools that a rule of order names, as subject or condition. */
  readonly named = new Set<string>()
  /** Tools that others have to wait for, in these scopes. */
  readonly prerequisites = new Map<string, Set<Kind.Scope>>()
  /** Tools whose successes are asked for in a shared scope; `*` is every tool. */
  readonly noted = new Map<Kind.SharedScope, Set<string>>()
  /** Shared scopes whose past may forbid any tool. */
  readonly askedByAll = new Set<Kind.SharedScope>()
  /** Some rule asks what came right before. */
  looksBack = false
  /** Every tool decides what may come next. */
  namesAll = false
  hasStarts = false

  add(says: Kind.Says, tool: string, named: ReadonlyArray<string>, scope: Kind.Scope): void {
    const isNeighbour = says.onlyNext !== undefined || says.onlyAfter !== undefined || says.routes !== undefined
    const isStart = says.start !== undefined
    if (says.needs !== undefined) { for (const it of says.needs) addTo(this.prerequisites, it, scope) }
    this.looksBack ||= isNeighbour
    this.hasStarts ||= isStart
    this.namesAll ||= isNeighbour && tool === "*"
    const isOrder = isNeighbour || isStart || says.needs !== undefined || says.notAfter !== undefined ||
      says.forbids !== undefined
    if (isOrder) { for (const it of named) this.named.add(it) }
    if (scope === "process" || !(isOrder || says.required !== undefined)) return
    for (const it of isNeighbour ? ["*"] : named) addTo(this.noted, scope, it)
    if (isNeighbour || isStart) this.askedByAll.add(scope)
  }

  /** The shared scopes in which the successes of a tool are asked for. */
  notedIn(tool: string): ReadonlyArray<Kind.SharedScope> {
    return Array.from(this.noted).flatMap(([scope, tools]) => tools.has("*") || tools.has(tool) ? [scope] : [])
  }
}

const addTo = <K, A>(all: Map<K, Set<A>>, key: K, value: A): void => {
  const known = all.get(key)
  if (known === undefined) all.set(key, new Set([value]))
  else known.add(value)
}

const collect = (rules: ReadonlyArray<ToolRule>, tool: string, ordering: Ordering): ToolRules => {
  const lists = {
    needs: [] as Array<Kind.ScopedTools<ToolRule>>,
    notAfter: [] as Array<Kind.ScopedTools<ToolRule>>,
    forbids: [] as Array<ToolRules["forbids"][number]>,
    onlyAfter: [] as Array<Kind.ScopedTools<ToolRule>>,
    onlyNext: [] as Array<Kind.ScopedTools<ToolRule>>,
    routes: [] as Array<ToolRules["routes"][number]>,
    arguments: [] as Array<ToolRules["arguments"][number]>,
    groups: [] as Array<ToolRules["groups"][number]>
  }
  const maxCalls = new Map<Kind.Scope, ToolRules["maxCalls"][number]>()
  const cooldowns = new Map<Kind.Scope | "principal", ToolRules["cooldowns"][number]>()
  const asks = new Set(ordering.askedByAll)
  let start: ToolRules["start"]
  let consent: ToolRules["consent"]
  let dedupe: ToolRules["dedupe"]
  let dedupeScope: ToolRules["dedupeScope"]
  let prefilled: ToolRules["prefilled"]
  let [continues, exits, isRequired] = [false, false, false]
  for (const rule of rules) {
    const says = kindOf(rule).says(rule, tool)
    const counts = scopeOf(rule)
    const scope = counts === "principal" ? "process" : counts
    if (says.needs !== undefined) lists.needs.push({ rule, scope, tools: says.needs })
    if (says.notAfter !== undefined) lists.notAfter.push({ rule, scope, tools: says.notAfter })
    if (says.forbids !== undefined) lists.forbids.push({ rule, now: says.forbids })
    if (says.onlyAfter !== undefined) lists.onlyAfter.push({ rule, scope, tools: says.onlyAfter })
    if (says.onlyNext !== undefined) lists.onlyNext.push({ rule, scope, tools: says.onlyNext })
    if (says.routes !== undefined) lists.routes.push({ rule, scope, ...says.routes })
    if (says.argument !== undefined) lists.arguments.push({ rule, ...says.argument })
    if (says.group !== undefined) {
      const tools = says.group.toSorted()
      const id = JSON.stringify(scope === "batch" ? tools : [scope, tools])
      lists.groups.push({ rule, scope, tools: says.group, id })
    }
    const isAsked = (says.needs ?? says.notAfter ?? says.forbids ?? says.required) !== undefined
    if (scope !== "process" && isAsked) asks.add(scope)
    if (says.start !== undefined) start = says.start
    if (says.maxCalls !== undefined && says.maxCalls < (maxCalls.get(scope)?.max ?? Infinity)) {
      maxCalls.set(scope, { rule, scope, max: says.maxCalls })
    }
    if (says.cooldown !== undefined && says.cooldown > (cooldowns.get(counts)?.millis ?? 0)) {
      cooldowns.set(counts, { rule, scope: counts, millis: says.cooldown })
    }
    if (says.consent !== undefined) consent = withApprovers(consent ?? says.consent, consent && says.consent)
    // "never" wins: the host has asked for such calls to be repeated
    if (says.dedupe !== undefined && dedupe !== "never") {
      dedupe = says.dedupe
      if (rule._tag === "AlwaysDedupe") dedupeScope = widest(dedupeScope, rule.scope)
    }
    if (says.prefilled !== undefined) prefilled = { ...prefilled, ...says.prefilled }
    continues ||= says.continues === true
    exits ||= says.exits === true
    isRequired ||= says.required !== undefined
  }
  const isPrerequisite = Array.from(ordering.prerequisites.get(tool) ?? [])
  for (const scope of isPrerequisite) if (scope !== "process") asks.add(scope)
  return {
    ...lists,
    start,
    maxCalls: Array.from(maxCalls.values()),
    cooldowns: Array.from(cooldowns.values()),
    consent,
    dedupe,
    dedupeScope,
    prefilled,
    continues,
    exits,
    isPrerequisite,
    mayBeAwaited: start !== undefined || exits || isPrerequisite.length > 0 || isRequired,
    isFree: !ordering.hasStarts && !ordering.looksBack && lists.needs.length === 0 && lists.notAfter.length === 0 &&
      lists.forbids.length === 0 && lists.arguments.length === 0,
    closesRun: ordering.namesAll || ordering.named.has(tool),
    notedIn: ordering.notedIn(tool),
    asks: Array.from(asks)
  }
}

/** The scopes from the narrowest to the widest. */
const scopes: ReadonlyArray<Kind.Scope> = ["process", "batch", "session"]

/** Whether what happens in one scope has also happened in another. */
export const isWithin = (one: Kind.Scope, other: Kind.Scope): boolean => scopes.indexOf(one) <= scopes.indexOf(other)

/** The wider of two scopes. */
export const widest = <A extends Kind.Scope | undefined>(one: A, other: A): A =>
  other === undefined || (one !== undefined && isWithin(other, one)) ? one : other

/** All approvers of several rules have to approve. */
const withApprovers = (consent: Kind.Consent, other: Kind.Consent | undefined): Kind.Consent =>
  other?.approvers === undefined
    ? consent
    : { ...consent, approvers: [...consent.approvers ?? [], ...other.approvers] }
