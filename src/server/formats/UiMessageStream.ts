/**
 * The UI message stream of the AI SDK: the chunks that `useChat` reads, made of the parts of an operation.
 *
 * One stream is one assistant message. It ends at the end of the operation, at the next message of the user, or when
 * approval is pending; the pending requests are then its last step. Calls of sub-agents are tool parts with
 * `toolMetadata.agentPath`, and their texts are reasoning parts, so that only the agent's own text reads as its answer.
 */
import * as Schema from "effect/Schema"
import type { End, Part } from "./ConversationPart.ts"
import { stopping, type Writer } from "./FormattedOperation.ts"

const chunk = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), ...fields })

const id = Schema.String
const toolCallId = Schema.String

const ofSubAgent = Schema.Struct({ agentPath: Schema.Array(Schema.String) })

/** What the end of a message says about its operation. */
export const MessageMetadata = Schema.Struct({
  operation: Schema.String,
  /** Tag of the reason for its end. */
  end: Schema.String,
  usage: Schema.Struct({
    inputTokens: Schema.Finite,
    outputTokens: Schema.Finite,
    cachedInputTokens: Schema.Finite,
    cacheWriteInputTokens: Schema.Finite
  })
})

/** Schema of a chunk of the stream. */
export const Chunk = Schema.Union([
  chunk("start", { messageId: Schema.String }),
  chunk("start-step", {}),
  chunk("finish-step", {}),
  chunk("text-start", { id }),
  chunk("text-delta", { id, delta: Schema.String }),
  chunk("text-end", { id }),
  chunk("reasoning-start", {
    id,
    providerMetadata: Schema.optionalKey(Schema.Struct({ toolExecutor: ofSubAgent }))
  }),
  chunk("reasoning-delta", { id, delta: Schema.String }),
  chunk("reasoning-end", { id }),
  chunk("tool-input-available", {
    toolCallId,
    toolName: Schema.String,
    input: Schema.Json,
    providerExecuted: Schema.optionalKey(Schema.Boolean),
    toolMetadata: Schema.optionalKey(ofSubAgent)
  }),
  chunk("tool-approval-request", {
    approvalId: Schema.String,
    toolCallId,
    reason: Schema.optionalKey(Schema.String),
    approvalDescriptor: Schema.Struct({
      /** Id of the request in `/api/approvals`. */
      approval: Schema.String,
      diff: Schema.optionalKey(Schema.String),
      expiresAt: Schema.optionalKey(Schema.Finite)
    })
  }),
  chunk("tool-approval-response", {
    approvalId: Schema.String,
    approved: Schema.Boolean,
    reason: Schema.optionalKey(Schema.String)
  }),
  chunk("tool-output-available", {
    toolCallId,
    output: Schema.Json,
    providerExecuted: Schema.optionalKey(Schema.Boolean),
    preliminary: Schema.optionalKey(Schema.Boolean)
  }),
  chunk("tool-output-error", { toolCallId, errorText: Schema.String }),
  chunk("tool-output-denied", { toolCallId }),
  chunk("data-report", {
    transient: Schema.Literal(true),
    data: Schema.Struct({ toolCallId, name: Schema.String, value: Schema.Json })
  }),
  chunk("file", { url: Schema.String, mediaType: Schema.String }),
  chunk("source-url", { sourceId: Schema.String, url: Schema.String, title: Schema.optionalKey(Schema.String) }),
  chunk("source-document", {
    sourceId: Schema.String,
    mediaType: Schema.String,
    title: Schema.String,
    filename: Schema.optionalKey(Schema.String)
  }),
  chunk("abort", { reason: Schema.String }),
  chunk("error", { errorText: Schema.String }),
  chunk("finish", {
    finishReason: Schema.Literals(["stop", "length", "content-filter", "tool-calls", "interrupted", "other"]),
    messageMetadata: Schema.optionalKey(MessageMetadata)
  })
]).annotate({ identifier: "UiMessageChunk" })

/** A chunk of the stream. */
export type Chunk = typeof Chunk.Type

/** Writes the chunks of one assistant message. */
export class UiMessageWriter implements Writer<Chunk> {
  private readonly message: string
  private isBegun = false
  private isInStep = false

  constructor(message: string) {
    this.message = message
  }

  /** A message without parts gets no chunks, so that clients do not show an empty one. */
  write(parts: ReadonlyArray<Part>): ReadonlyArray<Chunk> {
    return parts.flatMap((part): ReadonlyArray<Chunk> => {
      if (part._tag === "Turn") return this.nextStep()
      if (part._tag === "End") return this.end(part.end)
      const chunks = chunksOf(part)
      return chunks.length === 0 ? [] : [...this.begun(), ...this.isInStep ? [] : this.nextStep(), ...chunks]
    })
  }

  /** Ends the message with what is shown at a pause: the approval requests are a separate step. */
  pause(parts: ReadonlyArray<Part>): ReadonlyArray<Chunk> {
    const at = parts.findIndex((it) => it._tag !== "TextEnd")
    const ends = parts.slice(0, at < 0 ? parts.length : at)
    const shown = at < 0 ? [] : parts.slice(at)
    const isNew = shown.some((it) => it._tag === "CallStart")
    return [
      ...this.write(ends),
      ...isNew ? [...this.begun(), ...this.nextStep()] : [],
      ...this.write(shown),
      ...this.finish("tool-calls")
    ]
  }

