/** A push service on loopback, and browsers that read its messages. */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import { createECDH, randomBytes } from "node:crypto"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import * as Tls from "./tls.ts"

interface Ece {
  readonly decrypt: (
    body: Buffer,
    keys: { readonly version: "aes128gcm"; readonly privateKey: unknown; readonly authSecret: string }
  ) => Buffer
}

const packageOfTests: string = "http_ece"
const ece = (await import(packageOfTests) as { readonly default: Ece }).default

/** A message that a push service got. */
export interface Got {
  readonly path: string
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly body: Buffer
}

/** A push service that answers with these statuses, the last of them for ever. */
export const service = Effect.fnUntraced(function*(...statuses: ReadonlyArray<number>) {
  const got = yield* Queue.unbounded<Got>()
  let next = 0
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const made = createServer({ cert: Tls.cert, key: Tls.key }, (request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const { headers, url = "" } = request
          Queue.offerUnsafe(got, { path: url, headers, body: Buffer.concat(chunks) })
          response.writeHead(statuses[Math.min(next++, statuses.length - 1)]!, { location: "/elsewhere" }).end()
        })
      })
      made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
    }),
    (it) =>
      Effect.sync(() => {
        it.closeAllConnections()
        it.close()
      })
  )
  return { got, url: `https://127.0.0.1:${(server.address() as AddressInfo).port}` }
})

/** A browser: its keys, and what it reads of a message. */
export const browser = (endpoint: string) => {
  const pair = createECDH("prime256v1")
  const authSecret = randomBytes(16).toString("base64url")
  const p256dh = pair.generateKeys("base64url")
  return {
    subscription: { endpoint, keys: { p256dh, auth: authSecret } },
    read: ({ body }: Got): unknown =>
      JSON.parse(ece.decrypt(body, { version: "aes128gcm", privateKey: pair, authSecret }).toString("utf8"))
  }
}
