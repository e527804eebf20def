/**
 * Approval requests as rows: what is pending, how each ended, and who was first.
 *
 * Every decision about a request is made here, once: an answer, an expiry and a withdrawal each end a row only while it
 * is pending. The rows are in memory (this file) or in a table that several processes share (`StoredApprovalRows`).
 */
import * as Effect from "effect/Effect"
import type { ApprovalTableError } from "../../core/store/ApprovalTable.ts"
import type { Epoch } from "../../core/store/SessionRegistry.ts"
import type * as RedactedRequest from "./RedactedRequest.ts"
import type { End } from "./ResolvedRequest.ts"

/** A request and its end; without one it is pending. */
export interface Row {
  readonly kept: RedactedRequest.Kept
  /** How often its approvals were changed. */
  readonly version: number
  readonly end: End | undefined
}

/** A row that ended. */
export interface EndedRow extends Omit<Row, "version"> {
  readonly end: End
}

/** An end of a request that is pending. */
export interface Ending {
  readonly kept: RedactedRequest.Kept
  readonly end: End
}

/**
 * An answer; `isCovered`: an answer to another request that also applies to this one. Without an end the request stays
 * pending, with the approvals of `kept`. `version` is that of the row for which the answer was made.
 */
export interface Answering {
  readonly kept: RedactedRequest.Kept
  readonly end: End | undefined
  readonly isCovered: boolean
  readonly version: number
}

/** What became of a new request. `Lost`: this process does not hold its session. */
export type Begun =
  | { readonly _tag: "Pending" }
  | { readonly _tag: "Known"; readonly row: Row }
  | { readonly _tag: "Lost" }

/** The rows. They fail only where a database does. */
export interface ApprovalRows {
  /** Whether the rows outlive this process, and pending requests with them. */
  readonly isLasting: boolean
  /** The epoch in which this process holds a session; `undefined` also where it holds all of them. */
  readonly hold: (principal: string) => Epoch | undefined
  /** Makes a request pending in an epoch. One that exists is returned, unless it still has the hash `replaces`. */
  readonly begin: (
    shown: RedactedRequest.RedactedRequest,
    epoch: Epoch | undefined,
    replaces: string | undefined
  ) => Effect.Effect<Begun, ApprovalTableError>
  /** Answers requests: all of them, or none. The result has the ids that changed. */
  readonly answer: (
    answers: ReadonlyArray<Answering>,
    now: number
  ) => Effect.Effect<ReadonlySet<string>, ApprovalTableError>
  /** The ends of these requests of a session. */
  readonly take: (
    epoch: Epoch | undefined,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<{ readonly id: string; readonly end: End }>, ApprovalTableError>
  /** Ends a pending request in the epoch of its call; `false` if it had ended or the epoch is not current. */
  readonly end: (ending: Ending, epoch: Epoch | undefined) => Effect.Effect<boolean, ApprovalTableError>
  /**
   * Ends pending requests of a session that did not come again in this epoch: no call waits for them. Gives the number
   * of these ids that are pending.
   */
  readonly settle: (
    epoch: Epoch | undefined,
    ids: ReadonlyArray<string>,
    end: End
  ) => Effect.Effect<
    { readonly pending: number; readonly withdrawn: ReadonlyArray<EndedRow> },
    ApprovalTableError
  >
  readonly find: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Row>, ApprovalTableError>
  readonly details: (id: string) => Effect.Effect<RedactedRequest.Details | undefined, ApprovalTableError>
  /** Pending requests of a tool in a session. */
  readonly alike: (principal: string, tool: string) => Effect.Effect<ReadonlyArray<Row>, ApprovalTableError>
  /** Pending requests, oldest first, resolved ones, newest first, and the number of all pending ones. */
  readonly list: (
    users: ReadonlyArray<string> | undefined
  ) => Effect.Effect<
    { readonly open: ReadonlyArray<Row>; readonly ended: ReadonlyArray<EndedRow>; readonly pending: number },
    ApprovalTableError
  >
  readonly count: Effect.Effect<number, ApprovalTableError>
}

/** How many resolved requests are kept, and for how many milliseconds. */
export interface Bounds {
  readonly number: number
  readonly millis: number
}

/** Pending requests that are listed at most: the newest. */
export const maxListed = 1_000

/** Creates rows in memory. `hold` gives the epochs in which this process holds sessions, if it does not hold all. */
export const make = (
  bounds: Bounds,
  now: () => number,
  hold: ApprovalRows["hold"] = () => undefined
): ApprovalRows => {
  const rows = new Rows(bounds, now)
  return {
    isLasting: false,
    hold,
    begin: (shown, epoch, replaces) => Effect.sync(() => rows.begin(shown, epoch, replaces)),
    answer: (answers, now) => Effect.sync(() => rows.answer(answers, now)),
    take: (_, ids) => Effect.sync(() => ids.flatMap((id) => rows.take(id))),
    end: ({ end, kept }) => Effect.sync(() => rows.end(kept.summary.id, end, true)),
    settle: (epoch, ids, end) => Effect.sync(() => rows.settle(epoch, ids, end)),
    find: (ids) =>
      Effect.sync(() => {
        rows.forget()
        return new Map(ids.flatMap((id) => {
          const row = rows.row(id)
          return row === undefined ? [] : [[id, row] as const]
        }))
      }),
    details: (id) => Effect.sync(() => rows.waiting.get(id)?.details()),
    alike: (principal, tool) =>
      Effect.sync(() =>
        Array.from(rows.waiting.values())
          .filter(({ request }) => request.principal === principal && request.tool === tool)
          .map(({ kept, version }) => ({ kept, version, end: undefined }))
      ),
    list: (users) =>
      Effect.sync(() => {
        rows.forget()
        const isSeen = ({ kept }: { readonly kept: RedactedRequest.Kept }) =>
          users === undefined || users.includes(kept.summary.user)
        const open = Array.from(rows.waiting.values()).filter(isSeen)
        return {
          // after a restart, requests return in any order
          open: open.map(({ kept, version }) => ({ kept, version, end: undefined }))
            .sort((a, b) => a.kept.summary.requestedAt - b.kept.summary.requestedAt).slice(-maxListed),
          ended: Array.from(rows.over.values()).filter(isSeen).reverse(),
          pending: open.length
        }
      }),
    count: Effect.sync(() => rows.waiting.size)
  }
}

/** A pending request with its approvals so far. */
interface Open extends RedactedRequest.RedactedRequest {
  readonly version: number
}

class Rows {
  private readonly bounds: Bounds
  private readonly now: () => number
  // oldest first
  readonly waiting = new Map<string, Open>()
  readonly over = new Map<string, EndedRow & { isTaken: boolean; readonly version: number }>()
  /** In which epoch a request was made last, where sessions are held one by one. */
  private readonly epochs = new Map<string, Epoch>()

