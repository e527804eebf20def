/**
 * Everything that happens in an agent's operation, as one union.
 *
 * Events of sub-agents appear among those of the call they work for, with their own `agentPath`; their `OperationEnd`
 * does not. `SubAgentStarted` names that call. These events stay in the process; `toWire` makes the ones that leave it.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import * as ToolEvents from "../core/facts/ToolEvent.ts"
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import * as Projection from "../wire/Projection.ts"
import * as AgentWire from "./AgentWire.ts"
import type { ModelId } from "./Conversation.ts"

/** Fields of every agent event. */
export interface Common {
  /** Names of the sub-agents from the root to the one the event is about. Empty for the root. */
  readonly agentPath: ReadonlyArray<string>
  readonly operation: string
  /** The model's turn, from 1; 0 before the first. An operation that resumes another one counts on. */
  readonly turn: number
  /** Epoch milliseconds. */
  readonly at: number
}

/** The call that a sub-agent works for, as the events of calls name it. */
export interface Caller {
  readonly process: string
  readonly callId: string
}

/**
 * A sub-agent starts, or continues after a restart. Reported once for each process that its calls run in, before their
 * events.
 */
export interface SubAgentStarted extends Common {
  readonly _tag: "SubAgentStarted"
  readonly caller: Caller
  readonly process: string
}

/** A part of the model's answer, as it streams in. */
export interface AssistantMessagePart extends Common {
  readonly _tag: "AssistantMessagePart"
  readonly part: Response.StreamPart<Record<string, never>, "deferred">
}

/** The model finished its answer. If the turn was cut off, `message` holds the part that was kept. */
export interface AssistantMessageFinal extends Common, ModelId {
  readonly _tag: "AssistantMessageFinal"
  readonly message: Prompt.AssistantMessage
  readonly finish: Response.FinishReason | "cut"
  readonly usage: Usage
}

/** Approval is requested: one event for all calls of the turn that need it. Answer by request id, in any order. */
export interface RequestToolApprovals extends Common {
  readonly _tag: "RequestToolApprovals"
  readonly requests: ReadonlyArray<ApprovalRequest>
}

/** The handler of a call starts. */
export interface ExecutingTool extends Common {
  readonly _tag: "ExecutingTool"
  readonly callId: string
  readonly tool: string
}

/** A call has its outcome; `text` is what the model will read. */
export interface ToolResultReceived extends Common {
  readonly _tag: "ToolResultReceived"
  readonly callId: string
  readonly tool: string
  readonly isError: boolean
  readonly text: string
  readonly outcome: ToolOutcome
}

/** A message arrived while the agent worked. The model reads it before its next turn. */
export interface MessageQueued extends Common {
  readonly _tag: "MessageQueued"
  readonly id: string
  readonly text: string
}

/** A queued message was added to the history. */
export interface MessageTaken extends Common {
  readonly _tag: "MessageTaken"
  readonly id: string
  readonly text: string
}

/** The model was reminded that it must call a tool at the start or before the end. */
export interface Reminded extends Common {
  readonly _tag: "Reminded"
  readonly about: "start" | "exit"
  readonly tools: ReadonlyArray<string>
  readonly text: string
}

/** A request to the model failed and is retried after `afterMillis`. */
export interface ModelRetry extends Common {
  readonly _tag: "ModelRetry"
  readonly error: AiError.AiError
  readonly afterMillis: number
}

/** The conversation neared the model's context window: from now on the model reads less of it. */
export interface HistoryCompacted extends Common {
  readonly _tag: "HistoryCompacted"
  /** Whether a summary stands for the older turns, or a note that they are missing. */
  readonly by: "summary" | "drop"
  /** Tokens of the next request without and with the compaction, estimated. */
  readonly beforeTokens: number
  readonly afterTokens: number
  /** How many messages the model no longer reads. */
  readonly messages: number
  /** Tokens used for the summary. */
  readonly usage: Usage
  /** Why there is no summary, although there should be one. */
  readonly problem?: string | undefined
}

