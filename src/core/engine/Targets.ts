/**
 * What a call is about: found at Arrival, where the call is judged by it, and once more at Start, for what was judged
 * is what may be touched.
 */
import * as Effect from "effect/Effect"
import type { GateCall } from "../gates/Gate.ts"
import * as Permissions from "../gates/Permissions.ts"
import * as Grant from "../vocabulary/Grant.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { Call } from "./Call.ts"
import * as Revisions from "./Revisions.ts"
import { lookUp, readKeys, readTargets } from "./ToolAnswers.ts"
import type { WaveState } from "./WaveState.ts"

/** What a call is about; `undefined` where it cannot be found out. */
export type Targets = GateCall["targets"]

/** Characters that all targets of a call may have together: they are compared with every pattern of a policy. */
export const maxChars = 100_000

/** Gives how many characters the targets of a call have. */
export const chars = (targets: Targets): number =>
  targets === undefined ? 0 : targets.reduce((sum, { text }) => sum + text.length, 0)

/** Finds what a call is about where that matters. */
export const find = (wave: WaveState, call: Call, params: unknown): Effect.Effect<Targets> => {
  const tool = call.tool!
  return matter(call) ? lookUp(wave, tool, () => tool.targets(params), readTargets) : nothing
}

/**
 * Finds once more what an admitted call is about, and notes it in the call where it is something else. A tool that does
 * not say what its calls are about is not asked.
 */
export const findAgain = (wave: WaveState, call: Call): Effect.Effect<void> => {
  const tool = call.tool!
  if (!tool.declaresTargets || !matter(call)) return Effect.void
  const { params } = call.gateCall!
  const note = (found: Targets): Effect.Effect<void> => {
    const targets = chars(found) > maxChars ? undefined : found
    const { targets: from } = call.gateCall!
    if (isSame(from, targets)) return Effect.void
    return Effect.mapEager(lookUp(wave, tool, () => tool.resources(params), readKeys), (keys) => {
      const hasOtherKeys = tool.class !== "ReadOnly" && keys?.join("\0") !== call.resources.join("\0")
      call.gateCall = { ...call.gateCall!, targets }
      call.consent = { ...call.consent, moved: { from, hasOtherKeys } }
    })
  }
  return Effect.flatMapEager(lookUp(wave, tool, () => tool.targets(params), readTargets), note)
}

/**
 * A call that is about other targets than those it was judged by has to be allowed for what it is about now, without a
 * question: what a person said was about the others.
 */
export const changed = (call: Call, now: number): ToolRefusal | undefined => {
  const { agent, consent: { grant, moved }, gateCall, rules } = call
  if (moved === undefined) return undefined
  const { agentPath, targets, tool } = gateCall!
  const question = Permissions.asks(agent.permissions, gateCall!, rules!.consent)
  const isAllowed = question === undefined || (question.remember !== "call" && grant !== undefined &&
    Grant.covers(grant, { tool: tool.name, revision: Revisions.of(tool), agentPath, targets }, now))
  return isAllowed && !moved.hasOtherKeys ? undefined : {
    _tag: "TargetsChanged",
    ...(moved.from === undefined ? {} : { from: moved.from.map(({ text }) => text) }),
    ...(targets === undefined ? {} : { to: targets.map(({ text }) => text) })
  }
}

/**
 * Why a call may not have the outcome of an equal one: that one was about targets which this one was not judged by and
 * may not touch.
 */
export const changedBy = (
  call: Call,
  leader: Call,
  now: number
): ToolRefusal | undefined => {
  const { targets: from } = call.gateCall!
  const targets = matter(leader) ? leader.gateCall!.targets : undefined
  if (!differ(call, targets)) return undefined
  call.gateCall = { ...call.gateCall!, targets }
  call.consent = { ...call.consent, moved: { from, hasOtherKeys: false } }
  return Permissions.check(call.agent.permissions, call.gateCall) ?? changed(call, now)
}

/** Tells whether an equal call was about other targets than this one. */
export const differ = (call: Call, targets: Targets): boolean =>
  call.tool!.declaresTargets && matter(call) && !isSame(call.gateCall!.targets, targets)

/** What is found of a call where it does not matter what it is about. */
export const nothing: Effect.Effect<Targets> = Effect.succeed([])

// Utilities

const matter = ({ agent, rules, tool }: Call): boolean =>
  Permissions.needsTargets(agent.permissions, tool!) ||
  // a rule asks, or a person who is asked has to see what earlier calls have left
  (tool!.declaresTargets && (rules!.consent !== undefined || tool!.preview !== undefined))

const isSame = (one: Targets, other: Targets): boolean =>
  one === other || (one !== undefined && other !== undefined && one.length === other.length &&
    one.every((it, index) => {
      const { kind, runBy, spellings, text } = other[index]!
      return it.text === text && it.kind === kind && it.runBy === runBy &&
        it.spellings?.join("\0") === spellings?.join("\0")
    }))
