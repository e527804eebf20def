/**
 * The way of a confined command to hosts: a proxy of ours outside of the sandbox, on a socket that only this command
 * sees.
 *
 * The command has no network of its own, so it resolves no names and connects to nothing. The proxy judges a host before
 * it is looked up, because a look-up alone can carry data out. Then it looks the name up once, checks every address as
 * `fetch_url` does, and connects to a checked address. It sees neither what goes through a tunnel nor the name that TLS
 * asks for in it.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeFs from "node:fs"
import * as NodeHttp from "node:http"
import { connect, isIP, type Socket } from "node:net"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import type { Duplex } from "node:stream"
import { matches } from "../../internal/wildcard.ts"
import * as FetchTarget from "../fetch/FetchTarget.ts"
import * as HttpExchange from "../fetch/HttpExchange.ts"
import type { Reach } from "../fetch/PublicAddress.ts"

/** What a proxy lets through. */
export interface Options {
  /** Hosts that need no approval, in the canonical form of `FetchTarget`; `*` is any run of characters. */
  readonly allow: ReadonlyArray<string>
  /** Which addresses may be connected to. */
  readonly reach: Reach
  readonly lookup: HttpExchange.Lookup
  /** Tells whether a host that is not listed may be reached. */
  readonly mayReach: (host: string) => Effect.Effect<boolean>
}

/** A proxy for one command. */
export interface SandboxProxy {
  /** Path of its socket. */
  readonly socket: string
  /** Hosts that were refused, each once. */
  readonly refused: () => ReadonlyArray<string>
}

/** How long a connection may take. */
const connectMillis = 10_000

/** Starts a proxy; it ends with the scope, with all connections through it. */
export const make = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<SandboxProxy, never, Scope.Scope> {
  const run = yield* FiberSet.makeRuntime<never, void, never>()
  const refused = new Set<string>()
  const answers = new Map<string, Deferred.Deferred<boolean>>()
  const open = new Set<Duplex>()
  const keep = <S extends Duplex>(socket: S): S => {
    open.add(socket)
    socket.on("error", () => undefined)
    socket.once("close", () => open.delete(socket))
    return socket
  }
  /** Parallel connections to one host share one request. */
  const isPermitted = (host: string): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      if (options.allow.some((it) => matches(it, host))) return Effect.succeed(true)
      const known = answers.get(host)
      if (known !== undefined) return Deferred.await(known)
      const answer = Deferred.makeUnsafe<boolean>()
      answers.set(host, answer)
      return Effect.onExit(options.mayReach(host), (exit) =>
        Deferred.succeed(answer, exit._tag === "Success" && exit.value))
    })
  /** The addresses of a host that may be connected to, or why it may not be. */
  const judge = Effect.fnUntraced(function*({ host, hostname }: FetchTarget.FetchTarget) {
    if (!(yield* isPermitted(host))) return yield* refuse(host, `the command may not reach ${host}`)
    const addresses = isIP(hostname) === 0
      ? yield* Effect.orElseSucceed(options.lookup(hostname), () => [])
      : [hostname]
    if (addresses.length === 0) return yield* Effect.fail({ status: 502, problem: `${hostname} has no address` })
    return addresses.every((address) => options.reach(hostname, address))
      ? addresses
      : yield* refuse(host, `${host} is at a private or reserved address`)
  })
  const refuse = (host: string, problem: string): Effect.Effect<never, Refusal> => {
    refused.add(host)
    return Effect.fail({ status: 403, problem })
  }
  const server = NodeHttp.createServer({ maxHeaderSize: 32_768 })
  server.on("connection", (socket: Socket) => void keep(socket))
  server.on("connect", (request, socket: Duplex, head) => {
    const target = tunnelOf(request.url ?? "")
    run(Effect.matchEffect(Effect.flatMap(Effect.fromResult(target), (it) => Effect.map(judge(it), addressed(it))), {
      onFailure: (refusal) => Effect.sync(() => void socket.end(answerOf(refusal))),
      onSuccess: ({ addresses, port }) =>
        Effect.sync(() => {
          const remote = keep(connect({ host: addresses[0]!, port, lookup: HttpExchange.pinned(addresses) }))
          remote.setTimeout(connectMillis, () => void remote.destroy())
          remote.once("connect", () => {
            remote.setTimeout(0)
            socket.write("HTTP/1.1 200 Connection Established\r\n\r\n")
            if (head.length > 0) remote.write(head)
            remote.pipe(socket).pipe(remote)
          })
          remote.once("error", () => void socket.end(answerOf({ status: 502, problem: "no connection to the host" })))
          remote.once("close", () => void socket.destroy())
          socket.once("close", () => void remote.destroy())
        })
    }))
  })
  server.on("request", (request, response) => {
    const target = plainOf(request.url ?? "")
    const fail = ({ problem, status }: Refusal) => {
      if (response.headersSent) return void response.destroy()
      response.writeHead(status, { "content-type": "text/plain; charset=utf-8", connection: "close" })
      response.end(`tool-executor: ${problem}.\n`)
    }
    run(Effect.matchEffect(Effect.flatMap(Effect.fromResult(target), (it) => Effect.map(judge(it), addressed(it))), {
      onFailure: (refusal) => Effect.sync(() => fail(refusal)),
      onSuccess: ({ addresses, port, target: { hostname, url } }) =>
        Effect.sync(() => {
          const forwarded = NodeHttp.request({
            hostname,
            port,
            method: request.method,
            path: `${url.pathname}${url.search}`,
            // what the server is called is what was judged, whatever the command has written
            headers: { ...forwardable(request.headers), host: url.host },
            agent: false,
            lookup: HttpExchange.pinned(addresses),
            timeout: connectMillis
          })
          forwarded.once("socket", keep)
          forwarded.once("response", (answer) => {
            forwarded.setTimeout(0)
            response.writeHead(answer.statusCode ?? 502, forwardable(answer.headers))
            answer.pipe(response)
          })
          forwarded.on("timeout", () => void forwarded.destroy())
          forwarded.on("error", () => fail({ status: 502, problem: "no connection to the host" }))
          response.once("close", () => void forwarded.destroy())
          request.pipe(forwarded)
        })
    }))
  })
  server.on("upgrade", (_request, socket: Duplex) => void socket.destroy())
  server.on("clientError", (_error, socket: Duplex) => void socket.destroy())
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "sandbox-proxy-"))),
    (folder) => Effect.sync(() => NodeFs.rmSync(folder, { recursive: true, force: true }))
  )
  const socket = NodePath.join(folder, "proxy.sock")
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(socket, () => resume(Effect.void))),
    () =>
      Effect.sync(() => {
        server.close()
        for (const it of open) it.destroy()
      })
  )
  return { socket, refused: () => Array.from(refused) }
})