/** The operation ended. Always the last event. */
export interface OperationEnd extends Common {
  readonly _tag: "OperationEnd"
  readonly reason: EndReason
  /** The model's last text. */
  readonly text: string
  /** The whole conversation; pass it to the next operation to continue. */
  readonly history: Prompt.Prompt
  readonly usage: Usage
  readonly turns: number
  /** Calls started, including those of sub-agents and of the operation it resumed. */
  readonly calls: number
}

/**
 * Why an operation ended.
 *
 * - `Finished`: the model has nothing more to do.
 * - `Exited`: a tool that ends the loop succeeded.
 * - `CutOff`: the model's last answer was cut off, and it made no call.
 * - `LimitReached`: a limit of the operation, or of an operation above it, was reached.
 * - `Cancelled`: the host or a user cancelled it.
 * - `ModelFailed`: the request to the model failed, or its answer broke off.
 * - `HistoryTooLong`: the conversation exceeds the model's context window, and compaction cannot make it shorter.
 * - `RequirementUnmet`: the rules require tools that could not be called successfully.
 * - `Suspended`: the host stops while calls wait for approval, or sub-agents of theirs do. `history` has these calls
 * without an answer; the next operation from it resumes them.
 * - `NotResumed`: the open calls of the history belong to another run, or their state could not be read.
 * - `NotKept`: the history could not be stored; nothing has run since.
 */
export type EndReason =
  | { readonly _tag: "Finished" }
  | { readonly _tag: "Exited" }
  | { readonly _tag: "CutOff"; readonly finish: Response.FinishReason }
  | { readonly _tag: "LimitReached"; readonly limit: Limit; readonly max: number }
  | { readonly _tag: "Cancelled"; readonly reason: string }
  | { readonly _tag: "ModelFailed"; readonly error: AiError.AiError | undefined; readonly message: string }
  | { readonly _tag: "HistoryTooLong"; readonly window: number }
  | { readonly _tag: "RequirementUnmet"; readonly when: "start" | "exit"; readonly tools: ReadonlyArray<string> }
  | { readonly _tag: "Suspended"; readonly calls: ReadonlyArray<string> }
  | {
    readonly _tag: "NotResumed"
    readonly because: ResumeError["reason"]
    readonly message: string
    readonly calls: ReadonlyArray<string>
  }
  | { readonly _tag: "NotKept"; readonly message: string }

/** A limit of an operation. Time is in milliseconds. */
export type Limit = "turns" | "calls" | "tokens" | "time" | "cost"

/** Tokens used, including those of sub-agents. */
export interface Usage {
  readonly inputTokens: number
  readonly outputTokens: number
  /** Input tokens that were read from a cache. */
  readonly cachedInputTokens: number
  /** Input tokens that were written to a cache. */
  readonly cacheWriteInputTokens: number
}

/** An event of an operation. */
export type AgentEvent =
  | SubAgentStarted
  | AssistantMessagePart
  | AssistantMessageFinal
  | RequestToolApprovals
  | ExecutingTool
  | ToolResultReceived
  | MessageQueued
  | MessageTaken
  | Reminded
  | ModelRetry
  | HistoryCompacted
  | ToolEvent
  | OperationEnd

/** An event of the agent itself rather than of one of its calls. */
export type OwnEvent = Exclude<AgentEvent, ToolEvent>

/** Explains in one sentence why an operation ended. */
export const describe = (reason: EndReason): string => {
  switch (reason._tag) {
    case "Finished":
      return "The model has finished."
    case "Exited":
      return "A tool that ends the loop succeeded."
    case "CutOff":
      return `The model's answer was cut off (${reason.finish}).`
    case "LimitReached":
      return `The limit of ${limitOf(reason)} was reached.`
    case "Cancelled":
      return `It was cancelled: ${reason.reason}.`
    case "ModelFailed":
      return `The model request failed: ${reason.message}`
    case "HistoryTooLong":
      return `The conversation is longer than the model's context window (${reason.window} tokens), and nothing more of it can be left out.`
    case "RequirementUnmet":
      return `The rules demand these tools ${
        reason.when === "start" ? "first" : "before the end"
      }, and they were not called to success: ${reason.tools.join(", ")}.`
    case "Suspended":
      return `The host stops; ${
        reason.calls.length === 1 ? "1 call waits" : `${reason.calls.length} calls wait`
      } to be resumed.`
    case "NotResumed":
    case "NotKept":
      return reason.message
  }
}

