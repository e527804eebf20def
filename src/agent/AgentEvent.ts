/**
 * Everything that happens in an operation of an agent, as one union: what its model says, what becomes of its calls,
 * what people are asked, and the end.
 *
 * Events of sub-agents come among those of the call that they work for, with their `agentPath`, but for their end.
 * These are the host's own; what leaves the process is `toWire`.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolEvents from "../core/facts/ToolEvent.ts"
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import * as Projection from "../wire/Projection.ts"
import * as AgentWire from "./AgentWire.ts"
import type { ModelId } from "./Conversation.ts"

/** What every event of an agent has. */
export interface Common {
  /** Names of the sub-agents from the root down to the one that it is about; empty: the root. */
  readonly agentPath: ReadonlyArray<string>
  readonly operation: string
  /** Which turn of its model it is, from 1; 0 before the first. */
  readonly turn: number
  /** Epoch milliseconds. */
  readonly at: number
}

/** A part of what the model says, as it says it. */
export interface AssistantMessagePart extends Common {
  readonly _tag: "AssistantMessagePart"
  readonly part: Response.StreamPart<Record<string, never>, "deferred">
}

/** The model has said all of it. Of a turn that was cut off this has what was kept. */
export interface AssistantMessageFinal extends Common, ModelId {
  readonly _tag: "AssistantMessageFinal"
  readonly message: Prompt.AssistantMessage
  readonly finish: Response.FinishReason | "cut"
  readonly usage: Usage
}

/**
 * People are asked: one event for all calls of the turn that need an answer. Answers are given by the ids of the
 * requests, in any order.
 */
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

/** A call has its outcome, and this is what the model will be told. */
export interface ToolResultReceived extends Common {
  readonly _tag: "ToolResultReceived"
  readonly callId: string
  readonly tool: string
  readonly isError: boolean
  readonly text: string
  readonly outcome: ToolOutcome
}

/** Somebody said something while the agent worked: the model hears it before its next turn. */
export interface MessageQueued extends Common {
  readonly _tag: "MessageQueued"
  readonly id: string
  readonly text: string
}

/** What was said is in the history now. */
export interface MessageTaken extends Common {
  readonly _tag: "MessageTaken"
  readonly id: string
  readonly text: string
}

/** The model is told that it has to call a tool at the start, or before the end. */
export interface Reminded extends Common {
  readonly _tag: "Reminded"
  readonly about: "start" | "exit"
  readonly tools: ReadonlyArray<string>
  readonly text: string
}

/** A request to the model failed in a way that is worth another try, after so long. */
export interface ModelRetry extends Common {
  readonly _tag: "ModelRetry"
  readonly error: AiError.AiError
  readonly afterMillis: number
}

/** The operation is over. Always the last event. */
export interface OperationEnd extends Common {
  readonly _tag: "OperationEnd"
  readonly reason: EndReason
  /** What the model said last. */
  readonly text: string
  /** The conversation with all of it: what the next operation goes on from. */
  readonly history: Prompt.Prompt
  readonly usage: Usage
  readonly turns: number
  /** Calls that were started, those of sub-agents and of what it goes on with included. */
  readonly calls: number
}

/**
 * Why an operation is over.
 *
 * - `Finished`: the model has nothing more to do.
 * - `Exited`: a tool that ends the loop succeeded.
 * - `CutOff`: the model's last answer was cut off, and it made no call.
 * - `LimitReached`: one of the bounds of the operation, or of one that it works for.
 * - `Cancelled`: somebody said so.
 * - `ModelFailed`: the model could not be asked, or its answer broke off.
 * - `RequirementUnmet`: the rules demand tools that could not be called to success.
 * - `Suspended`: the host stops while calls wait for people; `history` has these calls
 *   without an answer, and the next operation from it resumes them.
 * - `NotResumed`: the calls that the history has open are somebody else's, or cannot be
 *   found out about.
 * - `NotKept`: the history could not be kept; nothing has run since.
 */
export type EndReason =
  | { readonly _tag: "Finished" }
  | { readonly _tag: "Exited" }
  | { readonly _tag: "CutOff"; readonly finish: Response.FinishReason }
  | { readonly _tag: "LimitReached"; readonly limit: Limit; readonly max: number }
  | { readonly _tag: "Cancelled"; readonly reason: string }
  | { readonly _tag: "ModelFailed"; readonly error: AiError.AiError | undefined; readonly message: string }
  | { readonly _tag: "RequirementUnmet"; readonly when: "start" | "exit"; readonly tools: ReadonlyArray<string> }
  | { readonly _tag: "Suspended"; readonly calls: ReadonlyArray<string> }
  | { readonly _tag: "NotResumed"; readonly message: string; readonly calls: ReadonlyArray<string> }
  | { readonly _tag: "NotKept"; readonly message: string }

