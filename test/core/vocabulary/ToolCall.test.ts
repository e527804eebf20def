import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as ToolCall from "../../../src/core/vocabulary/ToolCall.ts"

describe("ToolCall", () => {
  it("takes parameters as they are, and none for an empty object", () => {
    assert.deepStrictEqual(ToolCall.make("1", "read", { path: "a" }), { id: "1", name: "read", params: { path: "a" } })
    assert.deepStrictEqual(ToolCall.make("1", "read"), { id: "1", name: "read", params: {} })
    assert.isNull(ToolCall.make("1", "read", null).params)
  })

  it("parses the text of its arguments", () => {
    assert.deepStrictEqual(ToolCall.fromText("1", "read", ` {"path": ["a", 1, null]} `), {
      id: "1",
      name: "read",
      params: { path: ["a", 1, null] }
    })
  })

  it("takes JSON that is no object, for the executor to refuse", () => {
    for (const value of [null, 1, "text", true, []]) {
      const call = ToolCall.fromText("1", "read", JSON.stringify(value))
      assert.deepStrictEqual(call.params, value)
      assert.isFalse(Object.hasOwn(call, "malformed"))
    }
  })

  it("keeps text that is not JSON and says why, and never takes it for an empty object", () => {
    for (const text of ["", " ", `{"path":`, "{'path': 1}", "undefined", "{} {}", "\u0000"]) {
      const call = ToolCall.fromText("1", "read", text)
      assert.isNull(call.params)
      assert.strictEqual(call.malformed?.text, text)
      assert.isNotEmpty(call.malformed?.message)
    }
  })

  it("keeps a key that is called like a prototype a key", () => {
    const { params } = ToolCall.fromText("1", "read", `{"__proto__":{"admin":true}}`)
    assert.deepStrictEqual(Object.keys(params as object), ["__proto__"])
    assert.isUndefined((params as { admin?: unknown }).admin)
  })

  it.prop(
    "gives a call for any text, with its id and name",
    [Schema.String, Schema.String, Schema.String],
    ([id, name, text]) => {
      const call = ToolCall.fromText(id, name, text)
      assert.deepInclude(call, { id, name })
      assert.isTrue(Schema.is(ToolCall.ToolCall)(call))
      if (call.malformed !== undefined) assert.strictEqual(call.malformed.text, text)
      else assert.deepStrictEqual(call.params, JSON.parse(text))
    }
  )

  it.prop("parses any JSON to what it was", [Schema.Json], ([json]) => {
    const text = JSON.stringify(json)
    assert.deepStrictEqual(ToolCall.fromText("1", "t", text), ToolCall.make("1", "t", JSON.parse(text)))
  })
})
