import { assert, describe, it } from "@effect/vitest"
import { isSpecType } from "@modelcontextprotocol/client"
import * as Schema from "effect/Schema"
import * as ToolOutcome from "../../src/core/vocabulary/ToolOutcome.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, denied, failed, read, refusal, succeeded, truncated } from "../support/wire.ts"

const request = (id: unknown, name: string, args?: unknown) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, ...(args === undefined ? {} : { arguments: args }) }
})

/** The ids that come back for those that came in. */
const echoed = (ids: ReadonlyArray<unknown>) => {
  const wave = calls(ids.map((id) => request(id, "a")))
  return {
    inside: wave.map((call) => call.id),
    back: WireFormat.write("mcp", wave.map((call) => succeeded(call.id, 1))).map((it) => it.id)
  }
}

describe("MCP", () => {
  it("reads a request and a batch alike", () => {
    const reading = { id: "1", name: "read", params: { path: "a" } }
    assert.deepStrictEqual(read(request(1, "read", { path: "a" })), { format: "mcp", calls: [reading] })
    assert.deepStrictEqual(read([request(1, "read", { path: "a" }), request("b", "write")]), {
      format: "mcp",
      calls: [reading, { id: "b", name: "write", params: {} }]
    })
  })

  it("parses arguments that are still text, and keeps them when they are not JSON", () => {
    const [parsed, broken] = calls([request(1, "a", `{"b":1}`), request(2, "a", "{")])
    assert.deepStrictEqual(parsed?.params, { b: 1 })
    assert.strictEqual(broken?.malformed?.text, "{")
  })

  it("gives back every id of the type that it came in with, and takes no two for one", () => {
    const ids = [1, "1", `"1"`, `"\\"1\\""`, 0, -1.5, 1e21, "1e21", "1e+21", " 1", "null", "true", "[1]", "", "01", "a"]
    const { back, inside } = echoed(ids)
    assert.deepStrictEqual(back, ids)
    assert.strictEqual(new Set(inside).size, ids.length)
    assert.deepStrictEqual(inside.slice(0, 2), ["1", `"1"`])
  })

  it("takes an id that another format gave for the string that it is", () => {
    const ids = ["call_1", "true", "null", "[1]", "{}"]
    assert.deepStrictEqual(WireFormat.write("mcp", ids.map((id) => succeeded(id, 1))).map((it) => it.id), ids)
  })

  it.prop("gives back any id", [Schema.Finite, Schema.String], ([number, text]) => {
    const ids = [number + 0, text, String(number), JSON.stringify(text), JSON.stringify(String(number))]
    assert.deepStrictEqual(echoed(ids).back, ids)
    const distinct = new Set(ids).size
    assert.strictEqual(new Set(echoed(ids).inside).size, distinct)
  }, { arbitrary: { runs: 300 } })

  it("refuses notifications, other methods, responses and wrong ids", () => {
    const { id: _, ...notification } = request(1, "a")
    assert.deepStrictEqual(refusal([request(1, "a"), notification]), {
      format: "mcp",
      path: "[1].id",
      problem: "is missing, and a notification has no answer",
      expected: "a string or a number"
    })
    assert.deepStrictEqual(refusal({ ...request(1, "a"), method: "tools/list" }), {
      format: "mcp",
      path: "method",
      problem: `is "tools/list"`,
      expected: `"tools/call"`
    })
    const at = (input: unknown) => refusal(input, "mcp").path
    assert.strictEqual(at({ jsonrpc: "2.0", method: "notifications/initialized" }), "method")
    assert.strictEqual(at({ jsonrpc: "2.0", id: 1, result: {} }), "method")
    for (const id of [null, {}, true, NaN, Infinity]) assert.strictEqual(at(request(id, "a")), "id")
  })

  it("says where a request is wrong", () => {
    const at = (input: unknown) => refusal(input, "mcp").path
    assert.strictEqual(at({ ...request(1, "a"), jsonrpc: "1.0" }), "jsonrpc")
    assert.strictEqual(at({ ...request(1, "a"), params: [] }), "params")
    assert.strictEqual(at([{ ...request(1, "a"), params: { name: 1 } }]), "[0].params.name")
    assert.strictEqual(at([request(1, "a"), null]), "[1]")
    assert.strictEqual(at("hi"), "")
  })

  it("answers with results, and with errors that the model reads", () => {
    const refused = denied("2", { _tag: "PolicyDenied", rule: "deny t" })
    const written = WireFormat.write("mcp", [succeeded("1", "done"), refused])
    assert.deepStrictEqual(written, [
      { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "done" }] } },
      { jsonrpc: "2.0", id: 2, result: { content: [{ type: "text", text: ToolOutcome.text(refused) }], isError: true } }
    ])
  })

  it("gives the structured output where it is an object and the model is shown all of it", () => {
    const structured = (outcome: ToolOutcome.ToolOutcome) =>
      WireFormat.write("mcp", [outcome])[0]?.result.structuredContent
    assert.deepStrictEqual(structured(succeeded("1", { at: new Date(0) })), { at: "1970-01-01T00:00:00.000Z" })
    for (const none of [succeeded("1", [1]), succeeded("1", null), truncated("1", { a: 1 }), failed("1", { a: 1 })]) {
      assert.notProperty(WireFormat.write("mcp", [none])[0]?.result, "structuredContent")
    }
  })

  it.prop(
    "writes what MCP's own schemas take",
    [Schema.toType(ToolOutcome.ToolOutcome), Schema.Json],
    ([outcome, value]) => {
      for (const { result, ...response } of WireFormat.write("mcp", [outcome, succeeded("1", value)])) {
        assert.isTrue(isSpecType.CallToolResult(result))
        assert.isTrue(isSpecType.JSONRPCResultResponse({ ...response, result }))
      }
    },
    { arbitrary: { runs: 100 } }
  )
})
