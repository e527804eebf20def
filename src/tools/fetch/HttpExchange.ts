/**
 * One GET: the name is looked up once, every address is checked, and the connection is made to one of the addresses
 * that were checked.
 *
 * `effect/http` is not used: its clients look up names and follow redirects and proxies without asking. Here the proxy
 * of the environment is ignored, no connection is kept, and the certificate is always checked.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeDns from "node:dns"
import * as NodeHttp from "node:http"
import * as NodeHttps from "node:https"
import { isIP, type LookupFunction } from "node:net"
import { finished, pipeline, type Readable } from "node:stream"
import * as NodeZlib from "node:zlib"
import { clip } from "../../internal/clip.ts"
import { codeOf } from "../workspace/WorkspaceFailure.ts"
import * as FetchFailure from "./FetchFailure.ts"
import type { FetchTarget } from "./FetchTarget.ts"
import type { Reach } from "./PublicAddress.ts"

/** Gives the addresses of a name. */
export type Lookup = (hostname: string) => Effect.Effect<ReadonlyArray<string>, unknown>

/** How servers are reached. */
export interface Network {
  readonly lookup: Lookup
  readonly reach: Reach
  /** How long looking up and connecting may take together. */
  readonly connectTimeout: Duration.Duration
  /** Certificates of the authorities to trust instead of Node's own, as PEM. */
  readonly authorities: string | undefined
}

/** Asks the operating system, its file of hosts included. */
export const systemLookup: Lookup = (hostname) =>
  Effect.callback((resume) =>
    NodeDns.lookup(
      hostname,
      { all: true },
      (cause, found) =>
        resume(cause === null ? Effect.succeed(found.map(({ address }) => address)) : Effect.fail(cause))
    )
  )

/**
 * Sends the request and gives the head of the response; the connection is destroyed with the scope.
 *
 * Fails with `UnknownHost`, `ForbiddenAddress`, `ConnectTimeout`, `ConnectionFailed`, `TlsFailed` or `InvalidResponse`.
 */
export const open = Effect.fnUntraced(function*(
  target: FetchTarget,
  network: Network
): Effect.fn.Return<NodeHttp.IncomingMessage, FetchFailure.FetchFailure, Scope.Scope> {
  const exchange = yield* Effect.timeoutOrElse(connect(target, network), {
    duration: network.connectTimeout,
    orElse: () =>
      Effect.fail(FetchFailure.make(
        "ConnectTimeout",
        target.url.href,
        `There was no connection to ${target.host} in time. It may be down; try again later, or another URL.`
      ))
  })
  return yield* Deferred.await(exchange.responded)
})

/**
 * Reads a body, decompressed, as far as the limit.
 *
 * Reading goes on until the scope of the response closes. Fails with `InvalidResponse`.
 */
export const read = (
  response: NodeHttp.IncomingMessage,
  url: string,
  limit: number
): Effect.Effect<{ readonly bytes: Uint8Array; readonly truncated: boolean }, FetchFailure.FetchFailure> =>
  Effect.callback((resume) => {
    const coding = (response.headers["content-encoding"] ?? "identity").trim().toLowerCase()
    const decoder = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined
    if (decoder === undefined && coding !== "identity" && coding !== "") {
      const problem = `The body is packed as ${JSON.stringify(clip(coding, 50))}. ${another}`
      return resume(Effect.fail(FetchFailure.make("InvalidResponse", url, problem)))
    }
    const chunks: Array<Uint8Array> = []
    let size = 0
    let received = 0
    const source: Readable = decoder === undefined ? response : pipeline(response, decoder(), () => undefined)
    const end = (truncated: boolean) =>
      resume(Effect.succeed({ bytes: Buffer.concat(chunks).subarray(0, limit), truncated }))
    source.on("data", (chunk: Uint8Array) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > limit) end(true)
    })
    // a flood may unpack to nothing; packed and small may be more than unpacked and cut
    response.on("data", (chunk: Uint8Array) => {
      received += chunk.length
      if (received > limit + spare) end(true)
    })
    finished(source, (cause) => {
      if (cause === undefined || cause === null) return end(false)
      const problem = `The body broke off or cannot be unpacked (${reasonOf(cause)}). ${another}`
      resume(Effect.fail(FetchFailure.make("InvalidResponse", url, problem)))
    })
  })

interface Exchange {
  readonly request: NodeHttp.ClientRequest
  readonly connected: Deferred.Deferred<void, FetchFailure.FetchFailure>
  readonly responded: Deferred.Deferred<NodeHttp.IncomingMessage, FetchFailure.FetchFailure>
}

