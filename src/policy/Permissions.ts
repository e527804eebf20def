/**
 * Gates 5 and 12: who may call what.
 *
 * `decide` is the policy: allow, ask or deny, without side effects, looked at on
 * Arrival and once more at Start. Without an approver, asking means no.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { Of } from "../ToolRule.ts"
import type { GateCall, Verdict } from "./Gate.ts"

/**
 * What the policy says of a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Decision =
  | { readonly _tag: "Allow" }
  /** A person is to be asked; `why` says because of what. */
  | { readonly _tag: "Ask"; readonly why: string }
  /** `rule` is the part of the policy that says no. */
  | { readonly _tag: "Deny"; readonly rule: string }

/**
 * The policy of an executor.
 *
 * @category services
 * @since 0.1.0
 */
export class Permissions extends Context.Service<Permissions, {
  /** Says what the policy holds of a call. Pure. */
  readonly decide: (call: GateCall) => Decision
  /** Tells whether the agent may know of the tool. Pure. */
  readonly sees: (tool: RegisteredTool) => boolean
}>()("effect-tool-executor/policy/Permissions") {}

/**
 * A policy by the names of tools.
 *
 * @category options
 * @since 0.1.0
 */
export interface Policy {
  /** What holds for a tool that no list names. Default `"readOnly"`: ReadOnly, closed-world tools run, others do not. */
  readonly default?: "allow" | "deny" | "readOnly" | undefined
  /** Tools that may run, whatever they do. */
  readonly allow?: ReadonlyArray<string> | undefined
  /** Tools that may not run; decides before `allow`. */
  readonly deny?: ReadonlyArray<string> | undefined
}

const allow: Decision = { _tag: "Allow" }

/**
 * Creates a policy by the names of tools.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (policy: Policy): Permissions["Service"] => {
  const allowed = new Set(policy.allow)
  const denied = new Set(policy.deny)
  const fallback = policy.default ?? "readOnly"
  const decide = (tool: RegisteredTool): Decision => {
    if (denied.has(tool.name)) return { _tag: "Deny", rule: `deny ${tool.name}` }
    if (allowed.has(tool.name)) return allow
    if (fallback === "deny") return { _tag: "Deny", rule: "default deny" }
    // a function that decides per call is not consulted yet: asking is the safe answer
    if (tool.needsApproval !== undefined && tool.needsApproval !== false) {
      return { _tag: "Ask", why: "the tool needs approval" }
    }
    if (fallback === "allow") return allow
    if (tool.class !== "ReadOnly") return { _tag: "Deny", rule: "mutating tools need to be allowed" }
    return tool.openWorld ? { _tag: "Deny", rule: "tools that reach outside need to be allowed" } : allow
  }
  return Permissions.of({
    decide: (call) => decide(call.tool),
    sees: (tool) => decide(tool)._tag !== "Deny"
  })
}

/**
 * Layer that decides by the names of tools.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (policy: Policy): Layer.Layer<Permissions> => Layer.sync(Permissions, () => make(policy))

/**
 * Layer that allows every call without asking.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerAllowAll: Layer.Layer<Permissions> = Layer.succeed(Permissions, {
  decide: () => allow,
  sees: () => true
})

/**
 * Layer that refuses every call.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerDenyAll: Layer.Layer<Permissions> = Layer.succeed(Permissions, {
  decide: () => ({ _tag: "Deny", rule: "every tool is denied" }),
  sees: () => false
})

/**
 * Gate 5: the policy's no. Asking comes later.
 *
 * @category gates
 * @since 0.1.0
 */
export const check = (self: Permissions["Service"], call: GateCall): Verdict => {
  const decision = decide(self, call)
  return decision._tag === "Deny" ? { _tag: "PolicyDenied", rule: decision.rule } : undefined
}

/**
 * Gate 12: what has to be asked, because the policy or a rule says so. Nobody is
 * there to answer, so the answer is no.
 *
 * @category gates
 * @since 0.1.0
 */
export const authorize = (
  self: Permissions["Service"],
  call: GateCall,
  consent: Of<"RequiresConsent"> | undefined
): Verdict => {
  const decision: Decision = consent === undefined
    ? decide(self, call)
    : { _tag: "Ask", why: "a rule requires consent" }
  return decision._tag === "Ask" ? { _tag: "PermissionDenied", by: "noApprover", reason: decision.why } : undefined
}

/**
 * Tells whether the agent may know of the tool. A policy that throws lets
 * nobody know.
 *
 * @category gates
 * @since 0.1.0
 */
export const sees = (self: Permissions["Service"], tool: RegisteredTool): boolean => {
  try {
    return self.sees(tool)
  } catch {
    return false
  }
}

// Utilities

/** A policy that throws has not allowed the call. */
const decide = (self: Permissions["Service"], call: GateCall): Decision => {
  try {
    return self.decide(call)
  } catch {
    return { _tag: "Deny", rule: "the policy failed" }
  }
}
