// The same waves through what one would take otherwise: `Toolkit.handle` of effect/ai, and the AI SDK with its own
// execution and with ours behind it. Each gets its calls ready made; a model answers at once.
import { generateText, type LanguageModel, tool } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import { Effect, Stream } from "effect"
import type { ToolProcess } from "effect-tool-executor"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import { z } from "zod"
import { compare } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** One step of the AI SDK, whose model asks for the calls. */
const sdk = (tools: NonNullable<Parameters<typeof generateText>[0]["tools"]>, size: number, waves: number) => {
  type Call = ReturnType<typeof make>
  const make = () => {
    const { id, name, params } = Subject.call("read")
    return { type: "tool-call" as const, toolCallId: id, toolName: name, input: JSON.stringify(params) }
  }
  let content: ReadonlyArray<Call> = []
  const model: LanguageModel & MockLanguageModelV4 = new MockLanguageModelV4({
    doGenerate: () => {
      // it keeps every prompt
      model.doGenerateCalls.length = 0
      const finishReason = { unified: "tool-calls" as const, raw: undefined }
      return Promise.resolve({ content: [...content], finishReason, usage, warnings: [] })
    }
  })
  return Subject.side(
    make,
    (calls) => {
      content = calls
      return generateText({ model, prompt: "go", tools })
    },
    size,
    waves
  )
}

const own = {
  read: tool({
    inputSchema: z.object({ path: z.string(), n: z.number() }),
    execute: ({ n, path }) => Promise.resolve({ path, n: n + 1 })
  })
}

/** The handlers of effect/ai, each call by itself. */
const handled = (process: Subject.Handled, size: number, waves: number) =>
  Subject.side(
    () => Subject.call("read"),
    (calls) =>
      Effect.runPromise(
        Effect.forEach(
          calls,
          ({ id, params }) => Effect.flatMap(process.handle("read", params as never, id), Stream.runLast),
          { concurrency: "unbounded" }
        )
      ),
    size,
    waves
  )

const lines = Effect.fnUntraced(function*(process: ToolProcess.ToolProcess, size: number) {
  const waves = size === 1 ? 16 : 1
  const toolkit = yield* Effect.provide(Subject.kit, Subject.kit.toLayer(Subject.handlers))
  const tools = yield* Effect.orDie(AiSdk.toTools(process, Subject.kit))
  const [ours, byHand, handle, plain, behind] = yield* Effect.promise(() =>
    compare([
      Subject.ours(process, "read", size, waves),
      Subject.byHand(Subject.plenty, "read", size, waves),
      handled(toolkit, size, waves),
      sdk(own, size, waves),
      sdk(tools, size, waves)
    ])
  )
  const which = size === 1 ? "a single call" : `a wave of ${size.toLocaleString("en-US")}`
  const unit = "µs/call"
  return [
    { what: `${which}: the executor vs the floor`, value: ours, peer: byHand, unit },
    { what: `${which}: Toolkit.handle of effect/ai vs the executor`, value: handle, peer: ours, unit },
    { what: `${which}: generateText of the AI SDK vs the executor`, value: plain, peer: ours, unit },
    { what: `${which}: generateText with our executor vs without`, value: behind, peer: plain, unit }
  ] satisfies ReadonlyArray<Line>
})

export const others = Effect.gen(function*() {
  const process = yield* Subject.open(Subject.plenty)
  return [...yield* lines(process, 1), ...yield* lines(process, 1_000)]
})
