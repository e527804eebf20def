/**
 * Logins of the page: exchange a token for a cookie that scripts cannot read and other sites cannot use. The cookie is
 * random, and ends with its token. Its hash is kept in memory, or in the `LoginTable` that servers share.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as LoginTable from "../../core/store/LoginTable.ts"
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import { cookieName, type User } from "../api/ApiAccess.ts"
import { TooMany, Unauthorized } from "../api/ApiProblems.ts"
import { type Caller, ClientAddress } from "../guard/ClientAddress.ts"
import { TokenBuckets } from "../guard/TokenBuckets.ts"
import { Access, AccessError } from "./Access.ts"
import * as SealedToken from "./SealedToken.ts"
import * as Tokens from "./Tokens.ts"

/** The logins. */
export class Logins extends Context.Service<Logins, {
  /** Logs in with a token, and sets the cookie of the response. */
  readonly login: (
    token: Redacted.Redacted<string>
  ) => Effect.Effect<User, AccessError | Unauthorized | TooMany, HttpServerRequest.HttpServerRequest>
  /** Ends the login of the request's cookie, on all servers that share logins. */
  readonly logout: Effect.Effect<void, AccessError, HttpServerRequest.HttpServerRequest>
  /** The user of the request's cookie; `undefined` without a cookie. */
  readonly userOf: (
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<Option.Option<User> | undefined, AccessError>
  /** Number of logins, and of refused attempts since the start. */
  readonly counts: Effect.Effect<{ readonly open: number; readonly refused: number }>
}>()("effect-tool-executor/server/Logins") {}

/** Lifetime and limits of logins. */
export interface Options {
  /** Lifetime of a login, unless its token expires earlier. Default 12 hours. */
  readonly lifetime?: Duration.Input | undefined
  /** Logins per user; one more ends the oldest. Default 20. */
  readonly perUser?: number | undefined
  /** Failed attempts per address and minute. Default 10. */
  readonly failuresPerAddress?: number | undefined
  /** Failed attempts of all addresses per minute. Default 1000. */
  readonly failuresOfAll?: number | undefined
}

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
  const logins = Option.getOrElse(yield* Effect.serviceOption(LoginTable.LoginTable), LoginTable.makeMemory)
  const tokens = yield* SealedToken.make
  const addresses = new TokenBuckets({ burst: failuresPerAddress, perSecond: failuresPerAddress / 60 })
  const all = new TokenBuckets({ burst: failuresOfAll, perSecond: failuresOfAll / 60 })
  const counted = { refused: 0 }

  const login = Effect.fnUntraced(function*(token: Redacted.Redacted<string>) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const now = yield* Clock.currentTimeMillis
    const caller = callers.of(request)
    const found = Option.getOrUndefined(yield* access.userOf(token))
    // only failures count: a valid token is never refused because of other attempts from its address
    if (found === undefined) {
      counted.refused++
      // an address over its limit does not use up the limit of all
      const wait = addresses.take(caller.address, now) || all.take("", now)
      if (wait === 0) return yield* new Unauthorized({})
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", String(Math.ceil(wait / 1_000))))
      )
      return yield* new TooMany({ detail: "Too many failed login attempts. Try again later." })
    }
    const cookie = Tokens.secret("texs_")
    const expiresAt = Math.min(now + lifetime, found.expiresAt ?? Infinity)
    const sealed = yield* tokens.seal(cookie, token)
    yield* orFailed(logins.add({ key: keyOf(cookie), user: found.name, sealed, expiresAt }, { now, perUser }))
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
      yield* orFailed(logins.remove(cookiesOf(request, nameFor(caller)).map(keyOf)))
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.expireCookieUnsafe(response, nameFor(caller), attributes(caller)))
      )
    }),
    userOf: Effect.fnUntraced(function*(request) {
      const cookies = cookiesOf(request, nameFor(callers.of(request)))
      if (cookies.length === 0) return undefined
      // with two cookies, one may be planted by somebody who wants the user to act as them
      if (cookies.length > 1) return Option.none()
      const cookie = cookies[0]!
      const key = keyOf(cookie)
      const login = yield* orFailed(logins.get(key))
      if (login === undefined) return Option.none()
      // checked on every request: the token's rights may change
      const token = login.expiresAt <= (yield* Clock.currentTimeMillis)
        ? undefined
        : yield* tokens.open(cookie, login.sealed)
      const user = token === undefined ? Option.none() : yield* access.userOf(token)
      if (Option.isNone(user)) yield* orFailed(logins.remove([key]))
      return user
    }),
    counts: Effect.map(Effect.orElseSucceed(logins.count, () => 0), (open) => ({ open, refused: counted.refused }))
  })
})

/** Layer of the logins. */
export const layer = (options?: Options): Layer.Layer<Logins, ConfigurationError, Access | ClientAddress> =>
  Layer.effect(Logins, make(options))

const orFailed = <A>(effect: Effect.Effect<A, LoginTable.LoginTableError>): Effect.Effect<A, AccessError> =>
  Effect.mapError(effect, (cause) => new AccessError({ cause }))

const keyOf = (cookie: string): string => Tokens.hash(Redacted.make(cookie))

/**
 * With encryption, browsers accept a cookie of this name only from this host over an encrypted connection (RFC 6265bis,
 * 4.1.3.2); without encryption they refuse it.
 */
const nameFor = (caller: Caller): string => caller.isSecure ? `__Host-${cookieName}` : cookieName

const attributes = (caller: Caller) =>
  ({ httpOnly: true, sameSite: "strict", path: "/", secure: caller.isSecure }) as const

const cookiesOf = (request: HttpServerRequest.HttpServerRequest, name: string): ReadonlyArray<string> =>
  (request.headers["cookie"] ?? "").split(";").flatMap((it) => {
    const at = it.indexOf("=")
    return at >= 0 && it.slice(0, at).trim() === name ? [it.slice(at + 1).trim()] : []
  })
