/** Outcomes to write, and messages of every format that ask for the same calls. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolContent from "../../src/core/vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../../src/core/vocabulary/ToolOutcome.ts"
import type * as ToolRefusal from "../../src/core/vocabulary/ToolRefusal.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"

const common = { tool: "t", index: 0, attempt: 1, queuedAt: 0, commits: 0 }
const flags = { requestsContinuation: false, hasContinueRule: false }

export const succeeded = (callId: string, value: unknown, modelText = "done"): ToolOutcome.ToolOutcome => ({
  _tag: "Succeeded",
  ...common,
  ...flags,
  callId,
  output: { _tag: "Inline", value, modelText }
})

/** An outcome whose model is shown more than text. */
export const shown = (callId: string, ...content: ToolContent.ToolContent): ToolOutcome.ToolOutcome => ({
  _tag: "Succeeded",
  ...common,
  ...flags,
  callId,
  output: { _tag: "Inline", value: { n: 1 }, modelText: ToolContent.textOf(content), content }
})

export const truncated = (callId: string, value: unknown): ToolOutcome.ToolOutcome => ({
  _tag: "Succeeded",
  ...common,
  ...flags,
  callId,
  output: { _tag: "Truncated", value, originalChars: 9, modelText: "cut" }
})

export const failed = (
  callId: string,
  error: unknown,
  modelText = "disk full",
  origin: "handler" | "result" | "defect" = "handler"
): ToolOutcome.ToolOutcome => ({
  _tag: "Failed",
  ...common,
  ...flags,
  callId,
  error,
  origin,
  retryable: false,
  modelText
})

export const denied = (callId: string, reason: ToolRefusal.ToolRefusal): ToolOutcome.ToolOutcome => ({
  _tag: "Denied",
  ...common,
  callId,
  reason
})

export const skipped = (callId: string): ToolOutcome.ToolOutcome => ({
  _tag: "Skipped",
  ...common,
  callId,
  because: "the wave ended"
})

export const read = (input: unknown, format: WireFormat.Format | "auto" = "auto") =>
  Result.getOrThrow(WireFormat.read(input, format))

export const calls = (input: unknown, format: WireFormat.Format | "auto" = "auto") => read(input, format).calls

export const refusal = (input: unknown, format: WireFormat.Format | "auto" = "auto") => {
  const { path, problem, expected, format: as } = Result.getOrThrow(Result.flip(WireFormat.read(input, format)))
  return { format: as, path, problem, expected }
}

export const formats = WireFormat.Format.literals

/** A call that a model may ask for, and whether it goes well. */
export const Wanted = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  params: Schema.Record(Schema.String, Schema.Json),
  ok: Schema.Boolean
})

export type Wanted = typeof Wanted.Type

