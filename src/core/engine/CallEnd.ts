/** How a call ends: its outcome, without what all outcomes have in common. */
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ParameterIssue, ToolRefusal } from "../vocabulary/ToolRefusal.ts"

/** What all outcomes have in common. */
export type Common = "callId" | "tool" | "index" | "attempt" | "queuedAt" | "startedAt" | "duration" | "commits"

/** How a call ends. */
export type End = ToolOutcome extends infer O ? O extends ToolOutcome ? Omit<O, Common> : never : never

/** Why calls end that a handler made after its own call had its outcome. */
export const tooLate = "the call that made it has its outcome"

/** The end of a call that a gate refused, if one did. */
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
