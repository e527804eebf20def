/** What a server gets wrong, and what it says beside its tools. */
import { assert, describe, it } from "@effect/vitest"
import type { Tool } from "@modelcontextprotocol/server"
import * as Effect from "effect/Effect"
import { headerProblem } from "../../src/mcp/Malformed.ts"
import { folder } from "../cli/harness.ts"
import { until } from "../support/commandProcess.ts"
import { scripted as scriptedProcess, start } from "../support/gatewayProcess.ts"
import { act } from "../support/scriptedMcpServer.ts"
import { http, logs, open, said, scripted, tool } from "./fixture.ts"

const wrong = [
  null,
  5,
  { name: "bare" },
  { name: 5, inputSchema: { type: "object" } },
  { name: "titled", title: 5, inputSchema: { type: "object" } },
  { name: "rooted", inputSchema: { type: "array" } },
  { name: "required", inputSchema: { type: "object", required: "x" } },
  { name: "task", inputSchema: { type: "object" }, execution: { taskSupport: "required" } }
] as unknown as ReadonlyArray<Tool>

const tools = [act, ...wrong, tool("maybe", { execution: { taskSupport: "optional" } }), tool("last")]

const names = ["s__act", "s__maybe", "s__last"]

describe("a tool that is malformed", () => {
  for (const how of ["a program", "HTTP"]) {
    it.live(`is left out alone, and the log says so once; ${how}`, () =>
      Effect.scoped(Effect.gen(function*() {
        const log = logs()
        const server = how === "HTTP" ? { url: (yield* http({ tools })).url } : (yield* scripted({ tools })).server
        const { act, names: all } = yield* open({ s: server }, { log })
        assert.deepStrictEqual(all().filter((it) => it.startsWith("s__")), names)
        assert.lengthOf(log.lines.filter((it) => it.includes("is left out")), wrong.length)
        assert.lengthOf(log.lines.filter((it) => it.includes(`"task": it has to be called as a task`)), 1)
        // the same list again says nothing new
        yield* act("s", ["tools", [...tools, tool("new")]])
        yield* until(() => all().includes("s__new"))
        assert.strictEqual(said(yield* act("s", ["text", "well"])), "well")
      })))
  }

  it.live("for clients alone does not end the gateway", () =>
    Effect.scoped(Effect.gen(function*() {
      const odd = [
        tool("nested", { inputSchema: { type: "object", properties: { a: "text" } } as never }),
        tool("dialect", { inputSchema: { type: "object", $schema: 5 } as never })
      ]
      const { file } = yield* folder({
        "gateway.json": {
          mcpServers: { s: scriptedProcess({ tools: [act, ...odd, ...wrong] }) },
          policy: { default: "allow" }
        }
      })
      const { call, find, initialize, send } = yield* start("--config", file("gateway.json"))
      initialize()
      send({ id: 1, method: "tools/list" })
      call(2, "s__act", [["malformed", { type: "image", data: "not base64!", mimeType: "image/png" }], [
        "text",
        "well"
      ]])
      yield* until(() => find("id", 1) !== undefined && find("id", 2) !== undefined)
      const listed = (find("id", 1)!["result"] as { readonly tools: ReadonlyArray<{ readonly name: string }> }).tools
      assert.include(listed.map((it) => it.name), "s__act")
      assert.notInclude(listed.map((it) => it.name), "s__nested")
      assert.include(JSON.stringify(find("id", 2)), "well")
    })), { tags: ["M3"] })
})

