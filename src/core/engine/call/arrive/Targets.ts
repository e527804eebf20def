/**
 * The targets of a call: found at Arrival for the policy, and again at Start, because only the approved targets may be
 * touched.
 */
import * as Effect from "effect/Effect"
import type { GateCall } from "../../../gates/Gate.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import * as Grant from "../../../vocabulary/Grant.ts"
import type { ToolRefusal } from "../../../vocabulary/ToolRefusal.ts"
import * as Revisions from "../../data/Revisions.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"
import { lookUp, readKeys, readTargets } from "./ToolAnswers.ts"

/** The targets of a call; `undefined` if they cannot be determined. */
export type Targets = GateCall["targets"]

/** Limit for the characters of all targets of a call: they are matched against every pattern of a policy. */
export const maxChars = 100_000

/** Counts the characters of targets. */
export const chars = (targets: Targets): number =>
  targets === undefined ? 0 : targets.reduce((sum, { text }) => sum + text.length, 0)

/** Finds the targets of a call, if they matter. */
export const find = (wave: WaveHost, call: Call, params: unknown): Effect.Effect<Targets> => {
  const tool = call.tool!
  return matter(call) ? lookUp(wave, tool, () => tool.targets(params), readTargets) : nothing
}

/**
 * Finds the targets of an admitted call again, and notes it in the call if they changed. Tools that do not declare
 * targets are skipped.
 */
export const findAgain = (wave: WaveHost, call: Call): Effect.Effect<void> => {
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
 * The refusal of a call whose targets have changed, unless the new ones are allowed too. Approval is not requested
 * again, and an approval of the old targets does not count.
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

/** Why a call may not share the outcome of an equal call: that call had other targets, which this one may not touch. */
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

/** Whether an equal call had other targets than this one. */
export const differ = (call: Call, targets: Targets): boolean =>
  call.tool!.declaresTargets && matter(call) && !isSame(call.gateCall!.targets, targets)

/** The targets of a call for which they do not matter. */
export const nothing: Effect.Effect<Targets> = Effect.succeed([])

/** Whether the targets of a call are found out. */
export const matter = ({ agent, rules, tool }: Call): boolean =>
  Permissions.needsTargets(agent.permissions, tool!) ||
  // a rule needs them, or approvers must see what earlier calls have left
  (tool!.declaresTargets && (rules!.consent !== undefined || tool!.preview !== undefined))

const isSame = (one: Targets, other: Targets): boolean =>
  one === other || (one !== undefined && other !== undefined && one.length === other.length &&
    one.every((it, index) => {
      const { kind, runBy, spellings, text } = other[index]!
      return it.text === text && it.kind === kind && it.runBy === runBy &&
        it.spellings?.join("\0") === spellings?.join("\0")
    }))
