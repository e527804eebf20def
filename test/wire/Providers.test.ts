/** What is written fits the providers' own types, and what they give is read. */
import type { MessageParam } from "@anthropic-ai/sdk/resources/messages"
import type { Message } from "@aws-sdk/client-bedrock-runtime"
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import type { Content } from "@google/genai"
import {
  AIMessage,
  AIMessageChunk,
  coerceMessageLikeToMessage,
  HumanMessage,
  ToolMessage,
  type ToolMessageFields
} from "@langchain/core/messages"
import type { CallToolResult } from "@modelcontextprotocol/client"
import { type ModelMessage, modelMessageSchema, type UIMessage, validateUIMessages } from "ai"
import type { ChatCompletionMessage, ChatCompletionMessageParam } from "openai/resources/chat/completions"
import type { ResponseInputItem, ResponseOutputItem } from "openai/resources/responses/responses"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, failed, read, refusal, shown, succeeded } from "../support/wire.ts"

const picture = shown(
  "1",
  { type: "text", text: "a cat" },
  { type: "file", mediaType: "image/png", data: "AQID" },
  { type: "file", mediaType: "application/pdf", data: "AQID", fileName: "cat.pdf" }
)

const outcomes = [succeeded("1", { a: 1 }), picture, failed("2", "no")]

describe("what is written", () => {
  it("has the types of the providers", () => {
    expectTypeOf<WireFormat.Written["openai"]>().toExtend<Array<ChatCompletionMessageParam>>()
    expectTypeOf<WireFormat.Written["openai-responses"]>().toExtend<Array<ResponseInputItem>>()
    expectTypeOf<WireFormat.Written["anthropic"]>().toExtend<MessageParam>()
    expectTypeOf<WireFormat.Written["ai-sdk"]>().toExtend<ModelMessage>()
    expectTypeOf<WireFormat.Written["gemini"]>().toExtend<Content>()
    expectTypeOf<WireFormat.Written["bedrock"]>().toExtend<Message>()
    expectTypeOf<WireFormat.Written["langchain"][number]>().toExtend<ToolMessageFields>()
    expectTypeOf<WireFormat.Written["mcp"][number]["result"]>().toExtend<CallToolResult>()
  })

  it("is what LangChain takes for messages, one by one and in a list", () => {
    for (const written of WireFormat.write("langchain", outcomes)) {
      // it writes into what it is given
      for (const message of [new ToolMessage({ ...written }), coerceMessageLikeToMessage({ ...written })]) {
        assert.isTrue(ToolMessage.isInstance(message))
        const { content, name, status, tool_call_id } = message as ToolMessage
        assert.deepStrictEqual<unknown>({ type: "tool", content, name, status, tool_call_id }, written)
      }
    }
    const [, block] = new ToolMessage(WireFormat.write("langchain", [picture])[0]!).contentBlocks
    assert.deepInclude(block, { type: "image", mimeType: "image/png", data: "AQID" })
  })

  it("is what the AI SDK takes for a message, files and all", () => {
    assert.isTrue(modelMessageSchema.safeParse(WireFormat.write("ai-sdk", outcomes)).success)
  })
})

describe("what is read", () => {
  const call = { name: "read", args: { path: "a" }, id: "1", type: "tool_call" as const }
  const wave = { format: "langchain" as const, calls: [{ id: "1", name: "read", params: { path: "a" } }] }

  it("is LangChain's own message, serialized or not, and a conversation of them", () => {
    const message = new AIMessage({ content: "Let me see.", tool_calls: [call] })
    const chunk = new AIMessageChunk({
      content: "",
      tool_call_chunks: [{ name: "read", args: `{"path":"a"}`, id: "1", index: 0 }]
    })
    for (
      const input of [
        message,
        chunk,
        message.toDict(),
        message.toJSON(),
        JSON.parse(JSON.stringify(message)),
        [new HumanMessage("Hi"), message],
        message.tool_calls
      ]
    ) {
      assert.deepStrictEqual(read(input), wave)
    }
    const answered = new ToolMessage({ content: "done", tool_call_id: "1" })
    assert.deepStrictEqual(calls([new HumanMessage("Hi"), message, answered], "langchain"), [])
    assert.deepStrictEqual(calls(JSON.parse(JSON.stringify([message, answered])), "langchain"), [])
  })

  it("is a call of LangChain's whose arguments were no JSON, and never one that has no id", () => {
    const invalid = new AIMessageChunk({
      content: "",
      tool_call_chunks: [{ name: "read", args: `{"path": nope`, id: "1", index: 0 }]
    })
    assert.strictEqual(calls(invalid)[0]?.malformed?.text, `{"path": nope`)
    const { id: _, ...nameless } = call
    assert.strictEqual(refusal(new AIMessage({ content: "", tool_calls: [nameless] })).path, "tool_calls[0].id")
  })

  it("is a message of the AI SDK's UI", async () => {
    const message: UIMessage = {
      id: "m1",
      role: "assistant",
      parts: [
        { type: "step-start" },
        { type: "tool-read", toolCallId: "1", state: "input-available", input: { path: "a" } },
        { type: "dynamic-tool", toolName: "read", toolCallId: "2", state: "output-available", input: {}, output: 1 }
      ]
    }
    assert.deepStrictEqual(read(await validateUIMessages({ messages: [message] })), { ...wave, format: "ai-sdk" })
  })

  it("is every item of the Responses API that a client has to answer, or it is refused", () => {
    // a type that is added to the API is looked at here
    const types = {
      message: "none",
      reasoning: "none",
      compaction: "none",
      additional_tools: "none",
      program: "none",
      program_output: "none",
      file_search_call: "none",
      web_search_call: "none",
      image_generation_call: "none",
      code_interpreter_call: "none",
      mcp_call: "none",
      mcp_list_tools: "none",
      mcp_approval_request: "none",
      mcp_approval_response: "none",
      function_call_output: "none",
      custom_tool_call_output: "none",
      computer_call_output: "none",
      tool_search_output: "none",
      shell_call_output: "none",
      local_shell_call_output: "none",
      apply_patch_call_output: "none",
      function_call: "a call",
      custom_tool_call: "a call",
      shell_call: "a call",
      local_shell_call: "a call",
      apply_patch_call: "a call",
      computer_call: "refused",
      tool_search_call: "refused"
    } satisfies Record<ResponseOutputItem["type"], string>
    for (const [type, expected] of Object.entries(types)) {
      const call = { name: "a", arguments: "{}", input: "", action: {}, operation: {}, execution: "client" }
      const item = { type, call_id: "1", ...(type.endsWith("_call") ? call : {}) }
      const found = WireFormat.read({ output: [item] }, "openai-responses")
      const is = found._tag === "Failure" ? "refused" : found.success.calls.length === 1 ? "a call" : "none"
      assert.strictEqual(is, expected, type)
    }
  })

  it("is a message of chat completions, as it comes", () => {
    const message: ChatCompletionMessage = {
      role: "assistant",
      content: null,
      refusal: null,
      tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: `{"path":"a"}` } }]
    }
    assert.deepStrictEqual(read(message), { ...wave, format: "openai" })
  })
})
