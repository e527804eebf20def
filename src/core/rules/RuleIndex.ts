/**
 * A rule set indexed by what a call asks: what the rules say of one tool is
 * collected once, however many rules there are about others. Pure.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type * as Schema from "effect/Schema"
import * as ToolRule from "./ToolRule.ts"

/**
 * What the rules say of one tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolRules {
  /** It is a start tool. */
  readonly start: ToolRule.Of<"StartConstraint"> | undefined
  readonly preceding: ReadonlyArray<ToolRule.Of<"RequiresPrecedingTools">>
  readonly following: ReadonlyArray<ToolRule.Of<"RequiresFollowingTools">>
  /** The rules that list it as a child: it may come right after any of these parents. */
  readonly parents: ReadonlyArray<ToolRule.Of<"ParentTools">>
  readonly operations: ReadonlyArray<ToolRule.Of<"AllowedOperations">>
  /** Right after a success of it, only the children of each. */
  readonly children: ReadonlyArray<ToolRule.Of<"ChildTools"> | ToolRule.Of<"ParentTools">>
  /** Right after a success of it, what its output says. */
  readonly conditionals: ReadonlyArray<ToolRule.Of<"Conditional">>
  /** The strictest of the `MaxCalls` rules. */
  readonly maxCalls: ToolRule.Of<"MaxCalls"> | undefined
  readonly groups: ReadonlyArray<{ readonly rule: ToolRule.Of<"ExclusiveGroup">; readonly id: string }>
  /** The longest of the `Cooldown` rules. */
  readonly cooldown: { readonly rule: ToolRule.Of<"Cooldown">; readonly millis: number } | undefined
  readonly consent: ToolRule.Of<"RequiresConsent"> | undefined
  readonly dedupe: "never" | "always" | undefined
  /** The tool needs no heartbeat. */
  readonly continues: boolean
  /** A success ends the loop. */
  readonly exits: boolean
  /** Another tool has to wait for its success. */
  readonly isPrerequisite: boolean
  /** A process may wait for its success: it starts, is a prerequisite, is required before exit, or exits. */
  readonly mayBeAwaited: boolean
  /** Arguments that override the model's. */
  readonly prefilled: Readonly<Record<string, Schema.Json>> | undefined
  /** Nothing about the moment or the arguments can forbid it: gate 9 has nothing to ask. */
  readonly isFree: boolean
  /** An ordering rule names it: a call of the tool is the last of its run. */
  readonly closesRun: boolean
}

/**
 * A tool that has to succeed before the work may end.
 *
 * @category models
 * @since 0.1.0
 */
export interface Required {
  readonly tool: string
  readonly rule: ToolRule.Of<"RequiredBeforeExit">
}

/**
 * A rule set, ready to be asked. Made by `RuleSet.make`.
 *
 * @category models
 * @since 0.1.0
 */
export interface RuleSet {
  readonly rules: ReadonlyArray<ToolRule.ToolRule>
  /** Names of the tools it is for. */
  readonly tools: ReadonlyArray<string>
  readonly forTool: (tool: string) => ToolRules
  readonly starts: ReadonlyArray<ToolRule.Of<"StartConstraint">>
  readonly required: ReadonlyArray<Required>
  readonly periodic: ReadonlyArray<ToolRule.Of<"Periodic">>
  /** Whether some rule asks what came right before. */
  readonly looksBack: boolean
  /** Whether some rule counts in batches. */
  readonly countsInBatches: boolean
}

/**
 * Creates a rule set for tools. It does not look for mistakes; `RuleSet.problems` does.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (rules: ReadonlyArray<ToolRule.ToolRule>, tools: Iterable<string>): RuleSet => {
  const names = Array.from(tools)
  const ordering = namesOf(rules)
  // each is collected at its first question
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
    starts: rules.filter((rule) => rule._tag === "StartConstraint"),
    required: rules.filter((rule) => rule._tag === "RequiredBeforeExit").flatMap((rule) =>
      (rule.tool === "*" ? names : [rule.tool]).map((tool) => ({ tool, rule }))
    ),
    periodic: rules.filter((rule) => rule._tag === "Periodic"),
    looksBack: rules.some(isAboutNeighbours),
    countsInBatches: rules.some((rule) => rule._tag === "MaxCalls" || rule._tag === "ExclusiveGroup")
  }
}

// Utilities

type Neighbours = ToolRule.Of<"ChildTools"> | ToolRule.Of<"ParentTools"> | ToolRule.Of<"Conditional">

const isAboutNeighbours = (rule: ToolRule.ToolRule): rule is Neighbours =>
  rule._tag === "ChildTools" || rule._tag === "ParentTools" || rule._tag === "Conditional"

interface Ordering {
  /** Some rule is about every call: a start tool, what came right before. */
  readonly isAboutAll: boolean
  /** Tools that an ordering rule names, as subject or condition. */
  readonly named: ReadonlySet<string>
  /** Tools that others have to wait for. */
  readonly prerequisites: ReadonlySet<string>
  /** Every tool is a condition: what may come next depends on any success. */
  readonly all: boolean
}

