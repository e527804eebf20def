/**
 * A server of a model's protocol on loopback: it checks every request as the real
 * one does, refuses it in the real one's words, and says what its script has next.
 * What is a protocol's own is a `Protocol`; the rest is here, for all of them.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { setTimeout as pause } from "node:timers/promises"
import {
  type Asked,
  type Fault,
  parsed,
  type Place,
  type Quirks,
  type Said,
  said,
  type Script,
  type Turn
} from "./script.ts"

/** One protocol; `Body` is what its requests look like. */
export interface Protocol<Body> {
  /** Whether what is asked for at a path is a stream; `undefined` if there is no such path. */
  readonly route: (path: string, body: Body) => boolean | undefined
  /** Throws a `Refused` for a request that the real one refuses. */
  readonly check: (body: Body, headers: IncomingHttpHeaders) => void
  readonly asked: (body: Body, path: string) => Omit<Asked, "turn" | "stream">
  /** A new id for a call. */
  readonly callId: () => string
  readonly reply: (said: Said, body: Body) => Reply
  /** The body of an answer with that status. */
  readonly error: (refused: Refused) => unknown
  /** How it says how long to wait, beside `retry-after`. */
  readonly limits: (seconds: number) => { readonly headers?: Record<string, string>; readonly details?: unknown }
  /** The status of a server that has too much to do. */
  readonly overloaded: number
  /** What it writes into a stream that failed. */
  readonly failed: (message: string) => Frame
  /** What a line of a stream ends with. */
  readonly newline?: string
}

/** What a turn is in a protocol: the events of a stream, and the one body of an answer that is none. */
export interface Reply {
  readonly frames: ReadonlyArray<Frame>
  readonly whole: unknown
}

/** One event of a stream. */
export interface Frame {
  readonly event?: string
  /** Written as JSON, or as it is if it is a text. */
  readonly data: unknown
  /** Whether it is a part of a call's arguments. */
  readonly argument?: boolean
  /** What the server remembers from then on. */
  readonly issued?: () => void
}

/** What is wrong with a request, in the words of the real server. */
export class Refused extends Error {
  readonly status: number
  /** What the protocol says beside the message: `param`, `code`, `details`. */
  readonly more: Record<string, unknown>

  constructor(message: string, status = 400, more: Record<string, unknown> = {}) {
    super(message)
    this.status = status
    this.more = more
  }
}

export const refuse = (message: string, status?: number, more?: Record<string, unknown>): never => {
  throw new Refused(message, status, more)
}

/** How a request ended; `left` is that the client went away before the end of the answer. */
export type Ending = "answered" | "refused" | "failed" | "cut" | "left"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
  /** How it ended. */
  readonly ended: Promise<Ending>
}

export interface Refusal {
  readonly status: number
  readonly message: string
  /** The request, as it came. */
  readonly body: unknown
}

export interface Server {
  readonly url: string
  /** Every request, in order. */
  readonly requests: ReadonlyArray<Received>
  /** Every request that a real server would not have taken; of a sound client there are none. */
  readonly refusals: ReadonlyArray<Refusal>
  /** What each request that was accepted asked. */
  readonly asked: ReadonlyArray<Asked>
}

/** A server that speaks until the scope closes. */
export const serve = <Body>(
  protocol: Protocol<Body>,
  script: Script,
  quirks: Quirks = {}
): Effect.Effect<Server, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => listen(protocol, script, quirks)),
      ({ http }) =>
        Effect.promise(() =>
          new Promise((resolve) => {
            http.close(resolve)
            http.closeAllConnections()
          })
        )
    ),
    ({ server }) => server
  )

/** Ids that no other server makes. */
export const ids = () => {
  const own = crypto.randomUUID().replaceAll("-", "").slice(0, 12)
  const counter = { value: 0 }
  return (prefix: string) => `${prefix}${own}${String(counter.value++).padStart(6, "0")}`
}

// Utilities

const listen = async <Body>(protocol: Protocol<Body>, script: Script, quirks: Quirks) => {
  const requests: Array<Received> = []
  const refusals: Array<Refusal> = []
  const asked: Array<Asked> = []

  const next = (question: Asked): Turn => {
    if (typeof script === "function") return script(question)
    return script[question.turn] ?? refuse(`The script has no turn ${question.turn}`)
  }

  const answer = async (path: string, request: IncomingMessage, response: ServerResponse, body: Body) => {
    const stream = protocol.route(path, body)
    if (request.method !== "POST" || stream === undefined) {
      return refuse(`Unknown address ${request.method} ${path}`, 404)
    }
    protocol.check(body, request.headers)
    const question = { ...protocol.asked(body, path), turn: asked.length, stream }
    const turn = next(question)
    asked.push(question)
    const reply = protocol.reply(said(turn, protocol.callId, quirks), body)
    return stream
      ? await writeStream(protocol, response, reply, turn.fault)
      : await writeWhole(protocol, response, reply, turn.fault)
  }

  const http = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const path = request.url ?? ""
      const text = Buffer.concat(chunks).toString("utf8")
      const body = parsed(text) as Body
      const left = new Promise<Ending>((resolve) =>
        response.once("close", () => resolve(response.writableFinished ? "answered" : "left"))
      )
      const written = answer(path, request, response, body).catch((error: unknown): Ending => {
        if (!(error instanceof Refused)) throw error
        refusals.push({ status: error.status, message: error.message, body })
        send(response, error.status, protocol.error(error))
        return "refused"
      })
      const ended = Promise.race([written, left])
      requests.push({ path, headers: request.headers, body, ended })
      // a fault of the server itself must not pass for one of the model
      written.catch((error: unknown) => {
        refusals.push({ status: 0, message: String(error), body })
        response.destroy()
      })
    })
  })
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
  const server: Server = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    requests,
    refusals,
    asked
  }
  return { http, server }
}

