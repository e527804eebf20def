/** The door of a gateway on HTTP: bounds, sessions, and the stream that a client listens on. */
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
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { McpDoor } from "./Door.ts"

/** The middleware of the routes of a server with sessions, however their path is spelled; what the server itself refuses stays refused. */
export const layer = (
  door: McpDoor,
  { maxBodyBytes = 10 * 1024 * 1024 }: { readonly maxBodyBytes?: number | undefined }
): Layer.Layer<never> => {
  const sessions = new Map<string, Session>()
  const room = Semaphore.makeUnsafe(Math.max(maxTotalBytes, maxBodyBytes))
  return HttpRouter.middleware((handle) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      const id = request.headers["mcp-session-id"]
      const session = id === undefined ? undefined : sessions.get(id)
      // nothing of it is read
      if (id !== undefined && session === undefined) return Effect.succeed(refused(404, "There is no such session."))
      switch (request.method) {
        case "POST": {
          const declared = Number(request.headers["content-length"] ?? NaN)
          const most = session === undefined ? Math.min(maxBytesWithoutSession, maxBodyBytes) : maxBodyBytes
          if (declared > most) return Effect.succeed(tooLarge(most))
          const answer = post(door, sessions, session, handle, most)
          const size = Number.isNaN(declared) ? most : declared
          if (size <= maxBytesWithoutSession) return answer
          return Effect.map(
            room.withPermitsIfAvailable(size)(answer),
            Option.getOrElse(() => refused(503, "Too much is being read at the moment. Try again later."))
          )
        }
        case "GET":
          return Effect.map(handle, (response) =>
            // no other method of the protocol is not there
            response.status === 405 && session !== undefined ? listen(door, session) : response)
        case "DELETE":
          return Effect.tap(handle, ({ status }) =>
            Effect.sync(() => {
              if (status !== 204 || session === undefined) return
              sessions.delete(id!)
              Deferred.doneUnsafe(session.over, Effect.void)
            }))
        default:
          return handle
      }
    })
  ).layer
}

// Utilities

/** A session as long as the server knows it. */
interface Session {
  /** How often the list had changed when its client last asked for it. */
  revision: number
  readonly over: Deferred.Deferred<void>
}

/** What begins a session is small. */
const maxBytesWithoutSession = 64 * 1024

/** What the larger bodies may hold together. */
const maxTotalBytes = 64 * 1024 * 1024

const bodyPatience = "30 seconds"

const post = Effect.fnUntraced(function*<E, R>(
  door: McpDoor,
  sessions: Map<string, Session>,
  session: Session | undefined,
  handle: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
  most: number
) {
  const request = yield* HttpServerRequest.HttpServerRequest
  // read once: the server is given the same
  const read = yield* request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, BigInt(most)),
    Effect.option,
    Effect.timeoutOption(bodyPatience)
  )
  if (Option.isNone(read)) return refused(408, "The body did not arrive in time.")
  // a client that has gone reads no answer
  if (Option.isNone(read.value)) return tooLarge(most)
  const message = parse(read.value.value)
  const admission = door.admit(request.headers["mcp-session-id"] ?? "", message)
  if (admission !== undefined && !(yield* admission)) {
    return HttpServerResponse.stream(Stream.empty, { contentType: "text/event-stream" })
  }
  const method = Predicate.hasProperty(message, "method") ? message.method : undefined
  if (session !== undefined && method === "tools/list") session.revision = door.revision()
  const response = yield* handle
  // a revision with sessions has no such method; which revisions there are is not the question
  if (method === "server/discover" && response.status === 400) return noSuchMethod(message, method)
  if (method === "initialize") {
    yield* HttpEffect.appendPreResponseHandler((_, sent) =>
      Effect.sync(() => {
        const id = sent.headers["mcp-session-id"]
        if (id !== undefined) sessions.set(id, { revision: door.revision(), over: Deferred.makeUnsafe() })
        return sent
      })
    )
  }
  return response
})

/** What a client listens on: told of changes of the list, until its session or all of them are over. */
const listen = (door: McpDoor, session: Session) =>
  HttpServerResponse.stream(
    Stream.merge(
      door.changes.pipe(
        Stream.filter((revision) => revision > session.revision),
        Stream.map(() => `data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })}\n\n`)
      ),
      Stream.map(Stream.tick("15 seconds"), () => ": keepalive\n\n")
    ).pipe(
      Stream.interruptWhen(Effect.raceFirst(door.ending, Deferred.await(session.over))),
      Stream.encodeText
    ),
    { contentType: "text/event-stream", headers: { "cache-control": "no-cache" } }
  )

const parse = (text: string): unknown => Result.getOrUndefined(Result.try((): unknown => JSON.parse(text)))

const refused = (status: number, text: string) =>
  HttpServerResponse.text(text, { status, headers: { connection: "close" } })

const tooLarge = (most: number) => refused(413, `A body may have at most ${most} bytes.`)

const noSuchMethod = (message: unknown, method: string) =>
  HttpServerResponse.jsonUnsafe({
    jsonrpc: "2.0",
    id: Predicate.hasProperty(message, "id") ? message.id : null,
    error: { code: -32_601, message: `Method not found: ${method}` }
  }, { status: 404 })