const namesOf = (rules: ReadonlyArray<ToolRule.ToolRule>): Ordering => {
  const named = new Set<string>()
  const prerequisites = new Set<string>()
  let all = false
  const name = (tools: ReadonlyArray<string>) => {
    for (const tool of tools) named.add(tool)
  }
  for (const rule of rules) {
    switch (rule._tag) {
      case "StartConstraint":
        name([rule.tool])
        break
      case "RequiresPrecedingTools":
        for (const tool of rule.tools) prerequisites.add(tool)
        name([rule.tool, ...rule.tools])
        break
      case "RequiresFollowingTools":
        name([rule.tool, ...rule.tools])
        break
      case "ChildTools":
      case "ParentTools":
        name([rule.tool, ...rule.children])
        all ||= rule.tool === "*"
        break
      case "Conditional":
        name([rule.tool, ...rule.cases.map((it) => it.tool), ...rule.default === undefined ? [] : [rule.default]])
        all ||= rule.tool === "*"
        break
    }
  }
  const isAboutAll = rules.some((rule) => rule._tag === "StartConstraint" || isAboutNeighbours(rule))
  return { isAboutAll, named, prerequisites, all }
}

interface Draft extends Record<string, unknown> {
  start: ToolRule.Of<"StartConstraint"> | undefined
  maxCalls: ToolRule.Of<"MaxCalls"> | undefined
  cooldown: ToolRules["cooldown"]
  consent: ToolRule.Of<"RequiresConsent"> | undefined
  dedupe: ToolRules["dedupe"]
  continues: boolean
  exits: boolean
  isRequired: boolean
  prefilled: Readonly<Record<string, Schema.Json>> | undefined
}

const collect = (rules: ReadonlyArray<ToolRule.ToolRule>, tool: string, ordering: Ordering): ToolRules => {
  const lists = {
    preceding: [] as Array<ToolRule.Of<"RequiresPrecedingTools">>,
    following: [] as Array<ToolRule.Of<"RequiresFollowingTools">>,
    parents: [] as Array<ToolRule.Of<"ParentTools">>,
    operations: [] as Array<ToolRule.Of<"AllowedOperations">>,
    children: [] as Array<ToolRule.Of<"ChildTools"> | ToolRule.Of<"ParentTools">>,
    conditionals: [] as Array<ToolRule.Of<"Conditional">>,
    groups: [] as Array<ToolRules["groups"][number]>
  }
  const one: Draft = {
    start: undefined,
    maxCalls: undefined,
    cooldown: undefined,
    consent: undefined,
    dedupe: undefined,
    continues: false,
    exits: false,
    isRequired: false,
    prefilled: undefined
  }
  for (const rule of rules) {
    if (rule._tag === "ParentTools" && rule.children.includes(tool)) lists.parents.push(rule)
    if (rule._tag === "ChildTools" && rule.prefilled !== undefined && Object.hasOwn(rule.prefilled, tool)) {
      one.prefilled = { ...one.prefilled, ...rule.prefilled[tool] }
    }
    if (ToolRule.concerns(rule, tool)) add(rule, lists, one)
  }
  return {
    ...lists,
    ...one,
    isFree: !ordering.isAboutAll && lists.preceding.length === 0 && lists.following.length === 0 &&
      lists.operations.length === 0,
    isPrerequisite: ordering.prerequisites.has(tool),
    mayBeAwaited: one.start !== undefined || one.exits || ordering.prerequisites.has(tool) || one.isRequired,
    closesRun: ordering.all || ordering.named.has(tool)
  }
}

type Lists = {
  [K in "preceding" | "following" | "operations" | "children" | "conditionals" | "groups"]: Array<ToolRules[K][number]>
}

const add = (rule: ToolRule.ToolRule, lists: Lists, one: Draft): void => {
  switch (rule._tag) {
    case "StartConstraint":
      one.start = rule
      break
    case "RequiresPrecedingTools":
      lists.preceding.push(rule)
      break
    case "RequiresFollowingTools":
      lists.following.push(rule)
      break
    case "ChildTools":
    case "ParentTools":
      lists.children.push(rule)
      break
    case "Conditional":
      lists.conditionals.push(rule)
      break
    case "AllowedOperations":
      lists.operations.push(rule)
      break
    case "MaxCalls":
      if (one.maxCalls === undefined || rule.max < one.maxCalls.max) one.maxCalls = rule
      break
    case "ExclusiveGroup":
      lists.groups.push({ rule, id: JSON.stringify(rule.tools.toSorted()) })
      break
    case "Cooldown": {
      const millis = Duration.toMillis(Duration.fromInputUnsafe(rule.duration as Duration.Input))
      if (one.cooldown === undefined || millis > one.cooldown.millis) one.cooldown = { rule, millis }
      break
    }
    case "RequiresConsent":
      one.consent ??= rule
      break
    case "NeverDedupe":
      // "never" wins: the host has asked for such calls to be repeated
      one.dedupe = "never"
      break
    case "AlwaysDedupe":
      one.dedupe ??= "always"
      break
    case "ContinueLoop":
      one.continues = true
      break
    case "ExitLoop":
      one.exits = true
      break
    case "RequiredBeforeExit":
      one.isRequired = true
      break
    case "Periodic":
      // it concerns the host alone, and is kept by the set
  }
}
