/** Approval requests and live events of the API. */
import * as Schema from "effect/Schema"
import { Evidence } from "../../core/facts/Evidence.ts"
import { Answer } from "../../core/gates/ApprovalRequest.ts"
import { Approvers, GivenApproval } from "../../core/vocabulary/Approvers.ts"
import { TargetKind } from "../../core/vocabulary/TargetKind.ts"
import { noteNames, Owner, sse, StreamNote, WaveInfo, WireEvent } from "./ApiModels.ts"
import { Conversation } from "./ApiOperations.ts"

/**
 * Schema of what the server knows of a call, from the annotations of its tool and from the preview of its write. Nothing
 * in it comes from the model, but for the length of what it wants to write.
 */
export const CallFacts = Schema.Struct({
  /** Title of the tool, if it has one. */
  title: Schema.optionalKey(Schema.String),
  /** The tool is annotated as read-only. */
  readOnly: Schema.Boolean,
  /** The tool is annotated as reaching beyond its own system, such as the network. */
  openWorld: Schema.Boolean,
  /** The write is kept as a checkpoint, so that a user can undo it. */
  undoable: Schema.Boolean,
  /** How many files the call changes and how many of them it creates; absent if it does not say. */
  files: Schema.optionalKey(Schema.Struct({ changed: Schema.Finite, created: Schema.Finite })),
  /** Added and removed lines; absent if the write is too large or binary. */
  lines: Schema.optionalKey(Schema.Struct({ added: Schema.Finite, removed: Schema.Finite }))
}).annotate({ identifier: "CallFacts" })

/** What the server knows of a call. */
export type CallFacts = typeof CallFacts.Type

/** Targets of a call, redacted. */
const Targets = Schema.Array(Schema.Struct({
  text: Schema.String,
  kind: Schema.optionalKey(TargetKind)
}))

