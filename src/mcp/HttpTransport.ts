/**
 * A server that is reached over Streamable HTTP: one session for each connection, which is ended with it.
 *
 * Redirects to another origin are not followed: the headers of a server are for it alone.
 */
import { type FetchLike, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client"
import * as Effect from "effect/Effect"
import type { Http } from "./McpServers.ts"
import { maxMessageBytes } from "./StdioTransport.ts"

/** A transport, and how its session is ended. */
export interface HttpTransport {
  readonly transport: Transport
  /** Never ends: HTTP knows no connections. */
  readonly ended: Effect.Effect<never>
  /** Ends the session. A server that ignores this lets the session expire. */
  readonly leave: Effect.Effect<void>
}

/** Creates the transport; nothing is sent yet. */
export const make = (server: Http): HttpTransport => {
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    requestInit: { headers: { ...server.headers } },
    fetch: boundedFetch
  })
  const send = transport.send.bind(transport)
  // an answer that was cut off would be waited for until the limit of the call
  transport.send = (message, options) =>
    send(message, {
      ...options,
      onRequestStreamEnd: () => {
        options?.onRequestStreamEnd?.()
        if (Array.isArray(message) || !("method" in message && "id" in message)) return
        transport.onmessage?.({ jsonrpc: "2.0", id: message.id, error: { code: -32_000, message: cutOff } })
      }
    })
  return {
    transport,
    ended: Effect.never,
    leave: Effect.asVoid(
      Effect.timeoutOption(Effect.ignore(Effect.tryPromise(() => transport.terminateSession())), "1 second")
    )
  }
}

const cutOff = "the server ended the stream before its answer"

/** The fetch that the client would use, with a bound on what one message may hold: a stream has many. */
const boundedFetch: FetchLike = (url, init) =>
  globalThis.fetch(url, init).then((response) => {
    if (response.body === null) return response
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true
    return new Response(response.body.pipeThrough(bound(isStream)), response)
  })

const bound = (isStream: boolean) => {
  let size = 0
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      // an empty line ends an event
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      const end = isStream ? Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\n\r\n")) : -1
      size = end < 0 ? size + chunk.length : chunk.length - end
      if (size <= maxMessageBytes) return controller.enqueue(chunk)
      controller.error(new Error(`the server sent a message of more than ${maxMessageBytes} bytes`))
    }
  })
}
