/** Runs the agent, and asks you before money is paid: `npm start -- "your question"` */
import { Effect, Layer, Stream } from "effect"
import { AgentEvent, AgentExecutor } from "effect-tool-executor/agent"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as TerminalApprover from "effect-tool-executor/terminal"
import process from "node:process"
import { Agents, options } from "./agent.ts"
import { requireKey } from "./key.ts"
import { model } from "./model.ts"

requireKey()

const prompt = process.argv[2] ?? "Order 17 never arrived. Please pay it back."
console.log(`> ${prompt}`)

const main = Effect.gen(function*() {
  const agents = yield* AgentExecutor.AgentExecutor
  yield* Stream.runForEach(agents.runOperation(options(prompt)), (event) =>
    Effect.sync(() => {
      if (event._tag === "AssistantMessagePart" && event.part.type === "text-delta") {
        process.stdout.write(event.part.delta)
      }
      if (event._tag === "OperationEnd") console.log(`\n${AgentEvent.describe(event.reason)}`)
    }))
}).pipe(Effect.provide(Agents.pipe(Layer.provide([TerminalApprover.layer(), AiSdk.layerLanguageModel(model)]))))

await Effect.runPromise(main)
