/**
 * Notifies users on their devices (Web Push, RFC 8030) of the approval requests that they may approve.
 *
 * A message is encrypted for its device (RFC 8291) and signed with the keys of the server (VAPID, RFC 8292). It names
 * the tool and the user, and links to the request; arguments are not included. Rights are checked when it is sent: who
 * was removed, or may no longer approve, is not notified.
 *
 * Needs the package `web-push`.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import { createECDH, ECDH } from "node:crypto"
import type * as Approvals from "../../core/gates/Approvals.ts"
import * as PushTable from "../../core/store/PushTable.ts"
import { ConfigurationError, type Problem, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import { clip } from "../../internal/clip.ts"
import { shown } from "../../internal/OptionReader.ts"
import * as HttpExchange from "../../tools/fetch/HttpExchange.ts"
import * as PublicAddress from "../../tools/fetch/PublicAddress.ts"
import { Access, type AccessError } from "../users/Access.ts"
import { isAsked } from "./AnswerLinks.ts"
import * as Notices from "./Notices.ts"
import * as PushPost from "./PushPost.ts"
import * as WebhookSecret from "./WebhookSecret.ts"

/** A subscription of a browser. */
export interface Subscription {
  readonly endpoint: string
  readonly keys: { readonly p256dh: string; readonly auth: string }
}

/** The notifications of devices. `Server.layer` and `Webhook.layer` use them if they are provided. */
export class WebPush extends Context.Service<WebPush, {
  /** The key that browsers subscribe with, as base64url. */
  readonly publicKey: string
  /** Adds a device of a user: at most 10, and one more forgets the oldest. Fails with what is wrong with it. */
  readonly subscribe: (user: string, subscription: Subscription) => Effect.Effect<
    void,
    ReadonlyArray<Problem> | PushTable.PushTableError
  >
  /** Forgets a device of a user. */
  readonly unsubscribe: (user: string, endpoint: string) => Effect.Effect<void, PushTable.PushTableError>
  /** Notifies those who may approve a request. */
  readonly send: Notices.Send
}>()("effect-tool-executor/server/WebPush") {}

/** Options of the notifications. */
export interface Options {
  /** Whom push services may turn to: `mailto:` and an address, or an `https` URL. */
  readonly subject: string
  /** The public key of `tool-executor push-keys`. With other keys, all devices have to subscribe again. */
  readonly publicKey: string
  /** The private key of `tool-executor push-keys`. */
  readonly privateKey: Redacted.Redacted<string>
  /** Address of the page, which a notification opens. */
  readonly publicUrl: string
  /** Hosts and addresses of push services in private networks. Default: none. */
  readonly allowPrivate?: ReadonlyArray<string> | undefined
  /** Certificates of the authorities that push services are trusted by, as PEM. Default: those of Node. */
  readonly authorities?: string | undefined
}

/**
 * Layer of the notifications. It needs an `Access` that finds users by name, and keeps devices in the `PushTable` if one
 * is provided, otherwise in memory.
 */
export const layer = (options: Options): Layer.Layer<WebPush, ConfigurationError, Access> =>
  Layer.effect(WebPush, make(options))

/** Layer that notifies devices of each approval request, where no `Webhook.layer` does. */
export const layerNotices = (
  options?: {
    /** Delay before the notification; requests answered earlier are not reported. Default: none. */
    readonly delay?: Duration.Input | undefined
  }
): Layer.Layer<never, ConfigurationError, Approvals.Approvals | WebPush> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { delay } = yield* readOptions("WebPush", (read) => ({
      delay: read.millis("delay", options?.delay ?? 0, true)
    }))
    yield* Notices.follow(delay, (yield* WebPush).send)
  }))

/** Makes a pair of keys. */
export const makeKeys: Effect.Effect<{ readonly publicKey: string; readonly privateKey: Redacted.Redacted<string> }> =
  Effect.sync(() => {
    const pair = createECDH(curve)
    const publicKey = pair.generateKeys("base64url")
    // leading zeros are not in the text of a short number
    const privateKey = Base64Url.encode(new Uint8Array(Buffer.from(pair.getPrivateKey("hex").padStart(64, "0"), "hex")))
    return { publicKey, privateKey: Redacted.make(privateKey) }
  })

const curve = "prime256v1"

const perUser = 10

/** Longest that a push service keeps a message for a device that is off, in seconds. */
const keptSeconds = 86_400

interface Library {
  readonly generateRequestDetails: (
    subscription: Subscription,
    payload: string,
    options: {
      readonly vapidDetails: { readonly subject: string; readonly publicKey: string; readonly privateKey: string }
      readonly TTL: number
      readonly urgency: "high"
      readonly topic: string
    }
  ) => PushPost.Message
}

