import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import * as ToolContent from "../../src/core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../../src/core/vocabulary/ToolOutcome.ts"
import * as Answers from "../../src/wire/Answers.ts"
import * as Shape from "../../src/wire/Shape.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, denied, failed, read, refusal, skipped, succeeded, truncated } from "../support/wire.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ type: "tool-call", id, name, params })
const result = (id: string) => ({ type: "tool-result", id, name: "a", isFailure: false, result: 1 })
const assistant = (...content: ReadonlyArray<unknown>) => ({ role: "assistant", content })

const format = "effect-ai"
const names = (input: unknown) => calls(input, format).map((it) => it.name)
const written = (...outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>) => WireFormat.write(format, outcomes).content

describe("effect/ai", () => {
  it("reads what effect/ai makes of a response", () => {
    const prompt = Prompt.fromResponseParts([
      Response.makePart("text", { text: "Let me see." }),
      Response.makePart("tool-call", { id: "1", name: "read", params: { path: "a" }, providerExecuted: false }),
      Response.makePart("tool-call", { id: "2", name: "web", params: {}, providerExecuted: true }),
      Response.makePart("tool-call", { id: "3", name: "write", params: {}, providerExecuted: false })
    ])
    const encoded = Schema.encodeSync(Prompt.Prompt)(prompt)
    const wave = [{ id: "1", name: "read", params: { path: "a" } }, { id: "3", name: "write", params: {} }]
    for (const input of [encoded, encoded.content[0], encoded.content[0]?.content]) {
      assert.deepStrictEqual(read(input), { format, calls: wave })
      assert.deepStrictEqual(read(input, format), { format, calls: wave })
    }
  })

  it("reads a prompt or a response without calls as an empty wave", () => {
    const text = { type: "text", text: "hi" }
    for (const content of [[], [text], [assistant(text)], [{ role: "user", content: "hi" }]]) {
      assert.deepStrictEqual(read({ content }), { format, calls: [] })
    }
    assert.deepStrictEqual(calls({ role: "assistant", content: "hi" }, format), [])
  })

  it("leaves out calls that have a result, which is for the first of equal ids", () => {
    assert.deepStrictEqual(names([call("1", "a"), call("1", "b"), call("2", "c"), result("1")]), ["b", "c"])
    assert.deepStrictEqual(names([result("1"), call("1", "a")]), ["a"])
    assert.deepStrictEqual(
      names({
        content: [assistant(call("1", "a")), { role: "tool", content: [result("1")] }, assistant(call("1", "b"))]
      }),
      ["b"]
    )
  })

  it("does not take a preliminary result for the result", () => {
    assert.deepStrictEqual(names([call("1", "a"), { ...result("1"), preliminary: true }]), ["a"])
    assert.deepStrictEqual(names([call("1", "a"), { ...result("1"), preliminary: false }]), [])
  })

  it("does not take what the provider ran for an answer of ours", () => {
    assert.deepStrictEqual(names([call("1", "a"), { ...result("1"), providerExecuted: true }]), ["a"])
  })

  it("never runs what a person has denied already, and runs what was allowed or not answered", () => {
    const asked = assistant(
      call("1", "a"),
      { type: "tool-approval-request", approvalId: "x", toolCallId: "1" },
      call("2", "b")
    )
    const response = (approved: boolean) => ({
      role: "tool",
      content: [{ type: "tool-approval-response", approvalId: "x", approved }]
    })
    assert.deepStrictEqual(names({ content: [asked, response(false)] }), ["b"])
    assert.deepStrictEqual(names({ content: [asked, response(true)] }), ["a", "b"])
    assert.deepStrictEqual(names({ content: [asked] }), ["a", "b"])
  })

  it("parses params that are still text, and keeps them when they are not JSON", () => {
    const [parsed, broken] = calls([call("1", "a", `{"b":1}`), call("2", "a", "{")])
    assert.deepStrictEqual(parsed?.params, { b: 1 })
    assert.strictEqual(broken?.malformed?.text, "{")
  })

  it("says where a part is wrong", () => {
    assert.deepStrictEqual(
      refusal({
        content: [
          { role: "system", content: "x" },
          assistant({ type: "text" }, { type: "tool-call", id: "1", name: "a" })
        ]
      }),
      {
        format,
        path: "content[1].content[1].params",
        problem: "is missing",
        expected: "an object, {} for none"
      }
    )
    const at = (input: unknown) => refusal(input, format).path
    assert.strictEqual(at([{ type: "tool-call", id: 1 }]), "[0].id")
    assert.strictEqual(at([{ type: "tool-call", id: "1" }]), "[0].name")
    assert.strictEqual(at(assistant({ type: "tool-result" })), "content[0].id")
    assert.strictEqual(at([{ text: "hi" }]), "[0].type")
    assert.strictEqual(at([null]), "[0]")
    assert.strictEqual(at({ content: [{ role: "assistant" }] }), "content[0].content")
    assert.strictEqual(at({ role: "tool", content: [result("1")] }), "role")
    assert.strictEqual(at({ role: "assistant" }), "content")
    assert.strictEqual(at({ content: "hi" }), "")
    assert.strictEqual(at(1), "")
  })

  it("refuses calls in another shape, also in a message of a prompt", () => {
    const openai = {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "1", function: { name: "a", arguments: "{}" } }]
    }
    assert.strictEqual(refusal(openai, format).path, "tool_calls[0]")
    assert.strictEqual(refusal({ content: [openai] }).path, "content[0].tool_calls[0]")
    assert.strictEqual(refusal({ content: [{ type: "tool_use", id: "1", name: "a", input: {} }] }).path, "content[0]")
  })

  it("gives the value, and the text that the model is told", () => {
    assert.deepStrictEqual(written(succeeded("1", { a: 1n }), truncated("2", { a: 1 }), succeeded("3", "", "")), [
      {
        type: "tool-result",
        id: "1",
        name: "t",
        isFailure: false,
        result: { a: "1" },
        modelOutput: [{ type: "text", text: "done" }]
      },
      {
        type: "tool-result",
        id: "2",
        name: "t",
        isFailure: false,
        result: "cut",
        modelOutput: [{ type: "text", text: "cut" }]
      },
      { type: "tool-result", id: "3", name: "t", isFailure: false, result: "" }
    ])
  })

  it("gives the text of a tool that gives nothing", () => {
    const [part] = written(succeeded("1", undefined, "Done."))
    assert.deepInclude(part, { result: "Done.", modelOutput: [{ type: "text", text: "Done." }] })
    assert.deepInclude(written(succeeded("1", null, "null"))[0], { result: null })
  })

  it("says how a call failed, and nothing of a defect but that there was one", () => {
    const results = written(
      failed("1", { code: 7 }),
      failed("2", new Error("secret"), "internal error", "defect"),
      denied("3", { _tag: "PermissionDenied", by: "user" }),
      skipped("4")
    )
    assert.isTrue(results.every((it) => it.type === "tool-result" && it.isFailure))
    assert.deepStrictEqual(results.map((it) => it.type === "tool-result" ? it.result : it), [
      { code: 7 },
      { type: "execution-interrupted", reason: "internal error" },
      { type: "execution-denied", reason: ToolOutcome.text(denied("3", { _tag: "PermissionDenied", by: "user" })) },
      { type: "execution-interrupted", reason: ToolOutcome.text(skipped("4")) }
    ])
    assert.notInclude(JSON.stringify(results), "secret")
  })

  it.prop(
    "writes what effect/ai reads as the same",
    [Schema.toType(ToolOutcome.ToolOutcome), Schema.Json],
    ([outcome, value]) => {
      const message = WireFormat.write(format, [outcome, succeeded("1", value)])
      const prompt = Schema.decodeSync(Prompt.Prompt)({ content: [message] })
      const parts = (prompt.content[0]?.content ?? []) as ReadonlyArray<Prompt.ToolMessagePart>
      assert.deepStrictEqual(
        parts.map((part) => part.type === "tool-result" ? [part.id, part.name, part.isFailure, part.result] : part),
        message.content.map((part) =>
          part.type === "tool-result" ? [part.id, part.name, part.isFailure, part.result] : part
        )
      )
      assert.deepStrictEqual(
        parts.map((part) => part.type === "tool-result" ? Prompt.toolModelOutputToText(part.modelOutput ?? []) : part),
        [outcome, succeeded("1", value)].map(told)
      )
    },
    { arbitrary: { runs: 100 } }
  )
})

/** What the model is told, files by their names. */
const told = (outcome: ToolOutcome.ToolOutcome): string => {
  const content = (outcome._tag === "Succeeded" ? outcome.output.content : undefined) ?? []
  return content.some(ToolContent.isFile)
    ? Shape.wellFormed(ToolContent.textOf(content.filter((part) => part.type === "file" || part.text !== "")))
    : Answers.answer(outcome)
}
