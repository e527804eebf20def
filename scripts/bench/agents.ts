// What a turn of an agent costs, next to a loop over `LanguageModel.generateText` with the same model and toolkit.
import { Context, Effect, Layer, Stream } from "effect"
import { ToolExecutor } from "effect-tool-executor"
import { AgentExecutor } from "effect-tool-executor/agent"
import { LanguageModel, Prompt, type Response, type Tool } from "effect/ai"
import { compare, heap, type Side } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const usage = {
  inputTokens: { uncached: 1, total: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** A model that makes as many calls in each of its turns, and says that it is done after the last. */
export const model = (calls: number, turns = 20) => {
  const partsOf = (prompt: Prompt.Prompt): ReadonlyArray<Response.PartEncoded> => {
    const made = prompt.content.filter((it) => it.role === "assistant").length
    const parts = Array.from({ length: made < turns ? calls : 0 }, (): Response.PartEncoded => {
      const { id, name, params } = Subject.call("read")
      return { type: "tool-call", id, name, params }
    })
    const reason = parts.length > 0 ? "tool-calls" : "stop"
    return [...parts, { type: "finish", reason, usage, response: undefined } as never]
  }
  return LanguageModel.make({
    generateText: ({ prompt }) => Effect.sync(() => [...partsOf(prompt)]),
    streamText: ({ prompt }) => Stream.suspend(() => Stream.fromArray(partsOf(prompt) as never))
  })
}

/** Operations of twenty turns, in this process; with records, each in a session of its own. */
export const operations = Effect.fnUntraced(function*(calls: number, records?: Context.Context<never>) {
  const service = yield* model(calls)
  const around = records ?? Context.empty()
  const executor = yield* Subject.executor(Subject.plenty, undefined, Layer.succeedContext(around))
  const agents = yield* AgentExecutor.make.pipe(
    Effect.provideService(ToolExecutor.ToolExecutor, executor),
    Effect.provideService(LanguageModel.LanguageModel, service),
    Effect.provideContext(around)
  )
  let sessions = 0
  const run = () => {
    const options = records === undefined ? {} : { session: `in-process-${++sessions}` }
    return Effect.runPromise(Stream.runDrain(agents.runOperation({ prompt: "go", ...options })))
  }
  return { calls: 20, prepare: () => run } satisfies Side
})

/** The loop that everybody writes. */
const loop = Effect.gen(function*() {
  let prompt = Prompt.make("go")
  while (true) {
    const response = yield* LanguageModel.generateText({ prompt, toolkit: Subject.kit })
    prompt = Prompt.concat(prompt, Prompt.fromResponseParts(response.content))
    if (response.toolCalls.length === 0) return prompt
  }
})

const turn = (calls: number) =>
  Effect.gen(function*() {
    const service = yield* model(calls)
    const handlers = yield* Layer.build(Subject.kit.toLayer(Subject.handlers))
    const context = Context.add(handlers, LanguageModel.LanguageModel, service) as Context.Context<
      LanguageModel.LanguageModel | Tool.HandlersFor<typeof Subject.kit.tools>
    >
    const byHand: Side = { calls: 20, prepare: () => () => Effect.runPromiseWith(context)(loop) }
    const own = yield* operations(calls)
    const [peer, value] = yield* Effect.promise(() => compare([byHand, own]))
    const what = `a turn of an agent, ${calls} ${
      calls === 1 ? "call" : "calls"
    } vs a loop over generateText of effect/ai`
    return { what, value, peer, unit: "µs/turn" } satisfies Line
  })

export const agents = Effect.all([turn(1), turn(10)])

/** What an operation of a thousand turns holds when it is over, next to the messages of its history alone. */
/** What is held: what was let go a moment ago goes in turns of the event loop, and not at once. */
const held = Effect.promise(async () => {
  for (let turn = 0; turn < 5; turn++) {
    heap()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return heap()
})

export const longAgent = Effect.gen(function*() {
  const service = yield* model(1, 1_000)
  const executor = yield* Subject.executor(Subject.plenty)
  const agents = yield* AgentExecutor.make.pipe(
    Effect.provideService(ToolExecutor.ToolExecutor, executor),
    Effect.provideService(LanguageModel.LanguageModel, service)
  )
  const play = (turns: number) =>
    Effect.gen(function*() {
      const agent = yield* agents.start({ prompt: "go", limits: { turns } })
      yield* Stream.runDrain(agent.events)
      return agent
    })
  // what is made of code meanwhile is no history; and the executor holds on to its last wave
  for (const turns of [1_000, 1_000, 1_000, 1]) yield* Effect.scoped(play(turns))
  const before = yield* held
  const agent = yield* play(1_000)
  const value = (yield* held) - before
  const { content } = yield* agent.history
  const alone = yield* held
  const copy = structuredClone(content)
  const peer = (yield* held) - alone
  const what = `memory of an agent's ${copy.length} messages after 1,000 turns vs a copy of them`
  return [{ what, value, peer, unit: "MB", bar: { of: "ratio", limit: 1.25 } }] satisfies ReadonlyArray<
    Line
  >
})
