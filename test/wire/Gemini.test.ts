import { assert, describe, it } from "@effect/vitest"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, failed, read, refusal, succeeded, truncated } from "../support/wire.ts"

const format = "gemini"

const call = (name: string, args?: unknown, id?: string) => ({
  functionCall: { name, ...args === undefined ? {} : { args }, ...id === undefined ? {} : { id } }
})

const model = (...parts: ReadonlyArray<unknown>) => ({ role: "model", parts })

const response = (name: string, id?: string) => ({
  functionResponse: { name, response: { output: "done" }, ...id === undefined ? {} : { id } }
})

describe("Gemini", () => {
  it("answers calls without an id by their name and in their order, and gives back the id of any other", () => {
    const wave = calls(model(call("a"), call("b", { n: 1 }, "x"), call("a", { n: 2 })))
    assert.deepStrictEqual(wave, [
      { id: "#1", name: "a", params: {} },
      { id: "x", name: "b", params: { n: 1 } },
      { id: "#3", name: "a", params: { n: 2 } }
    ])
    const named = wave.map((it) => ({ ...succeeded(it.id, 1), tool: it.name }))
    assert.deepStrictEqual(
      WireFormat.write(format, named).parts.map(({ functionResponse: { id, name } }) => [id, name]),
      [[undefined, "a"], ["x", "b"], [undefined, "a"]]
    )
  })

  it("tells an id of the model's from one that was made here", () => {
    for (const id of ["#1", "##1", "#", "1", ""]) {
      const [found] = calls(model(call("a", {}, id)))
      assert.strictEqual(WireFormat.write(format, [succeeded(found!.id, 1)]).parts[0]?.functionResponse.id, id)
    }
  })

  it("leaves out calls that have a response, the first of a name where there is no id", () => {
    const conversation = [
      { role: "user", parts: [{ text: "Hi" }] },
      model(call("a", { n: 1 }), call("b"), call("a", { n: 2 }), call("c", {}, "x")),
      { role: "user", parts: [response("a"), response("c", "x")] }
    ]
    assert.deepStrictEqual(calls(conversation).map(({ id, name }) => [id, name]), [["#2", "b"], ["#3", "a"]])
  })

  it("takes a response that lost its id, or has one of its own, for an answer all the same", () => {
    const conversation = (...responses: ReadonlyArray<unknown>) => [
      model(call("a", {}, "x"), call("a", {}, "y"), call("b")),
      { role: "user", parts: responses }
    ]
    const open = (...responses: ReadonlyArray<unknown>) => calls(conversation(...responses)).map((it) => it.id)
    assert.deepStrictEqual(open(response("a")), ["y", "#3"])
    assert.deepStrictEqual(open(response("a", "y"), response("a")), ["#3"])
    assert.deepStrictEqual(open(response("b", "made up")), ["x", "y"])
    assert.deepStrictEqual(open(response("a"), response("a"), response("b")), [])
    assert.deepStrictEqual(open(response("c")), ["x", "y", "#3"])
  })

  it("reads conversations with thousands of calls of one name, and of one id", () => {
    const many = (count: number, part: unknown) => Array.from({ length: count }, () => part)
    const count = 30_000
    assert.lengthOf(calls(model(...many(count, call("a")), ...many(count - 1, response("a")))), 1)
    assert.lengthOf(calls(model(...many(count, call("a", {}, "x")), ...many(count - 1, response("a", "x")))), 1)
  })

  it("reads a response whose candidate was blocked, and refuses two with calls", () => {
    assert.deepStrictEqual(read({ candidates: [{ finishReason: "SAFETY" }] }), { format, calls: [] })
    assert.deepStrictEqual(read({ candidates: [] }), { format, calls: [] })
    const candidate = { content: model(call("a")) }
    assert.strictEqual(refusal({ candidates: [candidate, candidate] }).path, "candidates")
  })

  it("says where a part is wrong, and names what it does not read", () => {
    const at = (part: unknown) => refusal(model(part), format).path
    assert.strictEqual(at({ functionCall: { name: 7 } }), "parts[0].functionCall.name")
    assert.strictEqual(at({ functionCall: "a" }), "parts[0].functionCall")
    assert.strictEqual(at(call("a", {}, 7 as never)), "parts[0].functionCall.id")
    assert.strictEqual(at({ functionCall: { name: "a", willContinue: true } }), "parts[0].functionCall")
    assert.strictEqual(at({ function_call: { name: "a" } }), "parts[0].function_call")
    assert.strictEqual(at({ type: "tool_use" }), "parts[0]")
    assert.strictEqual(at({}), "parts[0]")
    assert.strictEqual(refusal([{ id: "1", name: "a", params: {} }], format).path, "[0]")
    assert.strictEqual(refusal({ role: "user", parts: [] }, format).path, "role")
    assert.strictEqual(refusal([{ role: "user", parts: [call("a")] }], format).path, "[0].parts[0]")
    assert.strictEqual(refusal({ candidates: [null] }).path, "candidates[0]")
    assert.strictEqual(refusal({ candidates: [{ content: "a" }] }).path, "candidates[0].content")
  })

  it("gives the value where that is what the model is told, text elsewhere, and errors as such", () => {
    const outcomes = [
      succeeded("1", { a: 1 }, `{"a":1}`),
      succeeded("2", { a: 1 }, "one a"),
      truncated("3", { a: 1 }),
      failed("4", "no")
    ]
    assert.deepStrictEqual(WireFormat.write(format, outcomes).parts.map((it) => it.functionResponse.response), [
      { output: { a: 1 } },
      { output: "one a" },
      { output: "cut" },
      { error: "disk full" }
    ])
  })
})