/** Ways to ask for the calls, as the providers do, with what they put beside. */
export const asking: { readonly [F in WireFormat.Format]: (wanted: ReadonlyArray<Wanted>) => ReadonlyArray<unknown> } =
  {
    langchain: (wanted) => {
      const tool_calls = wanted.map(({ id, name, params }) => ({ name, args: params, id, type: "tool_call" }))
      const fields = { content: "Let me see.", tool_calls, invalid_tool_calls: [] }
      return [
        { type: "ai", ...fields, additional_kwargs: { tool_calls: wanted.map(({ id }) => ({ id, function: {} })) } },
        {
          role: "assistant",
          content: "",
          tool_calls: wanted.map(({ id, name, params }) => ({ id, name, args: params }))
        },
        { lc: 1, type: "constructor", id: ["langchain_core", "messages", "AIMessage"], kwargs: fields },
        { type: "ai", data: fields },
        [{ type: "human", content: "Hi" }, { type: "ai", ...fields }],
        tool_calls
      ]
    },
    gemini: (wanted) => {
      const calls = wanted.map(({ id, name, params }) => ({ functionCall: { id, name, args: params } }))
      const parts = [{ text: "Let me see.", thought: true }, { executableCode: { code: "" } }, ...calls]
      const content = { role: "model", parts }
      return [
        { candidates: [{ content, finishReason: "STOP", index: 0 }], usageMetadata: {} },
        content,
        { parts },
        [{ role: "user", parts: [{ text: "Hi" }] }, content],
        calls
      ]
    },
    bedrock: (wanted) => {
      const content = [
        { text: "Let me see." },
        { reasoningContent: { reasoningText: { text: "hm" } } },
        { toolUse: { toolUseId: "s", name: "web_search", input: {}, type: "server_tool_use" } },
        ...wanted.map(({ id, name, params }) => ({ toolUse: { toolUseId: id, name, input: params } }))
      ]
      const message = { role: "assistant", content }
      return [{ output: { message }, stopReason: "tool_use", usage: {} }, message, content]
    },
    openai: (wanted) => {
      const tool_calls = wanted.map(({ id, name, params }) => ({
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(params) }
      }))
      const message = { role: "assistant", content: "Let me see.", tool_calls }
      return [
        message,
        { ...message, content: [{ type: "text", text: "Let me see." }] },
        { id: "c", object: "chat.completion", choices: [{ index: 0, message, finish_reason: "tool_calls" }] },
        tool_calls
      ]
    },
    "openai-responses": (wanted) => {
      const output = [
        { type: "reasoning", id: "rs_1", summary: [] },
        { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } },
        ...wanted.map(({ id, name, params }) => ({
          type: "function_call",
          id: "fc_1",
          call_id: id,
          name,
          arguments: JSON.stringify(params),
          status: "completed"
        })),
        {
          type: "message",
          id: "msg_1",
          role: "assistant",
          content: [{ type: "output_text", text: "", annotations: [] }]
        }
      ]
      return [{ id: "resp_1", object: "response", status: "completed", error: null, output }, output]
    },
    mcp: (wanted) => {
      const requests = wanted.map(({ id, name, params }) => ({
        jsonrpc: "2.0",
        id,
        method: "tools/call",
        params: { name, arguments: params, _meta: { progressToken: 1 } }
      }))
      return requests.length === 1 ? [requests, requests[0]] : [requests]
    },
    "ai-sdk": (wanted) => {
      const toolCalls = wanted.map(({ id, name, params }) => ({
        type: "tool-call",
        toolCallId: id,
        toolName: name,
        input: params
      }))
      const content = [
        { type: "reasoning", text: "hm" },
        { type: "custom", kind: "openai.compaction" },
        { type: "tool-call", toolCallId: "p", toolName: "web_search", input: {}, providerExecuted: true },
        ...toolCalls
      ]
      const parts = [
        { type: "step-start" },
        { type: "text", text: "Let me see." },
        { type: "tool-web_search", toolCallId: "p", state: "input-available", input: {}, providerExecuted: true },
        ...wanted.map(({ id, name, params }, index) => ({
          ...index % 2 === 0 ? { type: `tool-${name}` } : { type: "dynamic-tool", toolName: name },
          toolCallId: id,
          state: "input-available",
          input: params
        }))
      ]
      const message = { id: "m", role: "assistant", parts }
      return [
        { role: "assistant", content },
        content,
        toolCalls,
        message,
        [{ id: "u", role: "user", parts: [{ type: "text", text: "Hi" }] }, message]
      ]
    },
    "effect-ai": (wanted) => {
      const toolCalls = wanted.map(({ id, name, params }) => ({ type: "tool-call", id, name, params }))
      const content = [
        { type: "reasoning", text: "hm" },
        { type: "text", text: "Let me see." },
        { type: "tool-call", id: "p", name: "web_search", params: {}, providerExecuted: true },
        { type: "tool-result", id: "p", name: "web_search", result: 1, isFailure: false, providerExecuted: true },
        ...toolCalls
      ]
      const message = { role: "assistant", content, options: {} }
      return [
        content,
        toolCalls,
        { content: [...content, { type: "finish", reason: "tool-calls" }] },
        message,
        { content: [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }, message] }
      ]
    },
    anthropic: (wanted) => {
      const content = [
        { type: "text", text: "Let me see." },
        { type: "server_tool_use", id: "s", name: "web_search", input: {} },
        ...wanted.map(({ id, name, params }) => ({ type: "tool_use", id, name, input: params }))
      ]
      return [
        { role: "assistant", content },
        { id: "msg_1", type: "message", role: "assistant", content, stop_reason: "tool_use" },
        content
      ]
    },
    native: (wanted) => {
      const calls = wanted.map(({ id, name, params }) => ({ id, name, params }))
      return [calls, { calls }]
    }
  }

/** What a provider would find in what was written: the id of each answer, and whether it is marked as an error. */
export const answersIn: {
  readonly [F in WireFormat.Format]: (
    written: WireFormat.Written[F]
  ) => ReadonlyArray<readonly [id: unknown, isError: boolean | "unknown"]>
} = {
  langchain: (written) => written.map((it) => [it.tool_call_id, it.status === "error"]),
  gemini: ({ parts }) => parts.map(({ functionResponse: it }) => [it.id, "error" in it.response]),
  bedrock: ({ content }) => content.map(({ toolResult: it }) => [it.toolUseId, it.status === "error"]),
  openai: (written) => written.map((it) => [it.tool_call_id, "unknown"]),
  "openai-responses": (written) => written.map((it) => ["call_id" in it ? it.call_id : it.id, "unknown"]),
  mcp: (written) => written.map((it) => [it.id, it.result.isError === true]),
  "ai-sdk": ({ content }) => content.map((it) => [it.toolCallId, !["text", "json"].includes(it.output.type)]),
  "effect-ai": ({ content }) =>
    content.map((it) => it.type === "tool-result" ? [it.id, it.isFailure] : ["", "unknown"]),
  anthropic: ({ content }) => content.map((it) => [it.tool_use_id, it.is_error === true]),
  native: (written) => written.map((it) => [it.callId, it._tag !== "Succeeded"])
}
