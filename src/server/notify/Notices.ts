/**
 * When somebody is notified of a pending approval request, and by which process.
 *
 * Where several processes share the requests (`ApprovalTable`), one of them notifies of each: the one that made it, or
 * another one if that stops first.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../core/gates/Approvals.ts"
import { ApprovalTable, type ApprovalTableError, type Untold } from "../../core/store/ApprovalTable.ts"
import * as WhoApproves from "../../core/vocabulary/WhoApproves.ts"
import * as StoredApproval from "../approvals/StoredApproval.ts"
import * as Principals from "../users/Principals.ts"
import type * as AnswerLinks from "./AnswerLinks.ts"
import type * as NoticeTemplates from "./NoticeTemplates.ts"

/** A notice, and when it was due. */
export interface Due {
  readonly notice: Omit<NoticeTemplates.Notice, "at" | "kind" | "links" | "url">
  readonly about: AnswerLinks.About
  readonly at: number
  readonly why: NoticeTemplates.Notice["kind"]
  /** The time of the next notice of the request, if there is one. */
  readonly next: number | undefined
}

type About = Pick<Approvals.ApprovalRequest, "approvals" | "approvers" | "expiresAt" | "id" | "requestedAt" | "tool">

const noticeOf = ({ principal, ...about }: About & { readonly principal: string }, now: number): Due =>
  dueOf(about, Principals.fromPrincipal(principal), principal, now, now)

/** The notice of a request that is due now, where nobody was notified since. */
const dueOf = (
  { approvals = [], approvers, expiresAt, id, requestedAt, tool }: About,
  owner: Principals.Owner,
  principal: string,
  now: number,
  since: number
): Due => {
  const notice = { id, ...owner, tool, requestedAt, expiresAt }
  const about = { id, user: owner.user, requestedAt, expiresAt, approvals, approvers }
  if (approvers === undefined) return { notice, about, at: requestedAt, why: "asked", next: undefined }
  const last = WhoApproves.lastNotice(approvers, requestedAt, now, since)
  const who = WhoApproves.sentence(approvers, approvals, { principal, requestedAt })
  return {
    notice: { ...notice, who },
    about,
    at: last?.at ?? requestedAt,
    why: last === undefined ? "asked" : last.why === "Escalated" ? "escalated" : "reminded",
    next: WhoApproves.nextNotice(approvers, requestedAt, now)?.at
  }
}

/** Notifies of one request; it does not fail. */
export type Send = (due: Due) => Effect.Effect<void>

/** Notifies of each request that is pending for longer than a delay, as long as the scope is open. */
export const follow = Effect.fnUntraced(
  function*(delay: number, send: Send): Effect.fn.Return<void, never, Approvals.Approvals | Scope.Scope> {
    const approvals = yield* Approvals.Approvals
    const table = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalTable))
    const open = yield* FiberMap.make<string>()
    const notify = table === undefined ? send : once(table, send)
    const asked = (request: Approvals.ApprovalRequest) =>
      FiberMap.run(
        open,
        request.id,
        Effect.andThen(Effect.sleep(delay), notify(noticeOf(request, request.requestedAt))),
        { onlyIfMissing: true }
      )
    // one that is still on its way is enough
    const again = (request: Approvals.ApprovalRequest) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => FiberMap.run(open, request.id, notify(noticeOf(request, now)), { onlyIfMissing: true })
      )
    const follow = Stream.runForEach(
      approvals.changes,
      (change): Effect.Effect<unknown> =>
        change._tag === "Requested"
          ? asked(change.request)
          : change._tag === "Approved"
          ? Effect.void
          : change._tag !== "Ended"
          ? again(change.request)
          // one that is suspended is still pending
          : change.how._tag === "Suspended"
          ? Effect.void
          : FiberMap.remove(open, change.id)
    )
    yield* Effect.forkScoped(follow, { startImmediately: true })
    if (table !== undefined) {
      const left = Effect.flatMap(
        leftOver(table, delay),
        (all) =>
          Effect.forEach(
            all,
            (it) => FiberMap.run(open, it.notice.id, told(table, send)(it), { onlyIfMissing: true })
          )
      )
      yield* Effect.forkScoped(Effect.repeat(left, Schedule.jittered(Schedule.spaced(leftOverMillis))))
    }
    yield* Effect.forEach(yield* approvals.list, asked, { discard: true })
  }
)

/** Milliseconds after which another process notifies of a request, and between two looks. */
const leftOverMillis = 15_000

/** Milliseconds that a process has to notify of a request: more than all of its retries take. */
const claimMillis = 300_000

/** Requests that a process takes over at once. */
const takenAtOnce = 100

/** Notifies unless another process does, or somebody was notified of the same, or of something later. */
const once = (table: ApprovalTable["Service"], send: Send): Send => (due) =>
  Effect.flatMap(
    claimed(table, [due.notice.id], due.at),
    (all) => all.length === 0 ? Effect.void : told(table, send)(due)
  )

/** Notifies, so that no other process does before the next time. */
const told = (table: ApprovalTable["Service"], send: Send): Send => (due) =>
  Effect.andThen(send(due), Effect.catch(table.told(due.notice.id, due.next), warned))

/** Requests of which the process that made them did not notify. */
const leftOver = (table: ApprovalTable["Service"], delay: number): Effect.Effect<ReadonlyArray<Due>> =>
  Effect.flatMap(
    Clock.currentTimeMillis,
    (now) =>
      Effect.map(claimed(table, undefined, now - delay - leftOverMillis), (all) =>
        all.flatMap(({ approvals, request, since, ...columns }) => {
          const read = StoredApproval.readRequest(request, columns)
          if (Result.isFailure(read)) {
            return []
          }
          const { principal, summary } = read.success
          const { session, user } = summary
          const given = approvals === undefined ? Result.succeed([]) : StoredApproval.readApprovals(approvals)
          const about = Result.isFailure(given) ? summary : { ...summary, approvals: given.success }
          return [dueOf(about, { user, session }, principal, now, since)]
        }))
  )

const claimed = (
  table: ApprovalTable["Service"],
  ids: ReadonlyArray<string> | undefined,
  before: number
): Effect.Effect<ReadonlyArray<Untold>> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.catch(
      table.untold({ ids, before, until: now + claimMillis, limit: takenAtOnce }),
      (error) => Effect.as(warned(error), [])
    ))

const warned = (error: ApprovalTableError): Effect.Effect<void> => Effect.logWarning(error.message, error)

/** Concurrent requests: a wave may have a thousand approval requests. */
export const atOnce = 8

/** Timeout of a request. */
export const patience = "10 seconds"

/** Retries after 1, 4, 16 and 64 seconds. */
export const retries = Schedule.exponential("1 second", 4).pipe(Schedule.upTo({ times: 4 }))

/** Milliseconds between log entries about an unreachable receiver. */
const quietMillis = 600_000

/** Why a request failed; it is not retried if `isForGood`. */
export interface NotTaken {
  readonly problem: string
  readonly isForGood: boolean
}

/** Logs a message at most once per interval, with the number of omissions. */
export const rarely = (clock: Clock.Clock, say: (problem: string, others: number) => Effect.Effect<void>) => {
  let said = -Infinity
  let others = 0
  return (problem: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const now = clock.currentTimeMillisUnsafe()
      if (now - said < quietMillis) {
        others++
        return Effect.void
      }
      const before = others
      said = now
      others = 0
      return say(problem, before)
    })
}
