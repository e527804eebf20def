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
import type { ToolRule } from "./RuleKinds.ts"
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

/** What has happened in a process so far, as far as rules ask. */
export type History = Kind.History<ToolRule>

/**
 * Creates the history of a process from its successes, in order, with their encoded outputs; `inBatch` are the tools
 * that succeeded in other processes.
 */
export const history = (
  self: RuleSet,
  successes: ReadonlyArray<{ readonly tool: string; readonly output?: unknown }>,
  inBatch: Iterable<string> = []
): History => {
  const succeeded = new Set(successes.map((it) => it.tool))
  const last = successes.at(-1)
  return {
    succeeded,
    inBatch: new Set([...succeeded, ...inBatch]),
    last: last && success(self, last.tool, last.output),
    exitWanted: successes.some((it) => self.forTool(it.tool).exits)
  }
}

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
export const startPending = (self: RuleSet, { succeeded }: History): ReadonlyArray<string> => {
  if (self.starts.length === 0) return none
  const enough = self.starts.some(({ mode, tool }) => mode === "any" && succeeded.has(tool))
  return unique(
    self.starts.filter(({ mode, tool }) => mode === "any" ? !enough : !succeeded.has(tool)).map(({ tool }) => tool)
  )
}

/** Gives the tools that have to succeed before the work may end. */
export const exitPending = (self: RuleSet, history: History): ReadonlyArray<string> =>
  self.required.length === 0 ? none : unique(
    self.required.filter(({ inBatch, tool, when }) => {
      const succeeded = inBatch ? history.inBatch : history.succeeded
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
  if ((rules.start !== undefined || rules.isPrerequisite || rules.exits) && !history.succeeded.has(tool)) return true
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
  if (history.last !== undefined) {
    const { onlyNext } = self.forTool(history.last.tool)
    if (onlyNext.length > 0 || history.last.routes.length > 0) return allowed
  }
  if (!history.exitWanted) return none
  const required = exitPending(self, history)
  return allowed.filter((tool) => required.includes(tool))
}

const none: ReadonlyArray<never> = []

const unique = (names: ReadonlyArray<string>): ReadonlyArray<string> => Array.from(new Set(names))

const notStarted = (self: RuleSet, history: History, rules: ToolRules, tool: string): Violation | undefined => {
  if (rules.start !== undefined || self.starts.every((it) => history.succeeded.has(it.tool))) return undefined
  const missing = startPending(self, history)
  if (missing.length === 0) return undefined
  const { rule } = self.starts.find((it) => it.tool === missing[0])!
  const alternatives = self.starts.filter(({ mode }) => mode === "any").map((it) => it.tool)
  return { rule, tool, names: missing, alternatives }
}

const outOfOrder = (rules: ToolRules, history: History, tool: string): Violation | undefined => {
  // most calls break no rule: lists are made only for those that do
  const has = (it: string) => history.succeeded.has(it)
  for (const { rule, tools } of rules.needs) {
    if (!tools.every(has)) return { rule, tool, names: tools.filter((it) => !has(it)) }
  }
  for (const { rule, tools } of rules.notAfter) {
    if (tools.some(has)) return { rule, tool, names: tools.filter(has) }
  }
  for (const { now, rule } of rules.forbids) {
    const names = now(history)
    if (names !== undefined) return { rule, tool, names }
  }
  return undefined
}

const notNext = (self: RuleSet, rules: ToolRules, { last }: History, tool: string): Violation | undefined => {
  const [first] = rules.onlyAfter
  if (first !== undefined && !rules.onlyAfter.some(({ tools }) => last !== undefined && isAmong(tools, last.tool))) {
    const names = rules.onlyAfter.flatMap((it) => it.tools)
    return { rule: first.rule, tool, names, isChild: true, last: last?.tool }
  }
  if (last === undefined) return undefined
  for (const { rule, tools } of self.forTool(last.tool).onlyNext) {
    if (!tools.includes(tool)) return { rule, tool, names: tools, last: last.tool }
  }
  for (const { rule, tools } of last.routes) {
    if (!tools.includes(tool)) return { rule, tool, names: tools, last: last.tool }
  }
  return undefined
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
