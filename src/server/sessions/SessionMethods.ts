/**
 * What a session answers: the one list of its methods, with their arguments, results and problems as schemas.
 *
 * `SessionDirectory` has them as methods, `LocalDirectory` implements them, and a cluster sends them as messages. The
 * session is the address, so no message can name another one. None is stored; all may arrive twice.
 */
import type * as Effect from "effect/Effect"
import * as Rpc from "effect/rpc/Rpc"
import type * as RpcSchema from "effect/rpc/RpcSchema"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Models from "../api/ApiModels.ts"
import * as Operations from "../api/ApiOperations.ts"
import * as Problems from "../api/ApiProblems.ts"
import * as Records from "../api/ApiRecords.ts"
import type { Owner } from "../users/Principals.ts"

/** The session moves to another process. Ask again. */
export class Moved extends Schema.TaggedError<Moved>("effect-tool-executor/cluster/Moved")("Moved", {}) {
  override get message(): string {
    return "The session moves to another process"
  }
}

const { Invalid, NotFound, OperationConflict, TooMany, WaveUnreadable } = Problems

/** Every message can meet a session that moves, or stores that do not answer. */
const always = [Problems.Unavailable, Moved] as const

type Problems = ReadonlyArray<Schema.Top>

/** A method that is answered once. */
export const method = <
  const Name extends string,
  const Args extends ReadonlyArray<Schema.Top>,
  Success extends Schema.Top = Schema.Void,
  const Errors extends Problems = readonly []
>(name: Name, args: Args, success?: Success, errors?: Errors) =>
  Rpc.make(name, {
    payload: Schema.Tuple(args),
    success: success ?? Schema.Void as unknown as Success,
    error: Schema.Union([...always, ...errors ?? [] as unknown as Errors])
  })

/** A stream of events after a position, the last argument. As a message it begins with `null`. */
const events = <
  const Name extends string,
  const Args extends ReadonlyArray<Schema.Top>,
  Item extends Schema.Top,
  const Errors extends Problems
>(name: Name, args: Args, item: Item, errors: Errors) =>
  Rpc.make(name, {
    payload: Schema.Tuple([...args, position]),
    success: Schema.NullOr(item),
    error: Schema.Union([...always, ...errors]),
    stream: true
  })

const name = Schema.String
const position = Schema.optional(Schema.String)

/** An operation that a message has reached. */
export const Started = Schema.Struct({
  operation: Operations.Operation,
  /** The message joined an operation that was running: its events after this position are those of the message. */
  after: Schema.optionalKey(Schema.String)
})

/** A message to a running operation. */
export const Said = Schema.Struct({
  text: Schema.String,
  /** Denies pending approval requests, so that the model reads the message immediately. */
  settle: Schema.optional(Schema.Boolean),
  /** Saying the same id and text twice says it once. Default: a random id. */
  id: Schema.optional(Schema.String)
})

/** Which calls of a wave to cancel, and why. */
export const Cancellation = Schema.Struct({
  /** Cancels only the calls with this id. Default: the whole wave. */
  callId: Schema.optional(Schema.String),
  reason: Schema.String
})

const waves = [
  /** Runs the calls of a message as a wave, or finds the wave of that name. Returns as soon as the wave is stored. */
  method("submit", [Models.Submission], Models.WaveInfo, [Invalid, Problems.WaveConflict, WaveUnreadable, TooMany]),
  /** A wave, with results once it has ended. */
  method("wave", [name], Models.Wave, [NotFound, WaveUnreadable]),
  /** Streams the events of a wave until its end. */
  events("watch", [name], Models.WaveSse, [NotFound, WaveUnreadable]),
  /** A page of the redacted events of a wave, after a position. */
  method("happened", [name, Schema.Finite], Models.WaveEvents, [NotFound]),
  /** Cancels a wave, or the calls of an id. */
  method("cancel", [name, Cancellation], Schema.Void, [NotFound, WaveUnreadable]),
  /** Ends a turn, cancels its calls and deletes its counts. */
  method("endTurn", [name], Schema.Void, [NotFound]),
  /** Ends a session and cancels everything that runs in it. */
  method("endSession", [], Schema.Void, [NotFound]),
  /** The tools of a session, as a model sees them. */
  method("tools", [], Schema.Array(Models.Tool), [TooMany])
] as const

