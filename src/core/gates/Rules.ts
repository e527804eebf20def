/**
 * Gates 9, 10 and 11: the rules of the host.
 *
 * `RuleSet` decides what a rule set says at a moment; here it is enforced on calls. The order of a process (gate 9) is
 * judged by its history, the limits of a batch (gate 10) and cooldowns (gate 11) are claims on `StateStore`. A wrong
 * set fails the layer with everything that is wrong.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Stream from "effect/Stream"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import * as Changes from "../../internal/changes.ts"
import type { Scope } from "../rules/RuleKind.ts"
import * as RuleProblems from "../rules/RuleProblems.ts"
import * as RuleSet from "../rules/RuleSet.ts"
import type { ToolRule } from "../rules/ToolRule.ts"
import type { Claim, Refused, Within } from "../store/Claims.ts"
import { ConfigurationError, type Problem } from "../vocabulary/ConfigurationError.ts"
import { type Registry, ToolHandlers } from "../vocabulary/ToolHandlers.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { GateCall } from "./Gate.ts"
import { alone } from "./OneLayer.ts"

/**
 * The rules of an executor.
 *
 * `layer` enforces a rule set. A custom service can count differently: `Rules.of({ ...Rules.fromSet(current), claims,
 * explain })`.
 */
export class Rules extends Context.Service<Rules, {
  /** The rules of the host and of the current tools. */
  readonly current: () => RuleSet.RuleSet
  /**
   * Gate 9: refuses a call that the order of the process forbids now. Without a call, tells whether the tool may come
   * next with any arguments.
   */
  readonly check: (history: RuleSet.History, tool: string, call?: GateCall) => ToolRefusal | undefined
  /** Gates 10 and 11: what a call of the tool claims of its process, batch, session and principal. */
  readonly claims: (tool: string, scope: RuleScope) => ReadonlyArray<RuleClaim>
  /** Explains a claim that was refused. */
  readonly explain: (tool: string, refused: RuleRefused) => ToolRefusal
  /** Emits when the rules of the host change. Default: never. */
  readonly changes?: Stream.Stream<void> | undefined
}>()("effect-tool-executor/policy/Rules") {}

/** Where limits count. */
export interface RuleScope {
  /** The batch, as the store knows it. */
  readonly batch: string
  /** The session, as the store knows it. */
  readonly session: string
  readonly process: string
  readonly principal: string
}

export type RuleClaim = Exclude<Claim, { readonly _tag: "Key" }>

/** A refused claim of rules, and why. */
export type RuleRefused = Exclude<Refused, { readonly _tag: "KeyTaken" }>

/** Creates the rules of an executor; fails with every problem of the set. */
export const make = Effect.fnUntraced(function*(
  rules: ReadonlyArray<ToolRule>
): Effect.fn.Return<Rules["Service"], ConfigurationError, ToolHandlers> {
  return fromSet(yield* checkedSet(yield* ToolHandlers, rules))
})

/** Creates the service of a rule set that may be replaced. */
export const fromSet = (current: () => RuleSet.RuleSet): Rules["Service"] =>
  Rules.of({
    current,
    check: (history, tool, call) => {
      const set = current()
      if (call !== undefined && set.forTool(tool).isFree) return undefined
      const violation = RuleSet.check(set, history, call === undefined ? { tool } : { tool, params: call.args })
      return violation === undefined ? undefined : refusal(violation)
    },
    claims: (tool, { batch, principal, process, session }) => {
      const within = (scope: Scope): Within & { readonly batch: string } =>
        scope === "batch" ? { batch } : scope === "process" ? { batch, scope, process } : { batch: session, scope }
      const { cooldowns, groups, maxCalls, notedIn } = current().forTool(tool)
      if (maxCalls.length + cooldowns.length + groups.length + notedIn.length === 0) return none
      const all: Array<RuleClaim> = []
      for (const { max, scope } of maxCalls) all.push({ _tag: "Calls", tool, max, ...within(scope) })
      for (const { id: group, scope } of groups) all.push({ _tag: "Group", group, tool, ...within(scope) })
      for (const { millis, scope } of cooldowns) {
        const claim = { _tag: "Cooldown", principal, tool, millis } as const
        all.push(scope === "principal" ? claim : { ...claim, ...within(scope), scope })
      }
      for (const scope of notedIn) {
        all.push(scope === "batch" ? { _tag: "Batch", batch } : { _tag: "Batch", batch: session, scope })
      }
      return all
    },
    explain: (tool, refused) => explained(current().forTool(tool), tool, refused)
  })

/**
 * Layer that enforces a rule set, with the rules that tools bring themselves (`ToolAnnotations.Rules`).
 *
 * Fails with one `ConfigurationError` that lists all problems: malformed rules, unknown tools and arguments, cycles,
 * required tools that can never run, contradictions.
 */
