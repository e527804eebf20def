/**
 * The page's way in: a token is exchanged for a cookie that scripts cannot read and other sites
 * cannot use. The cookie is random, kept in memory, and worth what its token is worth: one that expired or was taken
 * away ends it.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { Access, type AccessError } from "./Access.ts"
import { cookieName, type User } from "./ApiAccess.ts"
import { TooMany } from "./ApiProblems.ts"
import { type Caller, ClientAddress } from "./ClientAddress.ts"
import { TokenBuckets } from "./TokenBuckets.ts"
import * as Tokens from "./Tokens.ts"

/**
 * The logins.
 *
 * @category services
 * @since 0.1.0
 */
export class Logins extends Context.Service<Logins, {
  /** Gives the user of a token, and the request's response the cookie. */
  readonly login: (
    token: Redacted.Redacted<string>
  ) => Effect.Effect<User, AccessError | HttpApiError.Unauthorized | TooMany, HttpServerRequest.HttpServerRequest>
  /** Ends the login of the request's cookie, if it has one. */
  readonly logout: Effect.Effect<void, never, HttpServerRequest.HttpServerRequest>
  /** The user of the request's cookie; `undefined`: it has none at all. */
  readonly userOf: (
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<Option.Option<User> | undefined, AccessError>
  /** How many there are, and how many were refused since the start. */
  readonly counts: Effect.Effect<{ readonly open: number; readonly refused: number }>
}>()("effect-tool-executor/server/Logins") {}

/**
 * How long logins last, and how many there are.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long one lasts, unless its token ends before. Default 12 hours. */
  readonly lifetime?: Duration.Input | undefined
  /** How many of one user there are at once; the next ends the oldest. Default 20. */
  readonly perUser?: number | undefined
  /** How many attempts of one address may fail in a minute. Default 10. */
  readonly failuresPerAddress?: number | undefined
  /** How many attempts of all may fail in a minute. Default 1000. */
  readonly failuresOfAll?: number | undefined
}

/**
 * Creates the logins.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options?: Options
): Effect.fn.Return<Logins["Service"], ConfigurationError, Access | ClientAddress> {
  const access = yield* Access
  const callers = yield* ClientAddress
  const { failuresOfAll, failuresPerAddress, lifetime, perUser } = yield* readOptions("Logins", (read) => ({
    lifetime: read.millis("lifetime", options?.lifetime ?? "12 hours"),
    perUser: read.count("perUser", options?.perUser ?? 20, 1),
    failuresPerAddress: read.count("failuresPerAddress", options?.failuresPerAddress ?? 10, 1),
    failuresOfAll: read.count("failuresOfAll", options?.failuresOfAll ?? 1_000, 1)
  }))
  // by the hash of the cookie, oldest first
  const logins = new Map<string, Login>()
  const addresses = new TokenBuckets({ burst: failuresPerAddress, perSecond: failuresPerAddress / 60 })
  const all = new TokenBuckets({ burst: failuresOfAll, perSecond: failuresOfAll / 60 })
  const counted = { refused: 0 }

  const makeRoom = (user: string, now: number) => {
    let theirs = 0
    for (const [key, login] of logins) {
      if (login.expiresAt <= now) logins.delete(key)
      else if (login.user === user) theirs++
    }
    for (const [key, login] of logins) {
      const isTooMany = login.user === user ? theirs-- >= perUser : false
      if (isTooMany || logins.size >= most) logins.delete(key)
    }
  }

  const login = Effect.fnUntraced(function*(token: Redacted.Redacted<string>) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const now = yield* Clock.currentTimeMillis
    const caller = callers.of(request)
    const found = Option.getOrUndefined(yield* access.userOf(token))
    // only what fails counts: a right token is never refused, whoever else tries from its address
    if (found === undefined) {
      counted.refused++
      // an address that is over its own limit takes nothing of what all have
      const wait = addresses.take(caller.address, now) || all.take("", now)
      if (wait === 0) return yield* new HttpApiError.Unauthorized({})
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", String(Math.ceil(wait / 1_000))))
      )
      return yield* new TooMany({ detail: "Too many attempts to log in failed. Try again later." })
    }
    makeRoom(found.name, now)
    const cookie = Tokens.secret("texs_")
    const expiresAt = Math.min(now + lifetime, found.expiresAt ?? Infinity)
    logins.set(keyOf(cookie), { user: found.name, token, expiresAt })
    yield* HttpEffect.appendPreResponseHandler((_, response) =>
      Effect.succeed(HttpServerResponse.setCookieUnsafe(response, nameFor(caller), cookie, {
        ...attributes(caller),
        maxAge: Duration.millis(expiresAt - now)
      }))
    )
    return found
  })

  return Logins.of({
    login,
    logout: Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const caller = callers.of(request)
      for (const cookie of cookiesOf(request, nameFor(caller))) logins.delete(keyOf(cookie))
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.expireCookieUnsafe(response, nameFor(caller), attributes(caller)))
      )
    }),
    userOf: Effect.fnUntraced(function*(request) {
      const cookies = cookiesOf(request, nameFor(callers.of(request)))
      if (cookies.length === 0) return undefined
      // of two, one is from somebody else, who may want the user to act as them
      if (cookies.length > 1) return Option.none()
      const key = keyOf(cookies[0]!)
      const login = logins.get(key)
      if (login === undefined) return Option.none()
      const user = login.expiresAt <= (yield* Clock.currentTimeMillis)
        ? Option.none()
        : yield* access.userOf(login.token)
      if (Option.isNone(user)) logins.delete(key)
      return user
    }),
    counts: Effect.sync(() => ({ open: logins.size, refused: counted.refused }))
  })
})

/**
 * Layer of the logins.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Logins, ConfigurationError, Access | ClientAddress> =>
  Layer.effect(Logins, make(options))

// Utilities

interface Login {
  readonly user: string
  /** Asked for with each request: what it is worth may change. */
  readonly token: Redacted.Redacted<string>
  readonly expiresAt: number
}

/** Of all users together. */
const most = 10_000

const keyOf = (cookie: string): string => Tokens.hash(Redacted.make(cookie))

/**
 * Where the way is encrypted, browsers take a cookie of this name from nobody but this host itself, over an
 * encrypted way (RFC 6265bis, 4.1.3.2); without encryption they would refuse it.
 */
const nameFor = (caller: Caller): string => caller.isSecure ? `__Host-${cookieName}` : cookieName

const attributes = (caller: Caller) =>
  ({ httpOnly: true, sameSite: "strict", path: "/", secure: caller.isSecure }) as const

const cookiesOf = (request: HttpServerRequest.HttpServerRequest, name: string): ReadonlyArray<string> =>
  (request.headers["cookie"] ?? "").split(";").flatMap((it) => {
    const at = it.indexOf("=")
    return at >= 0 && it.slice(0, at).trim() === name ? [it.slice(at + 1).trim()] : []
  })
