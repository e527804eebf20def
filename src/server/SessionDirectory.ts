/**
 * All sessions by their owners, wherever they run: waves, operations of agents, conversations, approval requests and
 * records.
 *
 * Handlers of the API and hosts use this interface. Its arguments and results are plain data or streams of plain data,
 * so a session may run in this process (`layerLocal`) or in another one of a cluster. Methods that take an `Owner`
 * concern one session. Methods that take a `User` concern what this user may see of all sessions; the rest does not
 * exist for them. No method but these checks rights: whoever names an owner must have authenticated them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Stream from "effect/Stream"
import type { User } from "./ApiAccess.ts"
import type { AnsweredApproval, ApprovalRequest, ApprovalSummary, Part, ResolvedApproval } from "./ApiApprovals.ts"
import type * as Models from "./ApiModels.ts"
import type * as Operations from "./ApiOperations.ts"
import type * as Problems from "./ApiProblems.ts"
import type * as Records from "./ApiRecords.ts"
import type * as CallPages from "./CallPages.ts"
import type * as JournalPages from "./JournalPages.ts"
import type { Given } from "./PendingApprovals.ts"
import type { Owner } from "./Principals.ts"

type NotFound = Problems.NotFound
type Unavailable = Problems.Unavailable

/** An operation that a message has reached. */
export interface Started {
  readonly operation: Operations.Operation
  /** The message joined an operation that was running: its events after this position are those of the message. */
  readonly after?: string
}

/** A message to a running operation. */
export interface Said {
  readonly text: string
  /** Denies pending approval requests, so that the model reads the message immediately. */
  readonly settle?: boolean | undefined
  /** Saying the same id and text twice says it once. Default: a random id. */
  readonly id?: string | undefined
}

/** Which calls of a wave to cancel, and why. */
export interface Cancellation {
  /** Cancels only the calls with this id. Default: the whole wave. */
  readonly callId?: string | undefined
  readonly reason: string
}

/** Where a reader of a conversation continues. */
export interface Reading {
  /** Position of the last event that the reader has. Default: the beginning of the operation that runs. */
  readonly after?: string | undefined
  /** The reader is not the owner: secrets are redacted, and there are no fragments of texts. */
  readonly isShared: boolean
}

/** A part of a file before or after a call, beginning at a character. */
export interface PartOf {
  readonly id: string
  readonly index: number
  readonly side: "before" | "after"
  readonly from: number
}

/**
 * All sessions.
 *
 * Streams begin at the position after `after`, or at the beginning, with ids and a heartbeat every 15 seconds. An unknown
 * position gives a `Reset` and all recorded events. A stream that ends before its wave or operation has ended can be
 * continued after its last id.
 */
export class SessionDirectory extends Context.Service<SessionDirectory, {
  /** Runs the calls of a message as a wave, or finds the wave of that name. Returns as soon as the wave is stored. */
  readonly submit: (owner: Owner, message: Models.Submission) => Effect.Effect<
    Models.WaveInfo,
    Problems.Invalid | Problems.WaveConflict | Problems.WaveUnreadable | Problems.TooMany | Unavailable
  >
  /** A wave, with results once it has ended. */
  readonly wave: (
    owner: Owner,
    wave: string
  ) => Effect.Effect<Models.Wave, NotFound | Problems.WaveUnreadable | Unavailable>
  /** Waits until a wave has ended or is suspended. */
  readonly result: (
    owner: Owner,
    wave: string
  ) => Effect.Effect<Models.Wave, NotFound | Problems.WaveUnreadable | Unavailable>
  /** Streams the events of a wave until its end. */
  readonly watch: (owner: Owner, wave: string, after?: string) => Effect.Effect<
    Stream.Stream<Models.WaveSse>,
    NotFound | Problems.WaveUnreadable | Unavailable
  >
  /** A page of the redacted events of a wave, after a position. */
  readonly happened: (
    owner: Owner,
    wave: string,
    after: number
  ) => Effect.Effect<typeof Models.WaveEvents.Type, NotFound | Unavailable>
  /** Cancels a wave, or the calls of an id. */
  readonly cancel: (
    owner: Owner,
    wave: string,
    of: Cancellation
  ) => Effect.Effect<void, NotFound | Problems.WaveUnreadable | Unavailable>
  /** Ends a turn, cancels its calls and deletes its counts. */
  readonly endTurn: (owner: Owner, turn: string) => Effect.Effect<void, NotFound | Unavailable>
  /** Ends a session and cancels everything that runs in it. */
  readonly endSession: (owner: Owner) => Effect.Effect<void, NotFound | Unavailable>
  /** The tools of a session, as a model sees them. */
  readonly tools: (
    owner: Owner
  ) => Effect.Effect<ReadonlyArray<typeof Models.Tool.Type>, Problems.TooMany | Unavailable>

