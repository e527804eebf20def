/**
 * The approval requests that calls of this process wait for.
 *
 * A request waits once its row is written. It is resolved by what its row says: an answer that is taken, or an end that
 * this process writes because the request expired or its call no longer waits. While the row cannot be written, the call
 * waits for that: a store that does not answer decides nothing.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as Schema from "effect/Schema"
import type * as Approvals from "../../core/gates/Approvals.ts"
import type { ApprovalTableError } from "../../core/store/ApprovalTable.ts"
import type { Epoch } from "../../core/store/SessionRegistry.ts"
import type { GivenApproval } from "../../core/vocabulary/Approvers.ts"
import { endOf } from "./ApprovalAnswers.ts"
import type { ApprovalRows, Begun, EndedRow, Row } from "./ApprovalRows.ts"
import type { Kept, RedactedRequest } from "./RedactedRequest.ts"

/** What is around the requests. */
export interface Around {
  readonly rows: ApprovalRows
  readonly recorded: Approvals.Recorded
  readonly now: () => number
  readonly run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  /** Reports a request that became pending. */
  readonly requested: (kept: Kept) => void
  /** Reports requests that ended. */
  readonly resolved: (ended: ReadonlyArray<EndedRow>) => void
}

/** What is suspended of a session. */
export interface Suspended {
  /** Number of pending requests. */
  readonly pending: number
  /** Earliest time at which one of them expires (epoch milliseconds). */
  readonly until: number | undefined
  /**
   * Whether all of them can be answered. `false`: a request was answered meanwhile or its row is missing, so the
   * session has to continue immediately.
   */
  readonly isStored: boolean
}

/** A request of a call, from its submission until the call no longer waits. */
interface Visit {
  shown: RedactedRequest
  /** The epoch in which this process held the session then. */
  readonly epoch: Epoch | undefined
  /** Ends the submission while its row is being written; `undefined`: the row is written in one step. */
  leave: ((arrived: Arrived) => void) | undefined
  /** Completes with whether the row is written. */
  readonly written: Deferred.Deferred<boolean>
  /** The row could not be written, and is tried again. */
  isRepeated: boolean
  /** The session leaves, so the row is not tried again. */
  isLeaving: boolean
  /** The call waits. */
  isWaiting: boolean
  /** Answers of the session were taken before the call waited. */
  isStale: boolean
}

type Arrived =
  | { readonly _tag: "Pending"; readonly shown: RedactedRequest }
  | { readonly _tag: "Ended"; readonly resolution: Approvals.Resolution }

export class WaitingRequests {
  private readonly around: Around
  private readonly sessions = new Map<string, Map<string, Visit>>()
  private over: string | undefined

  constructor(around: Around) {
    this.around = around
  }

  /** A request that a call of this process waits for. */
  find(principal: string, id: string): RedactedRequest | undefined {
    return this.visit(principal, id)?.shown
  }

  get size(): number {
    let size = 0
    for (const visits of this.sessions.values()) size += visits.size
    return size
  }

  byId(id: string): RedactedRequest | undefined {
    return this.visitOf(id)?.shown
  }

