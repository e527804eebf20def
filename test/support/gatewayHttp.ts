/** The gateway over real HTTP on loopback, behind its lifecycle, for requests as bare as they come. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import { createServer } from "node:http"
import * as ToolHandlers from "../../src/core/vocabulary/ToolHandlers.ts"
import * as GatewayHttp from "../../src/mcp/GatewayHttp.ts"
import * as GatewayLifecycle from "../../src/mcp/GatewayLifecycle.ts"
import { type Options, registrations, registryOf, type Tools } from "./gateway.ts"

/** Serves tools behind a lifecycle on a free port; gives where. */
export const serving = Effect.fnUntraced(function*(tools: Tools, options: Options & GatewayHttp.Options = {}) {
  const lifecycle = yield* GatewayLifecycle.make()
  const handlers = ToolHandlers.fromRegistry(yield* registryOf(tools))
  const routes = McpServer.layerHttp({
    name: "test",
    version: "1.0.0",
    path: "/mcp",
    protocols: [
      McpProtocol.v2025_11_25,
      McpProtocol.v2025_06_18,
      McpProtocol.v2025_03_26,
      McpProtocol.v2026_07_28
    ],
    allowSessionTermination: true,
    registrations: Layer.effectDiscard(
      Layer.build(registrations(handlers, { ...options, gateway: { ...options.gateway, lifecycle } }))
    )
  })
  const app = Layer.provide(routes, GatewayHttp.layer(lifecycle, options))
  const context = yield* Layer.build(
    HttpRouter.serve(app, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provideMerge(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 }))
    )
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  return {
    lifecycle,
    replace: (next: Tools) => Effect.flatMap(registryOf(next), handlers.replace),
    url: `http://127.0.0.1:${"port" in address ? address.port : 0}/mcp`
  }
}, Effect.orDie)

export const json = { "content-type": "application/json", accept: "application/json, text/event-stream" }

/** A session of a client that is no more than its requests. */
export const session = async (url: string, version = "2025-11-25", capabilities: object = {}) => {
  const begun = await fetch(url, {
    method: "POST",
    headers: json,
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: "begin",
      method: "initialize",
      params: { protocolVersion: version, capabilities, clientInfo: { name: "test", version: "1" } }
    })
  })
  await begun.text()
  const headers = { ...json, "mcp-session-id": begun.headers.get("mcp-session-id")!, "mcp-protocol-version": version }
  const post = (message: unknown, signal?: AbortSignal) =>
    fetch(url, {
      method: "POST",
      headers,
      body: typeof message === "string" ? message : JSON.stringify(message),
      ...signal === undefined ? {} : { signal }
    })
  await post({ jsonrpc: "2.0", method: "notifications/initialized" })
  return {
    headers,
    post,
    /** Reads a stream, from after an event. */
    listen: (lastEventId?: string) =>
      fetch(url, { headers: { ...headers, ...lastEventId === undefined ? {} : { "last-event-id": lastEventId } } }),
    end: () => fetch(url, { method: "DELETE", headers })
  }
}

export const callOf = (id: string | number, name: string, args: object = {}, meta?: object) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args, ...meta === undefined ? {} : { _meta: meta } }
})

/** An event of a stream. */
export interface Event {
  readonly id: string | undefined
  readonly data: string
}

/** Reads the events of a stream one by one; `undefined` at its end. */
export const events = (response: Response) => {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let left = ""
  return async (): Promise<Event | undefined> => {
    for (;;) {
      const end = left.indexOf("\n\n")
      if (end >= 0) {
        const lines = left.slice(0, end).split("\n")
        left = left.slice(end + 2)
        const field = (name: string) => lines.find((it) => it.startsWith(`${name}:`))?.slice(name.length + 1).trim()
        if (field("data") === undefined) continue
        return { id: field("id"), data: field("data")! }
      }
      const { done, value } = await reader.read()
      if (done) return undefined
      left += value
    }
  }
}

/** All that is left of a stream. */
export const rest = async (next: () => Promise<Event | undefined>): Promise<ReadonlyArray<Event>> => {
  const all: Array<Event> = []
  for (let event = await next(); event !== undefined; event = await next()) all.push(event)
  return all
}