  constructor(bounds: Bounds, now: () => number) {
    this.bounds = bounds
    this.now = now
  }

  row(id: string): Row | undefined {
    const open = this.waiting.get(id)
    return open === undefined ? this.over.get(id) : { ...open, end: undefined }
  }

  begin(shown: RedactedRequest.RedactedRequest, epoch: Epoch | undefined, replaces: string | undefined): Begun {
    const { id } = shown.request
    this.forget()
    const row = this.row(id)
    const isKnown = row !== undefined && row.kept.summary.hash !== replaces
    if (epoch !== undefined && (!isKnown || row.end === undefined)) this.epochs.set(id, epoch)
    if (isKnown) {
      this.take(id)
      return { _tag: "Known", row }
    }
    this.over.delete(id)
    this.waiting.set(id, { ...shown, version: 0 })
    return { _tag: "Pending" }
  }

  answer(answers: ReadonlyArray<Answering>, now: number): ReadonlySet<string> {
    const isOpen = ({ isCovered, kept: { summary }, version }: Answering) => {
      const open = this.waiting.get(summary.id)
      if (open === undefined || !(isCovered || open.version === version)) return false
      const { expiresAt, hash } = open.kept.summary
      return hash === summary.hash && (expiresAt === "unlimited" || expiresAt > now)
    }
    if (!answers.every((it) => it.isCovered || isOpen(it))) return new Set()
    const changed = answers.filter((it) =>
      isOpen(it) && (it.end === undefined ? this.approve(it.kept) : this.end(it.kept.summary.id, it.end, false))
    )
    return new Set(changed.map(({ kept }) => kept.summary.id))
  }

  approve(kept: RedactedRequest.Kept): boolean {
    const open = this.waiting.get(kept.summary.id)
    if (open === undefined) return false
    this.waiting.set(kept.summary.id, { ...open, kept, version: open.version + 1 })
    return true
  }

  end(id: string, end: End, isTaken: boolean): boolean {
    const open = this.waiting.get(id)
    if (open === undefined) return false
    this.waiting.delete(id)
    this.epochs.delete(id)
    this.over.set(id, { kept: open.kept, version: open.version, end, isTaken })
    return true
  }

  take(id: string): ReadonlyArray<{ readonly id: string; readonly end: End }> {
    const row = this.over.get(id)
    if (row === undefined) return []
    row.isTaken = true
    return [{ id, end: row.end }]
  }

  settle(epoch: Epoch | undefined, ids: ReadonlyArray<string>, end: End) {
    const left = Array.from(this.waiting.values()).filter(({ request }) =>
      request.principal === epoch?.principal && this.epochs.get(request.id) !== epoch
    )
    for (const { request } of left) this.end(request.id, end, true)
    return {
      pending: ids.filter((id) => this.waiting.has(id)).length,
      withdrawn: left.map(({ kept }) => ({ kept, end }))
    }
  }

  /** Evicts resolved requests that are too old or too many, but no answer that its call has not seen. */
  forget(): void {
    const oldest = this.now() - this.bounds.millis
    for (const [id, { end, isTaken }] of this.over) {
      if (this.over.size <= this.bounds.number && end.at > oldest) return
      if (isTaken) this.over.delete(id)
    }
  }
}
