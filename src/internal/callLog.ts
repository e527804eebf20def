/**
 * Log entries for operators about failures of calls: the complete cause and the call. Models and clients get none of
 * it.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import type { Redactor } from "./secrets/index.ts"

/** The call that something is logged of; what is done for no call has only a principal. */
export interface About {
  readonly tool?: string | undefined
  readonly callId?: string | undefined
  readonly principal: string
  /** What is secret about it, and the arguments where that stands. */
  readonly secrets?: { readonly redactor: Redactor; readonly args: unknown } | undefined
}

/** Logs what became of a call, without its secrets. A logger may die of what it is to print: that ends nothing else. */
export const log = (
  level: LogLevel.Severity,
  message: string,
  cause: Cause.Cause<unknown> | string | undefined,
  { callId, principal, secrets, tool }: About
): Effect.Effect<void> =>
  Effect.flatMap(LogLevel.isEnabled(level), (isEnabled) =>
    isEnabled
      ? Effect.logWithLevel(level)(...(cause === undefined ? [message] : [message, without(cause, secrets)]))
      : Effect.void).pipe(
      Effect.annotateLogs({
        ...(tool === undefined ? {} : { "gen_ai.tool.name": tool }),
        ...(callId === undefined ? {} : { "gen_ai.tool.call.id": callId }),
        "tool_executor.principal": principal
      }),
      Effect.ignoreCause
    )

/** The unchanged cause if it contains no secret, else its redacted text. */
const without = (cause: Cause.Cause<unknown> | string, secrets: About["secrets"]): Cause.Cause<unknown> | string => {
  if (secrets === undefined || typeof cause === "string") return cause
  const { args, redactor } = secrets
  const known = [...redactor.arguments(args).secrets]
  for (const reason of cause.reasons) {
    if (Cause.isFailReason(reason)) known.push(...redactor.output(reason.error).secrets)
  }
  const text = Cause.pretty(cause)
  const left = redactor.scrub(text, known)
  return left === text ? cause : left
}
