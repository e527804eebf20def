/**
 * Looks at a shadow policy where the policy decides about a call, and reports what it would have decided.
 *
 * Nothing of the call depends on it. What only the shadow needs to know is found out beside the call.
 */
import * as Effect from "effect/Effect"
import { exitOf } from "../../../../internal/exitOf.ts"
import type { Of } from "../../../facts/Fact.ts"
import type { GateCall } from "../../../gates/Gate.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import * as ShadowPolicy from "../../../gates/ShadowPolicy.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"
import * as Targets from "./Targets.ts"
import { lookUp, readTargets } from "./ToolAnswers.ts"

/**
 * Looks at the shadow policy, if there is one and somebody observes the wave. `isKnown`: the targets were found out for
 * the policy.
 */
export const look = (
  wave: WaveHost,
  call: Call,
  gateCall: GateCall,
  isKnown: boolean = Targets.matter(call)
): void => {
  const { agent: { permissions, shadow }, rules } = call
  if (shadow === undefined || wave.facts === undefined) return
  const { consent } = rules!
  const at = wave.now()
  const decided = orDenied(() => ShadowPolicy.says(permissions, gateCall, consent))
  const judge = (targets: GateCall["targets"]): void => {
    const own = targets === gateCall.targets ? gateCall : { ...gateCall, targets }
    const would = orFailed(wave, own, shadow.name, () => ShadowPolicy.says(shadow.permissions, own, consent))
    note(wave, call, {
      _tag: "Shadowed",
      at,
      policy: shadow.name,
      would: would.says,
      decided: decided.says,
      because: would.because
    })
  }
  const { params, tool } = gateCall
  if (isKnown || !Permissions.needsTargets(shadow.permissions, tool)) return judge(gateCall.targets)
  const looking = lookUp(wave, tool, () => tool.targets(params), readTargets)
  const found = exitOf(looking)
  if (found?._tag === "Success") return judge(found.value)
  wave.detach(Effect.map(looking, judge))
}

/** Reports what was found out before the records of the wave began. */
export const recorded = (wave: WaveHost): void => {
  const { early = [] } = wave
  wave.early = undefined
  // one that arrived before was looked at then
  for (const [call, fact] of early) if (call.memory === undefined) report(wave, call, fact)
}

const note = (wave: WaveHost, call: Call, fact: Of<"Shadowed">): void => {
  if (wave.early === undefined) report(wave, call, fact)
  else wave.early.push([call, fact])
}

const report = (wave: WaveHost, call: Call, fact: Of<"Shadowed">): void => {
  // events of a call end with its outcome
  if (call.isSettled) wave.reporter.reportLate(fact, call)
  else wave.facts?.report(fact, call)
}

/** A policy that throws denies the call, and says so itself. */
const orDenied = (ask: () => ShadowPolicy.Says): ShadowPolicy.Says => {
  try {
    return ask()
  } catch {
    return { says: "deny" }
  }
}

const orFailed = (
  wave: WaveHost,
  gateCall: GateCall,
  name: string,
  ask: () => ShadowPolicy.Says
): { readonly says: Of<"Shadowed">["would"]; readonly because?: string | undefined } => {
  try {
    return ask()
  } catch (defect) {
    wave.threw(`shadow policy ${name}`, gateCall, defect)
    return { says: "failed", because: "the shadow policy threw" }
  }
}
