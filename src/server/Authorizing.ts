/**
 * Who sends a request, by its token or its cookie. A request that has both is let in only if both are right and of one user; one
 * that is not let in learns nothing.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Access, isUserName } from "./Access.ts"
import { Authorization, CurrentUser, type User } from "./ApiAccess.ts"
import { Logins } from "./Logins.ts"

/**
 * Layer that lets requests of users in.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<Authorization, never, Access | Logins> = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const userOf = make(yield* Effect.context<Access | Logins>())
    return Authorization.of({
      // Asked first, and decides by all that the request has.
      bearer: (httpEffect) =>
        Effect.gen(function*() {
          const request = yield* HttpServerRequest.HttpServerRequest
          const user = Option.getOrUndefined(yield* userOf(request))
          if (user === undefined) return yield* new HttpApiError.Unauthorized({})
          return yield* Effect.provideService(httpEffect, CurrentUser, user)
        }),
      // Asked after the first has refused: what it would say of the cookie is in that already.
      cookie: () => Effect.fail(new HttpApiError.Unauthorized({}))
    })
  })
)

// Utilities

/** Gives the user of a request, by everything in it that says who that is. */
const make = (services: Context.Context<Access | Logins>) => {
  const access = Context.get(services, Access)
  const logins = Context.get(services, Logins)
  return Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const byCookie = yield* logins.userOf(request)
    const { authorization } = request.headers
    const token = tokenOf(authorization ?? "")
    const byToken = token === undefined ? none : yield* access.userOf(token)
    const claims = [byCookie, authorization === undefined ? undefined : byToken].filter((it) => it !== undefined)
    const users = claims.flatMap(Option.toArray)
    const user = users[0]
    if (user === undefined || users.length < claims.length || users.some((it) => it.name !== user.name)) {
      return none
    }
    if (!isUserName(user.name)) {
      yield* Effect.logError("Access gave a user whose name cannot stand in a principal; the request is refused")
      return none
    }
    return Option.some(user)
  })
}

const none: Option.Option<User> = Option.none()

/** The token of `Bearer`, in any case (RFC 9110, 11.1); of another scheme there is none. */
const tokenOf = (authorization: string): Redacted.Redacted<string> | undefined => {
  const [, token] = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization) ?? []
  return token === undefined ? undefined : Redacted.make(token)
}
