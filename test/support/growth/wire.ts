/** Messages of models with many calls, in every format. */
import * as Result from "effect/Result"
import * as WireFormat from "../../../src/wire/WireFormat.ts"
import type { Row } from "./Growth.ts"

const message = (
  file: string,
  call: (id: string) => object,
  within: (calls: ReadonlyArray<object>) => unknown = (it) => it
): Row => ({
  name: `a message with many calls: ${file}`,
  feeds: [`wire/${file}`, "wire/WireFormat.ts"],
  size: 300,
  input: (size) => {
    const input = within(Array.from({ length: size }, (_, index) => call(String(index))))
    return () => Result.getOrThrow(WireFormat.read(input))
  }
})

export const rows: ReadonlyArray<Row> = [
  message("AiSdk.ts", (id) => ({ type: "tool-call", toolCallId: id, toolName: "look", input: { id } })),
  message(
    "Anthropic.ts",
    (id) => ({ type: "tool_use", id, name: "look", input: { id } }),
    (content) => ({ role: "assistant", content })
  ),
  message(
    "Bedrock.ts",
    (id) => ({ toolUse: { toolUseId: id, name: "look", input: { id } } }),
    (content) => ({ role: "assistant", content })
  ),
  message("EffectAi.ts", (id) => ({ type: "tool-call", id, name: "look", params: { id } })),
  message(
    "Gemini.ts",
    (id) => ({ functionCall: { name: "look", args: { id } } }),
    (parts) => ({ role: "model", parts })
  ),
  message(
    "LangChain.ts",
    (id) => ({ id, name: "look", args: { id } }),
    (calls) => ({ type: "ai", content: "", tool_calls: calls })
  ),
  message(
    "Mcp.ts",
    (id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "look", arguments: { id } } })
  ),
  message("Native.ts", (id) => ({ id, name: "look", params: { id } })),
  message(
    "OpenAi.ts",
    (id) => ({ id, type: "function", function: { name: "look", arguments: `{"id":"${id}"}` } }),
    (calls) => ({ role: "assistant", content: null, tool_calls: calls })
  ),
  message(
    "UiMessages.ts",
    (id) => ({ type: "tool-look", toolCallId: id, state: "input-available", input: { id } }),
    (parts) => ({ id: "1", role: "assistant", parts })
  ),
  message("OpenAiResponses.ts", (id) => ({ type: "function_call", call_id: id, name: "look", arguments: "{}" }))
]
