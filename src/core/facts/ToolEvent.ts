/**
 * Everything that happens to the calls of a wave, as one closed union.
 *
 * Events come in order per call and interleaved across calls. Each call has exactly one `ToolCallComplete`. The last
 * event is `ToolsEnd` or `WaveSuspended`. Events of a sub-agent come among those of the call that it works for, except
 * its end.
 *
 * These events are the host's own: outcomes include details of failures inside tools. Clients get `Wire`, which
 * `toWire` creates.
 */
import * as Schema from "effect/Schema"
import * as Projection from "../../wire/Projection.ts"
import { ToolMessage, ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import { Evidence } from "./Evidence.ts"
import { PolicyDecided, ReviewVerdict, WouldDecide } from "./Fact.ts"
import * as OutcomeWire from "./OutcomeWire.ts"

const wave = {
  /** Names of the sub-agents from the root down to the one that calls; empty: the root. */
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  /** Place of the wave in its process, from 1. */
  wave: Schema.Finite,
  /**
   * Place of the event in its wave, from 1. A gap means that the reader had no room for an event. Waves of sub-agents
   * count separately.
   */
  sequence: Schema.Finite,
  /** Epoch milliseconds. */
  at: Schema.Finite
}

const call = {
  ...wave,
  callId: Schema.String,
  tool: Schema.String,
  /** Place of the call in its wave, from 0. Distinguishes calls with the same id. */
  index: Schema.Finite
}

const levels = ["debug", "info", "warn", "error"] as const

/** A call arrived. All calls of a wave are announced first. */
export class ToolCallQueued
  extends Schema.Opaque<ToolCallQueued>()(Schema.TaggedStruct("ToolCallQueued", { ...call, params: Schema.Unknown }))
{}

/** A shadow policy would have decided differently. It changes nothing. */
export class ToolShadowed extends Schema.Opaque<ToolShadowed>()(Schema.TaggedStruct("ToolShadowed", {
  ...call,
  policy: Schema.String,
  would: WouldDecide,
  decided: PolicyDecided,
  because: Schema.optionalKey(Schema.String)
})) {}

/** A reviewer looked at a call that needs approval. Unless `decides`, a person is asked. */
export class ToolReviewed extends Schema.Opaque<ToolReviewed>()(Schema.TaggedStruct("ToolReviewed", {
  ...call,
  verdict: ReviewVerdict,
  reason: Schema.String,
  model: Schema.String,
  millis: Schema.Finite,
  decides: Schema.Boolean
})) {}

/** Approval is requested. `diff` is what the call would write, if known. */
export class ToolApprovalRequested
  extends Schema.Opaque<ToolApprovalRequested>()(Schema.TaggedStruct("ToolApprovalRequested", {
    ...call,
    requestId: Schema.String,
    why: Schema.String,
    diff: Schema.optionalKey(Schema.String),
    /** What else approvers see of the call. */
    evidence: Schema.optionalKey(Schema.Array(Evidence))
  }))
{}

/** The approval request ended. */
export class ToolApprovalResolved extends Schema.Opaque<ToolApprovalResolved>()(
  Schema.TaggedStruct("ToolApprovalResolved", { ...call, requestId: Schema.String, answer: Schema.String })
) {}

/** The handler starts, with `limitMillis` to run. */
export class ToolCallStart extends Schema.Opaque<ToolCallStart>()(
  Schema.TaggedStruct("ToolCallStart", { ...call, attempt: Schema.Finite, limitMillis: Schema.Finite })
) {}

/** The tool reports its progress. */
export class ToolProgress extends Schema.Opaque<ToolProgress>()(Schema.TaggedStruct("ToolProgress", {
  ...call,
  progress: Schema.optionalKey(Schema.Finite),
  total: Schema.optionalKey(Schema.Finite),
  message: Schema.optionalKey(Schema.String)
})) {}

/** The tool says what it is doing. */
export class ToolStatus extends Schema.Opaque<ToolStatus>()(Schema.TaggedStruct("ToolStatus", {
  ...call,
  status: Schema.String,
  message: Schema.optionalKey(Schema.String)
})) {}

/** The tool writes a log line. */
export class ToolLog extends Schema.Opaque<ToolLog>()(Schema.TaggedStruct("ToolLog", {
  ...call,
  level: Schema.Literals(levels),
  message: Schema.String,
  data: Schema.optionalKey(Schema.Unknown)
})) {}

/** The tool offers choices to the user interface. */
export class ToolOptions
  extends Schema.Opaque<ToolOptions>()(Schema.TaggedStruct("ToolOptions", { ...call, options: Schema.Unknown }))
{}

/** A part of the output, before the call ends. */
export class ToolPartialResult extends Schema.Opaque<ToolPartialResult>()(
  Schema.TaggedStruct("ToolPartialResult", { ...call, value: Schema.Unknown })
) {}

/** An event of the tool's own type. */
export class ToolCustom extends Schema.Opaque<ToolCustom>()(
  Schema.TaggedStruct("ToolCustom", { ...call, type: Schema.String, data: Schema.Unknown })
) {}

/** The call has its outcome; `dropped` counts the events of this call that no reader had room for. */
export class ToolCallComplete extends Schema.Opaque<ToolCallComplete>()(
  Schema.TaggedStruct("ToolCallComplete", { ...call, outcome: ToolOutcome, dropped: Schema.Finite })
) {}

/** The wave is over. Always the last event. */
export class ToolsEnd extends Schema.Opaque<ToolsEnd>()(Schema.TaggedStruct("ToolsEnd", {
  ...wave,
  toolMessages: Schema.Array(ToolMessage),
  executionResults: Schema.Array(ToolOutcome)
})) {}

/**
 * The wave is suspended: the last event, in place of `ToolsEnd`.
 *
 * Its host stopped before `calls` had started, or they still wait for approval. They may be resumed
 * (`ToolProcess.resume`); until then a model gets no results.
 */
export class WaveSuspended extends Schema.Opaque<WaveSuspended>()(Schema.TaggedStruct("WaveSuspended", {
  ...wave,
  /** Ids of the calls that may be resumed, in input order. */
  calls: Schema.Array(Schema.String),
  executionResults: Schema.Array(ToolOutcome)
})) {}

/** Schema of an event, as the host has it. */
export const ToolEvent = Schema.Union([
  ToolCallQueued,
  ToolShadowed,
  ToolReviewed,
  ToolApprovalRequested,
  ToolApprovalResolved,
  ToolCallStart,
  ToolProgress,
  ToolStatus,
  ToolLog,
  ToolOptions,
  ToolPartialResult,
  ToolCustom,
  ToolCallComplete,
  ToolsEnd,
  WaveSuspended
])

/** Something that happened to a call or a wave. */
export type ToolEvent =
  | ToolCallQueued
  | ToolShadowed
  | ToolReviewed
  | ToolApprovalRequested
  | ToolApprovalResolved
  | ToolCallStart
  | ToolProgress
  | ToolStatus
  | ToolLog
  | ToolOptions
  | ToolPartialResult
  | ToolCustom
  | ToolCallComplete
  | ToolsEnd
  | WaveSuspended

/** The last event of a wave. */
export type End = ToolsEnd | WaveSuspended

/** Tells whether an event is the last one of its wave. */
export const isEnd = <Event extends { readonly _tag: Tag }>(
  event: Event
): event is Extract<Event, { readonly _tag: End["_tag"] }> =>
  event._tag === "ToolsEnd" || event._tag === "WaveSuspended"

/** Name of a kind of event. */
export type Tag = ToolEvent["_tag"]

const names: { readonly [T in Exclude<Tag, "ToolCustom">]: string } = {
  ToolCallQueued: "tool_call_queued",
  ToolShadowed: "tool_shadowed",
  ToolReviewed: "tool_reviewed",
  ToolApprovalRequested: "tool_approval_request",
  ToolApprovalResolved: "tool_approval_resolved",
  ToolCallStart: "tool_call_start",
  ToolProgress: "tool_progress",
  ToolStatus: "tool_status",
  ToolLog: "tool_log",
  ToolOptions: "tool_options",
  ToolPartialResult: "tool_partial_result",
  ToolCallComplete: "tool_call_complete",
  ToolsEnd: "tools_end",
  WaveSuspended: "wave_suspended"
}

/** Custom event types that would have the wire name of a built-in event. `ToolContext.emit` refuses them. */
export const reservedTypes: ReadonlySet<string> = new Set(
  Object.values(names).filter((name) => name.startsWith("tool_")).map((name) => name.slice("tool_".length))
)

/** Whether a tool may emit this custom type: 1 to 64 of `a-z 0-9 _`, and not one of the `reservedTypes`. */
export const isCustomType = (type: string): boolean => /^[a-z0-9_]{1,64}$/.test(type) && !reservedTypes.has(type)

/** Returns the event's name on the wire, for the `event:` line of a server-sent event. */
export const sseName = (event: ToolEvent | Wire): string =>
  event._tag === "ToolCustom" ? `tool_${event.type}` : names[event._tag]

const numberOrNull = Schema.NullOr(Schema.Finite)

/**
 * Schema of an event as clients see it: plain JSON, for server-sent events, HTTP and pages.
 *
 * The schema alone decides what may leave the process; `toWire` follows it. An output appears once, in its
 * `ToolCallComplete`. The texts that the model gets are the `toolMessages` of `ToolsEnd`; its `executionResults` have
 * neither outputs nor texts. A failure inside a tool appears only as `error`: the failure that the tool declares,
 * without causes and stacks. It is null for defects, which are in the host's log.
 */
export const Wire = Schema.Union([
  Schema.Struct({ ...ToolCallQueued.fields, params: Schema.Json }),
  ToolShadowed,
  ToolReviewed,
  ToolApprovalRequested,
  ToolApprovalResolved,
  Schema.Struct({ ...ToolCallStart.fields, limitMillis: numberOrNull }),
  Schema.Struct({
    ...ToolProgress.fields,
    progress: Schema.optionalKey(numberOrNull),
    total: Schema.optionalKey(numberOrNull)
  }),
  ToolStatus,
  Schema.Struct({
    ...ToolLog.fields,
    level: Projection.as(ToolLog.fields.level, (value) => levels.find((it) => it === value) ?? "info"),
    data: Schema.optionalKey(Schema.Json)
  }),
  Schema.Struct({ ...ToolOptions.fields, options: Schema.Json }),
  Schema.Struct({ ...ToolPartialResult.fields, value: Schema.Json }),
  Schema.Struct({ ...ToolCustom.fields, data: Schema.Json }),
  Schema.Struct({ ...ToolCallComplete.fields, outcome: OutcomeWire.Whole }),
  Schema.Struct({ ...ToolsEnd.fields, executionResults: Schema.Array(OutcomeWire.Brief) }),
  Schema.Struct({ ...WaveSuspended.fields, executionResults: Schema.Array(OutcomeWire.Brief) })
])

/** An event as clients see it. */
export type Wire = typeof Wire.Type

/**
 * Converts an event to what clients see. It never throws, whatever a tool reported. `wire/PlainJson` defines what
 * becomes of values that JSON lacks.
 */
export const toWire: (event: ToolEvent) => Wire = Projection.make(Wire)
