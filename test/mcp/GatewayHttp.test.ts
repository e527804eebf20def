/** The gateway over real HTTP on loopback, with official clients. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { createServer } from "node:http"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import * as ToolHandlers from "../../src/core/vocabulary/ToolHandlers.ts"
import { ToolContext } from "../../src/index.ts"
import { caller, type Options, registrations, registryOf, type Tools } from "../support/gateway.ts"
import { makeClient } from "../support/mcpServer.ts"

/** Serves tools on a free port; gives what connects a client. */
const serving = Effect.fnUntraced(function*(tools: Tools, options: Options = {}) {
  const handlers = ToolHandlers.fromRegistry(yield* registryOf(tools))
  const routes = McpServer.layerHttp({
    name: "test",
    version: "1.0.0",
    path: "/mcp",
    protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
    allowSessionTermination: true,
    registrations: Layer.effectDiscard(Layer.build(registrations(handlers, options)))
  })
  const context = yield* Layer.build(
    HttpRouter.serve(routes, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provideMerge(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 }))
    )
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  const url = new URL(`http://127.0.0.1:${"port" in address ? address.port : 0}/mcp`)
  return Effect.fnUntraced(function*(client = makeClient()) {
    const transport = new StreamableHTTPClientTransport(url)
    yield* Effect.acquireRelease(
      Effect.promise(() => client.connect(transport)),
      () => Effect.promise(() => client.close())
    )
    return { transport, url, call: caller(client) }
  })
}, Effect.orDie)

const live = <A, E>(program: Effect.Effect<A, E, Scope.Scope>) => Effect.scoped(program)

/** A handler that says when it has begun, and how it ended. */
const hanging = () => {
  const begun = Deferred.makeUnsafe<void>()
  const ended = Deferred.makeUnsafe<string>()
  const handler = () =>
    Deferred.succeed(begun, undefined).pipe(
      Effect.andThen(Effect.never),
      Effect.onExit((exit) => Deferred.succeed(ended, exit._tag))
    )
  return { begun: Deferred.await(begun), ended: Deferred.await(ended), handler }
}

describe("the gateway over HTTP", () => {
  it.live("keeps one session over many requests, and sessions apart", () =>
    live(Effect.gen(function*() {
      let count = 0
      const connect = yield* serving({
        count: { class: "SerialMut", handler: () => Effect.sync(() => ++count) },
        large: () => Effect.succeed("x".repeat(50_000))
      }, { sessions: true, dedupe: false, rules: [{ _tag: "MaxCalls", tool: "count", max: 2 }] })
      const [one, other] = [yield* connect(), yield* connect()]
      assert.notStrictEqual(one.transport.sessionId, other.transport.sessionId)
      assert.strictEqual((yield* one.call("count", {})).text, "1")
      assert.strictEqual((yield* one.call("count", {})).text, "2")
      assert.isTrue((yield* one.call("count", {})).isError)
      assert.strictEqual((yield* other.call("count", {})).text, "3")
      const id = /artifact (art_\w+)/.exec((yield* one.call("large", {})).text)![1]!
      assert.isFalse((yield* one.call("read_artifact", { id })).isError)
      assert.isTrue((yield* other.call("read_artifact", { id })).isError)
    })))

  it.live("tells progress in the answer to its request", () =>
    live(Effect.gen(function*() {
      const connect = yield* serving({
        work: () => Effect.flatMap(ToolContext.ToolContext, ({ progress }) => progress({ progress: 1, total: 2 }))
      })
      const { call } = yield* connect()
      const seen: Array<object> = []
      yield* call("work", {}, undefined, (it) => seen.push(it))
      assert.deepStrictEqual(seen, [{ progress: 1, total: 2 }])
    })))

  it.live("asks the client whose call it is, while another's runs", () =>
    live(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const connect = yield* serving(
        { send: { class: "ConcurrentMut", handler: (params) => Effect.succeed(params) } },
        { sessions: true, approvals, policy: { default: "allow", ask: ["send"] } }
      )
      const person = (name: string, decision: string) => {
        const forms: Array<string> = []
        const client = makeClient({ elicitation: {} })
        client.setRequestHandler("elicitation/create", ({ params }) => {
          forms.push(params.message)
          return { action: "accept", content: { decision } }
        })
        return { client, forms, name }
      }
      const people = [person("ann", "approve once"), person("bob", "deny")]
      const connected = [yield* connect(people[0]!.client), yield* connect(people[1]!.client)]
      const results = yield* Effect.forEach(
        connected,
        ({ call }, n) =>
          Effect.forEach([1, 2, 3], (k) => call("send", { of: people[n]!.name, k }), { concurrency: "unbounded" }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results.map((it) => it.map(({ isError }) => isError)), [[false, false, false], [
        true,
        true,
        true
      ]])
      for (const { forms, name } of people) {
        assert.lengthOf(forms, 3)
        for (const message of forms) assert.include(message, `"of": "${name}"`)
      }
    })))

  it.live("interrupts a call that its client cancels", () =>
    live(Effect.gen(function*() {
      const { begun, ended, handler } = hanging()
      const connect = yield* serving({ hang: handler, read: () => Effect.succeed("read") })
      const { call } = yield* connect()
      const running = yield* Effect.forkChild(call("hang", {}), { startImmediately: true })
      yield* begun
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* ended, "Failure")
      assert.strictEqual((yield* call("read", {})).text, "read")
    })))

  it.live("ends what a session runs when it is deleted, and knows it no more", () =>
    live(Effect.gen(function*() {
      const { begun, ended, handler } = hanging()
      const connect = yield* serving({ hang: handler, read: () => Effect.succeed("read") }, { sessions: true })
      const [gone, stays] = [yield* connect(), yield* connect()]
      yield* Effect.forkChild(gone.call("hang", {}), { startImmediately: true })
      yield* begun
      const id = gone.transport.sessionId!
      yield* Effect.promise(() => gone.transport.terminateSession())
      assert.strictEqual(yield* ended, "Failure")
      const { status } = yield* Effect.promise(() =>
        fetch(gone.url, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            "mcp-session-id": id,
            "mcp-protocol-version": "2025-11-25"
          },
          body: JSON.stringify({ jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: "read", arguments: {} } })
        })
      )
      assert.strictEqual(status, 404)
      assert.strictEqual((yield* stays.call("read", {})).text, "read")
    })))
})
