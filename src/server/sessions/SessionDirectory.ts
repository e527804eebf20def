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
import * as Random from "effect/Random"
import type { User } from "../api/ApiAccess.ts"
import type { AnsweredApproval, ApprovalRequest, ApprovalSummary, Part, ResolvedApproval } from "../api/ApiApprovals.ts"
import type * as Models from "../api/ApiModels.ts"
import type * as Operations from "../api/ApiOperations.ts"
import type * as Problems from "../api/ApiProblems.ts"
import type * as Records from "../api/ApiRecords.ts"
import type { Given } from "../approvals/PendingApprovals.ts"
import type * as CallPages from "../records/CallPages.ts"
import type * as JournalPages from "../records/JournalPages.ts"
import type { Owner } from "../users/Principals.ts"
import type * as Methods from "./SessionMethods.ts"

type NotFound = Problems.NotFound
type Unavailable = Problems.Unavailable

/** A message to a running operation. */
export type Said = typeof Methods.Said.Type

/** Which calls of a wave to cancel, and why. */
export type Cancellation = typeof Methods.Cancellation.Type

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
export class SessionDirectory extends Context.Service<
  SessionDirectory,
  Methods.Methods & {
    /** Waits until a wave has ended or is suspended. */
    readonly result: Methods.Methods["wave"]
    /** The agents that operations can be started with. */
    readonly agents: Effect.Effect<ReadonlyArray<Operations.Agent>>

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
  }
>()("effect-tool-executor/server/SessionDirectory") {}

/** Entries of a list of waves or conversations at most. */
export const mostListed = 500

/**
 * Gives work a name before it is sent to another process, so that sending it again does it once. `key` is the field of
 * the name.
 */
export const named =
  <K extends string>(key: K, kind: Parameters<typeof randomName>[0]) =>
  <A extends { readonly [_ in K]?: string | undefined }>(work: A): Effect.Effect<A> =>
    work[key] === undefined ? Effect.map(randomName(kind), (name) => ({ ...work, [key]: name })) : Effect.succeed(work)

/** A name that nobody else has chosen. */
export const randomName = (kind: "operation" | "said" | "wave"): Effect.Effect<string> =>
  Effect.map(
    Effect.all([Random.nextIntBetween(0, 2 ** 48), Random.nextIntBetween(0, 2 ** 48)]),
    ([one, other]) => `${kind}-${one.toString(36)}${other.toString(36)}`
  )
