/**
 * The limits and modes of an executor, read from the context and checked together.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ConfigurationError, notOneOf, type Problem } from "../ConfigurationError.ts"
import * as Approvals from "../policy/Approvals.ts"
import * as Rules from "../policy/Rules.ts"
import * as TurnBudget from "../policy/TurnBudget.ts"
import * as Attempt from "./Attempt.ts"
import * as Waves from "./Waves.ts"

/**
 * Reads and checks the limits and modes; fails with every problem.
 *
 * @category constructors
 * @since 0.1.0
 */
export const checked = Effect.gen(function*() {
  const limits = yield* Attempt.Limits
  const turn = yield* TurnBudget.Turn
  const exitAttempts = yield* Rules.ExitAttempts
  const choices = {
    mode: yield* Waves.Mode,
    onExecutionError: yield* Waves.OnExecutionError,
    approvalMode: yield* Approvals.Mode
  }
  const problems: Array<Problem> = []
  const millis = (path: string, input: Duration.Input | undefined, fallback: Duration.Input, isNoneAllowed = false) => {
    const parsed = Option.map(Duration.fromInput(input ?? fallback), Duration.toMillis)
    if (Option.isSome(parsed) && (parsed.value > 0 || (isNoneAllowed && parsed.value === 0))) return parsed.value
    const example = "such as \"30 seconds\""
    problems.push({
      path,
      problem: `it is ${JSON.stringify(input)}`,
      expected: isNoneAllowed ? `a duration, ${example}, or 0 for none` : `a duration above zero, ${example}`
    })
    return 0
  }
  const atLeast = (path: string, value: number, least: number) => {
    if (!(value >= least)) problems.push({ path, problem: `it is ${value}`, expected: `${least} or more` })
  }
  millis("turn.timeout", turn.timeout, "1 hour")
  millis("turn.minimumSlice", turn.minimumSlice, "5 seconds", true)
  atLeast("turn.maxCalls", turn.maxCalls ?? Infinity, 1)
  atLeast("exitAttempts", exitAttempts, 0)
  problems.push(
    ...notOneOf("mode", choices.mode, ["classes", "parallel", "sequential"]),
    ...notOneOf("onExecutionError", choices.onExecutionError, ["continue", "stop"]),
    ...notOneOf("approval", choices.approvalMode, ["perCall", "upfront"])
  )
  const read = {
    ...choices,
    turn,
    exitAttempts,
    executionMillis: millis("executionTimeout", limits.executionTimeout, "120 seconds"),
    commitMillis: millis("commitTimeout", limits.commitTimeout, "5 seconds"),
    graceMillis: millis("cleanupGrace", limits.cleanupGrace, "5 seconds")
  }
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "ToolExecutor", problems })
  return read
})
