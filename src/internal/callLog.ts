/**
 * What an operator finds in the log where something dies on the way of a call: its whole
 * cause, and which call that was. Models and clients are told none of it.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as LogLevel from "effect/LogLevel"

/** The call that something is logged of; what is done for no call has only a principal. */
export interface About {
  readonly tool?: string | undefined
  readonly callId?: string | undefined
  readonly principal: string
}

/** Logs what became of a call. A logger may die of what it is to print: that ends nothing else. */
export const log = (
  level: LogLevel.Severity,
  message: string,
  cause: Cause.Cause<unknown> | string | undefined,
  { callId, principal, tool }: About
): Effect.Effect<void> =>
  Effect.logWithLevel(level)(...(cause === undefined ? [message] : [message, cause])).pipe(
    Effect.annotateLogs({
      ...(tool === undefined ? {} : { "gen_ai.tool.name": tool }),
      ...(callId === undefined ? {} : { "gen_ai.tool.call.id": callId }),
      "tool_executor.principal": principal
    }),
    Effect.ignoreCause
  )
