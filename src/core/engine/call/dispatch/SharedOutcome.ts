/** Outcomes shared by calls: joined while the other call ran, or replayed after it. */
import { cut, type Room, withFiles } from "../../../output/OutputPolicy.ts"
import * as ToolContent from "../../../vocabulary/ToolContent.ts"
import type { Output, ToolOutcome } from "../../../vocabulary/ToolOutcome.ts"
import type { End } from "../../data/CallEnd.ts"

/** Gives the end of a call that joined another call's execution. */
export const join = (outcome: ToolOutcome, heartbeat: boolean): End => {
  const { callId, index: _i, queuedAt: _q, tool: _t, ...end } = outcome
  return own({ ...end, replayOf: callId }, heartbeat)
}

/** Gives the end of a call that replays an earlier outcome, without an execution. */
export const replay = (outcome: ToolOutcome, heartbeat: boolean): End => {
  const { attempt: _a, callId, commits: _c, duration: _d, index: _i, queuedAt: _q, startedAt: _s, tool: _t, ...end } =
    outcome
  // its start is all that is known of it
  const known = outcome._tag === "Unknown" ? { startedAt: outcome.startedAt } : {}
  return own({ ...end, ...known, replayOf: callId }, heartbeat)
}

/**
 * Fits a shared output to the receiving call: within its limits, and without an artifact of another batch (`whole` then
 * has the full value).
 */
export const fit = (output: Output, room: Room, whole: { readonly value: unknown } | undefined): Output => {
  const content = output.content && ToolContent.within(output.content, room.fileChars)
  if (output._tag === "Artifact" && whole !== undefined) {
    const { chars: originalChars } = output.ref
    const modelText = shorten(output.preview, originalChars, room.chars)
    return { _tag: "Truncated", value: whole.value, originalChars, modelText, ...withFiles(content, () => modelText) }
  }
  if (output.modelText.length <= room.chars && content === output.content) return output
  const { content: _, ...told } = output
  if (told._tag === "Artifact") {
    const cutOff = (text: string) => cut(text, room.chars, "")
    return { ...told, modelText: cutOff(told.modelText), ...withFiles(content, cutOff) }
  }
  const originalChars = told._tag === "Truncated" ? told.originalChars : told.modelText.length
  const cutOff = (text: string) => text.length <= room.chars ? text : shorten(text, originalChars, room.chars)
  return {
    _tag: "Truncated",
    value: told.value,
    originalChars,
    modelText: cutOff(told.modelText),
    ...withFiles(content, cutOff)
  }
}

const shorten = (text: string, chars: number, limit: number): string => {
  const marker = `\n[cut: ${chars} characters in all]`
  return cut(text + marker, limit, marker)
}

/** Drops what belongs to one call only: its request to continue and its grant. */
const own = <A extends object>({ grant: _, ...end }: A & { readonly grant?: unknown }, heartbeat: boolean): End =>
  ("requestsContinuation" in end ? { ...end, requestsContinuation: heartbeat } : end) as unknown as End