/** A bound of an operation. Time is in milliseconds. */
export type Limit = "turns" | "calls" | "tokens" | "time" | "cost"

/** Tokens that models used, sub-agents' included. */
export interface Usage {
  readonly inputTokens: number
  readonly outputTokens: number
  /** Of the input tokens those that were read from a cache. */
  readonly cachedInputTokens: number
  /** Of the input tokens those that were written to a cache. */
  readonly cacheWriteInputTokens: number
}

/** Something that happened in an operation. */
export type AgentEvent =
  | AssistantMessagePart
  | AssistantMessageFinal
  | RequestToolApprovals
  | ExecutingTool
  | ToolResultReceived
  | MessageQueued
  | MessageTaken
  | Reminded
  | ModelRetry
  | ToolEvent
  | OperationEnd

/** An event of the agent itself, and not of one of its calls. */
export type OwnEvent = Exclude<AgentEvent, ToolEvent>

/** Says in a sentence why an operation is over. */
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
      return `The model could not be asked: ${reason.message}`
    case "RequirementUnmet":
      return `The rules demand these tools ${
        reason.when === "start" ? "first" : "before the end"
      }, and they were not called to success: ${reason.tools.join(", ")}.`
    case "Suspended":
      return `The host stops; ${reason.calls.length} calls wait to be resumed.`
    case "NotResumed":
    case "NotKept":
      return reason.message
  }
}

/**
 * Schema of an event as clients see it: plain JSON, told apart by `_tag`, for server-sent events, HTTP and pages.
 * Events of calls are as `ToolEvent.Wire` has them.
 */
export const Wire = Schema.Union([...AgentWire.OwnEvent.members, ...ToolEvents.Wire.members])

/** An event as clients see it. */
export type Wire = typeof Wire.Type

/**
 * Gives the event as clients see it, and fails with an event that has nothing to show: pieces of a call's arguments,
 * which may hold a secret, and empty pieces of text.
 *
 * **Example** (a stream for clients)
 *
 * `Stream.filterMap(events, AgentEvent.toWire)`
 */
export const toWire = <Event extends AgentEvent>(event: Event): Result.Result<Wire, Event> => {
  if (!isOwn(event)) return Result.succeed(ToolEvents.toWire(event))
  return hasContent(event) ? Result.succeed(ownToWire({ ...event, ...madeOf(event) })) : Result.fail(event)
}

/** Gives the event's name on the wire, for the `event:` line of a server-sent event. */
export const sseName = (event: AgentEvent | Wire): string =>
  Object.hasOwn(names, event._tag)
    ? names[event._tag as OwnEvent["_tag"]]
    : ToolEvents.sseName(event as ToolEvents.ToolEvent | ToolEvents.Wire)

/** Tells an agent's own events from those of its calls. */
export const isOwn = (event: AgentEvent): event is OwnEvent => Object.hasOwn(names, event._tag)

/** Tells whether a tool emitted an event: those are not kept for a reader who is too slow. */
export const isReport = ({ _tag }: AgentEvent): boolean => reports.has(_tag)

/** Tells whether nothing comes after an event: the end of an operation. The end of a wave is none. */
export const isLast = (event: AgentEvent): event is OperationEnd => event._tag === "OperationEnd"

// Utilities

const reports: ReadonlySet<AgentEvent["_tag"]> = new Set(
  ["ToolProgress", "ToolStatus", "ToolLog", "ToolOptions", "ToolPartialResult", "ToolCustom"]
)

const names: { readonly [T in OwnEvent["_tag"]]: string } = {
  AssistantMessagePart: "assistant_message_part",
  AssistantMessageFinal: "assistant_message_final",
  RequestToolApprovals: "request_tool_approvals",
  ExecutingTool: "executing_tool",
  ToolResultReceived: "tool_result_received",
  MessageQueued: "message_queued",
  MessageTaken: "message_taken",
  Reminded: "reminded",
  ModelRetry: "model_retry",
  OperationEnd: "operation_end"
}

const ownToWire = Projection.make(AgentWire.OwnEvent)

/** Parts that a client is not shown: arguments may hold a secret, and what describes the request is not its concern. */
const hasContent = (event: OwnEvent): boolean => {
  if (event._tag !== "AssistantMessagePart") return true
  const part = event.part as Response.AnyPart
  return "delta" in part ? part.type !== "tool-params-delta" && part.delta !== "" : part.type !== "response-metadata"
}

/** Fields that clients see and that are made of what the event has. */
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
