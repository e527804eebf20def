/**
 * Gates 8 to 11: what a call reserves, and what it receives if an equal call holds its key.
 *
 * If `Rules` or `Dedupe` throws, the call does not pass.
 */
import * as Effect from "effect/Effect"
import type { ClaimOptions, Duplicate, RuleOptions } from "../../../gates/Dedupe.ts"
import * as HostGates from "../../../gates/HostGates.ts"
import * as RuleSet from "../../../rules/RuleSet.ts"
import type { Mark } from "../../../rules/SharedPast.ts"
import type { Claim, KeyClaim, KeyTaken, Settlement } from "../../../store/Claims.ts"
import type { StateStoreError } from "../../../store/StateStore.ts"
import type { ToolOutcome } from "../../../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../../../vocabulary/ToolRefusal.ts"
import { denied, type End, refused } from "../../data/CallEnd.ts"
import * as Targets from "../arrive/Targets.ts"
import type { Call } from "../Call.ts"
import * as SharedHistory from "../SharedHistory.ts"
import type { ToolClaims, WaveHost } from "../WaveHost.ts"

/** Returns the claims of a call, or its end if it is refused. */
export const of = (wave: WaveHost, call: Call): End | ReadonlyArray<Claim> =>
  call.hasRun ? again(wave, call) : own(wave, call)

const own = (wave: WaveHost, call: Call): End | ReadonlyArray<Claim> => {
  const { limits, options } = toolClaims(wave, call)
  if ("_tag" in limits) return refused(limits)
  const key = keyOf(wave, call, options)
  if (key === undefined) return limits
  if (key._tag !== "Key") return refused(key)
  return limits.length === 0 ? [key] : limits.length === 1 ? [key, limits[0]!] : [key, ...limits]
}

/**
 * Returns the claims of a call that had started in an earlier life. What the store has counted stays counted: then its
 * key alone shares its end with equal calls, and its success is remembered. If it ended, nothing is left to claim.
 */
const again = (wave: WaveHost, call: Call): ReadonlyArray<Claim> => {
  const isSpent = call.recounts === "spent"
  // its parameters may be unknown
  if (call.gateCall === undefined || (isSpent && call.past !== undefined)) return []
  const claims = own(wave, call)
  if ("_tag" in claims) return []
  const left = isSpent ? claims.filter(({ _tag }) => _tag === "Key" || _tag === "Batch") : claims
  return left.map((it): Claim => it._tag === "Key" ? { ...it, settled: "none" as const, running: "none" as const } : it)
}

/** Brings what gate 9 needs of other processes up to date. Returns the error if the store has no answer. */
export const recall = (
  wave: WaveHost,
  calls: ReadonlyArray<Call>,
  now: number,
  age: number
): Effect.Effect<StateStoreError | undefined> => {
  const { engine, process } = wave
  if (!looksFurther(wave)) return upToDate
  const scopes = new Set(calls.flatMap((call) => call.decided === undefined ? call.rules?.asks ?? [] : []))
  return scopes.size === 0 ? upToDate : SharedHistory.refresh(engine, process, scopes, now, {
    age,
    patience: wave.patienceAt(now)
  })
}

/** Whether rules ask what other processes have done. */
export const looksFurther = ({ engine }: WaveHost): boolean => engine.rules.current().remembers.length > 0

const upToDate = Effect.undefined

/** What a success is for the rules of other processes; undefined if none asks for it. */
export const markOf = (wave: WaveHost, call: Call, value: unknown): Mark | undefined => {
  const { index, rules } = call
  const { place } = call.history
  if (rules === undefined || place === undefined || rules.notedIn.length === 0) return undefined
  const { routes, tool } = RuleSet.success(wave.engine.rules.current(), call.call.name, value)
  return { tool, routes: call.past?.routes ?? routes, place, index }
}

/** Gate 9: returns the end of a call that the rules of order forbid at this place of its process. */
export const orderEnd = (wave: WaveHost, call: Call): End | undefined => {
  const { rules } = wave.engine
  const history = wave.process.history.before(rules.current(), call.history, call.index)
  try {
    return denied(rules.check(history, call.call.name, call.gateCall))
  } catch (defect) {
    wave.threw("Rules", call.gateCall!, defect)
    return refused(HostGates.failed("Rules"))
  }
}

