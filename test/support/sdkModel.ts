/** A language model of the AI SDK that asks for what a test says. */
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test"
import type { Call } from "./scriptedModel.ts"

const usage = {
  inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: undefined, reasoning: undefined }
}

/** A model that asks for calls, step by step, then says it is done. Arguments that are a text are sent as they are. */
export const sdkModel = (steps: ReadonlyArray<ReadonlyArray<Call>>) => {
  let step = 0
  const next = () => {
    const calls = steps[step++] ?? []
    return {
      calls: calls.map(([toolCallId, toolName, params]) => ({
        type: "tool-call" as const,
        toolCallId,
        toolName,
        input: typeof params === "string" ? params : JSON.stringify(params)
      })),
      finishReason: { unified: calls.length === 0 ? "stop" as const : "tool-calls" as const, raw: undefined }
    }
  }
  const model = new MockLanguageModelV4({
    doGenerate: () => {
      const { calls, finishReason } = next()
      const content = calls.length === 0 ? [{ type: "text" as const, text: "done" }] : calls
      return Promise.resolve({ content, finishReason, usage, warnings: [] })
    },
    doStream: () => {
      const { calls, finishReason } = next()
      return Promise.resolve({
        stream: convertArrayToReadableStream([
          { type: "stream-start" as const, warnings: [] },
          ...calls,
          { type: "finish" as const, finishReason, usage }
        ])
      })
    }
  })
  return {
    model,
    /** What the model read of the results of calls, by id, in the last prompt. */
    read: () => {
      const prompts = [...model.doGenerateCalls, ...model.doStreamCalls]
      return new Map(
        (prompts.at(-1)?.prompt ?? []).flatMap((message) =>
          message.role !== "tool" ?
            [] :
            message.content.flatMap((part) =>
              part.type === "tool-result" ? [[part.toolCallId, part.output] as const] : []
            )
        )
      )
    }
  }
}
