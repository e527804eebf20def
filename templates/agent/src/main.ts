/** Runs the agent, and asks you before money is paid: `npm start -- "your question"` */
import { Effect, Layer, Stream } from "effect"
import { Approvals } from "effect-tool-executor"
import { AgentEvent, AgentExecutor } from "effect-tool-executor/agent"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import { once } from "node:events"
import process from "node:process"
import { createInterface } from "node:readline/promises"
import { Agents, options } from "./agent.ts"
import { requireKey } from "./key.ts"
import { model } from "./model.ts"

requireKey()

const People = Approvals.layerApprover(({ args, tool, why }) =>
  Effect.promise(async () => {
    const terminal = createInterface({ input: process.stdin, output: process.stdout })
    // the end of the input is an answer, too
    const typed = await Promise.race([
      terminal.question(`\nApprove ${tool} ${JSON.stringify(args)}? (${why}) [y/N] `),
      once(terminal, "close").then(() => "")
    ])
    terminal.close()
    return typed.trim().toLowerCase() === "y" ? { _tag: "ApproveOnce" } : { _tag: "Deny" }
  })
)

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
}).pipe(Effect.provide(Agents.pipe(Layer.provide([People, AiSdk.layerLanguageModel(model)]))))

await Effect.runPromise(main)