  /** Ends the message because the user sent another one. */
  interrupt(): ReadonlyArray<Chunk> {
    return this.finish("stop")
  }

  /** Ends the message because the server stops. */
  stop(): ReadonlyArray<Chunk> {
    return [...this.endedStep(), { type: "error", errorText: stopping }]
  }

  private begun(): ReadonlyArray<Chunk> {
    if (this.isBegun) return []
    this.isBegun = true
    return [{ type: "start", messageId: this.message }]
  }

  private nextStep(): ReadonlyArray<Chunk> {
    const last = this.endedStep()
    if (!this.isBegun) return last
    this.isInStep = true
    return [...last, { type: "start-step" }]
  }

  private endedStep(): ReadonlyArray<Chunk> {
    if (!this.isInStep) return []
    this.isInStep = false
    return [{ type: "finish-step" }]
  }

  private finish(
    finishReason: Extract<Chunk, { readonly type: "finish" }>["finishReason"],
    messageMetadata?: typeof MessageMetadata.Type
  ): ReadonlyArray<Chunk> {
    return [
      ...this.endedStep(),
      { type: "finish", finishReason, ...messageMetadata === undefined ? {} : { messageMetadata } }
    ]
  }

  private end({ message, operation, reason, usage }: End): ReadonlyArray<Chunk> {
    const metadata = { operation, end: reason._tag, usage }
    switch (reason._tag) {
      case "Finished":
      case "Exited":
        return this.finish("stop", metadata)
      case "CutOff":
        return this.finish(reason.finish === "content-filter" ? "content-filter" : "length", metadata)
      case "Suspended":
        return this.finish("other", metadata)
      case "Cancelled":
        return [{ type: "abort", reason: reason.reason }, ...this.finish("interrupted", metadata)]
      default:
        // a client ends at the error
        return [...this.endedStep(), { type: "error", errorText: message }]
    }
  }
}

const chunksOf = (part: Exclude<Part, { readonly _tag: "Turn" | "End" }>): ReadonlyArray<Chunk> => {
  switch (part._tag) {
    case "TextStart": {
      const { by, id, isReasoning } = part.text
      if (by !== undefined) {
        return [{ type: "reasoning-start", id, providerMetadata: { toolExecutor: { agentPath: by.path } } }]
      }
      return [{ type: isReasoning ? "reasoning-start" : "text-start", id }]
    }
    case "TextDelta":
      return [{ type: isAnswer(part) ? "text-delta" : "reasoning-delta", id: part.text.id, delta: part.delta }]
    case "TextEnd":
      return [{ type: isAnswer(part) ? "text-end" : "reasoning-end", id: part.text.id }]
    case "CallStart": {
      const { by, id: toolCallId, isProviders, params: input, tool: toolName } = part.call
      return [{
        type: "tool-input-available",
        toolCallId,
        toolName,
        input,
        ...isProviders ? { providerExecuted: true } : {},
        ...by === undefined ? {} : { toolMetadata: { agentPath: by.path } }
      }]
    }
    case "CallReport":
      return [{
        type: "data-report",
        transient: true,
        data: { toolCallId: part.call.id, name: part.name, value: part.value }
      }]
    case "CallOutput":
      return [{ type: "tool-output-available", toolCallId: part.call.id, output: part.value, preliminary: true }]
    case "CallEnd": {
      const { call: { id: toolCallId }, result } = part
      switch (result._tag) {
        case "Succeeded":
          return [{ type: "tool-output-available", toolCallId, output: result.value }]
        case "Denied":
          return [{ type: "tool-output-denied", toolCallId }]
        case "Failed":
          return [{ type: "tool-output-error", toolCallId, errorText: result.text }]
      }
    }
    // the inner switch is exhaustive
    case "ApprovalRequest": {
      const { handle, request: { call, diff, expiresAt, id, why } } = part
      return [{
        type: "tool-approval-request",
        approvalId: handle,
        toolCallId: call.id,
        reason: why,
        approvalDescriptor: {
          approval: id,
          ...diff === undefined ? {} : { diff },
          ...expiresAt === undefined ? {} : { expiresAt }
        }
      }]
    }
    case "ApprovalResponse":
      return [{
        type: "tool-approval-response",
        approvalId: part.handle,
        approved: part.isApproved,
        ...part.reason === undefined ? {} : { reason: part.reason }
      }]
    case "File":
      return [{ type: "file", url: `data:${part.mediaType};base64,${part.data}`, mediaType: part.mediaType }]
    case "Source": {
      const { fileName, id: sourceId, mediaType, title, url } = part.source
      if (url !== undefined) return [{ type: "source-url", sourceId, url, title }]
      return [{
        type: "source-document",
        sourceId,
        mediaType: mediaType ?? "application/octet-stream",
        title,
        ...fileName === undefined ? {} : { filename: fileName }
      }]
    }
    case "UserMessage":
      return []
  }
}

const isAnswer = ({ text }: Extract<Part, { readonly text: object }>): boolean =>
  text.by === undefined && !text.isReasoning
