/**
 * The address of a client, and the name by which it reached the server: from the connection or, behind trusted proxies,
 * from their headers.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { shown } from "../../internal/OptionReader.ts"

/** Where a request comes from. */
export interface Caller {
  /** The address that limits count. For IPv6 it is the network (the first 64 bits), since one host has all of it. */
  readonly address: string
  /** Host and port of the request; empty if it names none. */
  readonly host: string
  /** Whether the connection to the server, or to the proxy before it, is encrypted. */
  readonly isSecure: boolean
  /** The origin of the server's page: only its requests may change something. */
  readonly origin: string
}

export class ClientAddress extends Context.Service<ClientAddress, {
  readonly of: (request: HttpServerRequest.HttpServerRequest) => Caller
}>()("effect-tool-executor/server/ClientAddress") {}

/** How clients reach the server. */
export interface Options {
  /** The public address, such as `https://tools.example.com`. Default: the address that the server listens on. */
  readonly publicUrl?: string | undefined
  /**
   * Number of proxies before the server, `true` for one. `X-Forwarded-For`, `-Proto` and `-Host` are trusted as the
   * outermost proxy wrote them. Set it only if clients cannot bypass the proxies. Default `false`.
   */
  readonly trustProxy?: boolean | number | undefined
}

/** Creates the service. Fails if an option is invalid. */
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

/** Layer of the service. */
export const layer = (options?: Options): Layer.Layer<ClientAddress, ConfigurationError> =>
  Layer.effect(ClientAddress, make(options))

/** The origin of a URL without a path; `null` if it has one. */
export const originOf = (text: string): URL | null => {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  const isWhole = url.pathname === "/" && url.search === "" && url.hash === "" && url.username === ""
  return isWhole && /^https?:$/.test(url.protocol) ? url : null
}

const callerOf = (
  request: HttpServerRequest.HttpServerRequest,
  proxies: number,
  publicUrl: URL | undefined
): Caller => {
  const forwarded = (name: string) => {
    if (proxies === 0) return undefined
    const values = request.headers[name]?.split(",").map((it) => it.trim()) ?? []
    // each proxy appends to the header: the client may have written everything further left
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
  // some proxies add the port, which changes with each connection
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
