import { assert, describe, it } from "@effect/vitest"
import { createMcpHandler } from "@modelcontextprotocol/server"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import packageJson from "../../package.json" with { type: "json" }
import type { ToolOutcome } from "../../src/index.ts"
import { McpServerError } from "../../src/mcp/McpServers.ts"
import * as McpTools from "../../src/mcp/McpTools.ts"
import { act, make } from "../support/scriptedMcpServer.ts"
import { http, logs, open, said, tool, until } from "./fixture.ts"

/** Why a server cannot be used. */
const failureOf = (url: string, options: { readonly startTimeout?: string } = {}) =>
  Effect.map(Effect.flip(Effect.scoped(McpTools.make({ a: { url, ...options } }))), (error) => {
    assert.instanceOf(error, McpServerError)
    return error as McpServerError
  }).pipe(Effect.provide(logs().layer))

type Request = readonly [method: string, headers: Record<string, string>]

/** Calls until it works. */
const retried = (call: () => Effect.Effect<ToolOutcome.ToolOutcome>): Effect.Effect<void> =>
  Effect.flatMap(
    call(),
    ({ _tag }) => _tag === "Succeeded" ? Effect.void : Effect.andThen(Effect.sleep(20), retried(call))
  )

describe.concurrent("servers over HTTP", () => {
  it.live("are listed and called, with the headers they are given, in a session of their own", () =>
    Effect.gen(function*() {
      const server = yield* http({ count: 3, pageSize: 2 })
      const { act, names } = yield* open({ a: { url: server.url, headers: { Authorization: "Bearer key" } } })
      assert.deepStrictEqual(names(), ["a__act", "a__tool_0", "a__tool_1", "a__tool_2"])
      assert.strictEqual(said(yield* act("a", ["text", "hello"])), "hello")
      assert.deepStrictEqual(server.noted("initialized"), [{ name: packageJson.name, version: packageJson.version }])
      for (const [, headers] of server.noted("request") as Array<Request>) {
        assert.strictEqual(headers.authorization, "Bearer key")
      }
      assert.strictEqual(server.sessions.size, 1)
    }).pipe(Effect.scoped))

  it.live("have their session ended with the scope", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const scope = yield* Scope.make()
      const { act } = yield* open({ a: { url: server.url } }).pipe(Scope.provide(scope))
      const hanging = yield* Effect.forkChild(act("a", ["hang"]))
      yield* until(() => server.noted("called").length === 1)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(server.sessions.size, 0)
      assert.notStrictEqual((yield* Fiber.join(hanging))._tag, "Succeeded")
    }).pipe(Effect.scoped))

  it.live("tell progress and changes, and are told of cancelled calls", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { act: run, names } = yield* open({ a: { url: server.url, readOnly: ["*"] } }, {
        tools: { a__act: { idleTimeout: "1 second" } }
      })
      assert.deepInclude(yield* run("a", ["progress", 1, 2, "half"], ["hang"]), { _tag: "TimedOut", which: "idle" })
      yield* until(() => server.noted("cancelled").length === 1)
      yield* run("a", ["tools", [act, tool("new")]])
      yield* until(() => names().includes("a__new"))
    }).pipe(Effect.scoped))

  it.live("that forget the session are connected again", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { act, log } = yield* open({ a: { url: server.url } })
      server.sessions.clear()
      const outcome = yield* act("a", ["text", "x"])
      assert.include(said(outcome), "no such session")
      yield* retried(() => act("a", ["text", "again"]))
      assert.lengthOf(server.noted("initialized"), 2)
      assert.isTrue(log.some((it) => it.includes("no such session; connecting again")))
    }).pipe(Effect.scoped))

  it.live("that are gone fail their calls at once, and are connected again by themselves", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const other = yield* http()
      const { act, log } = yield* open({ a: { url: server.url }, b: { url: other.url } })
      const hanging = yield* Effect.forkChild(act("a", ["hang"]))
      yield* until(() => server.noted("called").length === 1)
      yield* server.stop
      server.sessions.clear()
      const outcome = yield* Fiber.join(hanging)
      assert.strictEqual(outcome._tag, "Failed")
      assert.strictEqual(said(yield* act("b", ["text", "unaffected"])), "unaffected")
      yield* until(() => log.some((it) => it.includes("ECONNREFUSED")))
      yield* server.start
      yield* until(() => server.noted("initialized").length === 2)
      yield* retried(() => act("a", ["text", "again"]))
      assert.lengthOf(other.noted("initialized"), 1)
    }).pipe(Effect.scoped))

  it.live("are not given up for one failure of HTTP", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { act } = yield* open({ a: { url: server.url, readOnly: ["*"] } })
      const waiting = yield* Effect.forkChild(act("a", ["wait", 300], ["text", "there"]))
      yield* until(() => server.noted("called").length === 1)
      // once; and it knows no ping
      const asked: Array<string> = []
      server.instead(async (request) => {
        if (request.method !== "POST") return undefined
        const { id, method } = await request.clone().json() as { readonly id?: number; readonly method: string }
        asked.push(method)
        if (method === "ping") {
          return Response.json({ jsonrpc: "2.0", id, error: { code: -32_601, message: "Method not found" } })
        }
        return asked.length === 1 ? new Response("overloaded", { status: 503 }) : undefined
      })
      assert.include(said(yield* act("a", ["text", "x"])), "overloaded")
      yield* until(() => asked.includes("ping"))
      assert.strictEqual(said(yield* act("a", ["text", "x"])), "x")
      assert.strictEqual(said(yield* Fiber.join(waiting)), "there")
      assert.lengthOf(server.noted("initialized"), 1)
    }).pipe(Effect.scoped))

  it.live("that end the stream of a call without an answer fail that call", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { act } = yield* open({ a: { url: server.url } })
      server.instead(async (request) => {
        const isCall = request.method === "POST" && (await request.clone().text()).includes("tools/call")
        return isCall ? new Response(": bye\n\n", { headers: { "content-type": "text/event-stream" } }) : undefined
      })
      assert.include(said(yield* act("a", ["text", "x"])), "the server ended the stream before its answer")
      server.instead(() => undefined)
      assert.strictEqual(said(yield* act("a", ["text", "x"])), "x")
      assert.lengthOf(server.noted("initialized"), 1)
    }).pipe(Effect.scoped))

  it.live("may not send a message without end", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { act } = yield* open({ a: { url: server.url } })
      const endless = (type: string, begin: string) => {
        const body = new ReadableStream<Uint8Array>({
          start: (controller) => controller.enqueue(Buffer.from(begin)),
          pull: (controller) => controller.enqueue(Buffer.alloc(1_000_000, "x"))
        })
        return new Response(body, { headers: { "content-type": type } })
      }
      for (const [type, begin] of [["application/json", "\""], ["text/event-stream", "data: "]] as const) {
        server.instead(async (request) => {
          const isCall = request.method === "POST" && (await request.clone().text()).includes("tools/call")
          return isCall ? endless(type, begin) : undefined
        })
        assert.strictEqual((yield* act("a", ["text", "x"]))._tag, "Failed", type)
      }
      server.instead(() => undefined)
      assert.strictEqual((yield* act("a", ["length", 9_000_000]))._tag, "Succeeded")
    }).pipe(Effect.scoped))

  it.live("that cannot be used say why, and where they are", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const { origin } = new URL(server.url)
      const refusing = (status: number, text: string) =>
        Effect.suspend(() => {
          server.instead(() => new Response(text, { status }))
          return failureOf(`${server.url}?key=secret`)
        })
      for (const [status, text] of [[404, "nothing here"], [401, "who are you"], [403, "no"], [500, "oops"]] as const) {
        const error = yield* refusing(status, text)
        assert.include(error, { server: "a", reason: "Protocol" }, String(status))
        assert.include(error.problem, `${origin}/mcp: `)
        assert.notInclude(error.problem, "secret")
      }
      server.instead(() => new Response("<html>", { headers: { "content-type": "text/html" } }))
      assert.include(yield* failureOf(server.url), { reason: "Protocol" })
      server.instead(() => new Response(new ReadableStream({}), { headers: { "content-type": "application/json" } }))
      assert.include(yield* failureOf(server.url, { startTimeout: "300 millis" }), { reason: "NotAnswering" })
      yield* server.stop
      const down = yield* failureOf(server.url)
      assert.include(down, { reason: "NotStarted" })
      assert.include(down.problem, `${origin}/mcp: `)
      assert.include(down.problem, "ECONNREFUSED")
      assert.include((yield* failureOf(server.url.replace("127.0.0.1", "localhost"))).problem, "ECONNREFUSED")
      assert.include(yield* failureOf("http://no-such-host.invalid/mcp"), { reason: "NotStarted" })
    }).pipe(Effect.scoped))

  it.live("that lead elsewhere are not followed", () =>
    Effect.gen(function*() {
      const server = yield* http()
      const trap = yield* http()
      server.instead(() => new Response(null, { status: 307, headers: { location: trap.url } }))
      const error = yield* failureOf(server.url)
      assert.include(error, { reason: "Protocol" })
      assert.include(error.problem, trap.url)
      assert.lengthOf(trap.noted("request"), 0)
    }).pipe(Effect.scoped))

  it.live("of the revision without sessions are called, too", () =>
    Effect.gen(function*() {
      const more = tool("more", {
        inputSchema: { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } }
      })
      const handler = createMcpHandler(() => make({ tools: [act, more] }, () => undefined) as never)
      const server = yield* http()
      server.instead((request) => handler.fetch(request))
      const { act: run, call, names } = yield* open({ a: { url: server.url } })
      assert.deepStrictEqual(names(), ["a__act", "a__more"])
      // what the schema wants in a header goes there
      assert.strictEqual((yield* call("a__more", { region: "eu" }))._tag, "Succeeded")
      assert.isTrue((server.noted("request") as Array<Request>).some(([, it]) => it["mcp-param-region"] === "eu"))
      assert.strictEqual(said(yield* run("a", ["text", "modern"])), "modern")
      assert.isTrue(
        (server.noted("request") as Array<Request>).some(([, it]) => it["mcp-protocol-version"] === "2026-07-28")
      )
      assert.isFalse((server.noted("request") as Array<Request>).some(([, it]) => "mcp-session-id" in it))
    }).pipe(Effect.scoped))
})
