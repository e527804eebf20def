/**
 * Gates 5 and 12: who may call what.
 *
 * `decide` applies a `Policy`: allow, ask or deny, without side effects, looked at on Arrival and once more at Start.
 * `Approvals` decides who is asked.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as Changes from "../../internal/changes.ts"
import type { Evidence } from "../facts/Evidence.ts"
import type { Consent } from "../rules/RuleKind.ts"
import type { Approvers } from "../vocabulary/Approvers.ts"
import { ConfigurationError, type Problem, validateStrict } from "../vocabulary/ConfigurationError.ts"
import { type RegisteredTool, ToolHandlers } from "../vocabulary/ToolHandlers.ts"
import type { GateCall, Verdict } from "./Gate.ts"
import type { Reporter } from "./HostGates.ts"
import * as KnownArguments from "./KnownArguments.ts"
import { alone } from "./OneLayer.ts"
import type { Target } from "./PermissionPattern.ts"
import * as PermissionPattern from "./PermissionPattern.ts"
import * as Policy from "./Policy.ts"
import * as ToolPolicy from "./ToolPolicy.ts"

/** The policy of an executor. */
export class Permissions extends Context.Service<Permissions, {
  /** Says what the policy holds of a call. Pure. */
  readonly decide: (call: GateCall) => Policy.Decision
  /** Tells whether the agent may know of the tool. Pure. */
  readonly sees: (tool: RegisteredTool) => boolean
  /** Nobody is asked because a rule requires consent. Default false. */
  readonly waivesConsent?: boolean | undefined
  /**
   * Tells whether what a call is about (`GateCall.targets`) matters; it is found out only then. Default: it does, where
   * the tool says so.
   */
  readonly needsTargets?: ((tool: RegisteredTool) => boolean) | undefined
  /** What a reviewer may say of a call that something else than the policy asks about. Default: nothing. */
  readonly review?: ((call: GateCall) => Policy.Review | undefined) | undefined
  /** Tells whether the policy denies a target to every tool. Pure. Default: it does not. */
  readonly hides?: ((target: Target) => boolean) | undefined
  /** Calls of the tool run whatever `Provenance` says of their arguments. Default: none. */
  readonly skipsProvenance?: ((tool: RegisteredTool) => boolean) | undefined
  /** Tells, from now on, when other permissions hold. Default: they never change. */
  readonly changes?: Stream.Stream<void> | undefined
  /** The policies that it is made of, the uppermost first, for analyses. Default: unknown. */
  readonly tiers?: (() => ReadonlyArray<Policy.Tier>) | undefined
  /** What is wrong with it for these tools and those that may come; looked at when an executor is built. Default: nothing. */
  readonly problems?:
    | ((tools: ReadonlyArray<string>, expects: (tool: string) => boolean) => ReadonlyArray<Problem>)
    | undefined
}>()("effect-tool-executor/policy/Permissions") {}

/**
 * Creates the service of a policy, or of one in tiers; fails with every pattern that is not valid and every key that is
 * not known. Whether each pattern fits a tool is checked when an executor is built.
 */
