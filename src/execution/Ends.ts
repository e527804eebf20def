/**
 * Ends of calls that several stages give.
 *
 * @since 0.1.0
 */
import type { ParameterIssue, ToolRefusal } from "../ToolRefusal.ts"
import type { End } from "./Attempt.ts"
import type { CallState } from "./CallState.ts"
import type { ProcessState } from "./Engine.ts"

/**
 * Why calls end that a handler made whose own call is over.
 *
 * @category constants
 * @since 0.1.0
 */
export const tooLate = "the call that made it has its outcome"

/**
 * Gates 1 and 2: is the process cancelled, is its turn over?
 *
 * @category gates
 * @since 0.1.0
 */
export const turn = (process: ProcessState, call: CallState, now: number): End | undefined => {
  if (process.cancelled !== undefined) return { _tag: "Cancelled", started: false, reason: process.cancelled }
  return denied(process.budget.check(now, call.counted))
}

/**
 * The end of a call that a gate refused, if one did.
 *
 * @category constructors
 * @since 0.1.0
 */
export const denied = (reason: ToolRefusal | undefined): End | undefined =>
  reason === undefined ? undefined : { _tag: "Denied", reason }

/**
 * The end of a call whose arguments are wrong.
 *
 * @category constructors
 * @since 0.1.0
 */
export const invalid = (issues: ReadonlyArray<ParameterIssue>): End => denied({ _tag: "InvalidParameters", issues })!

/**
 * What is wrong with arguments that exhaust the stack.
 *
 * @category constants
 * @since 0.1.0
 */
export const unreadable: ParameterIssue = { path: "", message: "They are nested too deeply to be read" }
