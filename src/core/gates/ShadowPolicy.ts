/**
 * A second policy beside the first, looked at for every call and changing nothing: what it would have allowed, asked
 * about and denied is on record.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Consent } from "../rules/RuleKind.ts"
import type { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import type { GateCall } from "./Gate.ts"
import * as Permissions from "./Permissions.ts"
import type { Policy, Tier } from "./Policy.ts"

/** A policy that is looked at and decides nothing. */
export class ShadowPolicy extends Context.Service<ShadowPolicy, {
  /** Its name in events, metrics and journal. */
  readonly name: string
  readonly permissions: Permissions.Permissions["Service"]
}>()("effect-tool-executor/policy/ShadowPolicy") {}

export interface Options {
  readonly name: string
  /** The policy, or several in tiers. */
  readonly policy: Policy | ReadonlyArray<Tier>
}

/** Creates the shadow of a policy; fails with every problem of the policy. */
export const make = ({ name, policy }: Options): Effect.Effect<ShadowPolicy["Service"], ConfigurationError> =>
  Effect.map(Permissions.make(policy), (permissions) => ({ name, permissions }))

/**
 * Layer that looks at a second policy beside the first. It changes nothing: neither outcomes nor their order.
 *
 * Each call is judged on arrival by both policies. Where they differ, the event `ToolShadowed` and the journal entry
 * `Shadowed` say how; the metric `tool_executor.shadow.decision` counts all calls. Grants, reviewers and people are not
 * part of it.
 */
export const layer = (options: Options): Layer.Layer<ShadowPolicy, ConfigurationError> =>
  Layer.effect(ShadowPolicy, make(options))

/** What a policy says of a call, together with a rule that requires consent. */
export interface Says {
  readonly says: "allow" | "ask" | "deny"
  readonly because?: string | undefined
}

/** Asks a policy about a call. Throws if the policy does. */
export const says = (
  self: Permissions.Permissions["Service"],
  call: GateCall,
  consent: Consent | undefined
): Says => {
  const decision = self.decide(call)
  if (decision._tag === "Deny") return { says: "deny", because: decision.rule }
  const asks = Permissions.asks(self, call, consent)
  return asks === undefined ? { says: "allow" } : { says: "ask", because: asks.why }
}

/** The shadow for somebody whose calls a further policy narrows. */
export const narrowed = (
  { name, permissions }: ShadowPolicy["Service"],
  by: Permissions.Permissions["Service"]
): ShadowPolicy["Service"] => ({ name, permissions: Permissions.both(permissions, by) })