const operations = [
  /** Sends a message to an agent: starts an operation, joins the running one, or finds the one of that id. */
  method("start", [Operations.OperationSubmission], Started, [
    Invalid,
    OperationConflict,
    Problems.SessionBusy,
    TooMany
  ]),
  method("operation", [name], Operations.Operation, [NotFound]),
  /** The latest operations of a session, newest first. */
  method("operations", [], Schema.Array(Operations.Operation)),
  /** The operation of a session that has not ended. */
  method("running", [], Schema.Option(Operations.Operation)),
  /** Streams the events of an operation until its end. */
  events("watchOperation", [name], Operations.AgentSse, [NotFound]),
  /** Sends a message to an operation, which its model reads before its next turn. The result is the message's id. */
  method("say", [name, Said], Schema.String, [NotFound, OperationConflict, Problems.OperationEnded, TooMany]),
  /** Ends an operation, also if its process is killed as soon as this returns. */
  method("cancelOperation", [name, Schema.String], Schema.Void, [NotFound]),
  /** The messages of a session, those of its running operation included, as its owner sees them. */
  method("history", [], Schema.Array(Operations.Message)),
  /** A conversation: a session that has had operations. */
  method("conversation", [], Schema.Option(Operations.Conversation)),
  /** A conversation with its messages and operations; redacted if shared. */
  method("conversationDetail", [Schema.Boolean], Operations.ConversationDetail, [NotFound]),
  /**
   * Streams the events of all operations of a conversation, from the one that runs now. It does not end with them. If
   * shared, secrets are redacted, and there are no fragments of texts.
   */
  events("watchConversation", [Schema.Boolean], Operations.AgentSse, [NotFound])
] as const

const records = [
  /** Revokes a grant of a session; calls that it admitted and that have not started are refused. */
  method("revoke", [name], Schema.Void, [NotFound]),
  /** Writes of a session that can be undone, newest first. */
  method("checkpoints", [], Schema.Array(Records.Checkpoint)),
  /** The effect of undoing a checkpoint. */
  method("undoPlan", [name], Records.UndoPlan, [NotFound]),
  /** Undoes all files of a checkpoint, or none. `force` overwrites later changes. */
  method("undo", [name, Schema.Boolean], Records.UndoPlan, [NotFound, Problems.NotUndone])
] as const

/** The methods of a session. */
export const all = [...waves, ...operations, ...records] as const

/** A method. */
export type Method = (typeof all)[number]

export type Name = Method["_tag"]

type Of<N extends Name> = Extract<Method, { readonly _tag: N }>

/** What a method takes, behind the session. */
export type Args<N extends Name> = Rpc.Payload<Of<N>>

type Failure<N extends Name> = Exclude<Rpc.ErrorExit<Of<N>>, Moved>

/** The methods, for the owner of a session. */
export type Methods = {
  readonly [N in Name]: (
    owner: Owner,
    ...args: Args<N>
  ) => Rpc.SuccessSchema<Of<N>> extends RpcSchema.Stream<infer Item, infer _> ?
    Effect.Effect<Stream.Stream<Exclude<Item["Type"], null>>, Failure<N>>
    : Effect.Effect<Rpc.Success<Of<N>>, Failure<N>>
}

/** How a stream says that nothing follows; `watchConversation` never does. */
const ends = {
  watch: ({ data }: Models.WaveSse) =>
    (data._tag === "ToolsEnd" || data._tag === "WaveSuspended") && data.agentPath.length === 0,
  watchOperation: ({ data }: Operations.AgentSse) => data._tag === "OperationEnd" && data.agentPath.length === 0,
  watchConversation: () => false
}

/** Tells the last item of a stream; `undefined` for methods that are answered once. */
export const endOf = (name: Name) =>
  name in ends ? ends[name as keyof typeof ends] as (item: never) => boolean : undefined

/** Something for each method, by its name. */
export const each = <A>(make: (name: Name) => unknown): A =>
  Object.fromEntries(all.map(({ _tag }) => [_tag, make(_tag)])) as A