const approval = {
  id: Schema.String,
  ...Owner,
  agentPath: Schema.Array(Schema.String),
  /** The operation of the agent at the root, if an agent makes the call. */
  operation: Schema.optionalKey(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  class: Schema.String,
  why: Schema.String,
  targets: Targets,
  /** The call is already running and waits with its write: its arguments can no longer be edited. */
  isRunning: Schema.Boolean,
  facts: CallFacts,
  /** What an answer may be remembered for at most. */
  remember: Schema.Literals(["call", "resources", "tool"]),
  /** What else the server knows of the call; each is shown as a sentence. */
  evidence: Schema.optionalKey(Schema.Array(Evidence)),
  /** Approval is requested for each such call, whatever grants exist. */
  isAlways: Schema.optionalKey(Schema.Boolean),
  /** Patterns between the targets and all of the tool, for which an answer may be remembered. */
  wider: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Who approves: all of these must be satisfied. */
  approvers: Schema.optionalKey(Schema.Array(Approvers)),
  /** Approvals given so far, while others are still needed. */
  approvals: Schema.optionalKey(Schema.Array(GivenApproval)),
  /** JSON Schema of the data that an approval must bring. */
  form: Schema.optionalKey(Schema.Json),
  /** Epoch milliseconds at which others may answer as well. */
  escalatesAt: Schema.optionalKey(Schema.Finite),
  requestedAt: Schema.Finite,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  /** Sent back with the answer, which then holds for exactly this content. */
  hash: Schema.String
}

/** Schema of a pending approval request in a list. */
export const ApprovalSummary = Schema.Struct({
  ...approval,
  /** The beginning of the arguments, as JSON. */
  summary: Schema.String
}).annotate({ identifier: "ApprovalSummary" })

/** A pending approval request in a list. */
export type ApprovalSummary = typeof ApprovalSummary.Type

/**
 * The content of a file before or after the call; `null` if the file does not exist. Its text is read separately, in
 * parts.
 */
const Content = Schema.NullOr(Schema.Struct({
  /** Characters of a text, otherwise bytes. */
  length: Schema.Finite,
  isText: Schema.Boolean,
  hash: Schema.String
}))

const Files = Schema.Array(Schema.Struct({ path: Schema.String, before: Content, after: Content }))

/**
 * Schema of what a call would write. `Files` lists files whose texts are read separately (`part`). `Diff` comes from
 * tools that describe a write only by a diff, and stands for the texts of `files` where the call does not wait in the
 * process that answers: then it may be cut. `None` says why there is no preview.
 */
export const Preview = Schema.Union([
  Schema.TaggedStruct("Files", { files: Files }),
  Schema.TaggedStruct("Diff", { diff: Schema.String, files: Schema.optionalKey(Files) }),
  Schema.TaggedStruct("None", { because: Schema.String })
]).annotate({ identifier: "Preview" })

/** What a call would write. */
export type Preview = typeof Preview.Type

/** Schema of a pending approval request with all its details. */
export const ApprovalRequest = Schema.Struct({
  ...approval,
  args: Schema.Json,
  preview: Schema.NullOr(Preview),
  /** JSON Schema of the arguments for a form; null if it is not known. */
  parameters: Schema.NullOr(Schema.Json)
}).annotate({ identifier: "ApprovalRequest" })

/** A pending approval request with all its details. */
export type ApprovalRequest = typeof ApprovalRequest.Type

/** Schema of a part of a text. `next` is where the next part begins; absent in the last. */
export const Part = Schema.Struct({ text: Schema.String, next: Schema.optionalKey(Schema.Finite) }).annotate({
  identifier: "Part"
})

/**
 * Schema of a resolved approval request.
 *
 * `covered`: the answer to another request applied to it, too. `expired`: it was not answered in time. `withdrawn`: its
 * call stopped waiting. `suspended`: the server stopped; the request returns under the same id when the server resumes.
 * `closed`: the executor ended.
 */
export const ResolvedApproval = Schema.Struct({
  id: Schema.String,
  ...Owner,
  callId: Schema.String,
  tool: Schema.String,
  agentPath: Schema.Array(Schema.String),
  targets: Targets,
  facts: CallFacts,
  requestedAt: Schema.Finite,
  endedAt: Schema.Finite,
  how: Schema.Literals(["approved", "denied", "covered", "expired", "withdrawn", "suspended", "closed"]),
  /** Kind of the answer. */
  answer: Schema.optionalKey(Schema.String),
  /** Who answered. */
  by: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  /** What can be done next, as a sentence. */
  next: Schema.String
}).annotate({ identifier: "ResolvedApproval" })

/**
 * Schema of an answered approval request. `waiting`: it is approved, but not yet by everybody who has to approve it;
 * `endedAt` is the time of the answer.
 */
export const AnsweredApproval = Schema.Struct({
  ...ResolvedApproval.fields,
  how: Schema.Literals([...ResolvedApproval.fields.how.literals, "waiting"])
}).annotate({ identifier: "AnsweredApproval" })

/** An answered approval request. */
export type AnsweredApproval = typeof AnsweredApproval.Type

/** A resolved approval request. */
export type ResolvedApproval = typeof ResolvedApproval.Type

/**
 * Schema of the approval requests that a user may answer: pending ones, oldest first, and recently resolved ones,
 * newest first; the newest 1,000 of each. `pending` counts all pending ones. `live` continues at `cursor`.
 */
export const Approvals = Schema.Struct({
  open: Schema.Array(ApprovalSummary),
  ended: Schema.Array(ResolvedApproval),
  pending: Schema.Finite,
  cursor: Schema.String
}).annotate({ identifier: "Approvals" })

/** Schema of an answer; `hash` is that of the approval request. */
export const ApprovalAnswer = Schema.Struct({ hash: Schema.String, answer: Answer }).annotate({
  identifier: "ApprovalAnswer"
})

/** Schema of a bulk approval: all answers are given, or none. */
export const BulkAnswers = Schema.Struct({
  // there may be as many as are pending: the size of the body is limited
  answers: Schema.Array(Schema.Struct({ id: Schema.String, ...ApprovalAnswer.fields })).check(Schema.isMinLength(1))
}).annotate({ identifier: "BulkAnswers" })

/** Schema of a live event: what happens to the approval requests and waves that a user may see. */
export const LiveItem = Schema.Union([
  Schema.TaggedStruct("ApprovalRequested", { approval: ApprovalSummary }),
  /** A person has approved it, and others are still needed; or others may answer now. */
  Schema.TaggedStruct("ApprovalChanged", { approval: ApprovalSummary }),
  Schema.TaggedStruct("ApprovalResolved", { approval: ResolvedApproval }),
  Schema.TaggedStruct("WaveBegan", { wave: WaveInfo }),
  Schema.TaggedStruct("WaveEvent", { ...Owner, wave: Schema.String, event: WireEvent }),
  /** An event that is too large for the live stream. Read it from the wave. */
  Schema.TaggedStruct("WaveEventLeftOut", { ...Owner, wave: Schema.String }),
  Schema.TaggedStruct("WaveEnded", { wave: WaveInfo }),
  Schema.TaggedStruct("ConversationChanged", { conversation: Conversation }),
  StreamNote
]).annotate({ identifier: "LiveItem" })

/** A live event. */
export type LiveItem = typeof LiveItem.Type

/** Names of live events, for the `event:` line. */
export const liveNames = {
  ApprovalRequested: "approval_requested",
  ApprovalChanged: "approval_changed",
  ApprovalResolved: "approval_resolved",
  WaveBegan: "wave_began",
  WaveEvent: "wave_event",
  WaveEventLeftOut: "wave_event_left_out",
  WaveEnded: "wave_ended",
  ConversationChanged: "conversation_changed",
  ...noteNames
} as const satisfies Record<LiveItem["_tag"], string>

/** Schema of a server-sent live event. */
export const LiveSse = sse(LiveItem)

/** A server-sent live event. */
export type LiveSse = typeof LiveSse.Type
