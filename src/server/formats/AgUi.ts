/**
 * Events of AG-UI 1.0, made of the parts of an operation.
 *
 * One stream is one run. It ends at the end of the operation, at the next message of the user, or with an interrupt per
 * pending approval request. Everything of a sub-agent carries the id of its run.
 */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import type { End, Part, SubAgentRun } from "./ConversationPart.ts"
import { stopping, type Writer } from "./FormattedOperation.ts"

const event = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), ...fields })

const subagentRunId = Schema.optionalKey(Schema.String)
const message = { messageId: Schema.String, subagentRunId }
const call = { toolCallId: Schema.String, subagentRunId }
const run = { threadId: Schema.String, runId: Schema.String }

/** Schema of an approval request as an interrupt. Answers have the form of its `responseSchema`. */
export const Interrupt = Schema.Struct({
  id: Schema.String,
  reason: Schema.Literal("tool_call"),
  message: Schema.String,
  toolCallId: Schema.String,
  responseSchema: Schema.Json,
  expiresAt: Schema.optionalKey(Schema.String),
  subagentRunId,
  metadata: Schema.Struct({
    toolExecutor: Schema.Struct({
      /** Id of the request in `/api/approvals`. */
      approval: Schema.String,
      diff: Schema.optionalKey(Schema.String)
    })
  })
})

/** Schema of an event. */
export const Event = Schema.Union([
  event("RUN_STARTED", { ...run, protocolVersion: Schema.Literal("1.0") }),
  event("RUN_FINISHED", {
    ...run,
    result: Schema.optionalKey(Schema.String),
    outcome: Schema.Union([
      Schema.Struct({ type: Schema.Literals(["success", "cancelled"]) }),
      Schema.Struct({
        type: Schema.Literal("interrupt"),
        interrupts: Schema.Array(Interrupt).check(Schema.isMinLength(1))
      })
    ]),
    usage: Schema.optionalKey(Schema.Array(Schema.Struct({
      inputTokens: Schema.Finite,
      outputTokens: Schema.Finite,
      totalTokens: Schema.Finite,
      cachedInputTokens: Schema.Finite,
      cacheWriteInputTokens: Schema.Finite
    })))
  }),
  event("RUN_ERROR", { message: Schema.String, code: Schema.String }),
  event("TEXT_MESSAGE_START", { ...message, role: Schema.Literal("assistant") }),
  event("TEXT_MESSAGE_CONTENT", { ...message, delta: Schema.String }),
  event("TEXT_MESSAGE_END", message),
  event("REASONING_START", message),
  event("REASONING_MESSAGE_START", { ...message, role: Schema.Literal("reasoning") }),
  event("REASONING_MESSAGE_CONTENT", { ...message, delta: Schema.String }),
  event("REASONING_MESSAGE_END", message),
  event("REASONING_END", message),
  event("TOOL_CALL_START", {
    ...call,
    toolCallName: Schema.String,
    parentMessageId: Schema.optionalKey(Schema.String)
  }),
  event("TOOL_CALL_ARGS", { ...call, delta: Schema.String }),
  event("TOOL_CALL_END", call),
  event("TOOL_CALL_RESULT", {
    ...call,
    messageId: Schema.String,
    role: Schema.Literal("tool"),
    content: Schema.String
  }),
  event("SUBAGENT_STARTED", {
    subagentRunId: Schema.String,
    name: Schema.String,
    parentSubagentRunId: Schema.optionalKey(Schema.String),
    parentToolCallId: Schema.optionalKey(Schema.String)
  }),
  event("SUBAGENT_FINISHED", {
    subagentRunId: Schema.String,
    outcome: Schema.Union([
      Schema.Struct({ type: Schema.Literal("success") }),
      Schema.Struct({ type: Schema.Literal("suspended"), interruptIds: Schema.Array(Schema.String) })
    ])
  }),
  event("SUBAGENT_ERROR", { subagentRunId: Schema.String, message: Schema.String }),
  event("CUSTOM", { name: Schema.String, value: Schema.Json, subagentRunId })
]).annotate({ identifier: "AgUiEvent" })

/** An event. */
export type Event = typeof Event.Type

type Interrupt = typeof Interrupt.Type

