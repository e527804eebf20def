/**
 * Notifies another system of pending approval requests, with a signed request that links to the page.
 *
 * Requests follow Standard Webhooks (https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp` and
 * `webhook-signature`, an HMAC-SHA256 over `id.timestamp.body`. The id is that of the approval request, so receivers
 * can drop duplicates; reminders have an id of their own. Arguments are not included; approvers see them on the page.
 *
 * Approval requests do not wait for the webhook. Redirects are not followed.
 */
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Semaphore from "effect/Semaphore"
import type * as Approvals from "../../core/gates/Approvals.ts"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { OptionReader, shown } from "../../internal/OptionReader.ts"
import * as AnswerLinks from "./AnswerLinks.ts"
import * as Notices from "./Notices.ts"
import * as NoticeTemplates from "./NoticeTemplates.ts"
import * as WebhookSecret from "./WebhookSecret.ts"
import { WebPush } from "./WebPush.ts"

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
 * links that answer as one person; with `WebPush`, devices are notified as well.
 */
export const layer = (
  options: Options
): Layer.Layer<never, ConfigurationError, Approvals.Approvals | HttpClient.HttpClient> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const target = yield* check(options)
    const links = Option.getOrUndefined(yield* Effect.serviceOption(AnswerLinks.AnswerLinks))
    const send = yield* sender(target, links)
    // one claim of a request is for all who are notified of it
    const push = Option.getOrUndefined(yield* Effect.serviceOption(WebPush))
    yield* Notices.follow(
      target.delay,
      push === undefined ? send : (due) => Effect.all([send(due), push.send(due)], { concurrency: 2, discard: true })
    )
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

const sender = Effect.fnUntraced(function*(
  { format, key, publicUrl, url }: Target,
  links: AnswerLinks.AnswerLinks["Service"] | undefined
) {
  const client = HttpClient.withScope(yield* HttpClient.HttpClient)
  const clock = yield* Clock.Clock
  const places = yield* Semaphore.make(Notices.atOnce)
  // addresses of chat services are secrets, too
  const warn = Notices.rarely(clock, (problem, others) =>
    Effect.logWarning(
      `The webhook at ${url.host} does not accept notifications: ${problem}` +
        (others === 0 ? "" : ` (and ${others} more since the last warning)`)
    ))
  const post = Effect.fnUntraced(function*(id: string, body: string): Effect.fn.Return<void, Notices.NotTaken> {
    const seconds = Math.floor(clock.currentTimeMillisUnsafe() / 1_000)
    const request = HttpClientRequest.post(url).pipe(
      HttpClientRequest.setHeaders(sign(key, { id, seconds, body })),
      HttpClientRequest.bodyText(body, "application/json")
    )
    // only the status matters: closing the scope drops the rest of the response
    const status = yield* Effect.scoped(Effect.map(client.execute(request), (it) => it.status)).pipe(
      Effect.mapError(({ reason }): Notices.NotTaken => ({ problem: reason._tag, isForGood: false })),
      Effect.timeoutOrElse({
        duration: Notices.patience,
        orElse: () => Effect.fail<Notices.NotTaken>({ problem: "it did not answer in time", isForGood: false })
      })
    )
    if (status >= 200 && status < 300) return
    const isForGood = status < 500 && status !== 408 && status !== 429
    return yield* Effect.fail<Notices.NotTaken>({ problem: `it answered ${status}`, isForGood })
  })
  return ({ about, at, notice, why: kind }: Notices.Due): Effect.Effect<void> => {
    const { id, requestedAt } = notice
    const pageUrl = `${publicUrl}/#/approvals/${encodeURIComponent(id)}`
    // the same in every process that notifies of it
    const message = at === requestedAt ? id : `${id}.${at - requestedAt}`
    // made when it is sent: the rights of people may have changed
    const some = links === undefined ? Effect.succeed({}) : Effect.map(links.of(about), (links) => ({ links }))
    return places.withPermits(1)(Effect.flatMap(some, (some) =>
      Effect.retry(
        post(message, JSON.stringify(NoticeTemplates.bodies[format]({ ...notice, ...some, kind, at, url: pageUrl }))),
        { schedule: Notices.retries, while: ({ isForGood }) => !isForGood }
      ))).pipe(
        Effect.catch(({ problem }) => warn(problem)),
        Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
        // the receiver gets no trace headers
        Effect.provideService(HttpClient.TracerPropagationEnabled, false)
      )
  }
})
