/**
 * A graph of LangGraph whose tool node is a wave of the executor.
 *
 * `docs/adapters.md` shows it in full.
 */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph"
import { Effect, Result } from "effect"
import { type ToolProcess, WireFormat } from "effect-tool-executor"

/** The wave: the calls of the last message that have no result yet. */
const runTools = (process: ToolProcess.ToolProcess) => async ({ messages }: typeof MessagesAnnotation.State) => {
  const { calls } = Result.getOrThrow(WireFormat.read(messages, "langchain"))
  const { outcomes } = await Effect.runPromise(process.executeWave(calls))
  return { messages: WireFormat.write("langchain", outcomes) }
}

const hasCalls = ({ messages }: typeof MessagesAnnotation.State) =>
  Result.getOrThrow(WireFormat.read(messages, "langchain")).calls.length > 0

export const makeGraph = (model: BaseChatModel, process: ToolProcess.ToolProcess) =>
  Effect.gen(function*() {
    const tools = (yield* process.tools).map(({ description, jsonSchema, name }) => ({
      type: "function",
      function: { name, description, parameters: jsonSchema }
    }))
    const bound = model.bindTools!(tools)
    return new StateGraph(MessagesAnnotation)
      .addNode("model", async ({ messages }) => ({ messages: [await bound.invoke(messages)] }))
      .addNode("tools", runTools(process))
      .addEdge(START, "model")
      .addConditionalEdges("model", (state) => hasCalls(state) ? "tools" : END)
      .addEdge("tools", "model")
      .compile()
  })