/** Schema of an event for clients: plain JSON tagged by `_tag`. Events of calls follow `ToolEvent.Wire`. */
export const Wire = Schema.Union([...AgentWire.OwnEvent.members, ...ToolEvents.Wire.members])

/** An event as clients see it. */
export type Wire = typeof Wire.Type

/**
 * Converts an event for clients. Fails with events that have nothing to show: fragments of call arguments, which may
 * hold a secret, and empty text.
 *
 * **Example** (a stream for clients)
 *
 * `Stream.filterMap(events, AgentEvent.toWire)`
 */
export const toWire = <Event extends AgentEvent>(event: Event): Result.Result<Wire, Event> => {
  if (!isOwn(event)) return Result.succeed(ToolEvents.toWire(event))
  return hasContent(event) ? Result.succeed(ownToWire({ ...event, ...madeOf(event) })) : Result.fail(event)
}

/** Returns the event's name for the `event:` line of a server-sent event. */
export const sseName = (event: AgentEvent | Wire): string =>
  Object.hasOwn(names, event._tag)
    ? names[event._tag as OwnEvent["_tag"]]
    : ToolEvents.sseName(event as ToolEvents.ToolEvent | ToolEvents.Wire)

/** Whether an event is the agent's own rather than one of its calls. */
export const isOwn = (event: AgentEvent): event is OwnEvent => Object.hasOwn(names, event._tag)

/** Whether a tool emitted the event. Such events are dropped for slow readers. */
export const isReport = ({ _tag }: AgentEvent | Wire): boolean => reports.has(_tag)

/** Whether this is the last event of an operation. */
export const isLast = (event: AgentEvent): event is OperationEnd => event._tag === "OperationEnd"

const reports: ReadonlySet<AgentEvent["_tag"]> = new Set(
  ["ToolProgress", "ToolStatus", "ToolLog", "ToolOptions", "ToolPartialResult", "ToolCustom"]
)

const names: { readonly [T in OwnEvent["_tag"]]: string } = {
  SubAgentStarted: "sub_agent_started",
  AssistantMessagePart: "assistant_message_part",
  AssistantMessageFinal: "assistant_message_final",
  RequestToolApprovals: "request_tool_approvals",
  ExecutingTool: "executing_tool",
  ToolResultReceived: "tool_result_received",
  MessageQueued: "message_queued",
  MessageTaken: "message_taken",
  Reminded: "reminded",
  ModelRetry: "model_retry",
  HistoryCompacted: "history_compacted",
  OperationEnd: "operation_end"
}

/** Converts the reason of an end for clients. */
export const reasonToWire = Projection.make(AgentWire.EndReason)

const ownToWire = Projection.make(AgentWire.OwnEvent)

/** Whether a client may see the event: arguments may hold a secret, and request metadata is internal. */
const hasContent = (event: OwnEvent): boolean => {
  if (event._tag !== "AssistantMessagePart") return true
  const part = event.part as Response.AnyPart
  return "delta" in part ? part.type !== "tool-params-delta" && part.delta !== "" : part.type !== "response-metadata"
}

/** Fields that exist only on the wire, derived from the event. */
const madeOf = (event: OwnEvent): { readonly [name: string]: unknown } => {
  switch (event._tag) {
    case "AssistantMessageFinal": {
      const { content } = event.message
      return {
        text: content.map((it) => it.type === "text" ? it.text : "").join(""),
        toolCalls: content.filter((it) => it.type === "tool-call")
      }
    }
    case "ModelRetry":
      return { message: event.error.message }
    case "OperationEnd":
      return { message: describe(event.reason) }
    default:
      return {}
  }
}

const limitOf = ({ limit, max }: Extract<EndReason, { readonly _tag: "LimitReached" }>): string => {
  if (limit === "time") return `${max / 1000} s`
  if (limit === "cost") return `${max} for what tokens cost`
  return `${max} ${max === 1 ? limit.slice(0, -1) : limit}`
}