export const make = (
  policy: Policy.Policy | ReadonlyArray<Policy.Tier>
): Effect.Effect<Permissions["Service"], ConfigurationError> => {
  const forms = (isTiers(policy) ? policy : [{ name: "", policy }]).map(formOf)
  const tiers = forms.map((it) => it.tier)
  const problems = forms.flatMap((it) => it.problems)
  if (problems.length > 0) return new ConfigurationError({ subject: "Permissions", problems })
  return Result.match(Policy.parseTiers(tiers), {
    onFailure: (problems) => Effect.fail(new ConfigurationError({ subject: "Permissions", problems })),
    onSuccess: (parsed) => {
      const tools = new WeakMap<RegisteredTool, ToolPolicy.ToolPolicy>()
      const seen = new WeakMap<RegisteredTool, boolean>()
      // a call asks several times, and neighbours are often of one tool
      let last: { readonly tool: RegisteredTool; readonly policy: ToolPolicy.ToolPolicy } | undefined
      const forTool = (tool: RegisteredTool): ToolPolicy.ToolPolicy => {
        if (last?.tool === tool) return last.policy
        let policy = tools.get(tool)
        if (policy === undefined) tools.set(tool, policy = ToolPolicy.forTool(parsed, tool))
        last = { tool, policy }
        return policy
      }
      return Effect.succeed(Permissions.of({
        decide: (call) => forTool(call.tool).decide(call),
        sees: (tool) => {
          let isSeen = seen.get(tool)
          if (isSeen === undefined) seen.set(tool, isSeen = ToolPolicy.sees(parsed, tool))
          return isSeen
        },
        needsTargets: (tool) => forTool(tool).needsTargets,
        review: (call) => forTool(call.tool).review(call),
        hides: (target) =>
          parsed.deny.some((it) =>
            it.tool === "*" && it.target !== undefined && it.isPlain && PermissionPattern.fits(it, [target])
          ),
        skipsProvenance: ({ name }) => parsed.skipProvenance.has(name),
        tiers: () => tiers,
        problems: (tools, expects) =>
          Result.match(Policy.parseTiers(tiers, tools, expects), { onFailure: (it) => it, onSuccess: () => [] })
      }))
    }
  })
}

/** Layer that decides by a policy: patterns over tools and what they are about, a mode, a default. */
export const layer = (policy: Policy.Policy): Layer.Layer<Permissions, ConfigurationError> =>
  Layer.effect(Permissions, Effect.andThen(alone(Permissions, "Permissions"), make(policy)))

/**
 * Layer that decides by the policies of several tiers, the uppermost first: merged by rule, so that no tier loosens what
 * one above it denies or asks.
 *
 * **Example** (An organisation above a project)
 *
 * ```ts
 * import { Permissions } from "effect-tool-executor"
 *
 * export const layer = Permissions.layerTiers([
 *   { name: "organisation", policy: { askAlways: ["deploy"], deny: [{ tool: "refund", when: { amount: { gt: 1_000 } } }] } },
 *   { name: "project", policy: { allow: ["deploy", "refund"] } }
 * ])
 * ```
 */
export const layerTiers = (tiers: ReadonlyArray<Policy.Tier>): Layer.Layer<Permissions, ConfigurationError> =>
  Layer.effect(Permissions, Effect.andThen(alone(Permissions, "Permissions"), make(tiers)))

/** The policy of `layerRef`, to be read and replaced while executors run. */
export class PermissionsRef extends Context.Service<PermissionsRef, {
  /** The policy that holds now. */
  readonly get: Effect.Effect<Policy.Policy>
  /**
   * Replaces the policy. A wrong one changes nothing and fails with everything that is wrong, tools that are not there
   * included.
   */
  readonly set: (policy: Policy.Policy) => Effect.Effect<void, ConfigurationError>
}>()("effect-tool-executor/policy/Permissions/PermissionsRef") {}

/**
 * Layer that decides by a policy which may be replaced while executors run (`PermissionsRef`).
 *
 * A new policy applies to every later decision: the tools that a model sees, arriving calls, and waiting calls, which
 * it may still refuse before they start. Pending approval requests stay pending. A call that was admitted without
 * approval needs none later. Running calls are not stopped.
 *
 * **Example** (Locking writes while a release is built)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Permissions } from "effect-tool-executor"
 *
 * export const locked = <A, E, R>(release: Effect.Effect<A, E, R>) =>
 *   Effect.gen(function*() {
 *     const ref = yield* Permissions.PermissionsRef
 *     const policy = yield* ref.get
 *     yield* ref.set({ ...policy, mode: "readOnly" })
 *     return yield* Effect.ensuring(release, Effect.orDie(ref.set(policy)))
 *   })
 * ```
 */
