/**
 * The messages to a session: the methods of `SessionDirectory` that concern one session. The session is the address, so
 * no message can name another one. None is stored; all may arrive twice. A stream begins with `null`: another `null` in it
 * says that the message was sent again and the stream begins anew.
 */
import * as ClusterSchema from "effect/cluster/ClusterSchema"
import * as Entity from "effect/cluster/Entity"
import * as Rpc from "effect/rpc/Rpc"
import * as Schema from "effect/Schema"
import * as Approvals from "../server/ApiApprovals.ts"
import * as Models from "../server/ApiModels.ts"
import * as Operations from "../server/ApiOperations.ts"
import * as Problems from "../server/ApiProblems.ts"
import * as Records from "../server/ApiRecords.ts"
import { Moved } from "./HostedSession.ts"

/** Every message can meet a session that moves, or stores that do not answer. */
const always = [Problems.Unavailable, Moved] as const

const Problem = Schema.Union(always)
const Lookup = Schema.Union([...always, Problems.NotFound])
const WaveLookup = Schema.Union([...always, Problems.NotFound, Problems.WaveUnreadable])

const Name = { name: Schema.String }
const After = { ...Name, after: Schema.optionalKey(Schema.String) }
const Reading = { after: Schema.optionalKey(Schema.String), isShared: Schema.Boolean }
const Position = Schema.optionalKey(Schema.String)

const waves = [
  Rpc.make("Submit", {
    payload: { message: Models.Submission },
    success: Models.WaveInfo,
    error: Schema.Union([
      ...always,
      Problems.Invalid,
      Problems.WaveConflict,
      Problems.WaveUnreadable,
      Problems.TooMany
    ])
  }),
  Rpc.make("Wave", { payload: Name, success: Models.Wave, error: WaveLookup }),
  /** `null`: it has not ended yet. Ask again. */
  Rpc.make("Result", { payload: Name, success: Schema.NullOr(Models.Wave), error: WaveLookup }),
  Rpc.make("HasWave", { payload: Name, error: WaveLookup }),
  Rpc.make("Watch", { payload: After, success: Schema.NullOr(Models.WaveSse), error: WaveLookup, stream: true }),
  Rpc.make("Happened", { payload: { ...Name, from: Schema.Finite }, success: Models.WaveEvents, error: Lookup }),
  Rpc.make("Cancel", {
    payload: { ...Name, callId: Schema.optional(Schema.String), reason: Schema.String },
    error: WaveLookup
  }),
  Rpc.make("EndTurn", { payload: Name, error: Lookup }),
  Rpc.make("EndSession", { error: Lookup }),
  Rpc.make("Tools", {
    success: Schema.Array(Models.Tool),
    error: Schema.Union([...always, Problems.TooMany])
  })
] as const

const operations = [
  Rpc.make("Start", {
    payload: { message: Operations.OperationSubmission },
    success: Schema.Struct({ operation: Operations.Operation, after: Position }),
    error: Schema.Union([
      ...always,
      Problems.Invalid,
      Problems.OperationConflict,
      Problems.SessionBusy,
      Problems.TooMany
    ])
  }),
  Rpc.make("Operation", { payload: Name, success: Operations.Operation, error: Lookup }),
  Rpc.make("Operations", { success: Schema.Array(Operations.Operation), error: Problem }),
  Rpc.make("Running", { success: Schema.NullOr(Operations.Operation), error: Problem }),
  Rpc.make("WatchOperation", {
    payload: After,
    success: Schema.NullOr(Operations.AgentSse),
    error: Lookup,
    stream: true
  }),
  Rpc.make("Say", {
    payload: {
      ...Name,
      text: Schema.String,
      settle: Schema.optional(Schema.Boolean),
      id: Schema.String
    },
    success: Schema.String,
    error: Schema.Union([
      ...always,
      Problems.NotFound,
      Problems.OperationConflict,
      Problems.OperationEnded,
      Problems.TooMany
    ])
  }),
  Rpc.make("CancelOperation", { payload: { ...Name, reason: Schema.String }, error: Lookup }),
  Rpc.make("History", { success: Schema.Array(Operations.Message), error: Problem }),
  Rpc.make("Conversation", { success: Schema.NullOr(Operations.Conversation), error: Problem }),
  Rpc.make("ConversationDetail", {
    payload: { isShared: Schema.Boolean },
    success: Operations.ConversationDetail,
    error: Lookup
  }),
  Rpc.make("WatchConversation", {
    payload: Reading,
    success: Schema.NullOr(Operations.AgentSse),
    error: Lookup,
    stream: true
  })
] as const

const records = [
  Rpc.make("ApprovalPart", {
    payload: {
      id: Schema.String,
      index: Schema.Finite,
      side: Schema.Literals(["before", "after"]),
      from: Schema.Finite
    },
    success: Approvals.Part,
    error: Lookup
  }),
  Rpc.make("Revoke", { payload: Name, error: Lookup }),
  Rpc.make("Checkpoints", { success: Schema.Array(Records.Checkpoint), error: Problem }),
  Rpc.make("UndoPlan", { payload: Name, success: Records.UndoPlan, error: Lookup }),
  Rpc.make("Undo", {
    payload: { ...Name, force: Schema.Boolean },
    success: Records.UndoPlan,
    error: Schema.Union([...always, Problems.NotFound, Problems.NotUndone])
  })
] as const

const places = [
  /** Something has changed in the stores. */
  Rpc.make("Poke", { error: Problem }),
  /** From the session to itself: lasts as long as it is open, so that its place is kept. */
  Rpc.make("Run").annotate(ClusterSchema.InterruptOnTermination, true)
] as const

/** A session as an entity; its id is the principal. */
export const SessionEntity = Entity.make("tool-session/1", [...waves, ...operations, ...records, ...places])
