/**
 * Gates 9, 10 and 11: the rules of the host.
 *
 * What a rule set says of a moment is `RuleSet`'s to decide; here it is
 * enforced on calls. The order of a process (gate 9) is judged by its history,
 * the limits of a batch (gate 10) and cooldowns (gate 11) are claims on
 * `StateStore`. A wrong set fails the layer with everything that is wrong.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../ConfigurationError.ts"
import type { Claim, Refused } from "../store/StateStore.ts"
import { type Registry, ToolHandlers } from "../ToolHandlers.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { ToolRule } from "../ToolRule.ts"
import type { GateCall } from "./Gate.ts"
import * as RuleProblems from "./RuleProblems.ts"
import * as RuleSet from "./RuleSet.ts"

/**
 * The rules of an executor.
 *
 * @category services
 * @since 0.1.0
 */
export class Rules extends Context.Service<Rules, {
  /** The host's rules and those that the tools bring, for the tools as they are now. */
  readonly current: () => RuleSet.RuleSet
}>()("effect-tool-executor/policy/Rules") {}

/**
 * How many waves a required tool may hold up the end of the loop. After so many
 * the exit is let through; `exitPending` still names what is missing. Default 5.
 *
 * @category references
 * @since 0.1.0
 */
export const ExitAttempts = Context.Reference<number>("effect-tool-executor/policy/Rules/ExitAttempts", {
  defaultValue: () => 5
})

/**
 * Creates the rules of an executor; fails with every problem of the set.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  rules: ReadonlyArray<ToolRule>
): Effect.fn.Return<Rules["Service"], ConfigurationError, ToolHandlers> {
  const handlers = yield* ToolHandlers
  const problems = RuleSet.problems(rules, handlers.current(), handlers.expects)
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Rules", problems })
  return Rules.of({ current: forRegistry(handlers, rules) })
})

/**
 * Layer that enforces a rule set, with the rules that tools bring themselves
 * (`ToolAnnotations.Rules`).
 *
 * **Details**
 *
 * Fails with one `ConfigurationError` that lists everything: rules of the wrong
 * form, tools and arguments that are not there, cycles, required tools that can
 * never run, contradictions.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  rules: ReadonlyArray<ToolRule>
): Layer.Layer<Rules, ConfigurationError, ToolHandlers> => Layer.effect(Rules, make(rules))

/**
 * Layer without rules, those that tools bring included.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Rules> = Layer.sync(Rules, () => {
  const empty = RuleSet.make([], [])
  return { current: () => empty }
})

/**
 * Gate 9: the rules of order, as the call's place in its process has it.
 *
 * @category gates
 * @since 0.1.0
 */
export const check = (set: RuleSet.RuleSet, history: RuleSet.History, call: GateCall): ToolRefusal | undefined => {
  const violation = RuleSet.check(set, history, { tool: call.tool.name, params: call.args })
  return violation === undefined ? undefined : refusal(violation)
}

/**
 * Gates 10 and 11: the claims of a call on its batch and on its tool's rest.
 *
 * @category gates
 * @since 0.1.0
 */
export const claims = (
  rules: RuleSet.ToolRules,
  call: { readonly tool: string; readonly batch: string; readonly principal: string }
): ReadonlyArray<Claim> => {
  const { cooldown, groups, maxCalls } = rules
  if (maxCalls === undefined && cooldown === undefined && groups.length === 0) return none
  const { batch, principal, tool } = call
  const all: Array<Claim> = []
  if (maxCalls !== undefined) all.push({ _tag: "Calls", batch, tool, max: maxCalls.max })
  for (const { id: group } of groups) all.push({ _tag: "Group", batch, group, tool })
  if (cooldown !== undefined) all.push({ _tag: "Cooldown", principal, tool, millis: cooldown.millis })
  return all
}

/**
 * Explains a claim of gates 10 and 11 that could not be had.
 *
 * @category gates
 * @since 0.1.0
 */
export const explain = (
  rules: RuleSet.ToolRules,
  tool: string,
  refused: Exclude<Refused, { readonly _tag: "KeyTaken" }>
): ToolRefusal => {
  switch (refused._tag) {
    case "CallsUsedUp":
      return refusal({ rule: rules.maxCalls!, tool, names: none })
    case "GroupTaken": {
      const { rule } = rules.groups.find((it) => it.id === refused.group)!
      return refusal({ rule, tool, names: [refused.tool] })
    }
    case "CoolingDown": {
      const { rule } = rules.cooldown!
      return refused.running
        ? refusal({ rule, tool, names: [tool] })
        : { ...refusal({ rule, tool, names: none }), remainingMillis: refused.remainingMillis }
    }
  }
}

// Utilities

const none: ReadonlyArray<never> = []

const refusal = (violation: RuleSet.Violation) =>
  ({ _tag: "RuleViolation", rule: violation.rule, sentence: RuleSet.explain(violation) }) as const

/** The registry may be replaced: then the rules are indexed anew, for the tools that it has. */
const forRegistry = (handlers: ToolHandlers["Service"], rules: ReadonlyArray<ToolRule>) => {
  let registry: Registry | undefined
  let set: RuleSet.RuleSet
  return () => {
    const now = handlers.current()
    if (now !== registry) {
      registry = now
      set = RuleSet.make(RuleProblems.placed(rules, now).map((it) => it.rule as ToolRule), now.keys())
    }
    return set
  }
}