export const layerRef = (
  policy: Policy.Policy
): Layer.Layer<Permissions | PermissionsRef, ConfigurationError, ToolHandlers> =>
  Layer.effectContext(Effect.gen(function*() {
    yield* alone(Permissions, "Permissions")
    const handlers = yield* ToolHandlers
    const checked = (policy: Policy.Policy) =>
      Effect.map(
        Effect.tap(make(policy), (service) => checkNames(service, handlers, "Permissions")),
        (service) => ({ policy, service })
      )
    let now = yield* checked(policy)
    const changes = Changes.make<void>()
    return Context.make(Permissions, {
      decide: (call) => now.service.decide(call),
      sees: (tool) => now.service.sees(tool),
      needsTargets: (tool) => needsTargets(now.service, tool),
      review: (call) => now.service.review?.(call),
      hides: (target) => now.service.hides?.(target) === true,
      skipsProvenance: (tool) => skipsProvenance(now.service, tool),
      tiers: () => [{ name: "", policy: now.policy }],
      changes: changes.stream,
      problems: (tools, expects) => now.service.problems?.(tools, expects) ?? []
    }).pipe(Context.add(PermissionsRef, {
      get: Effect.sync(() => now.policy),
      set: (policy) =>
        Effect.map(checked(policy), (next) => {
          now = next
          changes.tell()
        })
    }))
  }))

/** Layer that allows every call without asking, whatever rules and tools say. */
export const layerAllowAll: Layer.Layer<Permissions> = Layer.succeed(Permissions, {
  decide: () => ({ _tag: "Allow" }),
  sees: () => true,
  waivesConsent: true,
  needsTargets: () => false
})

/** Layer that refuses every call. */
export const layerDenyAll: Layer.Layer<Permissions> = Layer.succeed(Permissions, {
  decide: () => ({ _tag: "Deny", rule: "every tool is denied" }),
  sees: () => false,
  needsTargets: () => false
})

/** Fails where permissions are about tools that an executor neither has nor expects. */
export const checkNames = (
  permissions: Permissions["Service"],
  handlers: ToolHandlers["Service"],
  subject: string
): Effect.Effect<void, ConfigurationError> => {
  const problems = problemsOf(permissions, Array.from(handlers.current().keys()), handlers.expects)
  return problems.length === 0 ? Effect.void : new ConfigurationError({ subject, problems })
}

/** What a policy says that means nothing here, in sentences. */
export const meaningless = (
  permissions: Permissions["Service"],
  handlers: ToolHandlers["Service"],
  hasReviewer: boolean
): ReadonlyArray<string> => {
  const found: unknown = permissions.tiers?.()
  // a mock has none
  const all = Array.isArray(found) ? found as ReadonlyArray<Policy.Tier> : []
  const mayDecide = all.some(({ policy: { review } }) => (review?.allow ?? review?.deny) !== undefined)
  return [
    ...KnownArguments.problems(all, Array.from(handlers.current().values()))
      .map(({ expected, path, problem }) => `the condition ${path} never holds: ${problem}, expected ${expected}`),
    ...mayDecide && !hasReviewer
      ? ["review says what a reviewer may decide, and there is no reviewer: people decide"]
      : [],
    ...hasReviewer && all.length > 0 && !mayDecide
      ? ["there is a reviewer, and review does not say what it may decide: it is not asked"]
      : []
  ]
}

/** Layer that lets only ReadOnly, closed-world tools run. */
export const layerReadOnly: Layer.Layer<Permissions> = Layer.sync(Permissions, () => readOnly)

/** Lets only ReadOnly, closed-world tools run. */
export const readOnly: Permissions["Service"] = {
  decide: ({ tool }) =>
    isHarmless(tool)
      ? { _tag: "Allow" }
      : { _tag: "Deny", rule: "a read-only agent changes nothing and reaches nothing" },
  sees: (tool) => isHarmless(tool),
  needsTargets: () => false
}

/**
 * What both allow: the stricter of two decisions holds. Whether people are asked because a rule requires consent is
 * decided by the first; the second can only narrow it.
 */
