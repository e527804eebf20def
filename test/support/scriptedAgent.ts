/** A model of the OpenAI Agents SDK that makes the calls of each turn, then says that it is done. */
import type { Model, ModelRequest } from "@openai/agents"
import type { Call } from "./scriptedModel.ts"

export const scriptedAgent = (
  turns: ReadonlyArray<ReadonlyArray<Call>>
): Model & { readonly seen: Array<ModelRequest>; readonly answers: () => ReadonlyMap<string, string> } => {
  const seen: Array<ModelRequest> = []
  return {
    seen,
    /** What the model was told about each call, by id. */
    answers: () =>
      new Map(
        ((seen.at(-1)?.input ?? []) as ReadonlyArray<unknown>).flatMap((it) => {
          const { callId, output, type } = it as { type?: string; callId?: string; output?: unknown }
          return type === "function_call_result" ? [[callId ?? "", JSON.stringify(output)] as const] : []
        })
      ),
    getResponse: (request) => {
      const turn = turns[seen.length] ?? []
      seen.push(request)
      return Promise.resolve({
        usage: {} as never,
        output: turn.length === 0
          ? [{
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: "done" }]
          }]
          : turn.map(([callId, name, args]) => ({
            type: "function_call" as const,
            callId,
            name,
            arguments: typeof args === "string" ? args : JSON.stringify(args),
            status: "completed" as const
          }))
      })
    },
    getStreamedResponse: () => {
      throw new Error("not streamed")
    }
  }
}
