/**
 * Gates 9 and 10: the rules of the host.
 *
 * A rule set is checked when the layer is built. Enforced here are the rules of
 * a batch (`MaxCalls`) and the static ones (`ContinueLoop`, `NeverDedupe`,
 * `AlwaysDedupe`); a rule that nothing enforces is a build error, never a
 * silent no-op.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError, type Problem } from "../ConfigurationError.ts"
import type { CallsClaim } from "../store/StateStore.ts"
import { ToolHandlers } from "../ToolHandlers.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import * as ToolRule from "../ToolRule.ts"
import type { GateCall } from "./Gate.ts"

/**
 * What the rules say of one tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolRules {
  /** The strictest of the `MaxCalls` rules. */
  readonly maxCalls: Extract<ToolRule.ToolRule, { readonly _tag: "MaxCalls" }> | undefined
  /** The tool needs no heartbeat. */
  readonly continues: boolean
  readonly dedupe: "never" | "always" | undefined
  /** A call of the tool is the last of its run. */
  readonly closesRun: boolean
}

/**
 * The rules of an executor, looked up by tool.
 *
 * @category services
 * @since 0.1.0
 */
export class Rules extends Context.Service<Rules, {
  readonly forTool: (tool: string) => ToolRules
}>()("effect-tool-executor/policy/Rules") {}

/**
 * Kinds of rules that are enforced.
 *
 * @category constants
 * @since 0.1.0
 */
export const enforced: ReadonlySet<ToolRule.Tag> = new Set([
  "MaxCalls",
  "ContinueLoop",
  "NeverDedupe",
  "AlwaysDedupe"
])

const free: ToolRules = { maxCalls: undefined, continues: false, dedupe: undefined, closesRun: false }

/**
 * Creates the rules of an executor; fails with every problem of the set.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  rules: ReadonlyArray<ToolRule.ToolRule>
): Effect.fn.Return<Rules["Service"], ConfigurationError, ToolHandlers> {
  const tools = (yield* ToolHandlers).current()
  const problems: Array<Problem> = []
  rules.forEach((rule, index) => {
    const path = `rules[${index}]`
    if (!enforced.has(rule._tag)) {
      problems.push({
        path,
        problem: `${rule._tag} is not enforced by this version`,
        expected: `one of ${Array.from(enforced).join(", ")}`
      })
    }
    if (rule._tag !== "ExclusiveGroup" && rule.tool !== "*" && !tools.has(rule.tool)) {
      problems.push({
        path: `${path}.tool`,
        problem: `there is no tool "${rule.tool}"`,
        expected: `* or one of ${Array.from(tools.keys()).join(", ")}`
      })
    }
    if (rule._tag === "MaxCalls" && !(Number.isInteger(rule.max) && rule.max >= 0)) {
      problems.push({ path: `${path}.max`, problem: `it is ${rule.max}`, expected: "a whole number of 0 or more" })
    }
  })
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Rules", problems })

  // one look-up per tool, however many rules there are
  const byTool = new Map<string, ToolRules>()
  return Rules.of({
    forTool: (tool) => {
      let found = byTool.get(tool)
      if (found === undefined && tools.has(tool)) byTool.set(tool, found = collect(rules, tool))
      return found ?? collect(rules, tool)
    }
  })
})

/**
 * Layer that enforces a rule set.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  rules: ReadonlyArray<ToolRule.ToolRule>
): Layer.Layer<Rules, ConfigurationError, ToolHandlers> => Layer.effect(Rules, make(rules))

/**
 * Layer without rules.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Rules> = Layer.succeed(Rules, { forTool: () => free })

/**
 * Gate 10: the claims of a call on its batch.
 *
 * @category gates
 * @since 0.1.0
 */
export const claim = (rules: ToolRules, call: GateCall): CallsClaim | undefined =>
  rules.maxCalls === undefined
    ? undefined
    : { _tag: "Calls", batch: call.batch, tool: call.tool.name, max: rules.maxCalls.max }

/**
 * Explains a claim of gate 10 that could not be had.
 *
 * @category gates
 * @since 0.1.0
 */
export const explain = (rules: ToolRules, tool: string): ToolRefusal => ({
  _tag: "RuleViolation",
  rule: rules.maxCalls!,
  sentence: `"${tool}" may run at most ${rules.maxCalls!.max} times for this request, and that is used up. ` +
    "Do not call it again; go on with what you have."
})

// Utilities

const collect = (rules: ReadonlyArray<ToolRule.ToolRule>, tool: string): ToolRules =>
  rules.filter((rule) => ToolRule.concerns(rule, tool)).reduce<ToolRules>((all, rule) => {
    switch (rule._tag) {
      case "MaxCalls":
        return all.maxCalls !== undefined && all.maxCalls.max <= rule.max ? all : { ...all, maxCalls: rule }
      case "ContinueLoop":
        return { ...all, continues: true }
      case "NeverDedupe":
        return { ...all, dedupe: "never" }
      case "AlwaysDedupe":
        // never wins: repeating what must not be deduplicated is what the host asked for
        return all.dedupe === "never" ? all : { ...all, dedupe: "always" }
      default:
        return all
    }
  }, free)
