/**
 * What the API sends and takes of approval requests, and what the live stream says.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Answer } from "../core/gates/ApprovalRequest.ts"
import { noteNames, Owner, sse, StreamNote, WaveInfo, WireEvent } from "./ApiModels.ts"

const approval = {
  id: Schema.String,
  ...Owner,
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  class: Schema.String,
  why: Schema.String,
  targets: Schema.Array(Schema.Struct({
    text: Schema.String,
    kind: Schema.optionalKey(Schema.Literals(["exact", "protected"]))
  })),
  /** The call is already running and waits with its write: its arguments can no longer be edited. */
  isRunning: Schema.Boolean,
  /** What an answer may be remembered for at most. */
  remember: Schema.Literals(["call", "resources", "tool"]),
  requestedAt: Schema.Finite,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  /** Comes back with the answer: it is one to this, and to nothing else. */
  hash: Schema.String
}

/**
 * Schema of an approval request that waits, in a list.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalSummary = Schema.Struct({
  ...approval,
  /** The beginning of the arguments, as JSON. */
  summary: Schema.String
}).annotate({ identifier: "ApprovalSummary" })

/**
 * An approval request that waits, in a list.
 *
 * @category models
 * @since 0.1.0
 */
export type ApprovalSummary = typeof ApprovalSummary.Type

/** What a file holds, before or after; `null`: it is not there. Its text is read apart, in parts. */
const Content = Schema.NullOr(Schema.Struct({
  /** Characters where it is text, else bytes. */
  length: Schema.Finite,
  isText: Schema.Boolean,
  hash: Schema.String
}))

/**
 * Schema of what a call would write. `Files`: which files, whose texts are read apart
 * (`part`). `Diff`: of what the tool could only tell by a diff. `None`: why there is no preview.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Preview = Schema.Union([
  Schema.TaggedStruct("Files", {
    files: Schema.Array(Schema.Struct({ path: Schema.String, before: Content, after: Content }))
  }),
  Schema.TaggedStruct("Diff", { diff: Schema.String }),
  Schema.TaggedStruct("None", { because: Schema.String })
]).annotate({ identifier: "Preview" })

/**
 * What a call would write.
 *
 * @category models
 * @since 0.1.0
 */
export type Preview = typeof Preview.Type

/**
 * Schema of an approval request that waits, whole.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalRequest = Schema.Struct({
  ...approval,
  args: Schema.Json,
  preview: Schema.NullOr(Preview),
  /** JSON Schema of the tool's arguments, where it is known: for a form. */
  parameters: Schema.NullOr(Schema.Json)
}).annotate({ identifier: "ApprovalRequest" })

/**
 * An approval request that waits, whole.
 *
 * @category models
 * @since 0.1.0
 */
export type ApprovalRequest = typeof ApprovalRequest.Type

/**
 * Schema of a part of a text; `next` is where the next one begins, absent: it is the last.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Part = Schema.Struct({ text: Schema.String, next: Schema.optionalKey(Schema.Finite) }).annotate({
  identifier: "Part"
})

/**
 * Schema of an approval request that is over.
 *
 * **Details**
 *
 * `covered`: an answer to another one held for it, too. `expired`: silence was the answer.
 * `withdrawn`: nobody waits for it any more. `suspended`: the server stopped, and asks again under the same
 * id when it goes on. `closed`: the executor ended.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ResolvedApproval = Schema.Struct({
  id: Schema.String,
  ...Owner,
  callId: Schema.String,
  tool: Schema.String,
  requestedAt: Schema.Finite,
  endedAt: Schema.Finite,
  how: Schema.Literals(["approved", "denied", "covered", "expired", "withdrawn", "suspended", "closed"]),
  /** Which answer it was. */
  answer: Schema.optionalKey(Schema.String),
  /** Who answered. */
  by: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  /** What can be done next, as a sentence. */
  next: Schema.String
}).annotate({ identifier: "ResolvedApproval" })

/**
 * An approval request that is over.
 *
 * @category models
 * @since 0.1.0
 */
export type ResolvedApproval = typeof ResolvedApproval.Type

/**
 * Schema of the approval requests of those whom a user may approve for: those that wait, oldest first,
 * and those that ended lately, newest first. `cursor` is where `live` goes on from.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Approvals = Schema.Struct({
  open: Schema.Array(ApprovalSummary),
  ended: Schema.Array(ResolvedApproval),
  cursor: Schema.String
}).annotate({ identifier: "Approvals" })

/**
 * Schema of an answer to what was shown: `hash` is the approval request's.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalAnswer = Schema.Struct({ hash: Schema.String, answer: Answer }).annotate({
  identifier: "ApprovalAnswer"
})

/**
 * Schema of answers to several approval requests: all of them are given, or none.
 *
 * @category schemas
 * @since 0.1.0
 */
export const BulkAnswers = Schema.Struct({
  // as many as wait: what bounds them is the size of a body
  answers: Schema.NonEmptyArray(Schema.Struct({ id: Schema.String, ...ApprovalAnswer.fields }))
}).annotate({ identifier: "BulkAnswers" })

/**
 * Schema of what the live stream says: what happens to approval requests and waves of those whom a user
 * may see.
 *
 * @category schemas
 * @since 0.1.0
 */
export const LiveItem = Schema.Union([
  Schema.TaggedStruct("ApprovalRequested", { approval: ApprovalSummary }),
  Schema.TaggedStruct("ApprovalResolved", { approval: ResolvedApproval }),
  Schema.TaggedStruct("WaveBegan", { wave: WaveInfo }),
  Schema.TaggedStruct("WaveEvent", { ...Owner, wave: Schema.String, event: WireEvent }),
  /** An event that is too large for a stream to everybody: the wave has it. */
  Schema.TaggedStruct("WaveEventLeftOut", { ...Owner, wave: Schema.String }),
  Schema.TaggedStruct("WaveEnded", { wave: WaveInfo }),
  StreamNote
]).annotate({ identifier: "LiveItem" })

/**
 * What the live stream says.
 *
 * @category models
 * @since 0.1.0
 */
export type LiveItem = typeof LiveItem.Type

/**
 * Names of what the live stream says on the wire, for the `event:` line.
 *
 * @category constants
 * @since 0.1.0
 */
export const liveNames = {
  ApprovalRequested: "approval_requested",
  ApprovalResolved: "approval_resolved",
  WaveBegan: "wave_began",
  WaveEvent: "wave_event",
  WaveEventLeftOut: "wave_event_left_out",
  WaveEnded: "wave_ended",
  ...noteNames
} as const satisfies Record<LiveItem["_tag"], string>

/**
 * Schema of a server-sent event of the live stream.
 *
 * @category schemas
 * @since 0.1.0
 */
export const LiveSse = sse(LiveItem)

/**
 * A server-sent event of the live stream.
 *
 * @category models
 * @since 0.1.0
 */
export type LiveSse = typeof LiveSse.Type
