/**
 * Notifies another system of pending approval requests, with a signed request that links to the page.
 *
 * Requests follow Standard Webhooks (https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp` and
 * `webhook-signature`, an HMAC-SHA256 over `id.timestamp.body`. The id is that of the approval request, so receivers
 * can drop duplicates; reminders have an id of their own. Arguments are not included; approvers see them on the page.
 *
 * Approval requests do not wait for the webhook. Redirects are not followed.
 *
 * Where several processes share the requests (`ApprovalTable`), one of them notifies of each: the one that made it, or
 * another one if that stops first.
 */
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as FiberMap from "effect/FiberMap"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Approvals from "../core/gates/Approvals.ts"
import { type ApprovalRow, ApprovalTable, type ApprovalTableError } from "../core/store/ApprovalTable.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as WhoApproves from "../core/vocabulary/WhoApproves.ts"
import { OptionReader, shown } from "../internal/OptionReader.ts"
import * as AnswerLinks from "./AnswerLinks.ts"
import * as NoticeTemplates from "./NoticeTemplates.ts"
import * as Principals from "./Principals.ts"
import * as StoredApproval from "./StoredApproval.ts"
import * as WebhookSecret from "./WebhookSecret.ts"

/** Options of the webhook. */
export interface Options {
  /** Address of the receiver: `https`, or `http` in a private network. */
  readonly url: string
  /** Signing key: `whsec_` and 24 to 64 bytes as base64. */
  readonly secret: Redacted.Redacted<string>
  /** Address of the page, for the link. */
  readonly publicUrl: string
  /** Delay before the notification; requests answered earlier are not reported. Default: none. */
  readonly delay?: Duration.Input | undefined
  /**
   * What is sent: the JSON of Standard Webhooks, a message for an incoming webhook of Slack or for Workflows of Teams, or
   * subject, text and HTML of an e-mail. Default `standard`.
   */
  readonly format?: Format | undefined
}

/** What is sent. */
export type Format = "standard" | "slack" | "teams" | "email"

/**
 * Layer that reports each approval request made through the `Approvals` in the context. With `AnswerLinks`, reports have
 * links that answer as one person.
 */
export const layer = (
  options: Options
): Layer.Layer<never, ConfigurationError, Approvals.Approvals | HttpClient.HttpClient> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const target = yield* check(options)
    const approvals = yield* Approvals.Approvals
    const links = Option.getOrUndefined(yield* Effect.serviceOption(AnswerLinks.AnswerLinks))
    const send = yield* sender(target, links)
    const table = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalTable))
    const open = yield* FiberMap.make<string>()
    const notify = table === undefined ? send : once(table, send)
    const asked = (request: Approvals.ApprovalRequest) =>
      FiberMap.run(
        open,
        request.id,
        Effect.andThen(Effect.sleep(target.delay), notify(noticeOf(request, request.requestedAt))),
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
        leftOver(table, target.delay),
        (all) =>
          Effect.forEach(
            all,
            (it) => FiberMap.run(open, it.notice.id, told(table, send)(it), { onlyIfMissing: true })
          )
      )
      yield* Effect.forkScoped(Effect.repeat(left, Schedule.jittered(Schedule.spaced(leftOverMillis))))
    }
    yield* Effect.forEach(yield* approvals.list, asked, { discard: true })
  }))

/** The headers of a message: its id, time and signature. */
export const sign = (
  key: Uint8Array,
  message: { readonly id: string; readonly seconds: number; readonly body: string }
): Readonly<Record<string, string>> => {
  const signed = new TextEncoder().encode(`${message.id}.${message.seconds}.${message.body}`)
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(message.seconds),
    "webhook-signature": `v1,${Base64.encode(hmac(sha256, key, signed))}`
  }
}

interface Target {
  readonly url: URL
  readonly key: Uint8Array
  readonly publicUrl: string
  readonly delay: number
  readonly format: Format
}

