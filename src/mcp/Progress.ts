/**
 * What a call reports of its progress, as MCP has it, for the client that asked for it; and that it waits for a person
 * whom the client cannot ask.
 */
import type * as McpServer from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberHandle from "effect/FiberHandle"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"

/** What a client asked for, and what it cannot know. */
export interface Options {
  /** By which it knows progress of this call; without one it has not asked for any. */
  readonly progressToken?: string | number | undefined
  /** Where people answer what it cannot ask. */
  readonly elsewhere?: string | undefined
}

/**
 * Tells the client of the request about the progress of a call from now on, and that it waits for a person elsewhere;
 * gives what ends when all of it has been told.
 */
export const report = Effect.fnUntraced(function*(
  server: McpServer.McpServer["Service"],
  process: ToolProcess,
  callId: string,
  { elsewhere, progressToken }: Options
): Effect.fn.Return<Effect.Effect<void>, never, Scope.Scope> {
  let last: number | undefined
  const reportProgress = (token: string | number, { message, progress, total }: Report) => {
    last = grown(last, finite(progress))
    return server.notifications["notifications/progress"]({
      progressToken: token,
      progress: last,
      total: finite(total),
      message
    })
  }
  const waiting = yield* FiberHandle.make()
  const reportWaiting = (message: string) =>
    progressToken === undefined
      ? server.notifications["notifications/message"]({ level: "notice", logger: "approvals", data: message })
      : Effect.repeat(reportProgress(progressToken, { message }), Schedule.spaced(stillWaiting))
  return yield* process.events.pipe(
    Stream.filter((event) => "callId" in event && event.callId === callId),
    Stream.takeUntil((event) => event._tag === "ToolCallComplete"),
    Stream.runForEach((event): Effect.Effect<unknown> => {
      switch (event._tag) {
        case "ToolProgress":
          return progressToken === undefined ? Effect.void : reportProgress(progressToken, event)
        case "ToolApprovalRequested":
          return elsewhere === undefined
            ? Effect.void
            : FiberHandle.run(waiting, reportWaiting(`This call needs an approval: ${elsewhere}`))
        case "ToolApprovalResolved":
        case "ToolCallComplete":
          return FiberHandle.clear(waiting)
        default:
          return Effect.void
      }
    }),
    Effect.forkScoped({ startImmediately: true }),
    Effect.map(Fiber.join)
  )
})

interface Report {
  readonly progress?: number | undefined
  readonly total?: number | undefined
  readonly message?: string | undefined
}

/** Interval of reminders, shorter than the timeout of the official client (60 seconds without progress). */
const stillWaiting = "15 seconds"

/** It has to grow, also where the tool does not say how far it is, or goes back. */
const grown = (last: number | undefined, next: number | undefined): number =>
  last === undefined
    ? next ?? 0
    : next !== undefined && next > last
    ? next
    : last + Math.max(0.001, Math.abs(last) / 1e9)

const finite = (value: number | undefined): number | undefined => Number.isFinite(value) ? value : undefined