  /** The agents that operations can be started with. */
  readonly agents: Effect.Effect<ReadonlyArray<Operations.Agent>>
  /** Sends a message to an agent: starts an operation, joins the running one, or finds the one of that id. */
  readonly start: (owner: Owner, message: Operations.OperationSubmission) => Effect.Effect<
    Started,
    Problems.Invalid | Problems.OperationConflict | Problems.SessionBusy | Problems.TooMany | Unavailable
  >
  readonly operation: (
    owner: Owner,
    operation: string
  ) => Effect.Effect<Operations.Operation, NotFound | Unavailable>
  /** The latest operations of a session, newest first. */
  readonly operations: (owner: Owner) => Effect.Effect<ReadonlyArray<Operations.Operation>, Unavailable>
  /** The operation of a session that has not ended. */
  readonly running: (owner: Owner) => Effect.Effect<Option.Option<Operations.Operation>, Unavailable>
  /** Streams the events of an operation until its end. */
  readonly watchOperation: (
    owner: Owner,
    operation: string,
    after?: string
  ) => Effect.Effect<Stream.Stream<Operations.AgentSse>, NotFound | Unavailable>
  /** Sends a message to an operation, which its model reads before its next turn. The result is the message's id. */
  readonly say: (owner: Owner, operation: string, message: Said) => Effect.Effect<
    string,
    NotFound | Problems.OperationConflict | Problems.OperationEnded | Problems.TooMany | Unavailable
  >
  /** Ends an operation, also if its process is killed as soon as this returns. */
  readonly cancelOperation: (
    owner: Owner,
    operation: string,
    reason: string
  ) => Effect.Effect<void, NotFound | Unavailable>

  /** The messages of a session, those of its running operation included, as its owner sees them. */
  readonly history: (owner: Owner) => Effect.Effect<ReadonlyArray<Operations.Message>, Unavailable>
  /** A conversation: a session that has had operations. */
  readonly conversation: (owner: Owner) => Effect.Effect<Option.Option<Operations.Conversation>, Unavailable>
  /** A conversation with its messages and operations; redacted if shared. */
  readonly conversationDetail: (
    owner: Owner,
    isShared: boolean
  ) => Effect.Effect<Operations.ConversationDetail, NotFound | Unavailable>
  /** Streams the events of all operations of a conversation, from the one that runs now. It does not end with them. */
  readonly watchConversation: (
    owner: Owner,
    reading: Reading
  ) => Effect.Effect<Stream.Stream<Operations.AgentSse>, NotFound | Unavailable>

  /** Sessions of a user that have an executor. */
  readonly sessions: (user: string) => Effect.Effect<ReadonlyArray<typeof Models.Session.Type>, Unavailable>
  /** Running and recently ended waves that a user may see, oldest first; the latest 500. */
  readonly waves: (user: User) => Effect.Effect<ReadonlyArray<Models.WaveInfo>, Unavailable>
  /** Conversations that a user may see, those with the latest changes first; 500 at most. */
  readonly conversations: (user: User) => Effect.Effect<ReadonlyArray<Operations.Conversation>, Unavailable>

