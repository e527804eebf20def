/**
 * Passes on what happens to the calls of a process, with what it means for the agent.
 *
 * @since 0.1.0
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ApprovalRequest } from "../policy/Approvals.ts"
import { isEnd, type ToolEvent } from "../ToolEvent.ts"
import * as ToolOutcome from "../ToolOutcome.ts"
import type { ToolProcess } from "../ToolProcess.ts"
import type { ExecutingTool, RequestToolApprovals, ToolResultReceived } from "./AgentEvent.ts"
import type { Operation } from "./Operation.ts"

/**
 * A process whose calls are told of.
 *
 * @category models
 * @internal
 */
export interface Watched {
  readonly process: ToolProcess
  /** Runs waves of the process; ends once all that happened in the last of them has been told. */
  readonly wave: <E>(run: Effect.Effect<ToolOutcome.WaveResult, E>) => Effect.Effect<ToolOutcome.WaveResult, E>
}

/**
 * Watches a process as long as the scope is open.
 *
 * @category constructors
 * @internal
 */
export const make = (operation: Operation, process: ToolProcess): Effect.Effect<Watched, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { agentPath, link } = operation.given
    yield* Effect.acquireRelease(
      Effect.sync(() => link.processes.add(process.id)),
      () => Effect.sync(() => link.processes.delete(process.id))
    )
    const waiting: Array<Deferred.Deferred<void>> = []
    const told = () => {
      for (const it of waiting.splice(0)) Deferred.doneUnsafe(it, Effect.void)
    }
    const tellAll = (events: ReadonlyArray<ToolEvent>) =>
      Effect.sync(() => {
        let asked: ReadonlyArray<ApprovalRequest> = []
        let isOver = false
        for (const event of events) {
          if (event._tag === "ToolApprovalRequested") {
            const request = link.requests.get(event.requestId)
            if (request !== undefined) operation.asked(request)
            if (request !== undefined && event.process === process.id) asked = [...asked, request]
          } else if (event._tag === "ToolApprovalResolved") operation.answered(event.requestId)
          if (event.process !== process.id && link.processes.has(event.process)) continue
          if (isEnd(event)) isOver = true
          // whoever reads the events of a caller sees the ends of its own waves alone
          if (isEnd(event) && agentPath.length > 0) continue
          link.tell(event)
          tellOwn(operation, event)
        }
        // all of a turn are asked at once: their events came together
        if (asked.length > 0) operation.tell<RequestToolApprovals>({ _tag: "RequestToolApprovals", requests: asked })
        if (isOver) told()
      })
    yield* process.events.pipe(
      Stream.runForEachArray(tellAll),
      Effect.ensuring(Effect.sync(told)),
      Effect.forkScoped({ startImmediately: true })
    )
    return {
      process,
      wave: (run) =>
        Effect.gen(function*() {
          const all = Deferred.makeUnsafe<void>()
          waiting.push(all)
          const wave = yield* run
          if (wave.outcomes.length > 0) yield* Deferred.await(all)
          return wave
        })
    }
  })

// Utilities

const tellOwn = (operation: Operation, event: ToolEvent): void => {
  if (event._tag === "ToolCallStart" && event.attempt === 1) {
    const { callId, tool } = event
    operation.tell<ExecutingTool>({ _tag: "ExecutingTool", callId, tool })
  }
  if (event._tag !== "ToolCallComplete") return
  const { callId, outcome, tool } = event
  const { isError, text } = ToolOutcome.toMessage(outcome)
  operation.tell<ToolResultReceived>({ _tag: "ToolResultReceived", callId, tool, isError, text, outcome })
}
