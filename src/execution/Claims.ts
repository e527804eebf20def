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
import type { Claim, KeyClaim, KeyTaken, Settlement } from "../store/Claims.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
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
  const limits = limitsOf(wave, call.call.name)
  if ("_tag" in limits) return refused(limits)
  const key = keyOf(wave, call)
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
  try {
    return denied(rules.check(history, call.call.name, call.gateCall))
  } catch {
    return refused(HostGates.failed("Rules"))
  }
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

/** What the rules claim for calls of a tool: the same for all of a wave. */
const limitsOf = (wave: WaveState, tool: string): ReadonlyArray<Claim> | ToolRefusal => {
  const { rules } = wave.engine
  if (wave.limits.of !== rules.current()) wave.limits = { of: rules.current(), byTool: new Map() }
  let limits = wave.limits.byTool.get(tool)
  if (limits === undefined) {
    limits = HostGates.orRefused("Rules", () => rules.claims(tool, wave.scope))
    wave.limits.byTool.set(tool, limits)
  }
  return limits
}

const keyOf = (wave: WaveState, call: Call): KeyClaim | ToolRefusal | undefined => {
  const { dedupe, parent, unique } = wave.engine
  try {
    return dedupe.claim(call.gateCall!, {
      rule: call.rules!.dedupe,
      batch: wave.scope.batch,
      told: call.told,
      awaited: isAwaited(wave, call),
      fires: wave.process.fires === call.call.name,
      anew: call.anew === true,
      agent: parent === undefined ? undefined : unique
    })
  } catch {
    return HostGates.failed("Dedupe")
  }
}

const isAwaited = ({ engine, process }: WaveState, call: Call): boolean =>
  call.rules!.mayBeAwaited && RuleSet.isAwaited(engine.rules.current(), process.history, call.call.name)