  /** Makes a request pending and waits for its resolution. Interruption withdraws it. */
  submit(
    shown: RedactedRequest,
    told: ((resolution: Approvals.Resolution) => Effect.Effect<void>) | undefined,
    heard?: ((approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>) | undefined
  ): Effect.Effect<Approvals.Resolution> {
    return Effect.suspend(() => {
      const { request } = shown
      const { recorded, rows } = this.around
      if (this.over !== undefined) return Effect.succeed(suspended(this.over))
      const visit = this.enter(shown)
      if (visit === undefined) return Effect.die(new Error(`request ${request.id} is already pending`))
      return (rows.isLasting ? this.arrive(visit) : this.begin(visit)).pipe(
        Effect.flatMap((arrived) => {
          if (arrived._tag === "Pending") {
            visit.shown = arrived.shown
            const { kept: { summary: { approvals } } } = arrived.shown
            if (approvals === undefined) return recorded.approvals.submit(request, told, heard)
            void heard?.(approvals)
            return recorded.approvals.submit({ ...request, approvals }, told, heard)
          }
          this.forget(visit)
          void told?.(arrived.resolution)
          return Effect.as(Effect.yieldNow, arrived.resolution)
        }),
        Effect.onExit((exit) => Effect.sync(() => this.left(visit, Exit.isSuccess(exit) ? exit.value : undefined)))
      )
    })
  }

  /** The call of a request waits. Returns a callback for its end. */
  readonly began = (request: Approvals.ApprovalRequest): (how: Approvals.Ending) => void => {
    const visit = this.sessions.get(request.principal)!.get(request.id)!
    visit.isWaiting = true
    if (visit.isStale) this.around.run(Effect.catch(Effect.asVoid(this.refresh(request.principal)), failed))
    return (how) => this.ended(visit, how)
  }

  /** Ends a request whose deadline has passed, unless it was answered before. */
  readonly expire = ({ id, principal }: Approvals.ApprovalRequest): void => {
    const visit = this.visit(principal, id)
    if (visit === undefined) return
    const expired = { _tag: "Denied", by: "timeout" } as const
    this.around.run(Effect.flatMap(this.end(visit, expired), (isOurs) =>
      isOurs
        ? Effect.sync(() => void this.around.recorded.end(id, expired))
        : Effect.andThen(
          Effect.catch(Effect.asVoid(this.refresh(principal)), failed),
          // no answer either: the session belongs to another process
          Effect.sync(() => void this.around.recorded.end(id, lost))
        )))
  }

  /** Takes the answers of a session and resolves the calls that wait for them. Gives what ends once that is on record. */
  refresh(principal: string): Effect.Effect<ReadonlyArray<Effect.Effect<void>>, ApprovalTableError> {
    return Effect.suspend(() => {
      const { rows } = this.around
      const epoch = rows.hold(principal)
      const ids: Array<string> = []
      for (const [id, visit] of this.sessions.get(principal) ?? []) {
        if (!visit.isWaiting) visit.isStale = true
        else if (visit.epoch === epoch) ids.push(id)
      }
      if (ids.length === 0) return Effect.succeed([])
      return Effect.flatMap(rows.take(epoch, ids), (taken) => {
        const ended = taken.flatMap(({ end, id }) => {
          const shown = this.find(principal, id)
          return shown === undefined ? [] : [this.around.recorded.end(id, resolutionOf(shown, end.ending))]
        })
        return Effect.map(this.hear(principal, ids), (heard) => [...ended, ...heard])
      })
    })
  }

  /** Takes the approvals of requests that need several. */
  private hear(
    principal: string,
    ids: ReadonlyArray<string>
  ): Effect.Effect<ReadonlyArray<Effect.Effect<void>>, ApprovalTableError> {
    const { recorded, rows } = this.around
    const several = ids.filter((id) => this.find(principal, id)?.request.approvers !== undefined)
    if (several.length === 0) return Effect.succeed([])
    return Effect.map(
      rows.find(several),
      (found) =>
        Array.from(found).flatMap(([id, { end, kept: { summary: { approvals } } }]) =>
          end === undefined && approvals !== undefined ? [recorded.approved(id, approvals)] : []
        )
    )
  }

  /** Denies a request because no approver can be reached. */
  giveUp(id: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const visit = this.visitOf(id)
      if (visit === undefined) return Effect.void
      const ending = { _tag: "Denied", by: "noApprover", reason: visit.shown.request.why } as const
      return Effect.map(this.end(visit, ending), (isOurs) => {
        if (isOurs) void this.around.recorded.end(id, ending)
      })
    })
  }

  /** Suspends the pending requests of a session, and those that are on their way. */
  suspendOf(principal: string, reason: string): Effect.Effect<Suspended> {
    return Effect.flatMap(this.allWritten(principal), (areWritten) => {
      const { now, resolved, rows } = this.around
      const epoch = rows.hold(principal)
      const visits = Array.from(this.sessions.get(principal) ?? []).filter(([, visit]) => visit.epoch === epoch)
      const ids = visits.map(([id]) => id)
      const ends = visits.flatMap(([, { shown: { request: { expiresAt } } }]) =>
        expiresAt === "unlimited" ? [] : [expiresAt]
      )
      const all = { pending: ids.length, until: ends.length === 0 ? undefined : Math.min(...ends) }
      for (const [id, visit] of visits) this.dismiss(id, visit, suspended(reason))
      const written = rows.isLasting
        ? Effect.forEach(visits, ([, { written }]) => Deferred.await(written), { discard: true })
        : Effect.void
      return written.pipe(
        Effect.andThen(Effect.suspend(() => rows.settle(epoch, ids, { at: now(), ending: { _tag: "Withdrawn" } }))),
        Effect.map(({ pending, withdrawn }) => {
          resolved(withdrawn)
          return { ...all, isStored: areWritten && pending === ids.length }
        }),
        Effect.catch((error) => Effect.as(failed(error), { ...all, isStored: false }))
      )
    })
  }

  /** Suspends pending and later requests of all sessions. */
  suspend(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.over = reason
      for (const visits of Array.from(this.sessions.values())) {
        for (const visit of Array.from(visits.values())) {
          visit.leave?.({ _tag: "Ended", resolution: suspended(reason) })
        }
      }
      return this.around.recorded.suspend(reason)
    })
  }

  private visit(principal: string, id: string): Visit | undefined {
    const visit = this.sessions.get(principal)?.get(id)
    return visit?.isWaiting === true ? visit : undefined
  }

  private visitOf(id: string): Visit | undefined {
    for (const principal of this.sessions.keys()) {
      const visit = this.visit(principal, id)
      if (visit !== undefined) return visit
    }
    return undefined
  }

  private enter(shown: RedactedRequest): Visit | undefined {
    const { id, principal } = shown.request
    const epoch = this.around.rows.hold(principal)
    const before = this.sessions.get(principal)?.get(id)
    if (before !== undefined) {
      if (before.epoch === epoch) return undefined
      // a call of an earlier epoch that has not ended yet
      this.dismiss(id, before, lost)
      this.forget(before)
    }
    const written = Deferred.makeUnsafe<boolean>()
    const visit: Visit = {
      shown,
      epoch,
      leave: undefined,
      written,
      isRepeated: false,
      isLeaving: false,
      isWaiting: false,
      isStale: false
    }
    const visits = this.sessions.get(principal) ?? new Map<string, Visit>()
    this.sessions.set(principal, visits.set(id, visit))
    return visit
  }

  /**
   * Waits for the rows of requests that are on their way: one may have an answer, with which its call continues. Gives
   * whether all of them are written.
   */
  private allWritten(principal: string): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      const arriving = Array.from(this.sessions.get(principal)?.values() ?? []).filter((it) => !it.isWaiting)
      if (!this.around.rows.isLasting || arriving.length === 0) return Effect.succeed(true)
      for (const it of arriving) it.isLeaving = true
      const written = Effect.forEach(arriving, (it) => Deferred.await(it.written))
      return Effect.map(Effect.tap(written, Effect.yieldNow), (all) => all.every((it) => it))
    })
  }

  /** Ends the wait of a call. */
  private dismiss(id: string, visit: Visit, resolution: Approvals.Resolution): void {
    if (visit.isWaiting) void this.around.recorded.end(id, resolution)
    else visit.leave?.({ _tag: "Ended", resolution })
  }

  /** Forgets a request; `false` if it was forgotten before. */
  private forget(visit: Visit): boolean {
    const { id, principal } = visit.shown.request
    if (!this.isHere(visit)) return false
    const visits = this.sessions.get(principal)!
    visits.delete(id)
    if (visits.size === 0) this.sessions.delete(principal)
    return true
  }

  private isHere(visit: Visit): boolean {
    const { id, principal } = visit.shown.request
    return this.sessions.get(principal)?.get(id) === visit
  }

  /** The wait of a call is over. */
  private ended(visit: Visit, how: Approvals.Ending): void {
    this.forget(visit)
    const { rows, run } = this.around
    if (how._tag === "Withdrawn") return this.withdraw(visit)
    // rows in memory end with the process
    const isLast = how._tag === "Suspended" ? this.over !== undefined : how._tag === "Denied" && how.by === "closed"
    if (isLast && !rows.isLasting) run(Effect.asVoid(this.end(visit, how)))
  }

  /** A submission is over whose call may never have waited. */
  private left(visit: Visit, how: Approvals.Resolution | undefined): void {
    if (this.forget(visit) && how === undefined) this.withdraw(visit)
  }

  private withdraw(visit: Visit): void {
    const { rows, run } = this.around
    const end = Effect.asVoid(this.end(visit, { _tag: "Withdrawn" }))
    run(rows.isLasting ? Effect.andThen(Deferred.await(visit.written), end) : end)
  }

  /**
   * Ends a row that is pending; `false` if it had ended. One whose deadline has passed has expired. Where the rows do not
   * answer, the end counts.
   */
  private end({ epoch, shown: { kept } }: Visit, ending: Approvals.Ending): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      const { now, resolved, rows } = this.around
      const at = now()
      const row = { kept, end: endOf({ kept, end: undefined }, at) ?? { at, ending } }
      return rows.end(row, epoch).pipe(
        Effect.tap((isOurs) => Effect.sync(() => isOurs ? resolved([row]) : undefined)),
        Effect.catch((error) => Effect.as(failed(error), true))
      )
    })
  }

  /** Writes the row in a fiber of its own: an interruption does not say whether it was written. */
  private arrive(visit: Visit): Effect.Effect<Arrived> {
    return Effect.callback((resume) => {
      visit.leave = (arrived) => resume(Effect.succeed(arrived))
      this.around.run(Effect.map(this.begin(visit), (arrived) => {
        Deferred.doneUnsafe(visit.written, Exit.succeed(arrived !== notStored))
        resume(Effect.succeed(arrived))
      }))
    })
  }

  private begin(visit: Visit): Effect.Effect<Arrived> {
    const { epoch, shown } = visit
    return this.around.rows.begin(shown, epoch, undefined).pipe(
      Effect.flatMap((begun) =>
        begun._tag === "Known" ? this.returned(visit, begun.row) : Effect.succeed(this.arrived(shown, begun))
      ),
      Effect.catch((error) => this.again(visit, error))
    )
  }

  /** The row could not be written, or may have been. Tries again, until the session leaves or the call has ended. */
  private again(visit: Visit, error: ApprovalTableError): Effect.Effect<Arrived> {
    const noted = visit.isRepeated ? Effect.void : failed(error)
    visit.isRepeated = true
    return Effect.flatMap(
      Effect.andThen(noted, Effect.sleep(pause)),
      () => visit.isLeaving || !this.isHere(visit) ? Effect.succeed(notStored) : this.begin(visit)
    )
  }

  /** A request of this id exists: it counts if approvers saw the same. */
  private returned(
    { epoch, isRepeated, shown }: Visit,
    { end, kept }: Pick<Row, "end" | "kept">
  ): Effect.Effect<Arrived, ApprovalTableError> {
    const same = shown.kept.salt === kept.salt ? shown : shown.withSalt(kept.salt)
    const isSame = same.kept.summary.hash === kept.summary.hash
    if (isSame) {
      if (end === undefined) {
        if (isRepeated) this.around.requested(kept)
        return Effect.succeed({ _tag: "Pending", shown: approvedAs(same, kept) })
      }
      if (isFinal(end.ending)) return Effect.succeed({ _tag: "Ended", resolution: resolutionOf(same, end.ending) })
    }
    // its call no longer waited, and does again: those who approved it then have seen the same
    const again = isSame ? approvedAs(shown, kept) : shown
    return Effect.map(this.around.rows.begin(again, epoch, kept.summary.hash), (begun) => this.arrived(again, begun))
  }

  private arrived(shown: RedactedRequest, begun: Begun): Arrived {
    if (begun._tag !== "Pending") return { _tag: "Ended", resolution: lost }
    this.around.requested(shown.kept)
    return { _tag: "Pending", shown }
  }
}

