/**
 * What a call reserves, and what it gets where an equal one has that already:
 * gates 8 to 11, as `Rules` and `Dedupe` have them. One of them that throws has
 * not let the call pass.
 *
 * @since 0.1.0
 */
import type { Duplicate } from "../policy/Dedupe.ts"
import * as HostGates from "../policy/HostGates.ts"
import * as RuleSet from "../policy/RuleSet.ts"
import type { Claim, KeyTaken, Settlement } from "../store/Claims.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { Call } from "./Call.ts"
import { denied, type End, refused } from "./End.ts"
import * as Targets from "./Targets.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Gives the claims of a call, or how it ends.
 *
 * @category gates
 * @since 0.1.0
 */
export const of = (wave: WaveState, call: Call): End | ReadonlyArray<Claim> => {
  const { dedupe, parent, rules, unique } = wave.engine
  const { name } = call.call
  const limits = HostGates.orRefused("Rules", () => rules.claims(name, wave.scope))
  if ("_tag" in limits) return refused(limits)
  const key = HostGates.orRefused("Dedupe", () =>
    dedupe.claim(call.gateCall!, {
      rule: call.rules!.dedupe,
      batch: wave.scope.batch,
      told: call.told,
      awaited: isAwaited(wave, call),
      fires: wave.process.fires === name,
      anew: call.anew === true,
      agent: parent === undefined ? undefined : unique
    }))
  if (key === undefined) return limits
  return key._tag === "Key" ? limits.length === 0 ? [key] : [key, ...limits] : refused(key)
}

/**
 * Gate 9: whether the rules of order forbid a call at its place in its process.
 *
 * @category gates
 * @since 0.1.0
 */
export const orderEnd = (wave: WaveState, call: Call): End | undefined => {
  const { rules } = wave.engine
  const history = wave.process.history.before(rules.current(), call.history, call.index)
  return denied(HostGates.orRefused("Rules", () => rules.check(history, call.call.name, call.gateCall)))
}

/**
 * Gives what a call gets whose key another one has; `joinable` if that one runs here.
 *
 * @category gates
 * @since 0.1.0
 */
export const duplicate = (wave: WaveState, call: Call, taken: KeyTaken, joinable: boolean): Duplicate => {
  try {
    return wave.engine.dedupe.duplicate(call.gateCall!, taken, {
      told: call.told,
      awaited: isAwaited(wave, call),
      wanted: call.sharing === true,
      joinable,
      differs: (targets) => Targets.differ(wave.engine, call, targets),
      isRead: call.rules!.conditionals.length > 0
    })
  } catch {
    return { _tag: "Refused" }
  }
}

/**
 * Tells whether another call may join this one while it runs.
 *
 * @category predicates
 * @since 0.1.0
 */
export const leads = ({ engine: { dedupe } }: WaveState, call: Call): boolean =>
  dedupe.leads(call.gateCall!, call.rules!)

/**
 * Gives what becomes of what a call has reserved.
 *
 * @category gates
 * @since 0.1.0
 */
export const settlement = (wave: WaveState, call: Call, outcome: ToolOutcome, stillRunning: boolean): Settlement => {
  const started = outcome.startedAt !== undefined
  try {
    const { key, value, windowMillis } = wave.engine.dedupe.settlement(call.gateCall!, outcome, {
      stillRunning,
      wanted: call.isWanted === true
    })
    return { started, key, windowMillis, value }
  } catch {
    return { started, key: stillRunning ? "running" : "release", windowMillis: 0, value: undefined }
  }
}

// Utilities

const isAwaited = ({ engine, process }: WaveState, call: Call): boolean =>
  call.rules!.mayBeAwaited && RuleSet.isAwaited(engine.rules.current(), process.history, call.call.name)