/** A notice, and when it was due. */
interface Due {
  readonly notice: Omit<NoticeTemplates.Notice, "at" | "kind" | "links" | "url">
  readonly about: AnswerLinks.About
  readonly at: number
  readonly why: NoticeTemplates.Notice["kind"]
  /** The time of the next notice of the request, if there is one. */
  readonly next: number | undefined
}

type About = Pick<Approvals.ApprovalRequest, "approvals" | "approvers" | "expiresAt" | "id" | "requestedAt" | "tool">

const noticeOf = ({ principal, ...about }: About & { readonly principal: string }, now: number): Due =>
  dueOf(about, Principals.fromPrincipal(principal), principal, now)

/** The notice of a request that is due now. */
const dueOf = (
  { approvals = [], approvers, expiresAt, id, requestedAt, tool }: About,
  owner: Principals.Owner,
  principal: string,
  now: number
): Due => {
  const notice = { id, ...owner, tool, requestedAt, expiresAt }
  const about = { id, user: owner.user, requestedAt, expiresAt, approvals, approvers }
  if (approvers === undefined) return { notice, about, at: requestedAt, why: "asked", next: undefined }
  const last = WhoApproves.lastNotice(approvers, requestedAt, now)
  const who = WhoApproves.sentence(approvers, approvals, { principal, requestedAt })
  return {
    notice: { ...notice, who },
    about,
    at: last?.at ?? requestedAt,
    why: last === undefined ? "asked" : last.why === "Escalated" ? "escalated" : "reminded",
    next: WhoApproves.nextNotice(approvers, requestedAt, now)?.at
  }
}

type Send = (due: Due) => Effect.Effect<void>

/** Milliseconds after which another process notifies of a request, and between two looks. */
const leftOverMillis = 15_000

/** Milliseconds that a process has to notify of a request: more than all of its retries take. */
const claimMillis = 300_000

/** Requests that a process takes over at once. */
const takenAtOnce = 100

/** Notifies unless another process does. */
const once = (table: ApprovalTable["Service"], send: Send): Send => (due) =>
  Effect.flatMap(
    claimed(table, [due.notice.id], 0),
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
      Effect.map(claimed(table, undefined, delay + leftOverMillis), (all) =>
        all.flatMap(({ approvals, request }) => {
          const read = StoredApproval.readRequest(request)
          if (Result.isFailure(read)) return []
          const { principal, summary } = read.success
          const { session, user } = summary
          const given = approvals === undefined ? Result.succeed([]) : StoredApproval.readApprovals(approvals)
          const about = Result.isFailure(given) ? summary : { ...summary, approvals: given.success }
          return [dueOf(about, { user, session }, principal, now)]
        }))
  )

const claimed = (
  table: ApprovalTable["Service"],
  ids: ReadonlyArray<string> | undefined,
  age: number
): Effect.Effect<ReadonlyArray<ApprovalRow>> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.catch(
      table.untold({ ids, before: now - age, until: now + claimMillis, limit: takenAtOnce }),
      (error) => Effect.as(warned(error), [])
    ))

const warned = (error: ApprovalTableError): Effect.Effect<void> => Effect.logWarning(error.message, error)

/** Concurrent requests: a wave may have a thousand approval requests. */
const atOnce = 8

/** Timeout of a request. */
const patience = "10 seconds"

/** Retries after 1, 4, 16 and 64 seconds. */
const retries = Schedule.exponential("1 second", 4).pipe(Schedule.upTo({ times: 4 }))

/** Milliseconds between log entries about an unreachable receiver. */
const quietMillis = 600_000