export const both = (a: Permissions["Service"], b: Permissions["Service"]): Permissions["Service"] => ({
  decide: (call) => Policy.strictest(decide(a, call), decide(b, call)),
  sees: (tool) => sees(a, tool) && sees(b, tool),
  waivesConsent: a.waivesConsent,
  needsTargets: (tool) => needsTargets(a, tool) || needsTargets(b, tool),
  review: (call) => {
    const [one, other] = [a.review?.(call), b.review?.(call)]
    return one === undefined && other === undefined ? undefined : {
      mayAllow: one?.mayAllow === true && other?.mayAllow === true,
      mayDeny: one?.mayDeny === true || other?.mayDeny === true
    }
  },
  hides: (target) => a.hides?.(target) === true || b.hides?.(target) === true,
  skipsProvenance: (tool) => skipsProvenance(a, tool) && skipsProvenance(b, tool),
  changes: a.changes === undefined || b.changes === undefined
    ? a.changes ?? b.changes
    : Stream.merge(a.changes, b.changes),
  problems: (tools, expects) => [...problemsOf(a, tools, expects), ...problemsOf(b, tools, expects)]
})

/** Gate 5: the policy's no. Asking comes later. */
export const check = (self: Permissions["Service"], call: GateCall, reporter?: Reporter): Verdict => {
  const decision = decide(self, call)
  if (decision._tag !== "Deny") return undefined
  if ("defect" in decision) reporter?.threw("Permissions", call, decision.defect)
  return { _tag: "PolicyDenied", rule: decision.rule }
}

/** Why a person has to be asked, and what an answer may be remembered for. */
export interface Asks {
  readonly why: string
  readonly remember: "call" | "resources" | "tool"
  /** What else approvers see of the call. */
  readonly evidence?: ReadonlyArray<Evidence> | undefined
  /** Approval is requested for each such call, whatever grants exist; goes with `remember: "call"`. */
  readonly isAlways?: boolean | undefined
  /** Who approves: all of these must be satisfied. */
  readonly approvers?: ReadonlyArray<Approvers> | undefined
  /** What a reviewer may say before people are asked; absent: nothing. */
  readonly review?: Policy.Review | undefined
}

/** Gate 12: tells whether a rule or the policy requires approval. */
export const asks = (
  self: Permissions["Service"],
  call: GateCall,
  consent: Consent | undefined
): Asks | undefined => asksOf(self, decide(self, call), consent)

/** Why approval is needed although the policy may allow the call. */
export interface Objection {
  readonly why: string
  readonly evidence?: ReadonlyArray<Evidence> | undefined
}

/** Adds an objection to what the policy asks for. No grant answers it: it is about the values of this call. */
export const withObjection = (
  self: Permissions["Service"],
  call: GateCall,
  asked: Asks | undefined,
  objection: Objection | undefined
): Asks | undefined => {
  if (objection === undefined) return asked
  const { evidence = [], why } = objection
  const review = self.review?.(call)
  const both = asked === undefined
    ? review
    : {
      mayAllow: asked.review?.mayAllow === true && review?.mayAllow === true,
      mayDeny: asked.review?.mayDeny === true
    }
  const all = [...asked?.evidence ?? [], ...evidence]
  return {
    ...asked,
    why: asked === undefined ? why : `${asked.why}; ${why}`,
    remember: "call",
    ...(all.length === 0 ? {} : { evidence: all }),
    ...(both === undefined ? {} : { review: both })
  }
}

/** Tells whether calls of a tool run wherever their arguments come from. */
export const skipsProvenance = (self: Permissions["Service"], tool: RegisteredTool): boolean =>
  self.skipsProvenance?.(tool) === true

/** Tells whether the policy objects to this call and not to every call of the tool. */
export const mindsTargets = (self: Permissions["Service"], call: GateCall): boolean => {
  const decision = decide(self, call)
  return Policy.reasonsOf(decision).length > 0 || (decision._tag === "Ask" && decision.isAlways === true)
}

/** Tells whether a call of another tool with the same targets would run without approval. */
export const letsRun = (
  self: Permissions["Service"],
  call: GateCall,
  tool: RegisteredTool,
  consent: Consent | undefined
): boolean => {
  const needsApproval = tool.needsApproval !== undefined && tool.needsApproval !== false
  // its arguments would be others
  const decision = decide(self, { ...call, tool, needsApproval, args: undefined, params: undefined })
  return decision._tag === "Allow" && asksOf(self, decision, consent) === undefined
}

/** The decision of the policy about one target of a running call. */
export type Permit =
  | { readonly _tag: "Allow" }
  | { readonly _tag: "Deny" }
  /** `isAnswered`: a person already approved every objection together with the call. */
  | { readonly _tag: "Ask"; readonly asks: Asks; readonly isAnswered: boolean }

