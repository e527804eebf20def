/**
 * Everything that happens to the calls of a wave, as one closed union.
 *
 * In order per call, interleaved across calls, as it happens; exactly one
 * `ToolCallComplete` per call and one `ToolsEnd`, last. `sseName` and `toWire`
 * give the names and shapes on the wire.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ToolMessage, ToolOutcome } from "./ToolOutcome.ts"

const call = {
  callId: Schema.String,
  tool: Schema.String,
  /** Place of the call in its wave, from 0; tells calls of one id apart. */
  index: Schema.Finite,
  /** Epoch milliseconds. */
  at: Schema.Finite
}

/**
 * Schema of an event.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolEvent = Schema.Union([
  /** A call arrived. All calls of a wave are announced first. */
  Schema.TaggedStruct("ToolCallQueued", { ...call, params: Schema.Unknown }),
  /** A person is asked; `diff` is what the call would write, if it can tell. */
  Schema.TaggedStruct("ToolApprovalRequested", {
    ...call,
    requestId: Schema.String,
    why: Schema.String,
    diff: Schema.optionalKey(Schema.String)
  }),
  /** The question is settled. */
  Schema.TaggedStruct("ToolApprovalResolved", { ...call, requestId: Schema.String, answer: Schema.String }),
  /** The handler starts; `limitMillis` is what it has. */
  Schema.TaggedStruct("ToolCallStart", { ...call, attempt: Schema.Finite, limitMillis: Schema.Finite }),
  /** The tool reports how far it is. */
  Schema.TaggedStruct("ToolProgress", {
    ...call,
    progress: Schema.optionalKey(Schema.Finite),
    total: Schema.optionalKey(Schema.Finite),
    message: Schema.optionalKey(Schema.String)
  }),
  /** The tool says what it is doing. */
  Schema.TaggedStruct("ToolStatus", { ...call, status: Schema.String }),
  /** The tool writes a log line. */
  Schema.TaggedStruct("ToolLog", {
    ...call,
    level: Schema.Literals(["debug", "info", "warn", "error"]),
    message: Schema.String,
    data: Schema.optionalKey(Schema.Unknown)
  }),
  /** The tool offers choices to the user interface. */
  Schema.TaggedStruct("ToolOptions", { ...call, options: Schema.Unknown }),
  /** A part of the output, before the end. */
  Schema.TaggedStruct("ToolPartialResult", { ...call, value: Schema.Unknown }),
  /** An event of the tool's own type. */
  Schema.TaggedStruct("ToolCustom", { ...call, type: Schema.String, data: Schema.Unknown }),
  /** The call has its outcome; `dropped` counts the events of this call that no reader had room for. */
  Schema.TaggedStruct("ToolCallComplete", { ...call, outcome: ToolOutcome, dropped: Schema.Finite }),
  /** The wave is over. Always the last event. */
  Schema.TaggedStruct("ToolsEnd", {
    at: Schema.Finite,
    toolMessages: Schema.Array(ToolMessage),
    executionResults: Schema.Array(ToolOutcome)
  })
])

/**
 * Something that happened to a call or a wave.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolEvent = typeof ToolEvent.Type

/**
 * Name of a kind of event.
 *
 * @category models
 * @since 0.1.0
 */
export type Tag = ToolEvent["_tag"]

const names: { readonly [T in Exclude<Tag, "ToolCustom">]: string } = {
  ToolCallQueued: "tool_call_queued",
  ToolApprovalRequested: "tool_approval_request",
  ToolApprovalResolved: "tool_approval_resolved",
  ToolCallStart: "tool_call_start",
  ToolProgress: "tool_progress",
  ToolStatus: "tool_status",
  ToolLog: "tool_log",
  ToolOptions: "tool_options",
  ToolPartialResult: "tool_partial_result",
  ToolCallComplete: "tool_call_complete",
  ToolsEnd: "tools_end"
}

/**
 * Custom event types that would read like one of the names above on the wire.
 * `ToolContext.emit` refuses them.
 *
 * @category constants
 * @since 0.1.0
 */
export const reservedTypes: ReadonlySet<string> = new Set(
  Object.values(names).filter((name) => name.startsWith("tool_")).map((name) => name.slice("tool_".length))
)

/**
 * Tells whether a tool may emit events of that custom type: one or more of
 * `a-z 0-9 _`, and none of the `reservedTypes`.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isCustomType = (type: string): boolean => /^[a-z0-9_]{1,64}$/.test(type) && !reservedTypes.has(type)

/**
 * Gives the event's name on the wire, for the `event:` line of a server-sent event.
 *
 * @category wire
 * @since 0.1.0
 */
export const sseName = (event: ToolEvent): string =>
  event._tag === "ToolCustom" ? `tool_${event.type}` : names[event._tag]

const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * Gives the event as a JSON value with the field names of the wire:
 * `call_id`, `tool_messages`, `execution_results`. Values that tools or models
 * made keep their own keys.
 *
 * @category wire
 * @since 0.1.0
 */
export const toWire = (event: ToolEvent): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(event).flatMap(([key, value]) => key === "_tag" ? [] : [[snake(key), value]])
  )
