/**
 * What a rule set says: which call it forbids now and why, which tools may or have to come next, the sentences for a
 * prompt. Pure; `Rules` enforces it.
 *
 * The history of a process is plain data, so a set can be asked about any moment without an executor.
 *
 * **Example** (Asking a rule set)
 *
 * ```ts
 * import { RuleSet } from "effect-tool-executor"
 *
 * const set = RuleSet.make([
 *   { _tag: "RequiresPrecedingTools", tool: "query", tools: ["connect"] },
 *   { _tag: "RequiredBeforeExit", tool: "disconnect", when: ["connect"] }
 * ], ["connect", "query", "disconnect"])
 *
 * RuleSet.allowedNext(set, RuleSet.history(set, [])) // => ["connect", "disconnect"]
 *
 * const connected = RuleSet.history(set, [{ tool: "connect" }])
 * RuleSet.allowedNext(set, connected) // => ["connect", "query", "disconnect"]
 * RuleSet.exitPending(set, connected) // => ["disconnect"]
 *
 * RuleSet.describe(set)[0] // => "\"query\" may be called only after \"connect\" has succeeded."
 * ```
 */
import * as Equal from "effect/Equal"
import { valueAt } from "../../internal/valuePath.ts"
import type { RuleSet, ToolRules } from "./RuleIndex.ts"
import type * as Kind from "./RuleKind.ts"
import { scopeOf, type ToolRule } from "./RuleKinds.ts"
import type { Violation } from "./RuleText.ts"

export { graph } from "./RuleGraph.ts"
export { make } from "./RuleIndex.ts"
export type { Required, RuleSet, ToolRules } from "./RuleIndex.ts"
export { namesIn } from "./RuleNames.ts"
export { problems } from "./RuleProblems.ts"
export type { RuleTool } from "./RuleProblems.ts"
export { describe, explain, sentence } from "./RuleText.ts"
export type { Violation } from "./RuleText.ts"

/** A success as rules remember it. */
export type Success = Kind.Success<ToolRule>

/** What has happened in a process, a batch or a session so far, as far as rules ask. */
export type Past = Kind.Past<ToolRule>

/** What has happened in a process so far, and in all processes of its batch and its session, as far as rules ask. */
export type History = Kind.History<ToolRule>

/** Successes in order, with their encoded outputs. */
export type Successes = ReadonlyArray<{ readonly tool: string; readonly output?: unknown }>

/**
 * Creates the history of a process from its successes. `before` are those of earlier processes: of the same batch, and
 * of earlier batches of the same session.
 */
export const history = (
  self: RuleSet,
  successes: Successes,
  before: { readonly batch?: Successes | undefined; readonly session?: Successes | undefined } = {}
): History => {
  const past = (all: Successes): Past => {
    const last = all.at(-1)
    return { succeeded: new Set(all.map((it) => it.tool)), last: last && success(self, last.tool, last.output) }
  }
  const inBatch = [...before.batch ?? [], ...successes]
  return {
    ...past(successes),
    batch: past(inBatch),
    session: past([...before.session ?? [], ...inBatch]),
    exitWanted: successes.some((it) => self.forTool(it.tool).exits)
  }
}

/** The part of a history in which a rule with this scope counts. */
export const pastOf = (history: History, scope: Kind.Scope): Past => scope === "process" ? history : history[scope]

/** Creates a success, with the tools that its output leads to. */
export const success = (self: RuleSet, tool: string, output: unknown): Success => ({
  tool,
  routes: self.forTool(tool).routes.flatMap(({ path, rule, to }) => {
    const tools = to(valueAt(output, path))
    return tools === undefined ? [] : [{ rule, tools }]
  })
})

/**
 * Tells whether the rules of order forbid a tool now; with `params`, its encoded arguments, also whether they forbid
 * these. Limits of a batch and cooldowns are kept by `StateStore`.
 */
export const check = (
  self: RuleSet,
  history: History,
  call: { readonly tool: string; readonly params?: unknown }
): Violation | undefined => {
  const { tool } = call
  const rules = self.forTool(tool)
  return (self.starts.length > 0 ? notStarted(self, history, rules, tool) : undefined) ??
    outOfOrder(rules, history, tool) ??
    (self.looksBack ? notNext(self, rules, history, tool) : undefined) ??
    ("params" in call && rules.arguments.length > 0 ? wrongArgument(rules, tool, call.params) : undefined)
}

/** Gives the start tools that still have to succeed; of those with mode `any`, one is enough. */
export const startPending = (self: RuleSet, history: History): ReadonlyArray<string> =>
  self.starts.length === 0 ? none : unique(openStarts(self, history).map(({ tool }) => tool))

const openStarts = (self: RuleSet, history: History): RuleSet["starts"] => {
  const has = hasStarted(history)
  const enough = self.starts.some((it) => it.mode === "any" && has(it))
  return self.starts.filter((it) => it.mode === "any" ? !enough : !has(it))
}

/** Tells whether a start tool has succeeded where its rule counts. */
const hasStarted = (history: History) => ({ scope, tool }: RuleSet["starts"][number]): boolean =>
  pastOf(history, scope).succeeded.has(tool)

/** Gives the tools that have to succeed before the work may end. */
export const exitPending = (self: RuleSet, history: History): ReadonlyArray<string> =>
  self.required.length === 0 ? none : unique(
    self.required.filter(({ scope, tool, when }) => {
      const { succeeded } = pastOf(history, scope)
      return !succeeded.has(tool) && (when?.every((it) => succeeded.has(it)) ?? true)
    }).map(({ tool }) => tool)
  )