/** Writes the events of one run. */
export class AgUiWriter implements Writer<Event> {
  private readonly run: { readonly threadId: string; readonly runId: string }
  private isBegun = false
  private readonly running: Array<SubAgentRun> = []
  private readonly ended = new Set<SubAgentRun>()
  /** The last text of each agent in its turn: calls belong to it. */
  private readonly texts = new Map<SubAgentRun | undefined, string>()

  constructor(run: { readonly threadId: string; readonly runId: string }) {
    this.run = run
  }

  write(parts: ReadonlyArray<Part>): ReadonlyArray<Event> {
    return [...this.begin(), ...parts.flatMap((part) => this.events(part))]
  }

  /** Ends the run with an interrupt for each request that is shown. */
  pause(parts: ReadonlyArray<Part>): ReadonlyArray<Event> {
    const events = this.write(parts)
    const [first, ...rest] = parts.flatMap((it) => it._tag === "ApprovalRequest" ? [interruptOf(it)] : [])
    return first === undefined
      ? [...events, ...this.interrupt()]
      : [
        ...events,
        ...this.running.splice(0).reverse().map(({ id }): Event => ({
          type: "SUBAGENT_FINISHED",
          subagentRunId: id,
          outcome: {
            type: "suspended",
            interruptIds: [first, ...rest].filter((it) => it.subagentRunId === id).map((it) => it.id)
          }
        })),
        { type: "RUN_FINISHED", ...this.run, outcome: { type: "interrupt", interrupts: [first, ...rest] } }
      ]
  }

  /** Ends the run because the user sent another message. */
  interrupt(): ReadonlyArray<Event> {
    return [
      ...this.begin(),
      ...this.finished(this.running),
      { type: "RUN_FINISHED", ...this.run, outcome: { type: "success" } }
    ]
  }

  /** Ends the run because the server stops. */
  stop(): ReadonlyArray<Event> {
    return [...this.begin(), { type: "RUN_ERROR", message: stopping, code: "Stopping" }]
  }

  private begin(): ReadonlyArray<Event> {
    if (this.isBegun) return []
    this.isBegun = true
    return [{ type: "RUN_STARTED", ...this.run, protocolVersion: "1.0" }]
  }

  private events(part: Part): ReadonlyArray<Event> {
    switch (part._tag) {
      case "Turn":
        this.texts.delete(undefined)
        return []
      case "TextStart":
      case "TextDelta":
      case "TextEnd":
        return [...this.begun(part.text.by), ...this.text(part)]
      case "CallStart": {
        const { by, id: toolCallId, params, tool: toolCallName } = part.call
        const parentMessageId = this.texts.get(by)
        const own = { toolCallId, ...tagOf(by) }
        return [
          ...this.begun(by),
          {
            type: "TOOL_CALL_START",
            ...own,
            toolCallName,
            ...parentMessageId === undefined ? {} : { parentMessageId }
          },
          { type: "TOOL_CALL_ARGS", ...own, delta: JSON.stringify(params) },
          { type: "TOOL_CALL_END", ...own }
        ]
      }
      case "CallReport":
        return this.custom(part.call.by, part.name, { toolCallId: part.call.id, value: part.value })
      case "CallOutput":
        return this.custom(part.call.by, "tool_partial_result", { toolCallId: part.call.id, value: part.value })
      case "CallEnd": {
        const { call: { by, id: toolCallId }, result } = part
        const content = result._tag !== "Succeeded"
          ? result.text
          : typeof result.value === "string"
          ? result.value
          : JSON.stringify(result.value)
        const worked = this.running.filter((it) => isWithin(it, toolCallId))
        const failure = result._tag === "Succeeded" ? undefined : content
        return [
          ...this.finished(worked, failure),
          ...this.begun(by),
          {
            type: "TOOL_CALL_RESULT",
            toolCallId,
            ...tagOf(by),
            messageId: `${toolCallId}-result`,
            role: "tool",
            content
          }
        ]
      }
      case "File":
        return this.custom(undefined, "file", { mediaType: part.mediaType, data: part.data })
      case "Source":
        return this.custom(undefined, "source", { ...part.source })
      case "ApprovalRequest":
      case "ApprovalResponse":
      case "UserMessage":
        return []
      case "End":
        return this.end(part.end)
    }
  }

