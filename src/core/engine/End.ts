/**
 * How a call ends: its outcome, without what all outcomes have in common.
 *
 * @since 0.1.0
 */
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ParameterIssue, ToolRefusal } from "../vocabulary/ToolRefusal.ts"

/**
 * What all outcomes have in common.
 *
 * @category models
 * @since 0.1.0
 */
export type Common = "callId" | "tool" | "index" | "attempt" | "queuedAt" | "startedAt" | "duration" | "commits"

/**
 * How a call ends.
 *
 * @category models
 * @since 0.1.0
 */
export type End = ToolOutcome extends infer O ? O extends ToolOutcome ? Omit<O, Common> : never : never

/**
 * Why calls end that a handler made after its own call had its outcome.
 *
 * @category constants
 * @since 0.1.0
 */
export const tooLate = "the call that made it has its outcome"

/**
 * The end of a call that a gate refused, if one did.
 *
 * @category constructors
 * @since 0.1.0
 */
export const denied = (reason: ToolRefusal | undefined): End | undefined =>
  reason === undefined ? undefined : refused(reason)

/**
 * The end of a call that was refused.
 *
 * @category constructors
 * @since 0.1.0
 */
export const refused = (reason: ToolRefusal): End => ({ _tag: "Denied", reason })

/**
 * The end of a call whose arguments are wrong.
 *
 * @category constructors
 * @since 0.1.0
 */
export const invalid = (issues: ReadonlyArray<ParameterIssue>): End => refused({ _tag: "InvalidParameters", issues })

/**
 * The end of a call that was cancelled before it started.
 *
 * @category constructors
 * @since 0.1.0
 */
export const cancelled = (reason: string): End => ({ _tag: "Cancelled", started: false, reason })

/**
 * What is wrong with arguments that exhaust the stack.
 *
 * @category constants
 * @since 0.1.0
 */
export const unreadable: ParameterIssue = { path: "", message: "They are nested too deeply to be read" }
