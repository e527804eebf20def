import { assert, describe, it } from "@effect/vitest"
import { generateText, type ModelMessage, modelMessageSchema, tool } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import * as Schema from "effect/Schema"
import { z } from "zod"
import * as ToolOutcome from "../../src/core/vocabulary/ToolOutcome.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, denied, failed, read, refusal, skipped, succeeded, truncated } from "../support/wire.ts"

const call = (toolCallId: string, toolName: string, input: unknown = {}) => ({
  type: "tool-call",
  toolCallId,
  toolName,
  input
})
const result = (toolCallId: string) => ({
  type: "tool-result",
  toolCallId,
  toolName: "a",
  output: { type: "text", value: "" }
})

const format = "ai-sdk"
const names = (input: unknown) => calls(input, format).map((it) => it.name)
const outputs = (...outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>) =>
  WireFormat.write(format, outcomes).content.map((part) => part.output)

/** What the SDK gives for a model that calls a tool, one that is not there, and one in words that are not JSON. */
const generate = () =>
  generateText({
    model: new MockLanguageModelV4({
      doGenerate: {
        content: [
          { type: "text", text: "Let me see." },
          { type: "tool-call", toolCallId: "1", toolName: "read", input: `{"path":"a"}` },
          { type: "tool-call", toolCallId: "2", toolName: "nope", input: "{}" },
          { type: "tool-call", toolCallId: "3", toolName: "read", input: `{"path":` }
        ],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 1, text: 1, reasoning: undefined }
        },
        warnings: []
      }
    }),
    tools: { read: tool({ inputSchema: z.object({ path: z.string() }) }) },
    prompt: "Read a."
  })

describe("the AI SDK", () => {
  it("reads the calls that the SDK gives, those that it found wrong included", async () => {
    const { toolCalls } = await generate()
    const wave = read(JSON.parse(JSON.stringify(toolCalls)))
    assert.strictEqual(wave.format, format)
    assert.deepStrictEqual(wave.calls.slice(0, 2), [
      { id: "1", name: "read", params: { path: "a" } },
      { id: "2", name: "nope", params: {} }
    ])
    assert.strictEqual(wave.calls[2]?.malformed?.text, `{"path":`)
  })

  it("finds only what the SDK has not answered itself in its content and its messages", async () => {
    const { content, response } = await generate()
    const wave = [{ id: "1", name: "read", params: { path: "a" } }]
    assert.deepStrictEqual(read(JSON.parse(JSON.stringify(content))), { format, calls: wave })
    assert.deepStrictEqual(read(JSON.parse(JSON.stringify(response.messages))), { format, calls: wave })
  })

  it("reads a message, an array of parts and an array of calls alike", () => {
    const parts = [
      { type: "reasoning", text: "hm" },
      { type: "custom", kind: "openai.compaction" },
      { ...call("9", "web_search"), providerExecuted: true },
      result("9"),
      call("1", "a", { b: 1 })
    ]
    for (const input of [{ role: "assistant", content: parts }, parts, [call("1", "a", { b: 1 })]]) {
      assert.deepStrictEqual(read(input), { format, calls: [{ id: "1", name: "a", params: { b: 1 } }] })
      assert.deepStrictEqual(read(input, format), { format, calls: [{ id: "1", name: "a", params: { b: 1 } }] })
    }
    assert.deepStrictEqual(calls({ role: "assistant", content: "hi" }, format), [])
  })

  it("leaves out calls that have a result or an error", () => {
    const error = { type: "tool-error", toolCallId: "2", toolName: "b", input: {}, error: "no" }
    assert.deepStrictEqual(names([call("1", "a"), call("2", "b"), call("3", "c"), result("1"), error]), ["c"])
  })

  it("never runs what a person has denied already", () => {
    const parts = [
      call("1", "a"),
      { type: "tool-approval-request", approvalId: "x", toolCall: call("1", "a") },
      { type: "tool-approval-request", approvalId: "y", toolCallId: "2" },
      call("2", "b"),
      call("3", "c"),
      { type: "tool-approval-response", approvalId: "x", approved: false, toolCall: call("1", "a") },
      { type: "tool-approval-response", approvalId: "y", approved: false },
      { type: "tool-approval-response", approvalId: "z", approved: false }
    ]
    // a denial that comes before its call denies nothing: there is none yet
    assert.deepStrictEqual(names(parts), ["c"])
  })

  it("is told from effect/ai by the names of the keys", () => {
    assert.strictEqual(read([{ type: "tool-call", id: "1", name: "a", params: {} }]).format, "effect-ai")
    for (
      const input of [[call("1", "a")], { content: [call("1", "a")] }, [{
        role: "assistant",
        content: [call("1", "a")]
      }]]
    ) {
      assert.strictEqual(read(input).format, format)
    }
    assert.strictEqual(refusal([{ type: "tool-call", toolName: "a" }]).path, "[0].toolCallId")
    assert.strictEqual(refusal([{ type: "tool-call", name: "a" }]).path, "[0].id")
  })

  it("says where a part is wrong", () => {
    const at = (input: unknown) => refusal(input, format).path
    assert.deepStrictEqual(
      refusal({ role: "assistant", content: [{ type: "text" }, { ...call("1", "a"), toolName: 7 }] }),
      {
        format,
        path: "content[1].toolName",
        problem: "is 7",
        expected: "a string"
      }
    )
    assert.strictEqual(at([{ type: "tool-call", toolCallId: "1", toolName: "a" }]), "[0].input")
    assert.strictEqual(at([{ type: "tool-result" }]), "[0].toolCallId")
    assert.strictEqual(at({ role: "user", content: [] }), "role")
    assert.strictEqual(at([{ role: "assistant", content: "", tool_calls: [{ id: "1" }] }]), "[0].tool_calls")
  })

  it("gives JSON where that is what the model is told, and text elsewhere", () => {
    assert.deepStrictEqual(
      outputs(
        succeeded("1", { a: [1] }, `{"a":[1]}`),
        succeeded("2", { a: 1 }, "one a"),
        succeeded("3", "hi", "hi"),
        truncated("4", { a: 1 })
      ),
      [
        { type: "json", value: { a: [1] } },
        { type: "text", value: "one a" },
        { type: "text", value: "hi" },
        { type: "text", value: "cut" }
      ]
    )
  })

  it("marks errors, and the no of a person as such", () => {
    const no = denied("2", { _tag: "PermissionDenied", by: "user", reason: "too late" })
    assert.deepStrictEqual(outputs(failed("1", { a: 1 }), no), [
      { type: "error-text", value: "disk full" },
      { type: "execution-denied", reason: ToolOutcome.text(no) }
    ])
    for (
      const outcome of [
        denied("1", { _tag: "PermissionDenied", by: "noApprover" }),
        denied("1", { _tag: "WriteDenied", by: "user" }),
        skipped("1")
      ]
    ) {
      assert.deepStrictEqual(outputs(outcome), [{ type: "error-text", value: ToolOutcome.text(outcome) }])
    }
  })

  it.prop(
    "writes what the SDK takes, by its schema and by its types",
    [Schema.toType(ToolOutcome.ToolOutcome), Schema.Json],
    ([outcome, value]) => {
      const message: ModelMessage = WireFormat.write(format, [outcome, succeeded("1", value, JSON.stringify(value))])
      assert.isTrue(modelMessageSchema.safeParse(message).success, JSON.stringify(message))
    },
    { arbitrary: { runs: 100 } }
  )
})
