/** The end of a call: its outcome without the fields that all outcomes share. */
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { ParameterIssue, ToolRefusal } from "../../vocabulary/ToolRefusal.ts"

/** The fields that all outcomes share. */
export type Common = "callId" | "tool" | "index" | "attempt" | "queuedAt" | "startedAt" | "duration" | "commits"

/** How a call ends. */
export type End = ToolOutcome extends infer O ? O extends ToolOutcome ? Omit<O, Common> : never : never

/** The reason for ending calls that a handler makes after its own call has its outcome. */
export const tooLate = "the call that made it has its outcome"

/** Returns the end of a call that a gate refused, if one did. */
export const denied = (reason: ToolRefusal | undefined): End | undefined =>
  reason === undefined ? undefined : refused(reason)

/** The end of a call that was refused. */
export const refused = (reason: ToolRefusal): End => ({ _tag: "Denied", reason })

/** The end of a call whose arguments are wrong. */
export const invalid = (issues: ReadonlyArray<ParameterIssue>): End => refused({ _tag: "InvalidParameters", issues })

/** The end of a call that was cancelled before it started. */
export const cancelled = (reason: string): End => ({ _tag: "Cancelled", started: false, reason })

/** What is wrong with arguments that exhaust the stack. */
export const unreadable: ParameterIssue = { path: "", message: "They are nested too deeply to be read" }