/**
 * Decides about one target of a running call like about the call. `within` is the target of the call that contains it,
 * if any.
 */
export const permit = (
  self: Permissions["Service"],
  call: GateCall,
  consent: Consent | undefined,
  target: Target,
  within: string
): Permit => {
  const about = { ...call, targets: [target] }
  const decision = decide(self, about)
  if (decision._tag === "Deny") return { _tag: "Deny" }
  const asks = asksOf(self, decision, consent)
  if (asks === undefined) return { _tag: "Allow" }
  const whole = call.targets?.find(({ text }) => text === within)
  if (whole === undefined && needsTargets(self, call.tool)) return { _tag: "Ask", asks, isAnswered: false }
  const known = whole === undefined ? call : { ...call, targets: [whole] }
  const own = Policy.reasonsOf(decide(self, known))
  return { _tag: "Ask", asks, isAnswered: Policy.reasonsOf(decision).every((it) => own.includes(it)) }
}

/** Tells whether the agent may see the tool. A policy that throws hides it. */
export const sees = (self: Permissions["Service"], tool: RegisteredTool): boolean => {
  try {
    return self.sees(tool)
  } catch {
    return false
  }
}

/** Tells whether the targets of calls of the tool matter to the policy. */
export const needsTargets = (self: Permissions["Service"], tool: RegisteredTool): boolean => {
  try {
    const says: unknown = self.needsTargets?.(tool)
    return typeof says === "boolean" ? says : tool.declaresTargets
  } catch {
    return tool.declaresTargets
  }
}

/** The problems of a policy; a mocked one has none. */
const problemsOf = (
  self: Permissions["Service"],
  tools: ReadonlyArray<string>,
  expects: (tool: string) => boolean
): ReadonlyArray<Problem> => {
  const found: unknown = self.problems?.(tools, expects)
  return Array.isArray(found) ? found : []
}

/** Code may set a key to undefined where a file leaves it out. */
const formOf = ({ policy, ...tier }: Policy.Tier) => {
  const value = Object.fromEntries(Object.entries(policy).filter(([, it]) => it !== undefined)) as Policy.Policy
  return { tier: { ...tier, policy: value }, problems: validateStrict(Policy.Policy, value, tier.name) }
}

const isTiers = (policy: Policy.Policy | ReadonlyArray<Policy.Tier>): policy is ReadonlyArray<Policy.Tier> =>
  Array.isArray(policy)

const asksOf = (
  self: Permissions["Service"],
  decision: Policy.Decision,
  consent: Consent | undefined
): Asks | undefined => {
  const needed = self.waivesConsent === true ? undefined : consent
  if (decision._tag !== "Ask") return needed && { ...needed, why: consentRule }
  const { evidence, isAlways, remember = "tool", review, why } = decision
  const approvers = needed?.approvers === undefined
    ? decision.approvers
    : [...needed.approvers, ...decision.approvers ?? []]
  const widest = isAlways === true ? "call" : remember
  return {
    why: needed === undefined ? why : consentRule,
    remember: needed === undefined ? widest : Policy.narrowest(widest, needed.remember),
    ...(evidence === undefined ? {} : { evidence }),
    ...(isAlways === true ? { isAlways } : {}),
    ...(approvers === undefined ? {} : { approvers }),
    // a rule wants a person
    ...(review === undefined ? {} : { review: needed === undefined ? review : { ...review, mayAllow: false } })
  }
}

const consentRule = "a rule requires consent"

const isHarmless = (tool: RegisteredTool): boolean => tool.readOnly && !tool.openWorld

/** A policy that throws denies the call. */
const decide = (self: Permissions["Service"], call: GateCall): Policy.Decision => {
  try {
    return self.decide(call)
  } catch (defect) {
    const failed: Failed = { _tag: "Deny", rule: "the policy failed", defect }
    return failed
  }
}

/** The decision of a policy that threw. */
type Failed = Extract<Policy.Decision, { readonly _tag: "Deny" }> & { readonly defect: unknown }