const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<WebPush["Service"], ConfigurationError, Access> {
  const { userNamed } = yield* Access
  const { base, reach } = yield* check(options, userNamed !== undefined)
  const find = userNamed ?? (() => Effect.succeedNone)
  const library = yield* load
  const table = Option.getOrElse(yield* Effect.serviceOption(PushTable.PushTable), PushTable.makeMemory)
  const clock = yield* Clock.Clock
  const places = yield* Semaphore.make(Notices.atOnce)
  const network = { reach, lookup: HttpExchange.systemLookup, authorities: options.authorities }
  const vapidDetails = {
    subject: options.subject,
    publicKey: options.publicKey,
    privateKey: Redacted.value(options.privateKey)
  }
  const warn = Notices.rarely(clock, (problem, others) =>
    Effect.logWarning(
      `A push service does not accept notifications: ${problem}` +
        (others === 0 ? "" : ` (and ${others} more since the last warning)`)
    ))

  const post = Effect.fnUntraced(function*(
    { auth, endpoint, p256dh, user }: PushTable.Device,
    { notice, why }: Notices.Due
  ): Effect.fn.Return<void, Notices.NotTaken> {
    const url = PushPost.addressOf(endpoint)
    if (url === undefined) return
    const now = clock.currentTimeMillisUnsafe()
    const left = notice.expiresAt === "unlimited" ? keptSeconds : Math.ceil((notice.expiresAt - now) / 1_000)
    const said = {
      id: notice.id,
      title: titles[why],
      tool: clip(notice.tool, 200),
      user: notice.user,
      url: `${base}/#/approvals/${encodeURIComponent(notice.id)}`
    }
    const message = yield* Effect.try({
      try: () =>
        library.generateRequestDetails({ endpoint, keys: { p256dh, auth } }, JSON.stringify(said), {
          vapidDetails,
          TTL: Math.max(0, Math.min(keptSeconds, left)),
          urgency: "high",
          // replaces an earlier one about the request that was not delivered
          topic: Base64Url.encode(sha256(new TextEncoder().encode(notice.id))).slice(0, 32)
        }),
      catch: () => ({ problem: "a message could not be encrypted", isForGood: true })
    })
    const status = yield* Effect.timeoutOrElse(PushPost.post(url, message, network), {
      duration: Notices.patience,
      orElse: () => Effect.fail<Notices.NotTaken>({ problem: "it did not answer in time", isForGood: false })
    })
    if (status >= 200 && status < 300) return
    // the browser has unsubscribed
    if (status === 404 || status === 410) return yield* orWarned(table.remove({ endpoint, user }))
    const isForGood = status < 500 && status !== 408 && status !== 429
    return yield* Effect.fail<Notices.NotTaken>({ problem: `${url.host} answered ${status}`, isForGood })
  })

  const send: Notices.Send = Effect.fnUntraced(function*(due) {
    const devices = new Map<string, Array<PushTable.Device>>()
    for (const device of yield* Effect.catch(table.all, (error) => Effect.as(warned(error), []))) {
      const theirs = devices.get(device.user)
      if (theirs === undefined) devices.set(device.user, [device])
      else theirs.push(device)
    }
    if (devices.size === 0) return
    const now = clock.currentTimeMillisUnsafe()
    const asked = yield* Effect.forEach(devices, ([name, theirs]) =>
      Effect.map(
        Effect.catch(find(name), (error) => Effect.as(warned(error), Option.none())),
        (user) => Option.isSome(user) && user.value.name === name && isAsked(user.value, due.about, now) ? theirs : []
      ))
    yield* Effect.forEach(
      asked.flat(),
      (device) =>
        // the wait for one that is down has no place
        Effect.retry(places.withPermits(1)(post(device, due)), {
          schedule: Notices.retries,
          while: ({ isForGood }) => !isForGood
        }).pipe(Effect.catch(({ problem }) => warn(problem))),
      { concurrency: "unbounded", discard: true }
    )
  })

  return WebPush.of({
    publicKey: options.publicKey,
    subscribe: Effect.fnUntraced(function*(user, { endpoint, keys }) {
      const problems = problemsOf({ endpoint, keys })
      if (problems.length > 0) return yield* Effect.fail(problems)
      yield* table.add({ user, endpoint, ...keys, addedAt: clock.currentTimeMillisUnsafe() }, perUser)
    }),
    unsubscribe: (user, endpoint) => table.remove({ user, endpoint }),
    send
  })
})