export const layer = (
  rules: ReadonlyArray<ToolRule>
): Layer.Layer<Rules, ConfigurationError, ToolHandlers> =>
  Layer.effect(Rules, Effect.andThen(alone(Rules, "Rules"), make(rules)))

/** The rules of `layerRef`, to be read and replaced while executors run. */
export class RulesRef extends Context.Service<RulesRef, {
  /** The current rules of the host. */
  readonly get: Effect.Effect<ReadonlyArray<ToolRule>>
  /** Replaces the rules. An invalid set changes nothing and fails with all its problems. */
  readonly set: (rules: ReadonlyArray<ToolRule>) => Effect.Effect<void, ConfigurationError>
}>()("effect-tool-executor/policy/Rules/RulesRef") {}

/**
 * Layer that enforces a rule set which may be replaced while executors run (`RulesRef`).
 *
 * New rules apply to every later decision, also about waiting calls: the order is checked again before they start.
 * Earlier successes count for them. `Periodic` rules run as long as an executor does, so a set with different ones is
 * refused.
 */
export const layerRef = (
  rules: ReadonlyArray<ToolRule>
): Layer.Layer<Rules | RulesRef, ConfigurationError, ToolHandlers> =>
  Layer.effectContext(Effect.gen(function*() {
    yield* alone(Rules, "Rules")
    const handlers = yield* ToolHandlers
    const checked = (rules: ReadonlyArray<ToolRule>, problems: ReadonlyArray<Problem> = []) =>
      Effect.map(checkedSet(handlers, rules, problems), (current) => ({ rules, current }))
    let now = yield* checked(rules)
    const changes = Changes.make<void>()
    return Context.make(Rules, { ...fromSet(() => now.current()), changes: changes.stream }).pipe(
      Context.add(RulesRef, {
        get: Effect.sync(() => now.rules),
        set: (rules) =>
          Effect.map(checked(rules, otherPeriodic(now.rules, rules)), (next) => {
            now = next
            changes.tell()
          })
      })
    )
  }))

/** Layer without rules, those that tools bring included. */
export const layerNoop: Layer.Layer<Rules> = Layer.sync(Rules, () => {
  const empty = RuleSet.make([], [])
  return fromSet(() => empty)
})

const none: ReadonlyArray<never> = []

const refusal = (violation: RuleSet.Violation) =>
  ({ _tag: "RuleViolation", rule: violation.rule, sentence: RuleSet.explain(violation) }) as const

const explained = (rules: RuleSet.ToolRules, tool: string, refused: RuleRefused): ToolRefusal => {
  switch (refused._tag) {
    case "CallsUsedUp": {
      const { scope = "batch" } = refused
      const maxCalls = rules.maxCalls.find((it) => it.scope === scope)
      return maxCalls === undefined ? unruled : refusal({ rule: maxCalls.rule, tool, names: none })
    }
    case "GroupTaken": {
      const group = rules.groups.find((it) => it.id === refused.group)
      return group === undefined ? unruled : refusal({ rule: group.rule, tool, names: [refused.tool] })
    }
    case "CoolingDown": {
      const { scope = "principal" } = refused
      const cooldown = rules.cooldowns.find((it) => it.scope === scope)
      return cooldown === undefined
        ? unruled
        : refused.running
        ? refusal({ rule: cooldown.rule, tool, names: [tool] })
        : { ...refusal({ rule: cooldown.rule, tool, names: none }), remainingMillis: refused.remainingMillis }
    }
  }
}

/** The set was replaced between the claim and its refusal, or a custom service made the claim. */
const unruled: ToolRefusal = { _tag: "GuardRejected", guard: "Rules", reason: "a limit of the host was reached" }

const checkedSet = (
  handlers: ToolHandlers["Service"],
  rules: ReadonlyArray<ToolRule>,
  also: ReadonlyArray<Problem> = []
): Effect.Effect<() => RuleSet.RuleSet, ConfigurationError> =>
  Effect.suspend(() => {
    const problems = [...RuleSet.problems(rules, handlers.current(), handlers.expects), ...also]
    if (problems.length > 0) return new ConfigurationError({ subject: "Rules", problems })
    return Effect.succeed(forRegistry(handlers, rules))
  })

const otherPeriodic = (
  before: ReadonlyArray<ToolRule>,
  after: ReadonlyArray<ToolRule>
): ReadonlyArray<Problem> => {
  const periodic = (rules: ReadonlyArray<ToolRule>) =>
    canonicalJson(Array.isArray(rules) ? rules.filter((it) => it?._tag === "Periodic") : [])
  return periodic(before) === periodic(after) ? [] : [{
    path: "Periodic",
    problem: "the new rules call different tools periodically",
    expected: "the same Periodic rules as before, since they run as long as the executor does"
  }]
}

/** Indexes the rules again when the registry is replaced. */
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
