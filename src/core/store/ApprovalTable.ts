/**
 * Approval requests as rows of a table that several processes share.
 *
 * The process that holds a session makes its requests pending and ends them; any process answers them. A driver decides
 * each race in one statement. What a row says of a request is text that the driver does not read.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Epoch } from "./SessionRegistry.ts"

/** Error of a table that cannot be read or written. */
export class ApprovalTableError extends Schema.TaggedError<ApprovalTableError>(
  "effect-tool-executor/ApprovalTableError"
)("ApprovalTableError", { operation: Schema.String, cause: Schema.Defect() }) {
  override get message(): string {
    return `ApprovalTable.${this.operation} failed`
  }
}

/** How a request ended. */
export interface RowEnd {
  /** One word, such as `approved`. */
  readonly how: string
  /** Epoch milliseconds. */
  readonly at: number
  /** The record of the end. */
  readonly ending: string
}

/** A request. */
export interface ApprovalRow {
  readonly id: string
  /** Identifies what approvers see. */
  readonly hash: string
  /** The record of the request, as far as lists show it. */
  readonly request: string
  /** The record of the approvals given while others were still needed; `undefined`: none. */
  readonly approvals: string | undefined
  /** How often its approvals were changed. */
  readonly version: number
  /** How it ended; `undefined`: it is pending. */
  readonly end: RowEnd | undefined
}

/** A request to notify of; `since`: when that was due first. */
export interface Untold extends ApprovalRow {
  readonly since: number
}

/** A request that becomes pending. */
export interface NewRow extends Omit<ApprovalRow, "end" | "version"> {
  readonly epoch: Epoch
  readonly user: string
  readonly tool: string
  /** Epoch milliseconds. */
  readonly requestedAt: number
  /** Epoch milliseconds; `undefined`: it does not expire. */
  readonly expiresAt: number | undefined
  /** The rest of the record: arguments and preview. */
  readonly details: string
  /** Replaces the request of this id if it still has this hash. */
  readonly replaces: string | undefined
}

/**
 * What became of a new row. `Known`: a row of this id exists, and its end, if it has one, is now taken. `Lost`: the
 * epoch is not current.
 */
export type Begun =
  | { readonly _tag: "Pending" }
  | { readonly _tag: "Known"; readonly row: ApprovalRow }
  | { readonly _tag: "Lost" }

/** An end of one request. */
export interface Ending {
  readonly id: string
  readonly end: RowEnd
}

/**
 * An answer, or what an answer to another request also decides (`isCovered`). Without an end the request stays pending,
 * with `approvals`.
 */
export interface Answering {
  readonly id: string
  readonly end: RowEnd | undefined
  /** What the approver saw. */
  readonly hash: string
  readonly isCovered: boolean
  readonly approvals: string | undefined
  /** The `version` that the answer was made for. */
  readonly version: number
}

/** An end that the process which holds the session has found. */
export interface OwnEnding extends Ending {
  readonly epoch: Epoch
}

/** The rows. `users` are the owners whose requests are read; `undefined`: all. */
export class ApprovalTable extends Context.Service<ApprovalTable, {
  /** The epoch in which this process holds a session. */
  readonly hold: (principal: string) => Epoch | undefined
  /** Makes requests pending, each if its epoch is current. The results are in their order. */
  readonly begin: (rows: ReadonlyArray<NewRow>) => Effect.Effect<ReadonlyArray<Begun>, ApprovalTableError>
  /**
   * Ends pending requests that have not expired at `now`, and wakes their sessions, or notes their approvals. All of them
   * or none, and none if the approvals of one were changed; those that are covered end if they still can. The result has
   * the ids that changed.
   */
  readonly answer: (
    answers: ReadonlyArray<Answering>,
    now: number
  ) => Effect.Effect<ReadonlySet<string>, ApprovalTableError>
  /** The ends of these requests of a session. They count as taken. */
  readonly take: (
    epoch: Epoch,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Ending>, ApprovalTableError>
  /** Ends pending requests, each if its epoch is current. The result has the ids that ended. */
  readonly end: (ends: ReadonlyArray<OwnEnding>) => Effect.Effect<ReadonlySet<string>, ApprovalTableError>
  /**
   * Ends pending requests of a session that did not come again in this epoch. Gives the number of these ids that are
   * pending, 0 if the epoch is not current.
   */
  readonly settle: (
    epoch: Epoch,
    ids: ReadonlyArray<string>,
    end: RowEnd
  ) => Effect.Effect<
    { readonly pending: number; readonly withdrawn: ReadonlyArray<ApprovalRow> },
    ApprovalTableError
  >
  readonly find: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<ApprovalRow>, ApprovalTableError>
  readonly details: (id: string) => Effect.Effect<string | undefined, ApprovalTableError>
  /** Pending requests of a tool in a session. */
  readonly alike: (principal: string, tool: string) => Effect.Effect<ReadonlyArray<ApprovalRow>, ApprovalTableError>
  /** Pending requests, oldest first, and requests that ended after `since`, newest first; the newest `limit` of each. */
  readonly list: (options: {
    readonly users: ReadonlyArray<string> | undefined
    readonly since: number
    readonly limit: { readonly open: number; readonly ended: number }
  }) => Effect.Effect<
    { readonly open: ReadonlyArray<ApprovalRow>; readonly ended: ReadonlyArray<ApprovalRow>; readonly pending: number },
    ApprovalTableError
  >
  readonly count: Effect.Effect<number, ApprovalTableError>
  /**
   * Requests to notify of, each given to one process until the time `until`, and to none once they were `told`. `before`:
   * they were pending, or given to another process, until this time. `ids`: only these.
   */
  readonly untold: (options: {
    readonly ids: ReadonlyArray<string> | undefined
    readonly before: number
    readonly until: number
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<Untold>, ApprovalTableError>
  /** `next`: the time at which to notify again, if there is one. */
  readonly told: (id: string, next: number | undefined) => Effect.Effect<void, ApprovalTableError>
  /** Deletes requests that ended before a time and whose end was taken. */
  readonly prune: (before: number) => Effect.Effect<void, ApprovalTableError>
}>()("effect-tool-executor/store/ApprovalTable") {}
