/**
 * Messages between runners: RPCs over HTTP with a shared secret.
 *
 * Whoever reaches the port of a runner and knows the secret can run calls as any user. A request without the secret is
 * refused before its body is read.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Clock from "effect/Clock"
import * as HttpRunner from "effect/cluster/HttpRunner"
import type { MessageStorage } from "effect/cluster/MessageStorage"
import type { RpcClientProtocol } from "effect/cluster/Runners"
import type { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import * as Scope from "effect/Scope"

/** Secret that runners share; absent: only for runners on loopback. */
export type Secret = Redacted.Redacted<string> | undefined

/** Messages are lines of JSON, so that runners of two versions read each other's. A line is one reply, at most. */
export const layerSerialization: Layer.Layer<RpcSerialization.RpcSerialization> = RpcSerialization.layerNdjsonWith({
  maxBufferSize: 64 * 1024 * 1024
})

/** Layer that sends messages to other runners, with the secret. */
export const layerClient = (
  secret: Secret
): Layer.Layer<RpcClientProtocol, never, HttpClient.HttpClient | RpcSerialization.RpcSerialization> =>
  Layer.unwrap(
    Effect.map(sometimes, (warn) =>
      Layer.updateService(HttpRunner.layerClientProtocolHttpDefault, HttpClient.HttpClient, withSecret(secret, warn)))
  )

/** The client that sends the secret, and says so if another runner does not know it. */
export const withSecret = (secret: Secret, warn: Warn) => (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  (secret === undefined ? client : HttpClient.mapRequest(client, HttpClientRequest.bearerToken(secret))).pipe(
    HttpClient.tap(({ request, status }) =>
      status === 401
        ? warn(`The runner at ${hostOf(request.url)} refuses the secret of this runner. ${sameSecret}`)
        : Effect.void
    )
  )

const hostOf = (url: string): string => URL.canParse(url) ? new URL(url).host : url

const sameSecret =
  "Give all runners the same secret (TOOL_EXECUTOR_CLUSTER_SECRET); until then no requests pass between them."

/** Layer that receives messages of other runners, and refuses requests without the secret. */
export const layerServer = (
  secret: Secret
): Layer.Layer<
  never,
  never,
  HttpServer.HttpServer | MessageStorage | RpcSerialization.RpcSerialization | Sharding
> =>
  Layer.unwrap(Effect.gen(function*() {
    const messages = yield* HttpRunner.toHttpEffect
    const warn = yield* sometimes
    const isAllowed = allows(secret)
    return HttpServer.serve(Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      // a page in a browser of this machine reaches a runner without a secret, and cannot leave out its origin
      const isOfPage = request.headers["origin"] !== undefined
      if (isOfPage || !isAllowed(request.headers["authorization"])) {
        return Effect.as(warn(refusal(request, isOfPage)), refused)
      }
      return request.method === "POST" ? messages : Effect.succeed(unknown)
    }))
  }))

/**
 * Layer of what receives messages that does not wait long when it closes. By then the sessions of its runner have moved,
 * and a connection that another process keeps open must not keep it.
 */
export const closedSoon = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.effectContext(Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope) =>
      Effect.flatMap(
        Effect.forkDetach(Scope.close(scope, Exit.void)),
        (closing) => Effect.interruptible(Effect.timeoutOption(Fiber.await(closing), patience))
      ))
    return yield* Layer.buildWithScope(layer, scope)
  }))

/** For answers that are on their way. */
const patience = "1 second"

const refused = HttpServerResponse.empty({ status: 401 })

const refusal = ({ remoteAddress }: HttpServerRequest.HttpServerRequest, isOfPage: boolean): string => {
  const from = Option.getOrElse(remoteAddress, () => "an unknown address")
  return isOfPage
    ? `A request of a web page to the port for other runners was refused (from ${from}).`
    : `A message of another runner was refused (from ${from}): its secret is missing or wrong. ${sameSecret}`
}

const unknown = HttpServerResponse.empty({ status: 404 })

/** Tells whether a request may be read. How long it takes says nothing about the secret. */
export const allows = (secret: Secret): (authorization: string | undefined) => boolean => {
  if (secret === undefined) return () => true
  const expected = digest(`Bearer ${Redacted.value(secret)}`)
  return (authorization = "") => {
    const given = digest(authorization)
    let difference = 0
    for (let at = 0; at < expected.length; at++) difference |= expected[at]! ^ given[at]!
    return difference === 0
  }
}

type Warn = (message: string) => Effect.Effect<void>

/** Logs a warning at most once a minute: a stranger at the port must not fill the log. */
const sometimes: Effect.Effect<Warn> = Effect.sync(() => {
  let quietUntil = -Infinity
  return (message) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now < quietUntil) return Effect.void
      quietUntil = now + 60_000
      return Effect.logWarning(message)
    })
})

const digest = (text: string): Uint8Array => sha256(new TextEncoder().encode(text))