/** Reads a listed host; the failure says what is wrong with it. */
export const readHost = (text: string): Result.Result<string, string> =>
  text === "*"
    ? Result.succeed(text)
    : Result.flatMap(
      FetchTarget.parse(`https://${text.replace(/^\*\./, "wild.")}/`),
      ({ host, url }): Result.Result<string, string> =>
        url.pathname !== "/" || url.search !== "" || url.hash !== "" || /[/?#@]/.test(text)
          ? Result.fail("It is not a host. Give one such as registry.npmjs.org or *.example.com.")
          : Result.succeed(text.startsWith("*.") ? host.replace(/^wild\./, "*.") : host)
    )

interface Refusal {
  readonly status: number
  readonly problem: string
}

const addressed = (target: FetchTarget.FetchTarget) => (addresses: ReadonlyArray<string>) => {
  const { port, protocol } = target.url
  return { addresses, target, port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port) }
}

/** What a tunnel leads to: a host and a port, and nothing else. */
const tunnelOf = (authority: string): Result.Result<FetchTarget.FetchTarget, Refusal> =>
  /^[^/?#@\s]+:\d{1,5}$/.test(authority)
    ? Result.mapError(FetchTarget.parse(`https://${authority}/`), (problem) => ({ status: 400, problem }))
    : Result.fail({ status: 400, problem: "a tunnel leads to a host and a port" })

const plainOf = (url: string): Result.Result<FetchTarget.FetchTarget, Refusal> =>
  url.toLowerCase().startsWith("http://")
    ? Result.mapError(FetchTarget.parse(url), (problem) => ({ status: 400, problem }))
    : Result.fail({
      status: 400,
      problem: "this is a proxy: requests name the whole URL, and https goes through a tunnel"
    })

const answerOf = ({ problem, status }: Refusal): string =>
  `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n` +
  `tool-executor: ${problem}.\n`

const hopByHop: ReadonlySet<string> = new Set([
  "connection",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

const forwardable = (headers: NodeHttp.IncomingHttpHeaders): NodeHttp.OutgoingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.has(name)))
