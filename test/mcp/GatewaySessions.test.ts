/** What stands before a gateway on HTTP: bounds, the AI SDK's client, and who is told of changes. */
import { createMCPClient } from "@ai-sdk/mcp"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { createServer, request } from "node:http"
import * as ToolHandlers from "../../src/core/vocabulary/ToolHandlers.ts"
import * as GatewayHttp from "../../src/mcp/GatewayHttp.ts"
import * as GatewayLifecycle from "../../src/mcp/GatewayLifecycle.ts"
import { registrations, registryOf, type Tools } from "../support/gateway.ts"
import { makeClient } from "../support/mcpServer.ts"

const limit = 128 * 1024

/** Serves tools behind a lifecycle on a free port. */
const serving = Effect.fnUntraced(function*(
  tools: Tools,
  ready?: Effect.Effect<void>,
  options: GatewayHttp.Options = { maxBodyBytes: limit }
) {
  const lifecycle = yield* GatewayLifecycle.make({ ready })
  const handlers = ToolHandlers.fromRegistry(yield* registryOf(tools))
  const routes = McpServer.layerHttp({
    name: "test",
    version: "1.0.0",
    path: "/mcp",
    protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
    allowSessionTermination: true,
    registrations: Layer.effectDiscard(Layer.build(registrations(handlers, { gateway: { lifecycle } })))
  })
  const app = Layer.provide(routes, GatewayHttp.layer(lifecycle, options))
  const context = yield* Layer.build(
    HttpRouter.serve(app, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provideMerge(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 }))
    )
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  const port = "port" in address ? address.port : 0
  return {
    lifecycle,
    port,
    url: `http://127.0.0.1:${port}/mcp`,
    replace: (next: Tools) => Effect.flatMap(registryOf(next), handlers.replace)
  }
}, Effect.orDie)

const live = (name: string, program: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => Effect.scoped(program))

const read = () => Effect.succeed("read")

const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" }

/** Sends the head of a request and pieces of its body, until there is an answer; gives its status, and how much was sent. */
const post = (port: number, extra: Record<string, string>, piece: string, most: number, path = "/mcp") =>
  Effect.callback<{ readonly status: number | undefined; readonly sent: number }>((resume) => {
    let sent = 0
    let status: number | undefined
    const done = () => resume(Effect.succeed({ status, sent }))
    const out = request({ host: "127.0.0.1", port, path, method: "POST", headers: { ...headers, ...extra } })
    out.on("response", (response) => {
      status = response.statusCode
      response.resume().once("close", done)
    })
    out.on("error", done)
    out.flushHeaders()
    const more = () => {
      if (status !== undefined || sent >= most) return
      sent += piece.length
      out.write(piece, more)
    }
    more()
  })

const megabyte = "x".repeat(1024 * 1024)

describe("a body", () => {
  live(
    "without a session that says it is large is refused before any of it is read",
    Effect.gen(function*() {
      const { port } = yield* serving({ read })
      const declared = { "content-length": String(400 * 1024 * 1024) }
      // not one byte of it is sent, and however the path is spelled
      for (const path of ["/mcp", "/mcp/", "/MCP", "//mcp", "/mc%70", "/mcp;x", "/mcp?x", "/mcp#x"]) {
        assert.strictEqual((yield* post(port, declared, "", 0, path)).status, 413, path)
      }
    })
  )

  live(
    "that does not say how large it is, is refused when it is too large",
    Effect.gen(function*() {
      const { port, url } = yield* serving({ read })
      const refused = yield* post(port, {}, megabyte, 400 * megabyte.length)
      assert.strictEqual(refused.status, 413)
      assert.isBelow(refused.sent, 400 * megabyte.length)
      const transport = new StreamableHTTPClientTransport(new URL(url))
      const client = makeClient()
      yield* Effect.promise(() => client.connect(transport))
      const session = { "mcp-session-id": transport.sessionId! }
      assert.strictEqual((yield* post(port, session, megabyte, 400 * 1024 * 1024)).status, 413)
      // within the bound of a session, and more than one without may have
      const text = "x".repeat(100 * 1024)
      const result = yield* Effect.promise(() => client.callTool({ name: "read", arguments: { text } }))
      assert.isUndefined(result.isError)
      yield* Effect.promise(() => client.close())
    })
  )

  it.effect("that does not come in time is not waited for", () =>
    Effect.scoped(Effect.gen(function*() {
      const lifecycle = yield* GatewayLifecycle.make()
      const route = HttpRouter.add("POST", "/mcp", HttpServerResponse.empty())
      const context = yield* Layer.build(
        Layer.provide(route, GatewayHttp.layer(lifecycle)).pipe(Layer.provideMerge(HttpRouter.layer))
      )
      const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) })
      const slow = new Request("http://localhost/mcp", { method: "POST", body, duplex: "half" } as RequestInit)
      const answer = yield* Effect.forkChild(
        Context.get(context, HttpRouter.HttpRouter).asHttpEffect().pipe(
          Effect.provideService(HttpServerRequest.HttpServerRequest, HttpServerRequest.fromWeb(slow))
        )
      )
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* Fiber.join(answer)).status, 408)
    })))

  live(
    "of a session that is not known is not read",
    Effect.gen(function*() {
      const { port } = yield* serving({ read })
      const unknown = { "mcp-session-id": "nobody" }
      assert.strictEqual((yield* post(port, unknown, "", 0)).status, 404)
    })
  )
})

