/** Forwards the events of a process, and derives agent events from them. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import { isEnd, type ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import type { ExecutingTool, RequestToolApprovals, SubAgentStarted, ToolResultReceived } from "./AgentEvent.ts"
import type { Operation } from "./Operation.ts"

/** Watches a process for the rest of the scope. */
export const watch = (operation: Operation, process: ToolProcess): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { agentPath, caller, tree } = operation.given
    const run = Effect.runForkWith(yield* Effect.context<never>())
    let asked: ReadonlyArray<ApprovalRequest> = []
    /** All approval requests of a turn are made in one step and reported together after it. */
    const tellAsked = () => {
      if (asked.length === 0) return
      const requests = asked
      asked = []
      operation.report<RequestToolApprovals>({ _tag: "RequestToolApprovals", requests })
    }
    const noteQuestion = (requestId: string) => {
      const request = tree.requests.get(requestId)
      if (request === undefined) return
      if (asked.length === 0) run(Effect.andThen(Effect.yieldNow, Effect.sync(tellAsked)))
      asked = [...asked, request]
    }
    const named = new Set<string>()
    const name = (process: string) => {
      if (caller === undefined || named.has(process)) return
      named.add(process)
      operation.report<SubAgentStarted>({ _tag: "SubAgentStarted", caller, process })
    }
    name(process.id)
    yield* process.listen((event) => {
      if (event._tag === "ToolApprovalRequested") operation.asked(event.requestId)
      if (event._tag === "ToolApprovalResolved") operation.answered(event.requestId)
      // the operation nearest to the call sees the event first and has reported it
      if (tree.reported.has(event)) return true
      tree.reported.add(event)
      // readers see only the wave ends of the root
      if (isEnd(event) && agentPath.length > 0) return true
      // calls that a handler makes have their own process
      if (event.agentPath.length === agentPath.length) name(event.process)
      if (event._tag === "ToolApprovalRequested") noteQuestion(event.requestId)
      else tellAsked()
      const isTaken = tree.report(event)
      // a handler may run calls no model made
      if (event.process === process.id) tellOwn(operation, event)
      return isTaken
    })
  })

const tellOwn = (operation: Operation, event: ToolEvent): void => {
  if (event._tag === "ToolCallStart" && event.attempt === 1) {
    const { callId, tool } = event
    operation.report<ExecutingTool>({ _tag: "ExecutingTool", callId, tool })
  }
  if (event._tag !== "ToolCallComplete") return
  const { callId, outcome, tool } = event
  const { isError, text } = ToolOutcome.toMessage(outcome)
  operation.report<ToolResultReceived>({ _tag: "ToolResultReceived", callId, tool, isError, text, outcome })
}
