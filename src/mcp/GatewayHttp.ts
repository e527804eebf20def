/** A gateway over HTTP: limits, sessions and the streams that clients listen on. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { GatewayLifecycle } from "./GatewayLifecycle.ts"
import * as HttpReplies from "./HttpReplies.ts"
import * as HttpSessions from "./HttpSessions.ts"

/** Limits of a gateway over HTTP. */
export interface Options {
  /** Bytes that the body of a request may have; the request that begins a session may have 64 kB. Default 10 MiB. */
  readonly maxBodyBytes?: number | undefined
  /**
   * Sessions that may exist at the same time. A new one ends the idle session that was used longest ago; if calls run
   * in all of them, it is refused. Default 1,000.
   */
  readonly maxSessions?: number | undefined
}

/**
 * Layer to provide to `McpServer.layerHttp`.
 *
 * It limits the size of bodies and the time to read them. A lost connection cancels no call of a session: the client
 * continues to read where it stopped. A client that listens (GET) is notified when the list of tools changes. A client
 * that asks a server with sessions for a revision without them is refused, and takes another revision.
 */
export const layer = (
  lifecycle: GatewayLifecycle,
  { maxBodyBytes = 10 * 1024 * 1024, maxSessions = 1_000 }: Options = {}
): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  HttpRouter.middleware(Effect.gen(function*() {
    const scope = yield* Effect.scope
    const sessions = yield* HttpSessions.make<Session>(maxSessions)
    const room = Semaphore.makeUnsafe(Math.max(maxTotalBytes, maxBodyBytes))
    const kept = HttpReplies.makeKept()
    const begin = ({ headers, url }: HttpServerRequest.HttpServerRequest): Session & HttpSessions.Known => ({
      open: 0,
      url,
      headers: Object.fromEntries(
        ["host", "mcp-protocol-version"].flatMap((name) => headers[name] === undefined ? [] : [[name, headers[name]]])
      ),
      revision: lifecycle.revision(),
      over: Deferred.makeUnsafe(),
      replies: HttpReplies.make(scope, kept)
    })
    return (handle) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const id = request.headers["mcp-session-id"]
        const session = id === undefined ? undefined : sessions.use(id)
        // nothing of it is read
        if (id !== undefined && session === undefined) return Effect.succeed(refused(404, "Unknown session."))
        switch (request.method) {
          case "POST": {
            const declared = Number(request.headers["content-length"] ?? NaN)
            // in a revision without sessions every request says what it is for
            const isWhole = session !== undefined || request.headers["mcp-method"] !== undefined
            const most = isWhole ? maxBodyBytes : Math.min(maxBytesWithoutSession, maxBodyBytes)
            if (declared > most) return Effect.succeed(tooLarge(most))
            const onBegun = (id: string) => sessions.add(id, begin(request))
            const answer = held(session, post(lifecycle, onBegun, sessions.makeRoom, session, handle, most))
            const size = Number.isNaN(declared) ? most : declared
            if (size <= maxBytesWithoutSession) return answer
            return Effect.map(
              room.withPermitsIfAvailable(size)(answer),
              Option.getOrElse(() =>
                refused(503, "The server is reading too much data at the moment. Try again later.")
              )
            )
          }
          case "GET": {
            const heard = Effect.map(handle, (response) =>
              // no other method of the protocol is not there
              response.status === 405 && session !== undefined
                ? listen(lifecycle, session, request.headers["last-event-id"])
                : response)
            return held(session, heard)
          }
          case "DELETE":
            return Effect.tap(handle, ({ status }) => {
              if (status !== 204 || session === undefined) return Effect.void
              sessions.remove(id!)
              Deferred.doneUnsafe(session.over, Effect.void)
              return session.replies.end
            })
          default:
            return handle
        }
      })
  })).layer

/** A session is open until the request is answered: with a stream, until that has ended. */
const held = <A, E, R>(session: HttpSessions.Known | undefined, effect: Effect.Effect<A, E, R>) =>
  session === undefined ? effect : Effect.flatMap(Effect.scope, (scope) => {
    session.open++
    return Effect.andThen(Scope.addFinalizer(scope, Effect.sync(() => void session.open--)), effect)
  })

/** A session as long as the server knows it. */
interface Session {
  /** How often the list had changed when its client last asked for it. */
  revision: number
  readonly over: Deferred.Deferred<void>
  readonly replies: HttpReplies.HttpReplies
}

/** What begins a session is small. */
const maxBytesWithoutSession = 64 * 1024

/** What the larger bodies may hold together. */
const maxTotalBytes = 64 * 1024 * 1024

const bodyTimeout = "30 seconds"

