import { assert, describe, it } from "@effect/vitest"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, failed, refusal, succeeded } from "../support/wire.ts"

const format = "langchain"

const call = (id: string, name: string, args: unknown = {}) => ({ name, args, id, type: "tool_call" })

const ai = (fields: object) => ({ type: "ai", content: "", ...fields })

describe("LangChain", () => {
  it("reads the calls of a message, and keeps the text of those that were no JSON", () => {
    const message = ai({
      tool_calls: [call("1", "read", { path: "a" })],
      invalid_tool_calls: [{ type: "invalid_tool_call", id: "2", name: "read", args: `{"path":`, error: "Malformed" }]
    })
    const [good, bad] = calls(message)
    assert.deepStrictEqual(good, { id: "1", name: "read", params: { path: "a" } })
    assert.strictEqual(bad?.malformed?.text, `{"path":`)
  })

  it("leaves out calls that a message of a tool answers", () => {
    const history = [
      { type: "human", content: "Hi" },
      ai({ tool_calls: [call("1", "a"), call("2", "b")] }),
      { type: "tool", tool_call_id: "1", content: "done" }
    ]
    assert.deepStrictEqual(calls(history).map((it) => it.name), ["b"])
  })

  it("takes the blocks of a provider for the calls that were made of them, and refuses others", () => {
    const block = (id: string) => ({ type: "tool_use", id, name: "a", input: {} })
    assert.lengthOf(calls(ai({ content: [block("1")], tool_calls: [call("1", "a")] })), 1)
    assert.strictEqual(refusal(ai({ content: [block("2")], tool_calls: [call("1", "a")] })).path, "content[0]")
  })

  it("never loses calls that are not in tool_calls", () => {
    const raw = [{ id: "1", type: "function", function: { name: "a", arguments: "{}" } }]
    assert.strictEqual(refusal(ai({ additional_kwargs: { tool_calls: raw } })).path, "additional_kwargs.tool_calls[0]")
    assert.strictEqual(
      refusal(ai({ tool_calls: [], tool_call_chunks: [{ name: "a", args: "{", index: 0 }] })).path,
      "tool_call_chunks[0]"
    )
  })

  it("says where a call is wrong", () => {
    const at = (input: unknown) => refusal(input, format).path
    assert.strictEqual(at(ai({ tool_calls: [{ name: "a", args: {} }] })), "tool_calls[0].id")
    assert.strictEqual(at(ai({ tool_calls: [{ id: "1", name: "a" }] })), "tool_calls[0].args")
    assert.strictEqual(at(ai({ tool_calls: {} })), "tool_calls")
    assert.strictEqual(at({ type: "ai", data: { tool_calls: [{}] } }), "data.tool_calls[0].id")
    assert.strictEqual(at({ lc: 1, id: ["m", "AIMessage"], kwargs: { tool_calls: [{}] } }), "kwargs.tool_calls[0].id")
    assert.strictEqual(at([ai({}), ai({ tool_calls: [{}] })]), "[1].tool_calls[0].id")
    assert.strictEqual(at([{ type: "human", content: "Hi", tool_calls: [call("1", "a")] }]), "[0].tool_calls[0]")
    assert.strictEqual(at({ type: "human", content: "Hi" }), "type")
    assert.strictEqual(at({ lc: 1, type: "constructor", id: ["langchain", "prompts", "Prompt"], kwargs: {} }), "type")
    assert.strictEqual(at([{ type: "generic" }]), "[0].type")
    assert.strictEqual(at({}), "")
  })

  it("writes messages with the name and the status", () => {
    assert.deepStrictEqual(WireFormat.write(format, [succeeded("1", 1), failed("2", "no")]), [
      { type: "tool", tool_call_id: "1", name: "t", status: "success", content: "done" },
      { type: "tool", tool_call_id: "2", name: "t", status: "error", content: "disk full" }
    ])
  })
})
