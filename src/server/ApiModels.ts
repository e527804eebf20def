/**
 * What the API sends and takes of sessions and waves: plain JSON,
 * times in epoch milliseconds. Of calls it is `ToolEvent.Wire` and nothing else.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as ToolEvent from "../core/facts/ToolEvent.ts"
import * as WireFormat from "../wire/WireFormat.ts"

/** A name that a client chooses: of a session, a turn, a wave. */
const pattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/

/**
 * Schema of a name that clients choose for sessions, turns and waves: 1 to 100 of
 * `A-Z a-z 0-9 . _ : -`, and the first a letter or digit.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Name = Schema.String.check(Schema.isPattern(pattern)).annotate({
  description: "1 to 100 of A-Z a-z 0-9 . _ : - , the first a letter or digit"
})

/**
 * Schema of whose something is.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Owner = { user: Schema.String, session: Schema.String }

/**
 * Schema of an event of a wave, as clients see it.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WireEvent = ToolEvent.Wire.annotate({ identifier: "ToolEvent" })

/**
 * Schema of who is logged in, and what they may do. `approve` and `records` name users, `*` is
 * all of them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Me = Schema.Struct({
  name: Schema.String,
  run: Schema.Boolean,
  approve: Schema.Array(Schema.String),
  records: Schema.Array(Schema.String),
  /** May read the metrics. */
  operate: Schema.Boolean,
  expiresAt: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "Me" })

/**
 * Who is logged in.
 *
 * @category models
 * @since 0.1.0
 */
export type Me = typeof Me.Type

/**
 * Schema of a session of a user: it has an executor of its own.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Session = Schema.Struct({ session: Schema.String, waves: Schema.Finite }).annotate({
  identifier: "Session"
})

/**
 * Schema of a tool as a model is told of it.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Tool = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: Schema.Json,
  readOnly: Schema.Boolean
}).annotate({ identifier: "Tool" })

/**
 * Schema of a message that is handed over: its calls are one wave.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Submission = Schema.Struct({
  /** The provider's message, as it came. */
  message: Schema.Json,
  /** What it is; default: by its shape. */
  format: Schema.optionalKey(WireFormat.Format),
  /**
   * The user request that it belongs to: call limits and the order of rules hold for all waves of
   * one turn. Default: a turn of its own.
   */
  turn: Schema.optionalKey(Name),
  /**
   * A name for the wave, so that handing it over twice runs it once: whoever comes again
   * with the same name and message gets what becomes of the first. Default: a random one.
   */
  wave: Schema.optionalKey(Name)
}).annotate({ identifier: "Submission" })

/**
 * A message that is handed over.
 *
 * @category models
 * @since 0.1.0
 */
export type Submission = typeof Submission.Type

/**
 * Schema of where a wave stands. `suspended`: the server stopped before all of it had
 * happened, and goes on with it when it starts again.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WaveInfo = Schema.Struct({
  ...Owner,
  turn: Schema.String,
  wave: Schema.String,
  status: Schema.Literals(["running", "ended", "suspended"]),
  calls: Schema.Finite,
  beganAt: Schema.Finite,
  endedAt: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "WaveInfo" })

/**
 * Where a wave stands.
 *
 * @category models
 * @since 0.1.0
 */
export type WaveInfo = typeof WaveInfo.Type

/**
 * Schema of a wave and, once it has ended, its results: `messages` are what the
 * provider is sent, in the format of the message that was handed over.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wave = Schema.Struct({
  ...WaveInfo.fields,
  format: WireFormat.Format,
  messages: Schema.optionalKey(Schema.Json),
  /** The last event: `tools_end` or `wave_suspended`. */
  end: Schema.optionalKey(WireEvent)
}).annotate({ identifier: "Wave" })

/**
 * A wave, with its results.
 *
 * @category models
 * @since 0.1.0
 */
export type Wave = typeof Wave.Type

/**
 * Schema of what a stream says of itself, beside events.
 *
 * **Details**
 *
 * `Gap`: so many events of tools were not kept. `Reset`: the place the client named is not
 * known any more; what it has is void, and everything on record follows anew. `Heartbeat`: the
 * connection is alive. `Stopping`: the server is about to stop.
 *
 * @category schemas
 * @since 0.1.0
 */
export const StreamNote = Schema.Union([
  Schema.TaggedStruct("Gap", { dropped: Schema.Finite }),
  Schema.TaggedStruct("Reset", {}),
  Schema.TaggedStruct("Heartbeat", { at: Schema.Finite }),
  Schema.TaggedStruct("Stopping", {})
]).annotate({ identifier: "StreamNote" })

/**
 * What a stream says of itself.
 *
 * @category models
 * @since 0.1.0
 */
export type StreamNote = typeof StreamNote.Type

/**
 * Names of the notes on the wire, for the `event:` line.
 *
 * @category constants
 * @since 0.1.0
 */
export const noteNames = {
  Gap: "gap",
  Reset: "reset",
  Heartbeat: "heartbeat",
  Stopping: "stopping"
} as const satisfies Record<StreamNote["_tag"], string>

/**
 * Schema of a server-sent event with data of a schema; `id` is what `Last-Event-ID` names.
 *
 * @category schemas
 * @since 0.1.0
 */
export const sse = <S extends Schema.Top>(data: S) =>
  Schema.Struct({
    id: Schema.optional(Schema.String),
    event: Schema.String,
    data: Schema.fromJsonString(data)
  })

/**
 * Schema of what the stream of a wave says.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WaveItem = Schema.Union([WireEvent, StreamNote]).annotate({ identifier: "WaveItem" })

/**
 * What the stream of a wave says.
 *
 * @category models
 * @since 0.1.0
 */
export type WaveItem = typeof WaveItem.Type

/**
 * Schema of a server-sent event of a wave.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WaveSse = sse(WaveItem)

/**
 * A server-sent event of a wave.
 *
 * @category models
 * @since 0.1.0
 */
export type WaveSse = typeof WaveSse.Type

/**
 * Schema of the waves that a user may see: what runs, and what ended lately, the newest of them, without what happened
 * in them. `cursor` is where `live` goes on from.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Waves = Schema.Struct({
  waves: Schema.Array(WaveInfo),
  cursor: Schema.String
}).annotate({ identifier: "Waves" })

/**
 * Schema of what happened in a wave, in pages: `next` is the place to go on from.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WaveEvents = Schema.Struct({
  wave: WaveInfo,
  events: Schema.Array(WireEvent),
  next: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "WaveEvents" })