const post = Effect.fnUntraced(function*<E, R>(
  lifecycle: GatewayLifecycle,
  onBegun: (session: string) => void,
  makeRoom: HttpSessions.HttpSessions<Session>["makeRoom"],
  session: Session | undefined,
  handle: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
  most: number
) {
  const request = yield* HttpServerRequest.HttpServerRequest
  // read once: the server is given the same
  const read = yield* request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, BigInt(most)),
    Effect.option,
    Effect.timeoutOption(bodyTimeout)
  )
  if (Option.isNone(read)) return refused(408, "The body did not arrive in time.")
  // a client that has gone reads no answer
  if (Option.isNone(read.value)) return tooLarge(most)
  const message = parse(read.value.value)
  const admission = lifecycle.admit(request.headers["mcp-session-id"], message)
  // who has no session cancels by leaving
  if (admission !== undefined && !(yield* session === undefined ? Effect.interruptible(admission) : admission)) {
    return HttpServerResponse.stream(Stream.empty, { contentType: "text/event-stream" })
  }
  const method = Predicate.hasProperty(message, "method") ? message.method : undefined
  if (session !== undefined && method === "tools/list") session.revision = lifecycle.revision()
  if (session === undefined && method === "initialize" && !(yield* makeRoom)) {
    return refused(503, "Too many sessions are open. Try again later.")
  }
  const twice = twiceIn(message)
  if (twice !== undefined) {
    return failed(400, null, -32_600, `Two requests of a batch have the id ${JSON.stringify(twice)}.`)
  }
  const response = session === undefined || !isCall(message)
    ? yield* handle
    : yield* session.replies.open(handle, { isPrimed: (request.headers["mcp-protocol-version"] ?? "") >= "2025-11-25" })
  if (response === undefined) {
    return refused(503, "Too many requests of this session are running. Try again later.")
  }
  // revisions with sessions have no such method: where there are no others, which there are is not the question
  if (method === "server/discover" && response.status === 400 && isUnknown(response)) {
    return failed(404, Predicate.hasProperty(message, "id") ? message.id : null, -32_601, `Method not found: ${method}`)
  }
  if (method === "initialize") {
    yield* HttpEffect.appendPreResponseHandler((_, sent) =>
      Effect.sync(() => {
        const id = sent.headers["mcp-session-id"]
        if (id !== undefined) onBegun(id)
        return sent
      })
    )
  }
  return response
})

/** What a client listens on: what it has not read of an answer, or changes of the list, until its session or all of them are over. */
const listen = (lifecycle: GatewayLifecycle, session: Session, lastEventId: string | undefined) =>
  lastEventId === undefined ? changesFor(lifecycle, session) : session.replies.resume(lastEventId) ??
    failed(400, null, -32_600, "Unknown or expired event: reading cannot continue from it.")

const changesFor = (lifecycle: GatewayLifecycle, session: Session) =>
  HttpServerResponse.stream(
    Stream.merge(
      lifecycle.changes.pipe(
        Stream.filter((revision) => revision > session.revision),
        Stream.map(() => `data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })}\n\n`)
      ),
      Stream.map(Stream.tick("15 seconds"), () => ": keepalive\n\n")
    ).pipe(
      Stream.interruptWhen(Effect.raceFirst(lifecycle.ending, Deferred.await(session.over))),
      Stream.encodeText
    ),
    { contentType: "text/event-stream", headers: { "cache-control": "no-cache" } }
  )

const parse = (text: string): unknown => Result.getOrUndefined(Result.try((): unknown => JSON.parse(text)))

const refused = (status: number, text: string) =>
  HttpServerResponse.text(text, { status, headers: { connection: "close" } })

const tooLarge = (most: number) => refused(413, `A body may have at most ${most} bytes.`)

const failed = (status: number, id: unknown, code: number, message: string) =>
  HttpServerResponse.jsonUnsafe({ jsonrpc: "2.0", id, error: { code, message } }, { status })

/** Whether a server has refused to be discovered as one that knows sessions alone. */
const isUnknown = ({ body }: HttpServerResponse.HttpServerResponse): boolean => {
  const refusal = body._tag === "Uint8Array" ? parse(new TextDecoder().decode(body.body)) : undefined
  const error = Predicate.hasProperty(refusal, "error") ? refusal.error : undefined
  if (Predicate.hasProperty(error, "code") && error.code === -32_600) return true
  const data = Predicate.hasProperty(error, "data") ? error.data : undefined
  return Predicate.hasProperty(data, "supported") && Array.isArray(data.supported) &&
    data.supported.every((it) => typeof it === "string" && it < "2026")
}

/** Whether a client waits for more than a moment. */
const isCall = (message: unknown): boolean =>
  Array.isArray(message)
    ? message.some(isCall)
    : Predicate.hasProperty(message, "method") && message.method === "tools/call"

/** An id that two requests of a batch have: the server would answer none of the batch. */
const twiceIn = (message: unknown): unknown => {
  if (!Array.isArray(message)) return undefined
  const ids = new Set<unknown>()
  return message.find((it) => {
    if (!Predicate.hasProperty(it, "method") || !Predicate.hasProperty(it, "id")) return false
    return ids.size === ids.add(it.id).size
  })?.id
}
