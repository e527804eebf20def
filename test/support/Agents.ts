/**
 * An agent over tools written in place and a scripted model, in virtual time.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Agent, Options } from "../../src/agent/AgentExecutor.ts"
import { type AgentEvent, AgentExecutor, BackgroundAgents } from "../../src/agent/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import * as Harness from "./Harness.ts"

export interface Env {
  readonly agents: AgentExecutor.AgentExecutor["Service"]
  readonly model: ScriptedModel.Scripted
}

type Tools = { readonly [name: string]: Harness.ToolSpec | Harness.Handler }

/** Runs a program with agents over tools and a script. */
export const run = <A, E>(
  tools: Tools,
  script: ScriptedModel.Script,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  options: Harness.Options = {},
  around: Layer.Layer<never> = Layer.empty
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const model = yield* Effect.orDie(ScriptedModel.make(script))
      const layer = AgentExecutor.layer.pipe(
        Layer.provide([Harness.layer(tools, options), model.layer]),
        Layer.provide(around)
      )
      const context = yield* Effect.orDie(Layer.build(layer))
      return yield* program({ agents: Context.get(context, AgentExecutor.AgentExecutor), model })
    })),
    { limit: "1 day" }
  )

/** Runs one operation and gives its events and its end. */
export const events = Effect.fnUntraced(function*({ agents }: Env, options: Options) {
  const events = yield* Stream.runCollect(agents.runOperation(options))
  return { events, end: endOf(events) }
})

export const endOf = (events: ReadonlyArray<AgentEvent.AgentEvent>): AgentEvent.OperationEnd => {
  const end = events.at(-1)
  if (end?._tag !== "OperationEnd") throw new Error(`the last event is ${end?._tag}`)
  return end
}

/** Reads the events of an agent in a fiber of its own, and gives those of now. */
export const reading = Effect.fnUntraced(
  function*(agent: Agent, each?: (event: AgentEvent.AgentEvent) => Effect.Effect<void>) {
    const seen: Array<AgentEvent.AgentEvent> = []
    const read = Stream.runForEach(agent.events, (event) => {
      seen.push(event)
      return each?.(event) ?? Effect.void
    })
    yield* Effect.forkScoped(read, { startImmediately: true })
    return seen
  }
)

export const tagsOf = (events: ReadonlyArray<AgentEvent.AgentEvent>) => events.map((it) => it._tag)

/** A conversation in words: who says what. */
export const words = (prompt: Prompt.Prompt): ReadonlyArray<string> =>
  prompt.content.flatMap((message) =>
    message.role === "system" ? [`system: ${message.content}`] : message.content.map((part) => {
      switch (part.type) {
        case "text":
        case "reasoning":
          return `${message.role}${part.type === "text" ? "" : " thinks"}: ${part.text}`
        case "tool-call":
          return `calls ${part.name} ${part.id}`
        case "tool-result":
          return `${part.isFailure ? "error" : "result"} ${part.id}: ${String(part.result)}`
        default:
          return part.type
      }
    })
  )

/**
 * What is wrong with the calls of a history: one without an answer right behind it, one
 * with two, an answer to nothing.
 */
export const problemsOf = (history: Prompt.Prompt): ReadonlyArray<string> => {
  const problems: Array<string> = []
  let open = new Set<string>()
  const missing = () => Array.from(open, (id) => `${id} has no answer`)
  for (const { content, role } of history.content) {
    if (role === "tool") {
      for (const part of content) {
        if (part.type === "tool-result" && !open.delete(part.id)) problems.push(`${part.id} answers nothing`)
      }
      continue
    }
    problems.push(...missing())
    open = new Set()
    if (role !== "assistant") continue
    for (const part of content) {
      if (part.type !== "tool-call" || part.providerExecuted) continue
      if (open.has(part.id)) problems.push(`${part.id} is there twice`)
      open.add(part.id)
    }
  }
  return [...problems, ...missing()]
}

/** The tools for agents in the background, with their handlers. */
export const backgroundTools = (handlers: Context.Context<never>): Record<string, Harness.ToolSpec> =>
  Object.fromEntries(
    Object.values(BackgroundAgents.toolkit.tools).map((tool) => [
      tool.name,
      { tool, handler: (handlers.mapUnsafe.get(tool.id) as Harness.ToolSpec).handler }
    ])
  )

/** A sub-agent as a tool written in place. */
export const agentTool = (
  { layer, tool }: { readonly tool: Tool.Any; readonly layer: Layer.Layer<never> }
): Harness.ToolSpec => {
  const handlers = Effect.runSync(Effect.scoped(Layer.build(layer))) as Context.Context<never>
  const { handler } = handlers.mapUnsafe.get((tool as { readonly id: string } & Tool.Any).id) as Harness.ToolSpec
  return { tool, handler }
}