describe("the AI SDK's client", () => {
  live(
    "connects as it comes, lists and calls",
    Effect.gen(function*() {
      const { url } = yield* serving({ read })
      const client = yield* Effect.acquireRelease(
        Effect.promise(() => createMCPClient({ transport: { type: "http", url } })),
        (client) => Effect.promise(() => client.close())
      )
      const tools = yield* Effect.promise(() => client.tools())
      assert.include(Object.keys(tools), "read")
      const result = yield* Effect.promise(async () =>
        tools["read"]!.execute({}, { toolCallId: "1", messages: [], context: undefined } as never)
      )
      assert.deepInclude(result, { content: [{ type: "text", text: "read" }] })
    })
  )
})

describe("a client that listens", () => {
  const listening = Effect.fnUntraced(function*(url: string, onChanged: () => void) {
    const client = new Client({ name: "test", version: "1" }, {
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged } }
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => client.connect(new StreamableHTTPClientTransport(new URL(url)))),
      () => Effect.promise(() => client.close())
    )
    return client
  })

  live(
    "is told when the list of tools changes, while none of its requests is open",
    Effect.gen(function*() {
      const { replace, url } = yield* serving({ read })
      const told = Deferred.makeUnsafe<void>()
      const client = yield* listening(url, () => Deferred.doneUnsafe(told, Effect.void))
      yield* Effect.promise(() => client.listTools())
      yield* replace({ read, write: read })
      yield* Deferred.await(told)
      const { tools } = yield* Effect.promise(() => client.listTools())
      assert.include(tools.map((it) => it.name), "write")
    })
  )

  live(
    "is told of what changed before it listened, and no more than once it has asked",
    Effect.gen(function*() {
      const { replace, url } = yield* serving({ read })
      const begun = yield* Effect.promise(() =>
        fetch(url, {
          method: "POST",
          headers,
          body: JSON.stringify({
            jsonrpc: "2.0",
            id: 1,
            method: "initialize",
            params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } }
          })
        })
      )
      const session = { "mcp-session-id": begun.headers.get("mcp-session-id")!, "mcp-protocol-version": "2025-11-25" }
      yield* replace({ read, write: read })
      const stream = yield* Effect.promise(() => fetch(url, { headers: { ...headers, ...session } }))
      assert.strictEqual(stream.status, 200)
      const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
      let seen = ""
      while (!seen.includes("notifications/tools/list_changed")) {
        seen += (yield* Effect.promise(() => reader.read())).value ?? ""
      }
      // its session is over, and so is the stream
      const ended = yield* Effect.promise(() => fetch(url, { method: "DELETE", headers: { ...headers, ...session } }))
      assert.strictEqual(ended.status, 204)
      let last = yield* Effect.promise(() => reader.read())
      while (!last.done) last = yield* Effect.promise(() => reader.read())
      const gone = yield* Effect.promise(() => fetch(url, { headers: { ...headers, ...session } }))
      assert.strictEqual(gone.status, 404)
    })
  )

  live(
    "has no stream without a session, and none for a page of elsewhere",
    Effect.gen(function*() {
      const { url } = yield* serving({ read })
      assert.strictEqual((yield* Effect.promise(() => fetch(url))).status, 405)
      const elsewhere = { origin: "http://evil.example" }
      assert.strictEqual((yield* Effect.promise(() => fetch(url, { headers: elsewhere }))).status, 403)
    })
  )
})

