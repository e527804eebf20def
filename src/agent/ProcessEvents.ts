/** Passes on what happens to the calls of a process, with what it means for the agent. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import { isEnd, type ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import type { ExecutingTool, RequestToolApprovals, ToolResultReceived } from "./AgentEvent.ts"
import type { Operation } from "./Operation.ts"

/** Watches a process as long as the scope is open. */
export const watch = (operation: Operation, process: ToolProcess): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { agentPath, tree } = operation.given
    const run = Effect.runForkWith(yield* Effect.context<never>())
    let asked: ReadonlyArray<ApprovalRequest> = []
    /** All questions of a turn are asked in one step: they are told together when it is over. */
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
    yield* process.listen((event) => {
      if (event._tag === "ToolApprovalRequested") operation.asked(event.requestId)
      if (event._tag === "ToolApprovalResolved") operation.answered(event.requestId)
      // whoever is nearest to the call has told it: they hear it first
      if (tree.reported.has(event)) return true
      tree.reported.add(event)
      // whoever reads the events of a caller sees the ends of that one's waves alone
      if (isEnd(event) && agentPath.length > 0) return true
      if (event._tag === "ToolApprovalRequested") noteQuestion(event.requestId)
      else tellAsked()
      const isTaken = tree.report(event)
      // a handler may have calls run that no model made
      if (event.process === process.id) tellOwn(operation, event)
      return isTaken
    })
  })

// Utilities

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