  /** Approval requests that a user may answer: pending ones, oldest first, and recently resolved ones, newest first. */
  readonly approvals: (user: User) => Effect.Effect<{
    readonly open: ReadonlyArray<ApprovalSummary>
    readonly ended: ReadonlyArray<ResolvedApproval>
    readonly pending: number
  }, Unavailable>
  /** A pending request with all its details, or a resolved one. */
  readonly approval: (
    user: User,
    id: string
  ) => Effect.Effect<ApprovalRequest | ResolvedApproval, NotFound | Unavailable>
  readonly approvalPart: (user: User, of: PartOf) => Effect.Effect<typeof Part.Type, NotFound | Unavailable>
  /** Whether a request of an operation, or of its sub-agents, is pending. */
  readonly isPending: (
    owner: Owner,
    of: { readonly operation: string; readonly id: string }
  ) => Effect.Effect<boolean, Unavailable>
  /** Answers a request. The first answer counts; the second one is told who was first. */
  readonly answer: (user: User, given: Given) => Effect.Effect<
    AnsweredApproval,
    NotFound | Problems.AlreadyEnded | Problems.NotAnswered | Unavailable
  >
  /** Answers several requests: all of them, or none if one answer is stale or invalid. */
  readonly answerAll: (
    user: User,
    given: ReadonlyArray<Given>
  ) => Effect.Effect<ReadonlyArray<AnsweredApproval>, NotFound | Problems.NotAnswered | Unavailable>

  /** Grants of a user and of the users they approve for, oldest first. */
  readonly grants: (user: User) => Effect.Effect<ReadonlyArray<typeof Records.Grant.Type>, Unavailable>
  /** Revokes a grant of a session; calls that it admitted and that have not started are refused. */
  readonly revoke: (owner: Owner, grant: string) => Effect.Effect<void, NotFound | Unavailable>

  /** Writes of a session that can be undone, newest first. */
  readonly checkpoints: (owner: Owner) => Effect.Effect<ReadonlyArray<typeof Records.Checkpoint.Type>, Unavailable>
  /** The effect of undoing a checkpoint. */
  readonly undoPlan: (
    owner: Owner,
    checkpoint: string
  ) => Effect.Effect<typeof Records.UndoPlan.Type, NotFound | Unavailable>
  /** Undoes all files of a checkpoint, or none. `force` overwrites later changes. */
  readonly undo: (
    owner: Owner,
    checkpoint: string,
    force: boolean
  ) => Effect.Effect<typeof Records.UndoPlan.Type, NotFound | Problems.NotUndone | Unavailable>

  /** A page of the journal; empty without a journal. */
  readonly journal: (
    user: User,
    wanted: JournalPages.Wanted
  ) => Effect.Effect<typeof Records.Entries.Type, Problems.Invalid | Unavailable>
  /** A page of the calls in the journal. */
  readonly journalCalls: (
    user: User,
    wanted: CallPages.Wanted
  ) => Effect.Effect<typeof Records.RecordedCalls.Type, Problems.Invalid | Unavailable>
  /** A call by the position of its first entry. */
  readonly journalCall: (
    user: User,
    place: number
  ) => Effect.Effect<Records.RecordedCallDetail, NotFound | Unavailable>
}>()("effect-tool-executor/server/SessionDirectory") {}

/** Entries of a list of waves or conversations at most. */
export const mostListed = 500

/** Gives a wave its name before it is sent to another process, so that sending it again submits it once. */
export const namedWave = (message: Models.Submission): Effect.Effect<Models.Submission & { readonly wave: string }> =>
  message.wave === undefined
    ? Effect.map(randomName("wave"), (wave) => ({ ...message, wave }))
    : Effect.succeed({ ...message, wave: message.wave })

/** Gives a message to an agent its id before it is sent to another process. */
export const namedOperation = (
  message: Operations.OperationSubmission
): Effect.Effect<Operations.OperationSubmission & { readonly id: string }> =>
  message.id === undefined
    ? Effect.map(randomName("operation"), (id) => ({ ...message, id }))
    : Effect.succeed({ ...message, id: message.id })

/** Gives a message to an operation its id before it is sent to another process. */
export const namedMessage = (message: Said): Effect.Effect<Said & { readonly id: string }> =>
  message.id === undefined
    ? Effect.map(randomName("said"), (id) => ({ ...message, id }))
    : Effect.succeed({ ...message, id: message.id })

/** A name that nobody else has chosen. */
export const randomName = (kind: "operation" | "said" | "wave"): Effect.Effect<string> =>
  Effect.map(
    Effect.all([Random.nextIntBetween(0, 2 ** 48), Random.nextIntBetween(0, 2 ** 48)]),
    ([one, other]) => `${kind}-${one.toString(36)}${other.toString(36)}`
  )