  private text(part: Extract<Part, { readonly text: object }>): ReadonlyArray<Event> {
    const { by, id: messageId, isReasoning } = part.text
    const own = { messageId, ...tagOf(by) }
    switch (part._tag) {
      case "TextStart":
        if (!isReasoning) {
          this.texts.set(by, messageId)
          return [{ type: "TEXT_MESSAGE_START", ...own, role: "assistant" }]
        }
        return [
          { type: "REASONING_START", ...own },
          { type: "REASONING_MESSAGE_START", ...own, role: "reasoning" }
        ]
      case "TextDelta":
        return [{ type: isReasoning ? "REASONING_MESSAGE_CONTENT" : "TEXT_MESSAGE_CONTENT", ...own, delta: part.delta }]
      case "TextEnd":
        return isReasoning
          ? [{ type: "REASONING_MESSAGE_END", ...own }, { type: "REASONING_END", ...own }]
          : [{ type: "TEXT_MESSAGE_END", ...own }]
    }
  }

  private custom(by: SubAgentRun | undefined, name: string, value: Schema.Json): ReadonlyArray<Event> {
    return [...this.begun(by), { type: "CUSTOM", name, value, ...tagOf(by) }]
  }

  private end({ message, reason, text, usage }: End): ReadonlyArray<Event> {
    const { cacheWriteInputTokens, cachedInputTokens, inputTokens, outputTokens } = usage
    const counts = { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens }
    const finished = {
      type: "RUN_FINISHED",
      ...this.run,
      usage: [{ ...counts, cachedInputTokens, cacheWriteInputTokens }]
    } as const
    switch (reason._tag) {
      case "Finished":
      case "Exited":
        return [...this.finished(this.running), { ...finished, result: text, outcome: { type: "success" } }]
      case "Cancelled":
        return [...this.finished(this.running), { ...finished, outcome: { type: "cancelled" } }]
      default:
        return [{ type: "RUN_ERROR", message, code: reason._tag }]
    }
  }

  private begun(by: SubAgentRun | undefined): ReadonlyArray<Event> {
    if (by === undefined || this.running.includes(by) || this.ended.has(by)) return []
    const { call, id: subagentRunId, parent, path } = by
    const above = this.begun(parent)
    this.running.push(by)
    return [...above, {
      type: "SUBAGENT_STARTED",
      subagentRunId,
      name: path.at(-1)!,
      ...parent === undefined ? {} : { parentSubagentRunId: parent.id },
      ...call === undefined ? {} : { parentToolCallId: call }
    }]
  }

  /** Ends sub-agents, the innermost first. */
  private finished(runs: ReadonlyArray<SubAgentRun>, failure?: string): ReadonlyArray<Event> {
    return runs.toReversed().map((it): Event => {
      this.running.splice(this.running.indexOf(it), 1)
      this.ended.add(it)
      return failure === undefined
        ? { type: "SUBAGENT_FINISHED", subagentRunId: it.id, outcome: { type: "success" } }
        : { type: "SUBAGENT_ERROR", subagentRunId: it.id, message: failure }
    })
  }
}

const tagOf = (by: SubAgentRun | undefined) => by === undefined ? {} : { subagentRunId: by.id }

/** Whether a sub-agent works for a call, directly or further down. */
const isWithin = (run: SubAgentRun, call: string): boolean =>
  run.call === call || (run.parent !== undefined && isWithin(run.parent, call))

/** What an answer looks like, as JSON Schema. */
const responseSchema = (call: { readonly params: Schema.Json }): Schema.Json => ({
  type: "object",
  properties: {
    approved: { type: "boolean" },
    reason: { type: "string", description: "Why the call is denied, for the agent." },
    note: { type: "string", description: "What the agent should know, if the call is approved." },
    data: { description: "What the form of the request asks for, if it has one." },
    ...typeof call.params === "object"
      ? { editedArgs: { type: "object", description: "Replaces all arguments of the call." } }
      : {}
  },
  required: ["approved"]
})

const interruptOf = ({ handle, request }: Extract<Part, { readonly _tag: "ApprovalRequest" }>): Interrupt => {
  const { call, diff, expiresAt, id, why } = request
  return {
    id: handle,
    reason: "tool_call",
    message: why,
    toolCallId: call.id,
    responseSchema: responseSchema(call),
    ...expiresAt === undefined ? {} : { expiresAt: DateTime.formatIso(DateTime.makeUnsafe(expiresAt)) },
    ...tagOf(call.by),
    metadata: { toolExecutor: { approval: id, ...diff === undefined ? {} : { diff } } }
  }
}
