/** Servers on loopback, and `fetch_url` as a model calls it. */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NodeHttp from "node:http"
import * as NodeHttps from "node:https"
import * as NodeNet from "node:net"
import { ConfigurationError } from "../../src/core/vocabulary/ConfigurationError.ts"
import { FetchFailure } from "../../src/tools/fetch/FetchFailure.ts"
import * as FetchTools from "../../src/tools/fetch/FetchTools.ts"

type Fetch = typeof FetchTools.toolkit.tools.fetch_url

export interface Seen {
  readonly port: number
  /** Path and Host header of each request. */
  readonly requests: Array<readonly [path: string, host: string]>
  /** Connections made, and those that are still open. */
  readonly connections: { made: number; open: number }
}

interface Listening extends Omit<Seen, "requests"> {
  readonly sockets: Set<NodeNet.Socket>
}

const listen = (server: NodeNet.Server, address: string): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Listening>((resume) => {
      const sockets = new Set<NodeNet.Socket>()
      const connections = { made: 0, open: 0 }
      server.on("connection", (socket: NodeNet.Socket) => {
        connections.made++
        connections.open++
        sockets.add(socket)
        socket.on("error", () => undefined)
        socket.once("close", () => {
          connections.open--
          sockets.delete(socket)
        })
      })
      server.once("error", (error) => resume(Effect.die(error)))
      server.listen(0, address, () => {
        const { port } = server.address() as NodeNet.AddressInfo
        resume(Effect.succeed({ port, connections, sockets }))
      })
    }),
    ({ sockets }) =>
      Effect.callback<void>((resume) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resume(Effect.void))
      })
  )

/** A server that answers as the handler says; it ends with the scope. */
export const serve = (
  handler: NodeHttp.RequestListener,
  options: { readonly tls?: { readonly key: string; readonly cert: string }; readonly address?: string } = {}
): Effect.Effect<Seen, never, Scope.Scope> => {
  const requests: Array<readonly [path: string, host: string]> = []
  const listener: NodeHttp.RequestListener = (request, response) => {
    requests.push([request.url ?? "", request.headers.host ?? ""])
    handler(request, response)
  }
  const server = options.tls === undefined
    ? NodeHttp.createServer(listener)
    : NodeHttps.createServer(options.tls, listener)
  return Effect.map(listen(server, options.address ?? "127.0.0.1"), (it) => ({ ...it, requests }))
}

/** A server below HTTP. */
export const serveBytes = (handler: (socket: NodeNet.Socket) => void): Effect.Effect<Seen, never, Scope.Scope> =>
  Effect.map(
    listen(NodeNet.createServer((socket) => handler(socket.resume())), "127.0.0.1"),
    (it) => ({ ...it, requests: [] })
  )

/** Answers with a text. */
export const text =
  (body: string | Uint8Array, headers: NodeHttp.OutgoingHttpHeaders = { "content-type": "text/plain" }) =>
  (_: NodeHttp.IncomingMessage, response: NodeHttp.ServerResponse) => {
    response.writeHead(200, headers).end(body)
  }

/** What tests on loopback need. */
export const loopback: FetchTools.Options = { allowPrivate: ["127.0.0.0/8"] }

/** Calls `fetch_url` as a model does. */
export const fetch = (
  params: Tool.ParametersEncoded<Fetch>,
  options: FetchTools.Options = loopback
): Effect.Effect<Tool.Success<Fetch>, FetchFailure | ConfigurationError> =>
  Effect.gen(function*() {
    const tools = yield* FetchTools.toolkit
    const results = yield* Effect.flatMap(tools.handle("fetch_url", params), Stream.runCollect)
    const last = results.at(-1)
    return last === undefined || last.isFailure ? yield* Effect.die("no result") : last.result as Tool.Success<Fetch>
  }).pipe(
    Effect.provide(FetchTools.layer(options)),
    Effect.catch(expected)
  )

const expected = (error: unknown) =>
  isFailure(error) || error instanceof ConfigurationError ? Effect.fail(error) : Effect.die(error)

/** Why a call failed. */
export const failureOf = (params: Tool.ParametersEncoded<Fetch>, options: FetchTools.Options = loopback) =>
  Effect.map(
    Effect.flip(fetch(params, options)),
    (failure): FetchFailure => failure instanceof ConfigurationError ? assertNever(failure) : failure
  )

const assertNever = (error: Error): never => {
  throw error
}

const isFailure = Schema.is(FetchFailure)
