/**
 * A server that calls itself compatible with OpenAI chat completions: it shows its
 * reasoning and wants it back, and its streams are odd in the ways a turn names.
 *
 * The ways are those that clients had to learn: no index https://github.com/ollama/ollama/issues/7881,
 * no ids https://github.com/continuedev/continue/issues/13225, an empty or a repeated id
 * where OpenAI leaves it out, calls in one delta, no usage, no finish reason.
 */
import { type CallDelta, callDeltas, openaiChat } from "./openaiChat.ts"
import type { Body, Message } from "./openaiChatChecks.ts"
import { refuse } from "./protocol.ts"
import { isRecord, parsed, type Said } from "./script.ts"

export const openaiCompatible = () => {
  /** The reasoning that came with a call, by the call's id. */
  const reasonings = new Map<string, string>()
  return openaiChat({
    reasons: (said) => {
      if (said.reasoning === undefined || said.quirks.noIds === true) return
      for (const call of said.calls) reasonings.set(call.id, said.reasoning)
    },
    callDeltas: oddDeltas,
    check: ({ messages }) => messages.forEach((message, index) => check(message, index, messages, reasonings))
  })
}

// Utilities

const oddDeltas = (said: Said): ReadonlyArray<CallDelta> => {
  const { ids, noIds, noIndex, whole } = said.quirks
  if (whole === true || noIndex === true) {
    return said.calls.map((call, index) => ({
      ...noIndex === true ? {} : { index },
      id: noIds === true ? "" : call.id,
      type: "function",
      function: { name: call.name, arguments: call.raw }
    }))
  }
  return callDeltas(said).map((delta) => {
    if (noIds === true) return { ...delta, id: "" }
    if (delta.id !== undefined || ids === undefined) return delta
    return { ...delta, id: ids === "empty" ? "" : said.calls[delta.index ?? 0]?.id ?? "" }
  })
}

const check = (
  { content, reasoning_content: reasoning, role, tool_calls: calls = [] }: Message,
  index: number,
  messages: Body["messages"],
  reasonings: ReadonlyMap<string, string>
) => {
  if (role !== "assistant") return
  // Moonshot's words: https://github.com/labring/FastGPT/issues/3575
  if ((content ?? "").length === 0 && calls.length === 0) {
    refuse(`Invalid request: the message at position ${index} with role 'assistant' must not be empty`)
  }
  for (const { extra_content: extra, function: { arguments: args }, id } of calls) {
    // a signature, which this server gives nobody: https://ai.google.dev/gemini-api/docs/thought-signatures#openai-compatibility
    if (extra !== undefined) refuse("Corrupted thought signature.")
    // vLLM reads the arguments to render its template: https://github.com/vllm-project/vllm/issues/43995
    if (!isRecord(parsed(args))) refuse(`Invalid tool call arguments: ${args}`)
    const issued = reasonings.get(id)
    // while the loop is open: https://api-docs.deepseek.com/guides/thinking_mode#tool-calls
    const open = messages.slice(index + 1).every((later) => later.role !== "user")
    if (open && issued !== undefined && reasoning !== issued) {
      // https://github.com/earendil-works/pi/issues/3636
      refuse("The `reasoning_content` in the thinking mode must be passed back to the API.", 400, {
        code: "invalid_request_error"
      })
    }
  }
}