const titles: Readonly<Record<Notices.Due["why"], string>> = {
  asked: "Approval needed",
  reminded: "Approval is still needed",
  escalated: "Approval is now needed from you"
}

const warned = (error: AccessError | PushTable.PushTableError): Effect.Effect<void> =>
  Effect.logWarning(error.message, error.cause)

const orWarned = (effect: Effect.Effect<void, PushTable.PushTableError>) => Effect.catch(effect, warned)

/** What is wrong with a subscription; the values are secrets of the browser, so they are not repeated. */
const problemsOf = ({ endpoint, keys: { auth, p256dh } }: Subscription): ReadonlyArray<Problem> => [
  ...PushPost.addressOf(endpoint) === undefined
    ? [{ path: "endpoint", problem: "it is not the address of a push service", expected: "an https URL" }]
    : [],
  ...isPoint(p256dh)
    ? []
    : [{ path: "keys.p256dh", problem: "it is not a public key", expected: "a point of P-256 as base64url" }],
  ...bytesOf(auth)?.length === 16
    ? []
    : [{ path: "keys.auth", problem: "it is not a secret", expected: "16 bytes as base64url" }]
]

const bytesOf = (text: string): Uint8Array | undefined =>
  /^[\w-]{1,200}=*$/.test(text) ? Result.getOrUndefined(Base64Url.decode(text)) : undefined

/** Whether it is a point of the curve, uncompressed. */
const isPoint = (text: string): boolean => {
  const bytes = bytesOf(text)
  if (bytes?.length !== 65) return false
  return Result.isSuccess(Result.try(() => ECDH.convertKey(bytes, curve)))
}

const publicOf = (privateKey: string): string | undefined => {
  const bytes = bytesOf(privateKey)
  if (bytes?.length !== 32) return undefined
  return Result.getOrUndefined(Result.try(() => {
    const pair = createECDH(curve)
    pair.setPrivateKey(bytes)
    return pair.getPublicKey("base64url")
  }))
}

const check = ({ allowPrivate = [], privateKey, publicKey, publicUrl, subject }: Options, hasNames: boolean) =>
  Effect.suspend(() => {
    const problems: Array<Problem> = []
    const address = URL.canParse(subject) ? new URL(subject) : undefined
    if (address === undefined || !(/^mailto:.+@.+/.test(subject) || address.protocol === "https:")) {
      problems.push({
        path: "subject",
        problem: `it is ${shown(subject)}`,
        expected: "mailto: and an address, or an https URL"
      })
    }
    const own = publicOf(Redacted.value(privateKey))
    const keys = "a pair of keys of tool-executor push-keys"
    if (!isPoint(publicKey)) problems.push({ path: "publicKey", problem: "it is not a public key", expected: keys })
    if (own === undefined) problems.push({ path: "privateKey", problem: "it is not a private key", expected: keys })
    else if (own !== publicKey) {
      problems.push({ path: "privateKey", problem: "it is not that of publicKey", expected: keys })
    }
    const url = WebhookSecret.addressOf(publicUrl)
    if (url === undefined) {
      problems.push({ path: "publicUrl", problem: "it is not a valid address", expected: "an http or https URL" })
    }
    const reach = PublicAddress.reach(allowPrivate)
    if (Result.isFailure(reach)) problems.push(...reach.failure)
    if (!hasNames) {
      problems.push({
        path: "Access",
        problem: "users cannot be looked up by name, so their rights cannot be checked",
        expected: "an Access with `userNamed`, or no notifications of devices"
      })
    }
    return problems.length > 0 || url === undefined || Result.isFailure(reach)
      ? Effect.fail(new ConfigurationError({ subject: "WebPush", problems }))
      : Effect.succeed({ base: WebhookSecret.baseOf(url), reach: reach.success })
  })

/** Loaded only where it is used: it is an optional package, without types. */
const load: Effect.Effect<Library, ConfigurationError> = Effect.suspend(() => {
  const name: string = "web-push"
  return Effect.tryPromise((): Promise<unknown> => import(name)).pipe(
    Effect.map((it) => Predicate.hasProperty(it, "default") ? it.default : it),
    Effect.filterOrFail(isLibrary, () => missing),
    Effect.mapError(() => missing)
  )
})

const isLibrary = (it: unknown): it is Library =>
  Predicate.hasProperty(it, "generateRequestDetails") && typeof it.generateRequestDetails === "function"

const missing = new ConfigurationError({
  subject: "WebPush",
  problems: [{
    path: "web-push",
    problem: "the package cannot be loaded",
    expected: "`npm install web-push`, at least version 3.6"
  }]
})