/** The same request, with the approvals of a row. */
const approvedAs = (shown: RedactedRequest, { summary: { approvals } }: Kept): RedactedRequest =>
  approvals === undefined
    ? shown
    : { ...shown, kept: { ...shown.kept, summary: { ...shown.kept.summary, approvals } } }

const suspended = (reason: string): Approvals.Resolution => ({ _tag: "Suspended", reason })

const lost = suspended("the session belongs to another process")

/** Milliseconds until a row that could not be written is tried again. */
const pause = 500

const notStored: Arrived = { _tag: "Ended", resolution: suspended("the approval request is not stored") }

const failed = (error: ApprovalTableError): Effect.Effect<void> => Effect.logWarning(error.message, error)

/** Whether an end still holds if its request comes again. */
const isFinal = (ending: Approvals.Ending): boolean =>
  ending._tag === "Approved" || (ending._tag === "Denied" && ending.by !== "closed")

/** What an end means for the call: rows do not have its secrets. */
const resolutionOf = ({ meant, request }: RedactedRequest, ending: Approvals.Ending): Approvals.Resolution => {
  if (ending._tag === "Withdrawn") return { _tag: "Denied", by: "closed" }
  if (ending._tag !== "Approved") return ending
  const { edited, grant, isOwn } = ending
  const whole = edited === undefined ? undefined : meant(edited.params as Schema.Json)
  if (edited !== undefined && whole === undefined) return notRestored
  const targets = isOwn && grant?.targets !== undefined ? { targets: request.targets.map(({ text }) => text) } : {}
  return { ...ending, grant: grant === undefined ? undefined : { ...grant, ...targets }, edited: whole }
}

/** The answer was checked by what the row has of the arguments. */
const notRestored: Approvals.Resolution = {
  _tag: "Denied",
  by: "user",
  reason: "the edited arguments contain a placeholder of a redacted value"
}
