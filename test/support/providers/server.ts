/**
 * A server of a model's protocol on loopback: it checks every request as the real
 * one does, refuses it in the real one's words, and says what its script has next.
 * What is a protocol's own is a `Protocol`; the rest is here, for all of them.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { type Ending, type Protocol, refuse, Refused } from "./protocol.ts"
import { type Asked, parsed, type Quirks, said, type Script, type Turn } from "./script.ts"
import { send, write } from "./write.ts"

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
  /** How many events the stream of each of them has if nothing comes between: the places where it may be cut. */
  readonly lengths: ReadonlyArray<number>
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

// Utilities

const listen = async <Body>(protocol: Protocol<Body>, script: Script, quirks: Quirks) => {
  const requests: Array<Received> = []
  const refusals: Array<Refusal> = []
  const asked: Array<Asked> = []
  const lengths: Array<number> = []

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
    lengths.push(reply.frames.length)
    return await write(protocol, response, reply, { fault: turn.fault, stream })
  }

  const http = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const path = request.url ?? ""
      const text = Buffer.concat(chunks).toString("utf8")
      const body = parsed(text) as Body
      // what was written says how it ended, if it came that far
      const left = new Promise<Ending>((resolve) => response.once("close", () => setImmediate(() => resolve("left"))))
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
    asked,
    lengths
  }
  return { http, server }
}