describe("content that is malformed", () => {
  it.live("is left out alone, and the model reads a note", () =>
    Effect.scoped(Effect.gen(function*() {
      const { url } = yield* http()
      const { act } = yield* open({ s: { url }, p: (yield* scripted()).server })
      for (const server of ["s", "p"]) {
        for (
          const block of [
            null,
            "text",
            { type: "image" },
            { type: "image", data: "not base64!", mimeType: "image/png" },
            { type: "audio", data: 5, mimeType: "audio/wav" },
            { type: "resource", resource: { text: "no address" } },
            { type: "resource_link", uri: "file:///x" },
            { type: "hologram", depth: 3 }
          ]
        ) {
          const text = said(yield* act(server, ["text", "before"], ["malformed", block], ["text", "after"]))
          assert.match(text, /before[^]*was left out: it is malformed[^]*after/, JSON.stringify(block))
        }
        const odd = { type: "text", text: "kept", annotations: { priority: 9 } }
        const kept = said(yield* act(server, ["malformed", odd]))
        assert.strictEqual(kept, "kept")
        const five = { text: "malformed: 5" }
        assert.strictEqual(said(yield* act(server, ["text", "done"], ["structured", five])), "done")
      }
      // not even the shape of an answer: it is not waited for
      const lost = yield* act("p", ["text", "lost"], ["meta", { text: "malformed: 5" }])
      assert.strictEqual(said(lost), "\"p__act\" failed: MCP server \"p\": the server's answer cannot be read")
    })), { tags: ["M3"] })
})

describe("a link in a result", () => {
  const link = (uri: string) => ({ type: "resource_link", uri, name: "it" })

  it.live("is what it leads to, is left to the client on the web, and is said to be out of reach else", () =>
    Effect.scoped(Effect.gen(function*() {
      const resources = { "file:///a": "the text of a" }
      const { server } = yield* scripted({ resources })
      const { url } = yield* http({ resources })
      const { act } = yield* open({ s: server, h: { url }, none: (yield* scripted()).server })
      for (const name of ["s", "h"]) {
        const outcome = yield* act(name, ["content", [
          link("file:///a"),
          link("file:///b"),
          link("https://x.example/c")
        ]])
        assert.deepNestedInclude(outcome, {
          "output.value.content": [
            { type: "resource", resource: { uri: "file:///a", text: "the text of a" } },
            { type: "text", text: "[it: file:///b cannot be read from here]" },
            link("https://x.example/c")
          ]
        })
      }
      assert.include(said(yield* act("none", ["content", [link("file:///a")]])), "file:///a cannot be read from here")
      const many = said(yield* act("s", ["content", Array.from({ length: 12 }, () => link("file:///a"))]))
      assert.lengthOf(many.match(/the text of a/g)!, 10)
      assert.lengthOf(many.match(/cannot be read from here/g)!, 2)
    })))
})

describe("what servers say about their use", () => {
  it.live("is told to the client of the gateway, under their names", () =>
    Effect.scoped(Effect.gen(function*() {
      const { file } = yield* folder({
        "gateway.json": {
          mcpServers: {
            one: scriptedProcess({ instructions: "Ask one first." }),
            two: scriptedProcess({}),
            three: scriptedProcess({ instructions: "x".repeat(50_000) })
          },
          policy: { default: "allow" }
        }
      })
      const { find, initialize } = yield* start("--config", file("gateway.json"))
      initialize()
      yield* until(() => find("id", 0) !== undefined)
      const { instructions } = find("id", 0)!["result"] as { readonly instructions: string }
      assert.match(instructions, /^The tools of "one":\nAsk one first\.\n\nThe tools of "three":\nx+…$/)
      assert.isAtMost(instructions.length, 20_000)
    })))
})

describe("headers that a tool asks for", () => {
  const of = (properties: object, rest: object = {}) => headerProblem({ type: "object", properties, ...rest })
  const header = (name: unknown, type: unknown = "string") => ({ type, "x-mcp-header": name })

  it("are names of their own of plain properties, or the tool is left out", () => {
    assert.isUndefined(of({ a: header("A"), b: { type: "object", properties: { c: header("C", "integer") } } }))
    assert.isUndefined(of({ "x-mcp-header": { type: "string" } }))
    for (
      const properties of [
        { a: header("") },
        { a: header(5) },
        { a: header("a b") },
        { a: header("a:b") },
        { a: header("ä") },
        { a: header("A", "object") },
        { a: header("A", "number") },
        { a: header("A"), b: header("a") },
        { a: { type: "array", items: header("A") } },
        { a: { anyOf: [header("A")] } }
      ]
    ) assert.isString(of(properties), JSON.stringify(properties))
    assert.isString(of({}, header("A", "object")))
    assert.isString(of({}, { $defs: { a: { properties: { b: header("B") } } } }))
  })
})
