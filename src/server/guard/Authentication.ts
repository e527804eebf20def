/**
 * Authenticates requests by token or cookie. A request with both is admitted only if both are valid and belong to one
 * user. A refused request learns nothing.
 *
 * A stream ends when its user is removed or gets other rights, and when its reader stalls.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import { Authorization, CurrentUser, type User } from "../api/ApiAccess.ts"
import { Unauthorized } from "../api/ApiProblems.ts"
import { Access, type AccessError, isUserName, orUnavailable } from "../users/Access.ts"
import { Logins } from "../users/Logins.ts"
import { Limits, refusal } from "./Limits.ts"
import * as SlowReaders from "./SlowReaders.ts"

/** Options of the checks of streams. */
export interface Options {
  /** Time after which a stalled reader is cut off. Default 30 seconds. */
  readonly stalledAfter?: Duration.Input | undefined
  /** How often the user of a stream is checked again. Default 30 seconds. */
  readonly askAgain?: Duration.Input | undefined
}

/** Default options. */
export const defaults = { stalledAfter: "30 seconds", askAgain: "30 seconds" } as const

/** Layer that authenticates requests, within the limits. */
export const layer = (
  options?: Options
): Layer.Layer<Authorization, ConfigurationError, Access | Logins | Limits> =>
  Layer.effect(
    Authorization,
    Effect.gen(function*() {
      const times = yield* readOptions("Authentication", (read) => ({
        stalledAfter: read.millis("stalledAfter", options?.stalledAfter ?? defaults.stalledAfter),
        askAgain: read.millis("askAgain", options?.askAgain ?? defaults.askAgain)
      }))
      const limits = yield* Limits
      const userOf = make(yield* Effect.context<Access | Logins>())
      return Authorization.of({
        // this scheme is tried first, and decides by all credentials of the request
        bearer: (httpEffect) =>
          Effect.gen(function*() {
            const request = yield* HttpServerRequest.HttpServerRequest
            const found = yield* Effect.result(orUnavailable(userOf(request)))
            // a response: after a failure, the other scheme would be tried
            if (Result.isFailure(found)) return yield* Effect.orDie(HttpServerRespondable.toResponse(found.failure))
            const user = Option.getOrUndefined(found.success)
            if (user === undefined) return yield* new Unauthorized({})
            // a response: after a failure, the other scheme would be tried
            const full = yield* refusal(limits.enter(user.name))
            if (full !== undefined) return full
            const response = yield* Effect.provideService(httpEffect, CurrentUser, user)
            const { body } = response
            const withBody = handedOn(response, times.stalledAfter)
            // a reader that takes nothing would hold the response open
            if (body._tag === "Uint8Array" && body.contentLength > largeBytes) {
              return withBody(body, Stream.make(body.body))
            }
            if (body._tag !== "Stream") return response
            const overfull = yield* refusal(limits.stream(user.name))
            if (overfull !== undefined) return overfull
            return withBody(
              body,
              Stream.concat(Stream.make(opening), body.stream).pipe(
                Stream.interruptWhen(untilOther(user, userOf(request), times.askAgain))
              )
            )
          }),
        // called after the first scheme has refused, which has checked the cookie, too
        cookie: () => Effect.fail(new Unauthorized({}))
      })
    })
  )

/** Roughly what a connection buffers. */
const largeBytes = 64 * 1024

/** A response that is sent in pieces and cut off if its reader stalls. */
const handedOn =
  (response: HttpServerResponse.HttpServerResponse, stalledAfter: number) =>
  ({ contentLength, contentType }: HttpBody.Stream | HttpBody.Uint8Array, stream: Stream.Stream<Uint8Array, unknown>) =>
    HttpServerResponse.setBody(
      response,
      HttpBody.stream(SlowReaders.cut(stalledAfter)(stream), contentType, contentLength)
    )

/** Finds the user of a request by all its credentials. */
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
      yield* Effect.logError("Access returned an invalid user name; the request is refused")
      return none
    }
    return Option.some(user)
  })
}

/** Ends when the user is removed, changes, or gets other rights. */
const untilOther = (user: User, again: Effect.Effect<Option.Option<User>, AccessError>, millis: number) =>
  Effect.gen(function*() {
    for (;;) {
      const left = (user.expiresAt ?? Infinity) - (yield* Clock.currentTimeMillis)
      yield* Effect.sleep(Math.max(0, Math.min(millis, left)))
      // the client reconnects, and is admitted or refused then
      if (!Equal.equals(yield* Effect.orElseSucceed(again, () => none), Option.some(user))) return
    }
  })

/** A comment of server-sent events: servers send headers with the first bytes, and clients wait for them. */
const opening = new TextEncoder().encode(":\n\n")

const none: Option.Option<User> = Option.none()

/** The token of the `Bearer` scheme, in any case (RFC 9110, 11.1). */
const tokenOf = (authorization: string): Redacted.Redacted<string> | undefined => {
  const [, token] = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization) ?? []
  return token === undefined ? undefined : Redacted.make(token)
}
