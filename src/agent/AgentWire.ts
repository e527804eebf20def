/**
 * Agent events as clients see them.
 *
 * These schemas exclude the history, provider-bound message data, and arguments or errors that may hold secrets.
 */
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Base64 from "effect/encoding/Base64"
import * as Schema from "effect/Schema"
import { ApprovalWire } from "../core/facts/ApprovalWire.ts"
import * as Projection from "../wire/Projection.ts"

const common = {
  agentPath: Schema.Array(Schema.String),
  operation: Schema.String,
  turn: Schema.Finite,
  at: Schema.Finite
}

/** Schema of tokens used. */
export const Usage = Schema.Struct({
  inputTokens: Schema.Finite,
  outputTokens: Schema.Finite,
  cachedInputTokens: Schema.Finite,
  cacheWriteInputTokens: Schema.Finite
}).annotate({ identifier: "Usage" })

const id = Schema.String
const providerExecuted = Schema.optionalKey(Schema.Boolean)

const part = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), ...fields })

/** Schema of a part of the model's answer. Clients get call arguments, redacted, from `ToolCallQueued`. */
export const Part = Schema.Union([
  part("text-start", { id }),
  part("text-delta", { id, delta: Schema.String }),
  part("text-end", { id }),
  part("reasoning-start", { id }),
  part("reasoning-delta", { id, delta: Schema.String }),
  part("reasoning-end", { id }),
  part("tool-params-start", { id, name: Schema.String, providerExecuted }),
  part("tool-params-end", { id }),
  part("tool-call", { id, name: Schema.String, providerExecuted }),
  part("tool-result", {
    id,
    name: Schema.String,
    result: Schema.Json,
    isFailure: Schema.Boolean,
    providerExecuted,
    preliminary: Schema.optionalKey(Schema.Boolean)
  }),
  part("tool-approval-request", { approvalId: Schema.String, toolCallId: Schema.String }),
  part("file", {
    mediaType: Schema.String,
    /** Base64. */
    data: Projection.as(Schema.String, (it) => it instanceof Uint8Array ? Base64.encode(it) : "")
  }),
  part("source", {
    sourceType: Schema.Literals(["document", "url"]),
    id,
    title: Schema.String,
    mediaType: Schema.optionalKey(Schema.String),
    fileName: Schema.optionalKey(Schema.String),
    url: Schema.optionalKey(Schema.String)
  }),
  part("finish", { reason: Response.FinishReason }),
  part("error", { error: Schema.Json })
])

const tagOf = (error: unknown): string | null => AiError.isAiError(error) ? error.reason._tag : null

export const EndReason = Schema.Union([
  Schema.TaggedStruct("Finished", {}),
  Schema.TaggedStruct("Exited", {}),
  Schema.TaggedStruct("CutOff", { finish: Response.FinishReason }),
  Schema.TaggedStruct("LimitReached", {
    limit: Schema.Literals(["turns", "calls", "tokens", "time", "cost"]),
    max: Schema.Finite
  }),
  Schema.TaggedStruct("Cancelled", { reason: Schema.String }),
  Schema.TaggedStruct("ModelFailed", {
    /** The tag of the reason of the `AiError`, such as `AuthenticationError`; null if the model failed otherwise. */
    error: Schema.optionalKey(Projection.as(Schema.NullOr(Schema.String), tagOf))
  }),
  Schema.TaggedStruct("HistoryTooLong", { window: Schema.Finite }),
  Schema.TaggedStruct("RequirementUnmet", {
    when: Schema.Literals(["start", "exit"]),
    tools: Schema.Array(Schema.String)
  }),
  Schema.TaggedStruct("Suspended", { calls: Schema.Array(Schema.String) }),
  Schema.TaggedStruct("NotResumed", {
    because: Schema.Literals(["Running", "Changed", "Unavailable"]),
    message: Schema.String,
    calls: Schema.Array(Schema.String)
  }),
  Schema.TaggedStruct("NotKept", { message: Schema.String })
]).annotate({ identifier: "EndReason" })

const message = { ...common, id, text: Schema.String }

export const OwnEvent = Schema.Union([
  Schema.TaggedStruct("SubAgentStarted", {
    ...common,
    caller: Schema.Struct({ process: Schema.String, callId: Schema.String }),
    process: Schema.String
  }),
  Schema.TaggedStruct("AssistantMessagePart", {
    ...common,
    part: Part
  }),
  Schema.TaggedStruct("AssistantMessageFinal", {
    ...common,
    text: Schema.String,
    toolCalls: Schema.Array(Schema.Struct({ id, name: Schema.String })),
    finish: Schema.Union([Response.FinishReason, Schema.Literal("cut")]),
    usage: Usage,
    provider: Schema.String,
    model: Schema.String
  }),
  Schema.TaggedStruct("RequestToolApprovals", { ...common, requests: Schema.Array(ApprovalWire) }),
  Schema.TaggedStruct("ExecutingTool", { ...common, callId: Schema.String, tool: Schema.String }),
  Schema.TaggedStruct("ToolResultReceived", {
    ...common,
    callId: Schema.String,
    tool: Schema.String,
    isError: Schema.Boolean,
    text: Schema.String
  }),
  Schema.TaggedStruct("MessageQueued", message),
  Schema.TaggedStruct("MessageTaken", message),
  Schema.TaggedStruct("Reminded", {
    ...common,
    about: Schema.Literals(["start", "exit"]),
    tools: Schema.Array(Schema.String),
    text: Schema.String
  }),
  Schema.TaggedStruct("ModelRetry", { ...common, message: Schema.String, afterMillis: Schema.Finite }),
  Schema.TaggedStruct("HistoryCompacted", {
    ...common,
    by: Schema.Literals(["summary", "drop"]),
    beforeTokens: Schema.Finite,
    afterTokens: Schema.Finite,
    messages: Schema.Finite,
    usage: Usage,
    problem: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("OperationEnd", {
    ...common,
    reason: EndReason,
    /** The reason as a sentence. */
    message: Schema.String,
    text: Schema.String,
    usage: Usage,
    turns: Schema.Finite,
    calls: Schema.Finite
  })
])
