/**
 * An MCP server in memory, with the official client in front: as many clients as
 * a test connects, each over a connection of its own that can be cut.
 */
import { Client, type JSONRPCMessage, type Transport } from "@modelcontextprotocol/client"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type * as RpcMessage from "effect/rpc/RpcMessage"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import * as RpcServer from "effect/rpc/RpcServer"

/** A client's end of a connection. */
export interface Connection {
  readonly transport: Transport
  /** Everything that was sent over it, either way, in its order. */
  readonly messages: ReadonlyArray<{ readonly from: "client" | "server"; readonly message: JSONRPCMessage }>
  /** Cuts it, as if the client were gone. */
  readonly cut: () => void
}

/** A server without registrations: what carries it, and how a client gets a connection. */
export const makeServer = Effect.gen(function*() {
  const toServer = yield* Queue.unbounded<readonly [clientId: number, frame: string]>()
  const disconnects = yield* Queue.make<number>()
  const serialization = RpcSerialization.jsonRpc()
  const clients = new Map<number, { readonly write: (message: RpcMessage.FromServerEncoded) => void }>()
  let lastId = -1
  const connection = (onSend: (message: JSONRPCMessage) => void = () => undefined): Connection => {
    const id = ++lastId
    const parser = serialization.makeUnsafe()
    const messages: Array<Connection["messages"][number]> = []
    const transport: Transport = {
      start: () => Promise.resolve(),
      close: () => Promise.resolve(),
      send: (message) => {
        messages.push({ from: "client", message })
        Queue.offerUnsafe(toServer, [id, JSON.stringify(message)])
        onSend(message)
        return Promise.resolve()
      }
    }
    clients.set(id, {
      write: (response) => {
        const text = parser.encode(response)
        if (typeof text !== "string") return
        const message = JSON.parse(text) as JSONRPCMessage
        messages.push({ from: "server", message })
        transport.onmessage?.(message)
      }
    })
    const cut = () => {
      clients.delete(id)
      Queue.offerUnsafe(disconnects, id)
    }
    return { transport, messages, cut }
  }
  const protocol = RpcServer.Protocol.make(Effect.fnUntraced(function*(writeRequest) {
    const parser = serialization.makeUnsafe()
    yield* Queue.take(toServer).pipe(
      Effect.flatMap(([id, frame]) =>
        Effect.forEach(
          parser.decode(frame) as ReadonlyArray<RpcMessage.FromClientEncoded>,
          (message) => writeRequest(id, message),
          { discard: true }
        )
      ),
      Effect.forever,
      Effect.forkScoped
    )
    return {
      disconnects,
      send: (id, response) => Effect.sync(() => clients.get(id)?.write(response)),
      end: () => Effect.void,
      clientIds: Effect.sync(() => new Set(clients.keys())),
      initialMessage: Effect.succeedNone,
      supportsAck: false,
      supportsTransferables: false,
      supportsSpanPropagation: false,
      supportsNotifications: true,
      codecFor: serialization.codecFor
    }
  }))
  return { connection, protocol: Layer.effect(RpcServer.Protocol, protocol) }
})

/** Serves registrations for the rest of the scope; gives what connects a client. */
export const serve = Effect.fnUntraced(function*<E>(registrations: Layer.Layer<never, E, McpServer.McpServer>) {
  const { connection, protocol } = yield* makeServer
  yield* Layer.build(
    McpServer.layer({ name: "test", version: "1.0.0", protocols: [McpProtocol.v2025_11_25], registrations }).pipe(
      Layer.provide(protocol)
    )
  )
  return (client: Client, onSend?: (message: JSONRPCMessage) => void) => {
    const made = connection(onSend)
    return Effect.as(Effect.promise(() => client.connect(made.transport)), made)
  }
})

/** A client of a name; without capabilities unless given. */
export const makeClient = (capabilities: NonNullable<ConstructorParameters<typeof Client>[1]>["capabilities"] = {}) =>
  new Client({ name: "test", version: "1" }, { capabilities })