const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

const bytesOf = ({ data, event }: Frame, newline: string) =>
  `${event === undefined ? "" : `event: ${event}${newline}`}data: ${
    typeof data === "string" ? data : JSON.stringify(data)
  }${newline}${newline}`

/** How many events are written whole before a place, and whether half of the next is. */
const reach = (frames: ReadonlyArray<Frame>, place: Place): { readonly whole: number; readonly half: boolean } => {
  if (place !== "arguments") return { whole: Math.min(place, frames.length), half: false }
  const first = frames.findIndex((frame) => frame.argument === true)
  if (first === -1) return { whole: Math.floor(frames.length / 2), half: false }
  const length = frames.slice(first).findIndex((frame) => frame.argument !== true)
  return length === 1 ? { whole: first, half: true } : { whole: first + Math.floor(length / 2), half: false }
}

/** A status instead of an answer. */
const writeStatus = <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  { as, retryAfter, status: asked }: Extract<Fault, { readonly status: number }>
): Ending => {
  const status = asked === 529 ? protocol.overloaded : asked
  const limits = retryAfter === undefined ? {} : protocol.limits(retryAfter)
  const after = retryAfter === undefined ? {} : {
    "retry-after": as === "date" ? new Date(Date.now() + retryAfter * 1_000).toUTCString() : String(retryAfter)
  }
  const message = asked === 429 ? "Rate limit reached" : asked === 529 ? "Overloaded" : "Internal server error"
  const details = limits.details === undefined ? {} : { details: limits.details }
  send(response, status, protocol.error(new Refused(message, status, details)), { ...after, ...limits.headers })
  return "failed"
}

const writeWhole = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  reply: Reply,
  fault: Fault | undefined
): Promise<Ending> => {
  if (fault !== undefined && "status" in fault) return writeStatus(protocol, response, fault)
  if (fault !== undefined && "error" in fault) return writeStatus(protocol, response, { status: 500 })
  if (fault !== undefined && "hang" in fault) return await gone(response)
  if (fault !== undefined && "cut" in fault) {
    const text = JSON.stringify(reply.whole)
    if (fault.cut !== 0) {
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
      await write(response, text.slice(0, text.length / 2))
    }
    return await breakOff(response)
  }
  for (const { issued } of reply.frames) issued?.()
  send(response, 200, reply.whole)
  return "answered"
}

const writeStream = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  { frames }: Reply,
  fault: Fault | undefined
): Promise<Ending> => {
  if (fault !== undefined && "status" in fault) return writeStatus(protocol, response, fault)
  const place = fault === undefined || "half" in fault
    ? undefined
    : "cut" in fault
    ? fault.cut
    : "error" in fault
    ? fault.error
    : fault.hang
  const { half, whole } = place === undefined ? { whole: frames.length, half: false } : reach(frames, place)
  const newline = protocol.newline ?? "\n"
  if (fault !== undefined && "cut" in fault && fault.cut === 0) return await breakOff(response)
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  response.flushHeaders()
  for (const frame of frames.slice(0, whole)) {
    if (response.destroyed) return "left"
    frame.issued?.()
    await write(response, bytesOf(frame, newline))
  }
  const next = frames[whole]
  // an error is an event of its own: it does not come into the middle of another
  if (half && next !== undefined && fault !== undefined && !("error" in fault)) {
    const bytes = bytesOf(next, newline)
    await write(response, bytes.slice(0, bytes.length / 2))
  }
  if (fault !== undefined && "cut" in fault) return await breakOff(response)
  if (fault !== undefined && "hang" in fault) return await gone(response)
  if (fault !== undefined && "error" in fault) {
    await write(response, bytesOf(protocol.failed("Overloaded"), newline))
    response.end()
    return "failed"
  }
  response.end()
  return "answered"
}

/** Each write is a chunk of its own, with time for the client to read it, or to go away. */
const write = async (response: ServerResponse, text: string) => {
  if (response.destroyed) return
  await new Promise((resolve) => response.write(text, resolve))
  await new Promise((resolve) => setImmediate(resolve))
}

/** What was written is read first: a client forgets what it holds and has not read when a connection breaks. */
const breakOff = async (response: ServerResponse): Promise<Ending> => {
  await pause(5)
  response.destroy()
  return "cut"
}

const gone = (response: ServerResponse): Promise<Ending> =>
  new Promise((resolve) => {
    if (response.destroyed) return resolve("left")
    response.once("close", () => resolve("left"))
  })
