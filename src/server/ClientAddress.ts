/**
 * Where a request comes from, and by which name it reached the server: from the connection, or, where the
 * host says that proxies stand before it, from what the nearest of them wrote.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { shown } from "../internal/OptionReader.ts"

/** Where a request comes from. */
export interface Caller {
  /** Address, as limits count it: of IPv6 the network (the first 64 bits), since one host has all of it. */
  readonly address: string
  /** Name and port that the request was sent to; empty: it says none. */
  readonly host: string
  /** Whether the way to the server, or to the proxy before it, is encrypted. */
  readonly isSecure: boolean
  /** Origin of pages that this server sends its caller: the only one whose requests change something. */
  readonly origin: string
}

/** Where requests come from. */
export class ClientAddress extends Context.Service<ClientAddress, {
  readonly of: (request: HttpServerRequest.HttpServerRequest) => Caller
}>()("effect-tool-executor/server/ClientAddress") {}

/** How the server is reached. */
export interface Options {
  /** Where people reach the server, such as `https://tools.example.com`. Default: at the address it listens on. */
  readonly publicUrl?: string | undefined
  /**
   * How many proxies stand before the server, `true` for one: `X-Forwarded-For`, `-Proto` and `-Host` are
   * believed as the outermost of them wrote them. Only where nobody reaches the server past them. Default `false`.
   */
  readonly trustProxy?: boolean | number | undefined
}

/** Creates the service; fails where an option is none. */
export const make = (options?: Options): Effect.Effect<ClientAddress["Service"], ConfigurationError> =>
  Effect.suspend(() => {
    const proxies = Number(options?.trustProxy ?? false)
    const publicUrl = options?.publicUrl === undefined ? undefined : originOf(options.publicUrl)
    const problems = [
      ...(Number.isInteger(proxies) && proxies >= 0 ? [] : [{
        path: "trustProxy",
        problem: `it is ${shown(options?.trustProxy)}`,
        expected: "true, false or the number of proxies"
      }]),
      ...(publicUrl !== null ? [] : [{
        path: "publicUrl",
        problem: `it is ${shown(options?.publicUrl)}`,
        expected: "an address without a path, such as https://tools.example.com"
      }])
    ]
    if (problems.length > 0 || publicUrl === null) {
      return Effect.fail(new ConfigurationError({ subject: "ClientAddress", problems }))
    }
    return Effect.succeed(ClientAddress.of({ of: (request) => callerOf(request, proxies, publicUrl) }))
  })

/** Layer that knows where requests come from. */
export const layer = (options?: Options): Layer.Layer<ClientAddress, ConfigurationError> =>
  Layer.effect(ClientAddress, make(options))

/** The origin of an address of a whole server; `null`: it is none. */
export const originOf = (text: string): URL | null => {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  const isWhole = url.pathname === "/" && url.search === "" && url.hash === "" && url.username === ""
  return isWhole && /^https?:$/.test(url.protocol) ? url : null
}

// Utilities

const callerOf = (
  request: HttpServerRequest.HttpServerRequest,
  proxies: number,
  publicUrl: URL | undefined
): Caller => {
  const forwarded = (name: string) => {
    if (proxies === 0) return undefined
    const values = request.headers[name]?.split(",").map((it) => it.trim()) ?? []
    // each proxy writes behind what it was sent: what is further left anybody may have written
    return values.at(-Math.min(proxies, values.length))
  }
  const host = (forwarded("x-forwarded-host") ?? request.headers["host"] ?? "").toLowerCase()
  const scheme = host === publicUrl?.host
    ? publicUrl.protocol.slice(0, -1)
    : forwarded("x-forwarded-proto") ?? (request.originalUrl.startsWith("https:") ? "https" : "http")
  const isSecure = scheme.toLowerCase() === "https"
  return {
    address: networkOf(forwarded("x-forwarded-for") ?? Option.getOrElse(request.remoteAddress, () => "")),
    host,
    isSecure,
    origin: `${isSecure ? "https" : "http"}://${host.replace(isSecure ? /:443$/ : /:80$/, "")}`
  }
}

const networkOf = (given: string): string => {
  // some proxies write the port, too, which is another one with each connection
  const [, bracketed, plain] = /^\[([^\]]*)\](?::\d+)?$|^([^:]*):\d+$/.exec(given) ?? []
  const address = bracketed ?? plain ?? given
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  if (mapped !== undefined) return mapped
  if (!address.includes(":")) return address
  const [before = "", after] = address.toLowerCase().split("::")
  const head = before === "" ? [] : before.split(":")
  const tail = after === undefined || after === "" ? [] : after.split(":")
  const gap = after === undefined ? [] : Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => "0")
  return `${[...head, ...gap, ...tail].slice(0, 4).map((it) => it.replace(/^0+(?=.)/, "")).join(":")}::/64`
}
