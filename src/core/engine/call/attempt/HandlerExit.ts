/** Converts the exit of a handler to the end of its call. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as CallLog from "../../../../internal/callLog.ts"
import { causeText } from "../../../../internal/causeText.ts"
import * as PlainJson from "../../../../wire/PlainJson.ts"
import { cut, textOf } from "../../../output/OutputPolicy.ts"
import type { RegisteredTool } from "../../../vocabulary/ToolHandlers.ts"
import type { Output } from "../../../vocabulary/ToolOutcome.ts"
import type { End } from "../../data/CallEnd.ts"
import { Principal } from "../../data/Principal.ts"

/** The call that has ended. */
export interface Ended {
  readonly call: { readonly id: string }
  readonly tool: RegisteredTool | undefined
  readonly gateCall: { readonly args: unknown; readonly tool: RegisteredTool } | undefined
  /** The model asked to be called again. */
  readonly heartbeat: boolean
  readonly rules: { readonly continues: boolean } | undefined
}

/** The end of a call whose output was taken. */
export const succeeded = (call: Ended, output: Output): End => ({
  _tag: "Succeeded",
  output,
  requestsContinuation: call.heartbeat,
  hasContinueRule: call.rules?.continues ?? false
})

/** The end of a call whose tool failed, or returned something that cannot be read. */
export const failed = (
  call: Ended,
  origin: "handler" | "result" | "defect",
  error: unknown,
  modelText: string,
  retryable = true
): End => ({
  _tag: "Failed",
  error,
  origin,
  retryable,
  modelText,
  requestsContinuation: call.heartbeat,
  hasContinueRule: call.rules?.continues ?? false
})

/** The end of a call that ran, but whose output does not match its tool's schema. */
export const wrongResult = (call: Ended, why: string): End =>
  failed(
    call,
    "result",
    why,
    `"${call.tool!.name}" ran, but its output is invalid. Any changes it made remain.`
  )

/**
 * The end of a call whose handler failed or died. The cause is logged. Models and clients see only failures that the
 * tool declares, and no details of defects.
 */
export const ofCause = (
  call: Ended,
  cause: Cause.Cause<unknown>,
  options: {
    /** The handler returned: the failure concerns its output. */
    readonly isResult: boolean
    /** Characters that the model may be shown. */
    readonly chars: number
    readonly context: Context.Context<never>
  }
): End => {
  const tool = call.tool!
  const error = Cause.findErrorOption(cause)
  log(call, Option.isSome(error) && !options.isResult ? "Debug" : "Warn", "failed", cause, options.context)
  if (Option.isNone(error)) {
    const told =
      `"${tool.name}" failed because of an internal error. Calling it again in the same way is unlikely to help.`
    return failed(call, "defect", causeText(cause), told)
  }
  if (options.isResult) return wrongResult(call, String(error.value))
  const encoded = now(tool.encodeFailure(error.value), options.context)
  // an undeclared failure is shown like a declared one: without its causes
  const value = PlainJson.from(encoded === undefined ? textFor(PlainJson.shown(error.value)) : encoded)
  const told = textFor(PlainJson.withoutCauses(value), tool.failureText)
  const modelText = cut(`"${tool.name}" failed: ${told}`, options.chars, " [cut]")
  return failed(call, "handler", value, modelText, isRetryable(tool, error.value))
}

/** Logs a handler that died after its call was stopped or had its outcome. */
export const late = (call: Ended, exit: Exit.Exit<unknown, unknown>, context: Context.Context<never>): void => {
  if (Exit.isFailure(exit) && Cause.hasDies(exit.cause)) {
    log(call, "Warn", "died after it was stopped", exit.cause, context)
  }
}

/** Whether the tool considers a failure worth a retry. */
export const isRetryable = (tool: RegisteredTool, failure: unknown): boolean => {
  try {
    return tool.isRetryable(failure)
  } catch {
    return true
  }
}

const log = (
  { call: { id: callId }, gateCall, tool }: Ended,
  level: "Debug" | "Warn",
  what: string,
  cause: Cause.Cause<unknown>,
  context: Context.Context<never>
): void => {
  const { name, redactor } = tool!
  const principal = Context.get(context, Principal)
  const about = { callId, tool: name, principal, secrets: { redactor, args: gateCall?.args } }
  Effect.runForkWith(context)(CallLog.log(level, `"${name}" ${what}`, cause, about))
}

const textFor = (value: unknown, render: ((value: unknown) => unknown) | undefined = textOf): string => {
  try {
    const text = render(value)
    return typeof text === "string" ? text : noText
  } catch {
    return noText
  }
}

const noText = "it gave a value that has no text"

/** Returns the value of an effect that finishes synchronously; `undefined` if it fails or waits. */
const now = (effect: Effect.Effect<unknown, unknown>, context: Context.Context<never>): unknown => {
  const exit = Effect.runForkWith(context)(effect).pollUnsafe()
  return exit !== undefined && Exit.isSuccess(exit) ? exit.value : undefined
}