/** Decides what a call receives whose key another call holds. `joinable`: that call is running in this executor. */
export const duplicate = (wave: WaveHost, call: Call, taken: KeyTaken, joinable: boolean): Duplicate => {
  try {
    return wave.engine.dedupe.duplicate(call.gateCall!, taken, {
      ...ruled(wave, call),
      told: call.told,
      awaited: isAwaited(wave, call),
      wanted: call.peers.isSharing === true,
      joinable,
      differs: (targets) => Targets.differ(call, targets),
      isRead: call.rules!.routes.length > 0
    })
  } catch (defect) {
    wave.threw("Dedupe", call.gateCall!, defect)
    return { _tag: "Refused" }
  }
}

/** Whether other calls may join this one while it runs. */
export const leads = (wave: WaveHost, call: Call): boolean => {
  try {
    return wave.engine.dedupe.leads(call.gateCall!, call.rules!)
  } catch (defect) {
    wave.threw("Dedupe", call.gateCall!, defect)
    return false
  }
}

/** Returns how to settle what a call has reserved. */
export const settlement = (
  wave: WaveHost,
  call: Call,
  outcome: ToolOutcome,
  stillRunning: boolean,
  succeeded: Mark | undefined
): Settlement => {
  if (isOthers(call, outcome)) return unused
  const started = outcome.startedAt !== undefined
  try {
    const isWanted = call.peers.isWanted === true
    const options = { ...ruled(wave, call), stillRunning, wanted: isWanted }
    const { key, value, windowMillis } = wave.engine.dedupe.settlement(call.gateCall!, outcome, options)
    return { started, key, windowMillis, value, succeeded, mutates: mutates(wave, call, started) }
  } catch (defect) {
    wave.threw("Dedupe", call.gateCall!, defect)
    const key = stillRunning ? "running" : "release"
    return { started, key, windowMillis: 0, value: undefined, succeeded, mutates: mutates(wave, call, started) }
  }
}

/** The principal for which the end of a call may be a change, also of one that an earlier process ran. */
const mutates = ({ engine }: WaveHost, { attempt, tool }: Call, started: boolean): string | undefined =>
  (attempt === undefined && !started) || tool!.readOnly ? undefined : engine.principal

const ruled = ({ options }: WaveHost, { rules }: Call): RuleOptions => ({
  rule: rules!.dedupe,
  scope: rules!.dedupeScope,
  defaultScope: options.dedupeScope
})

/** Whether another process has taken the call over before it started: what it needs is reserved there. */
const isOthers = ({ attempt, hasRun, joined }: Call, { _tag }: ToolOutcome): boolean =>
  _tag === "Unknown" && attempt === undefined && joined === undefined && !hasRun

const unused: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/** Returns what the claims of one tool's calls share within a wave. Cached per tool. */
const toolClaims = (wave: WaveHost, call: Call): ToolClaims => {
  const { parent, rules, unique } = wave.engine
  const { name } = call.call
  const set = rules.current()
  if (wave.caches.claims.of !== set) wave.caches.claims = { of: set, byTool: new Map() }
  let found = wave.caches.claims.byTool.get(name)
  if (found === undefined) {
    const { scope } = wave
    found = {
      limits: HostGates.orRefused("Rules", () => rules.claims(name, scope), call.gateCall!, wave),
      options: {
        ...ruled(wave, call),
        session: scope.session,
        batch: scope.batch,
        wave: wave.message,
        told: call.told,
        awaited: false,
        fires: wave.process.fires === name,
        anew: false,
        agent: parent === undefined ? undefined : unique
      }
    }
    wave.caches.claims.byTool.set(name, found)
  }
  return found
}

const keyOf = (wave: WaveHost, call: Call, options: ClaimOptions): KeyClaim | ToolRefusal | undefined => {
  const awaited = isAwaited(wave, call)
  const anew = call.peers.runsItself === true
  try {
    return wave.engine.dedupe.claim(call.gateCall!, awaited || anew ? { ...options, awaited, anew } : options)
  } catch (defect) {
    wave.threw("Dedupe", call.gateCall!, defect)
    return HostGates.failed("Dedupe")
  }
}

const isAwaited = ({ engine, process }: WaveHost, call: Call): boolean =>
  call.rules!.mayBeAwaited && RuleSet.isAwaited(engine.rules.current(), process.history, call.call.name)