describe("a call over HTTP", () => {
  live(
    "waits for the tools that are still to come",
    Effect.gen(function*() {
      const ready = Deferred.makeUnsafe<void>()
      const { replace, url } = yield* serving({}, Deferred.await(ready))
      const client = makeClient()
      yield* Effect.promise(() => client.connect(new StreamableHTTPClientTransport(new URL(url))))
      let answers = 0
      const count = <A>(it: A) => (answers++, it)
      const listed = client.listTools().then(count)
      const called = client.callTool({ name: "read", arguments: {} }).then(count)
      for (let n = 0; n < 5; n++) yield* Effect.promise(() => client.ping())
      assert.strictEqual(answers, 0)
      yield* replace({ read })
      yield* Deferred.succeed(ready, undefined)
      assert.include((yield* Effect.promise(() => listed)).tools.map((it) => it.name), "read")
      assert.deepInclude(yield* Effect.promise(() => called), { content: [{ type: "text", text: "read" }] })
      yield* Effect.promise(() => client.close())
    })
  )

  live(
    "is answered when the gateway is told to end",
    Effect.gen(function*() {
      const begun = Deferred.makeUnsafe<void>()
      const { lifecycle, url } = yield* serving({
        hang: { class: "SerialMut", handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) }
      })
      const client = makeClient()
      yield* Effect.promise(() => client.connect(new StreamableHTTPClientTransport(new URL(url))))
      const running = client.callTool({ name: "hang", arguments: {} })
      const waiting = client.callTool({ name: "hang", arguments: { n: 2 } })
      yield* Deferred.await(begun)
      yield* lifecycle.end("the program was asked to end")
      for (const call of [running, waiting]) {
        const result = yield* Effect.promise(() => call)
        assert.isTrue(result.isError)
        assert.include(JSON.stringify(result.content), "the program was asked to end")
      }
      yield* Effect.promise(() => client.close())
    })
  )
})

describe("sessions", () => {
  live(
    "are so many at once: the one that was used longest ago is ended, and none that something runs in",
    Effect.gen(function*() {
      const held = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      const hold = () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(held), "held"))
      const { url } = yield* serving({ read, hold }, undefined, { maxSessions: 3 })
      const connect = Effect.promise(async () => {
        const transport = new StreamableHTTPClientTransport(new URL(url))
        const client = makeClient()
        await client.connect(transport)
        return { client, session: transport.sessionId! }
      })
      const statusOf = (session: string) =>
        Effect.promise(() =>
          fetch(url, {
            method: "POST",
            headers: { ...headers, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" },
            body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })
          }).then(async (response) => {
            await response.text()
            return response.status
          })
        )
      const busy = yield* connect
      const running = yield* Effect.forkChild(
        Effect.promise(() => busy.client.callTool({ name: "hold", arguments: {} }))
      )
      yield* Deferred.await(begun)
      const [first, second] = [yield* raw(url), yield* raw(url)]
      assert.deepStrictEqual([yield* statusOf(first), yield* statusOf(second)], [200, 200])
      // it was used last, so the other one goes
      yield* statusOf(first)
      const third = yield* raw(url)
      assert.deepStrictEqual(yield* Effect.forEach([first, second, third], statusOf), [200, 404, 200])
      for (let n = 0; n < 20; n++) assert.isString(yield* raw(url))
      assert.strictEqual(yield* statusOf(first), 404)
      yield* Deferred.succeed(held, undefined)
      assert.include(JSON.stringify(yield* Fiber.join(running)), "held")
      yield* Effect.promise(() => busy.client.close())
    })
  )
})

/** Begins a session as a client does that is gone then; gives its id. */
const raw = (url: string) =>
  Effect.promise(() =>
    fetch(url, {
      method: "POST",
      headers,
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "gone", version: "1" } }
      })
    }).then(async (response) => {
      await response.text()
      return response.headers.get("mcp-session-id")!
    })
  )
