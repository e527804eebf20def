/**
 * What a running call reports of its progress, as MCP has it: for the client that
 * asked for it.
 *
 * @since 0.1.0
 */
import type * as McpServer from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ToolProcess } from "../ToolProcess.ts"

/**
 * Tells the client of the request about the progress of a call from now on; gives
 * what ends when all of it has been told.
 *
 * @category running
 * @since 0.1.0
 */
export const tell = (
  server: McpServer.McpServer["Service"],
  process: ToolProcess,
  callId: string,
  progressToken: string | number
): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> => {
  let last: number | undefined
  return process.events.pipe(
    Stream.filter((event) => "callId" in event && event.callId === callId),
    Stream.takeUntil((event) => event._tag === "ToolCallComplete"),
    Stream.runForEach((event) => {
      if (event._tag !== "ToolProgress") return Effect.void
      last = grown(last, finite(event.progress))
      return server.notifications["notifications/progress"]({
        progressToken,
        progress: last,
        total: finite(event.total),
        message: event.message
      })
    }),
    Effect.forkScoped({ startImmediately: true }),
    Effect.map(Fiber.join)
  )
}

// Utilities

/** It has to grow, also where the tool does not say how far it is, or goes back. */
const grown = (last: number | undefined, next: number | undefined): number =>
  last === undefined
    ? next ?? 0
    : next !== undefined && next > last
    ? next
    : last + Math.max(0.001, Math.abs(last) / 1e9)

const finite = (value: number | undefined): number | undefined => Number.isFinite(value) ? value : undefined
