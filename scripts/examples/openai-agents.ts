/**
 * The tools of the executor for the OpenAI Agents SDK.
 *
 * `docs/adapters.md` shows it in full.
 */
import { tool } from "@openai/agents"
import { Effect } from "effect"
import { ToolCall, ToolContent, type ToolProcess } from "effect-tool-executor"

/** Tools for the agents of one run. Its calls share one process: in order, reads in parallel. */
export const toolsOf = (process: ToolProcess.ToolProcess) =>
  Effect.gen(function*() {
    const step = yield* process.step
    const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())
    return (yield* process.tools).map(({ description = "", jsonSchema, name }) =>
      tool({
        name,
        description,
        parameters: jsonSchema as never,
        strict: false,
        execute: async (input, _, details) => {
          const call = ToolCall.make(details?.toolCall?.callId ?? name, name, input)
          const { content } = await runPromise(step.execute(call), { signal: details?.signal })
          return content.map((part) =>
            part.type === "text"
              ? part
              : ToolContent.isImage(part)
              ? { type: "image", image: part }
              : { type: "text", text: ToolContent.note(part) }
          )
        }
      })
    )
  })