const connect = Effect.fnUntraced(function*(
  target: FetchTarget,
  network: Network
): Effect.fn.Return<Exchange, FetchFailure.FetchFailure, Scope.Scope> {
  const addresses = yield* resolve(target, network)
  const exchange = yield* Effect.acquireRelease(
    Effect.sync(() => start(target, addresses, network)),
    ({ request }) => Effect.sync(() => request.destroy())
  )
  yield* Deferred.await(exchange.connected)
  return exchange
})

/** The addresses of the host, all of which may be reached. */
const resolve = Effect.fnUntraced(function*(
  { host, hostname, url }: FetchTarget,
  network: Network
): Effect.fn.Return<ReadonlyArray<string>, FetchFailure.FetchFailure> {
  const addresses = isIP(hostname) === 0
    ? yield* Effect.orElseSucceed(network.lookup(hostname), () => [])
    : [hostname]
  if (addresses.length === 0) {
    const problem = `${hostname} has no address. Check the spelling, or try another host.`
    return yield* Effect.fail(FetchFailure.make("UnknownHost", url.href, problem))
  }
  if (addresses.every((address) => network.reach(hostname, address))) return addresses
  const problem = `${host} is at a private or reserved address, and only public ones can be fetched. Use another ` +
    "host, or ask the user to allow it (allowPrivate)."
  return yield* Effect.fail(FetchFailure.make("ForbiddenAddress", url.href, problem))
})

const start = ({ host, hostname, url }: FetchTarget, addresses: ReadonlyArray<string>, network: Network): Exchange => {
  const connected = Deferred.makeUnsafe<void, FetchFailure.FetchFailure>()
  const responded = Deferred.makeUnsafe<NodeHttp.IncomingMessage, FetchFailure.FetchFailure>()
  const isSecure = url.protocol === "https:"
  const request = (isSecure ? NodeHttps : NodeHttp).request({
    hostname,
    port: url.port === "" ? null : url.port,
    path: `${url.pathname}${url.search}`,
    headers: { accept: "text/*, */*;q=0.8", "accept-encoding": "gzip, br", "user-agent": "effect-tool-executor" },
    // one connection for this request, and none of the agents that know proxies
    agent: false,
    lookup: pinned(addresses),
    insecureHTTPParser: false,
    maxHeaderSize: 32_768,
    // what is not said here, the environment can change
    ...isSecure
      ? { rejectUnauthorized: true, servername: isIP(hostname) === 0 ? hostname : "", ca: network.authorities }
      : {}
  })
  request.once("socket", (socket) => {
    socket.once(isSecure ? "secureConnect" : "connect", () => Deferred.doneUnsafe(connected, Effect.void))
  })
  request.once("response", (response) => Deferred.doneUnsafe(responded, Effect.succeed(response)))
  const fail = (cause: unknown) => {
    const failure = Effect.fail(failureOf(cause, host, url.href))
    Deferred.doneUnsafe(connected, failure)
    Deferred.doneUnsafe(responded, failure)
  }
  request.on("error", fail)
  // a protocol switch of the server causes no error
  request.once("close", () => fail(undefined))
  request.end()
  return { request, connected, responded }
}

/** Gives the addresses that were checked, whatever the name leads to by now. */
export const pinned = (addresses: ReadonlyArray<string>): LookupFunction => {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  return (_hostname, options, callback) =>
    options.all === true ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)
}

const failureOf = (cause: unknown, host: string, url: string): FetchFailure.FetchFailure => {
  const reason = reasonOf(cause)
  if (reason.startsWith("HPE_")) {
    return FetchFailure.make("InvalidResponse", url, `${host} did not send an HTTP response (${reason}). ${another}`)
  }
  return /CERT|SSL|TLS|SIGNATURE|EPROTO/.test(reason)
    ? FetchFailure.make("TlsFailed", url, `${host} could not prove that it is ${host} (${reason}). Use another URL.`)
    : FetchFailure.make("ConnectionFailed", url, `The connection to ${host} failed (${reason}). ${another}`)
}

const reasonOf = (cause: unknown): string => codeOf(cause) || "it was closed"

const decoders: Readonly<Record<string, () => NodeJS.ReadWriteStream & Readable>> = {
  gzip: NodeZlib.createGunzip,
  "x-gzip": NodeZlib.createGunzip,
  deflate: NodeZlib.createInflate,
  br: NodeZlib.createBrotliDecompress
}

/** Bytes that may come over the wire beyond the limit of what they unpack to. */
const spare = 1_000_000

const another = "Try again later, or another URL."
