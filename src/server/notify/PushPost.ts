/**
 * One POST to a push service: its name is looked up once, every address is checked, and the connection is made to one of
 * those. The address comes from a browser, so it could be any.
 */
import * as Effect from "effect/Effect"
import * as NodeHttps from "node:https"
import { isIP } from "node:net"
import * as HttpExchange from "../../tools/fetch/HttpExchange.ts"
import type { Reach } from "../../tools/fetch/PublicAddress.ts"
import type { NotTaken } from "./Notices.ts"

/** How push services are reached. */
export interface Network {
  readonly reach: Reach
  readonly lookup: HttpExchange.Lookup
  /** Certificates of the authorities to trust instead of Node's own, as PEM. */
  readonly authorities: string | undefined
}

/** What is sent. */
export interface Message {
  readonly headers: Readonly<Record<string, number | string>>
  readonly body: Uint8Array
}

/** The URL of an endpoint; `undefined` if no push service has such a one. */
export const addressOf = (endpoint: string): URL | undefined => {
  const url = endpoint.length <= 2_000 && URL.canParse(endpoint) ? new URL(endpoint) : undefined
  return url?.protocol === "https:" && url.username === "" && url.password === "" && url.port !== "0" ? url : undefined
}

/** Sends a message and gives the status. Redirects are not followed, and proxies not used. */
export const post = Effect.fnUntraced(function*(
  url: URL,
  message: Message,
  { authorities, lookup, reach }: Network
): Effect.fn.Return<number, NotTaken> {
  const hostname = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "")
  const addresses = isIP(hostname) === 0 ? yield* Effect.orElseSucceed(lookup(hostname), () => []) : [hostname]
  if (addresses.length === 0) return yield* failed("it has no address", false)
  if (!addresses.every((address) => reach(hostname, address))) return yield* failed("its address is not public", true)
  return yield* Effect.callback<number, NotTaken>((resume) => {
    const request = NodeHttps.request({
      hostname,
      port: url.port === "" ? null : url.port,
      path: `${url.pathname}${url.search}`,
      method: "POST",
      headers: message.headers,
      agent: false,
      lookup: HttpExchange.pinned(addresses),
      // what is not said here, the environment can change
      rejectUnauthorized: true,
      servername: isIP(hostname) === 0 ? hostname : "",
      ca: authorities
    })
    // only the status matters
    request.once("response", ({ statusCode }) => {
      resume(Effect.succeed(statusCode ?? 0))
      request.destroy()
    })
    request.on("error", (cause) => resume(failed(codeOf(cause), false)))
    request.end(message.body)
    return Effect.sync(() => request.destroy())
  })
})

const codeOf = (cause: Error): string => "code" in cause ? String(cause.code) : cause.name

const failed = (problem: string, isForGood: boolean): Effect.Effect<never, NotTaken> =>
  Effect.fail({ problem, isForGood })