/**
 * Tells whether the process still waits for a success of the tool: a start tool, a prerequisite, a tool required before
 * exit, an exit tool.
 */
export const isAwaited = (self: RuleSet, history: History, tool: string): boolean => {
  if (self.rules.length === 0) return false
  const rules = self.forTool(tool)
  if (rules.exits && !history.succeeded.has(tool)) return true
  if (rules.start !== undefined && self.starts.some((it) => it.tool === tool && !hasStarted(history)(it))) return true
  if (rules.isPrerequisite.some((scope) => !pastOf(history, scope).succeeded.has(tool))) return true
  return self.required.length > 0 && exitPending(self, history).includes(tool)
}

/** Gives the tools that the rules of order allow next. Empty means none: it is never widened. */
export const allowedNext = (self: RuleSet, history: History): ReadonlyArray<string> =>
  self.tools.filter((tool) => check(self, history, { tool }) === undefined)

/**
 * Gives the tools of which one has to come next: start tools, what alone may follow the last success, required tools
 * once the exit is wanted. Empty if nothing is forced. `provided` are further tools, outside the set.
 */
export const forcedNext = (
  self: RuleSet,
  history: History,
  provided: ReadonlyArray<string> = none
): ReadonlyArray<string> => {
  const allowed = [...self.tools, ...provided].filter((tool) => check(self, history, { tool }) === undefined)
  const starts = startPending(self, history)
  if (starts.length > 0) return allowed.filter((tool) => starts.includes(tool))
  if (self.looksBack && neighboursOf(self, history).length > 0) return allowed
  if (!history.exitWanted) return none
  const required = exitPending(self, history)
  return allowed.filter((tool) => required.includes(tool))
}

const none: ReadonlyArray<never> = []

const unique = (names: ReadonlyArray<string>): ReadonlyArray<string> => Array.from(new Set(names))

const notStarted = (self: RuleSet, history: History, rules: ToolRules, tool: string): Violation | undefined => {
  if (rules.start !== undefined || self.starts.every(hasStarted(history))) return undefined
  const open = openStarts(self, history)
  const [first] = open
  if (first === undefined) return undefined
  const alternatives = self.starts.filter(({ mode }) => mode === "any").map((it) => it.tool)
  return { rule: first.rule, tool, names: unique(open.map((it) => it.tool)), alternatives }
}

const outOfOrder = (rules: ToolRules, history: History, tool: string): Violation | undefined => {
  // most calls break no rule: lists are made only for those that do
  for (const { rule, scope, tools } of rules.needs) {
    const { succeeded } = pastOf(history, scope)
    if (!tools.every((it) => succeeded.has(it))) return { rule, tool, names: tools.filter((it) => !succeeded.has(it)) }
  }
  for (const { rule, scope, tools } of rules.notAfter) {
    const { succeeded } = pastOf(history, scope)
    if (tools.some((it) => succeeded.has(it))) return { rule, tool, names: tools.filter((it) => succeeded.has(it)) }
  }
  for (const { now, rule } of rules.forbids) {
    const names = now(history)
    if (names !== undefined) return { rule, tool, names }
  }
  return undefined
}

const notNext = (self: RuleSet, rules: ToolRules, history: History, tool: string): Violation | undefined => {
  const [first] = rules.onlyAfter
  const follows = rules.onlyAfter.some(({ scope, tools }) => {
    const { last } = pastOf(history, scope)
    return last !== undefined && isAmong(tools, last.tool)
  })
  if (first !== undefined && !follows) {
    const names = rules.onlyAfter.flatMap((it) => it.tools)
    return { rule: first.rule, tool, names, isChild: true, last: pastOf(history, first.scope).last?.tool }
  }
  for (const { last, rule, tools } of neighboursOf(self, history)) {
    if (!tools.includes(tool)) return { rule, tool, names: tools, last }
  }
  return undefined
}

/** What alone may come right after the last success, by each rule that says so where that rule counts. */
const neighboursOf = (
  self: RuleSet,
  history: History
): ReadonlyArray<Kind.ListedTools<ToolRule> & { readonly last: string }> => {
  const found: Array<Kind.ListedTools<ToolRule> & { readonly last: string }> = []
  const visit = (scope: Kind.Scope) => {
    const { last } = pastOf(history, scope)
    if (last === undefined) return
    for (const it of self.forTool(last.tool).onlyNext) {
      if (it.scope === scope) found.push({ rule: it.rule, tools: it.tools, last: last.tool })
    }
    for (const { rule, tools } of last.routes) if (scopeOf(rule) === scope) found.push({ rule, tools, last: last.tool })
  }
  visit("process")
  for (const scope of self.remembers) visit(scope)
  return found
}

const isAmong = (tools: ReadonlyArray<string>, tool: string): boolean => tools.includes("*") || tools.includes(tool)

const wrongArgument = (rules: ToolRules, tool: string, params: unknown): Violation | undefined => {
  for (const { allowed, field, ifTaken, rule } of rules.arguments) {
    const isThere = typeof params === "object" && params !== null && Object.hasOwn(params, field)
    if (!isThere && ifTaken) continue
    const value = isThere ? (params as Record<string, unknown>)[field] : undefined
    if (!allowed.some((it) => Equal.equals(it, value))) return { rule, tool, names: none }
  }
  return undefined
}