const check = (options: Options): Effect.Effect<Target, ConfigurationError> =>
  Effect.suspend(() => {
    const problems: Array<Problem> = []
    const urlOf = (path: "url" | "publicUrl"): URL => {
      const url = WebhookSecret.addressOf(options[path])
      if (url !== undefined) return url
      problems.push({
        path,
        problem: "it is not a valid address",
        expected: "an http or https URL without a user or password"
      })
      return new URL("http://localhost")
    }
    const url = urlOf("url")
    const publicUrl = urlOf("publicUrl")
    const key = WebhookSecret.keyOf(options.secret)
    if (key === undefined) problems.push(WebhookSecret.problem)
    const { format = "standard" } = options
    if (!Object.hasOwn(NoticeTemplates.bodies, format)) {
      problems.push({
        path: "format",
        problem: `it is ${shown(format)}`,
        expected: `one of ${Object.keys(NoticeTemplates.bodies).join(", ")}`
      })
    }
    const reader = new OptionReader()
    const delay = reader.millis("delay", options.delay ?? 0, true)
    problems.push(...reader.problems)
    return problems.length > 0
      ? Effect.fail(new ConfigurationError({ subject: "Webhook", problems }))
      : Effect.succeed({ url, key: key!, publicUrl: WebhookSecret.baseOf(publicUrl), delay, format })
  })

/** Why a request failed; it is not retried if `isForGood`. */
interface NotTaken {
  readonly problem: string
  readonly isForGood: boolean
}

const sender = Effect.fnUntraced(function*(
  { format, key, publicUrl, url }: Target,
  links: AnswerLinks.AnswerLinks["Service"] | undefined
) {
  const client = HttpClient.withScope(yield* HttpClient.HttpClient)
  const clock = yield* Clock.Clock
  const places = yield* Semaphore.make(atOnce)
  // addresses of chat services are secrets, too
  const warn = rarely(clock, (problem, others) =>
    Effect.logWarning(
      `The webhook at ${url.host} does not accept notifications: ${problem}` +
        (others === 0 ? "" : ` (and ${others} more since the last warning)`)
    ))
  const post = Effect.fnUntraced(function*(id: string, body: string): Effect.fn.Return<void, NotTaken> {
    const seconds = Math.floor(clock.currentTimeMillisUnsafe() / 1_000)
    const request = HttpClientRequest.post(url).pipe(
      HttpClientRequest.setHeaders(sign(key, { id, seconds, body })),
      HttpClientRequest.bodyText(body, "application/json")
    )
    // only the status matters: closing the scope drops the rest of the response
    const status = yield* Effect.scoped(Effect.map(client.execute(request), (it) => it.status)).pipe(
      Effect.mapError(({ reason }): NotTaken => ({ problem: reason._tag, isForGood: false })),
      Effect.timeoutOrElse({
        duration: patience,
        orElse: () => Effect.fail<NotTaken>({ problem: "it did not answer in time", isForGood: false })
      })
    )
    if (status >= 200 && status < 300) return
    const isForGood = status < 500 && status !== 408 && status !== 429
    return yield* Effect.fail<NotTaken>({ problem: `it answered ${status}`, isForGood })
  })
  return ({ about, at, notice, why: kind }: Due): Effect.Effect<void> => {
    const { id, requestedAt } = notice
    const pageUrl = `${publicUrl}/#/approvals/${encodeURIComponent(id)}`
    // the same in every process that notifies of it
    const message = at === requestedAt ? id : `${id}.${at - requestedAt}`
    // made when it is sent: the rights of people may have changed
    const some = links === undefined ? Effect.succeed({}) : Effect.map(links.of(about), (links) => ({ links }))
    return places.withPermits(1)(Effect.flatMap(some, (some) =>
      Effect.retry(
        post(message, JSON.stringify(NoticeTemplates.bodies[format]({ ...notice, ...some, kind, at, url: pageUrl }))),
        { schedule: retries, while: ({ isForGood }) => !isForGood }
      ))).pipe(
        Effect.catch(({ problem }) => warn(problem)),
        Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
        // the receiver gets no trace headers
        Effect.provideService(HttpClient.TracerPropagationEnabled, false)
      )
  }
})

/** Logs a message at most once per interval, with the number of omissions. */
const rarely = (clock: Clock.Clock, say: (problem: string, others: number) => Effect.Effect<void>) => {
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
