/** Sessions and waves of the API: plain JSON, times in epoch milliseconds. Events of calls are `ToolEvent.Wire`. */
import * as Schema from "effect/Schema"
import * as ToolEvent from "../../core/facts/ToolEvent.ts"
import * as WireFormat from "../../wire/WireFormat.ts"

/** A name of a session, turn or wave, chosen by a client. */
const pattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/

/** Tells whether a text is such a name. */
export const isName = (text: string): boolean => pattern.test(text)

/** Schema of the names that clients choose for sessions, turns and waves. */
export const Name = Schema.String.check(Schema.isPattern(pattern)).annotate({
  description: "1 to 100 of A-Z a-z 0-9 . _ : - , the first a letter or digit"
})

/** The position to continue after. Browsers send it as a header when they reconnect. */
export const cursor = {
  headers: { "last-event-id": Schema.optionalKey(Schema.String) },
  query: { after: Schema.optionalKey(Schema.String) }
}

/** Schema of an owner. */
export const Owner = { user: Schema.String, session: Schema.String }

/** Schema of an event of a wave. */
export const WireEvent = ToolEvent.Wire.annotate({ identifier: "ToolEvent" })

/** Schema of the current user and their rights. `approve` and `records` name users, `*` is everybody. */
export const Me = Schema.Struct({
  name: Schema.String,
  run: Schema.Boolean,
  approve: Schema.Array(Schema.String),
  records: Schema.Array(Schema.String),
  /** May read the metrics. */
  operate: Schema.Boolean,
  expiresAt: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "Me" })

/** The current user. */
export type Me = typeof Me.Type

/** Schema of a session of a user, which has its own executor. */
export const Session = Schema.Struct({ session: Schema.String, waves: Schema.Finite }).annotate({
  identifier: "Session"
})

/** Schema of a tool as a model sees it. */
export const Tool = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: Schema.Json,
  readOnly: Schema.Boolean
}).annotate({ identifier: "Tool" })

/** Schema of a message to submit. Its calls are one wave. */
export const Submission = Schema.Struct({
  /** The provider's message, unchanged. */
  message: Schema.Json,
  /** Format of the message. Default: recognised by its shape. */
  format: Schema.optionalKey(WireFormat.Format),
  /**
   * The user request that the message belongs to. Call limits and the order of rules apply to all waves of a turn.
   * Default: a separate turn.
   */
  turn: Schema.optionalKey(Name),
  /**
   * Name of the wave, so that submitting it twice runs it once: the second request with the same name and message gets
   * the wave of the first. Default: a random name.
   */
  wave: Schema.optionalKey(Name),
  /**
   * What the user said before this message, for provenance and reviewers: the user's own messages and nothing else.
   * They count for the user whose session this is. Messages that were given before count once.
   */
  said: Schema.optionalKey(Schema.Array(Schema.NonEmptyString))
}).annotate({ identifier: "Submission" })

/** A message to submit. */
export type Submission = typeof Submission.Type

/**
 * Schema of why a wave cannot continue. The server tries again at `retryAt`: every two seconds while the journal does not
 * answer or another process may still run the wave, otherwise with growing pauses of up to a day. It tries at once if the
 * wave is submitted again. Cancelling the wave ends it.
 */
export const Stuck = Schema.Struct({
  problem: Schema.String,
  /** Epoch milliseconds. */
  since: Schema.Finite,
  tries: Schema.Finite,
  retryAt: Schema.Finite
}).annotate({ identifier: "Stuck" })

/**
 * Schema of the state of a wave. `suspended`: the server stopped before the wave ended, and resumes it at its next
 * start.
 */
export const WaveInfo = Schema.Struct({
  ...Owner,
  turn: Schema.String,
  wave: Schema.String,
  status: Schema.Literals(["running", "ended", "suspended"]),
  calls: Schema.Finite,
  /** Names of the tools, in the order of the calls; at most 100. */
  tools: Schema.Array(Schema.String),
  beganAt: Schema.Finite,
  endedAt: Schema.optionalKey(Schema.Finite),
  /** The wave could not continue. */
  stuck: Schema.optionalKey(Stuck)
}).annotate({ identifier: "WaveInfo" })

/** The state of a wave. */
export type WaveInfo = typeof WaveInfo.Type

/**
 * Schema of a wave with its results, once it has ended. `messages` are sent to the provider, in the format of the
 * submitted message.
 */
export const Wave = Schema.Struct({
  ...WaveInfo.fields,
  format: WireFormat.Format,
  messages: Schema.optionalKey(Schema.Json),
  /** The last event: `tools_end` or `wave_suspended`. */
  end: Schema.optionalKey(WireEvent)
}).annotate({ identifier: "Wave" })

/** A wave with its results. */
export type Wave = typeof Wave.Type

/**
 * Schema of a note that a stream sends between events.
 *
 * `Gap`: this many tool events were not kept. `Reset`: the requested position is unknown; discard everything, all
 * recorded events follow. `Heartbeat`: the connection is alive. `Stopping`: the server is about to stop.
 */
export const StreamNote = Schema.Union([
  Schema.TaggedStruct("Gap", { dropped: Schema.Finite }),
  Schema.TaggedStruct("Reset", {}),
  Schema.TaggedStruct("Heartbeat", { at: Schema.Finite }),
  Schema.TaggedStruct("Stopping", {})
]).annotate({ identifier: "StreamNote" })

/** A note that a stream sends between events. */
export type StreamNote = typeof StreamNote.Type

/** Names of the notes, for the `event:` line. */
export const noteNames = {
  Gap: "gap",
  Reset: "reset",
  Heartbeat: "heartbeat",
  Stopping: "stopping"
} as const satisfies Record<StreamNote["_tag"], string>

/** Schema of a server-sent event with data of a schema. Clients send its `id` as `Last-Event-ID`. */
export const sse = <S extends Schema.Top>(data: S) =>
  Schema.Struct({
    id: Schema.optional(Schema.String),
    event: Schema.String,
    data: Schema.fromJsonString(data)
  })

/** Schema of an item in the stream of a wave. */
export const WaveItem = Schema.Union([WireEvent, StreamNote]).annotate({ identifier: "WaveItem" })

/** An item in the stream of a wave. */
export type WaveItem = typeof WaveItem.Type

/** Schema of a server-sent event of a wave. */
export const WaveSse = sse(WaveItem)

/** A server-sent event of a wave. */
export type WaveSse = typeof WaveSse.Type

/**
 * Schema of the waves that a user may see: running and recently ended ones, without their events. `live` continues at
 * `cursor`.
 */
export const Waves = Schema.Struct({
  waves: Schema.Array(WaveInfo),
  cursor: Schema.String
}).annotate({ identifier: "Waves" })

/** Schema of a page of the events of a wave. The next page begins at `next`. */
export const WaveEvents = Schema.Struct({
  wave: WaveInfo,
  events: Schema.Array(WireEvent),
  next: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "WaveEvents" })
