/**
 * Conversations as data: what a model says in an operation, what the host does meanwhile, and how it ends; and the
 * agent that has them, over real provider packages and servers of their protocols.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { layerLanguageModel } from "../../../src/adapters/AiSdk.ts"
import type { Agent, Options } from "../../../src/agent/AgentExecutor.ts"
import * as Conversation from "../../../src/agent/Conversation.ts"
import { type AgentEvent, AgentExecutor, DispatchAgent, SubAgent } from "../../../src/agent/index.ts"
import { LocalExecutor, type ToolExecutor, type ToolOutcome } from "../../../src/index.ts"
import { declare } from "../Harness.ts"
import { type Name, type Options as ProviderOptions, type Provider, provider } from "../providers/providers.ts"
import type { Asked, Turn } from "../providers/script.ts"

/** A conversation, and what it comes to. */
export interface Talk {
  readonly name: string
  /** What the model says, turn by turn, its sub-agents included. */
  readonly turns: ReadonlyArray<Turn>
  readonly options?: Omit<Options, "prompt" | "model">
  readonly executor?: LocalExecutor.Options
  /** What there is around it: people, sessions, records. */
  readonly around?: Layer.Layer<never>
  /** Time stands still, but for where the host moves it. */
  readonly still?: true
  /** What the host does at an event. */
  readonly on?: (event: AgentEvent.AgentEvent, agent: Agent) => Effect.Effect<void>
  readonly comesTo: Come
  /** What it comes to where a protocol cannot say the same. */
  readonly butFor?: { readonly [N in Name]?: Partial<Come> }
  /** The protocols that have it; all of them if left out. */
  readonly over?: ReadonlyArray<Name>
  readonly provider?: ProviderOptions
}

/** What an operation comes to, whatever the protocol. */
export interface Come {
  /** The reason of its end, in words. */
  readonly end: string
  /** What was said last. */
  readonly text: string
  /** Each call of the history with its outcome, in their order. */
  readonly calls: ReadonlyArray<string>
}

const research = SubAgent.make("research", {
  description: "Finds out",
  parameters: Schema.Struct({ topic: Schema.String }),
  prompt: ({ topic }) => `Find out about ${topic}`,
  limits: { turns: 2 }
})

const dispatch = DispatchAgent.make()

const picture = Tool.make("picture", {
  success: Schema.String,
  toModelOutput: (data) => [
    Prompt.textPart({ text: "A picture:" }),
    Prompt.filePart({ mediaType: "image/png", data })
  ]
}).annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false)

const plain = {
  read: declare("read"),
  write: declare("write", { class: "SerialMut" }),
  ask: declare("ask", { class: "SerialMut" }),
  fails: declare("fails"),
  dies: declare("dies"),
  hangs: declare("hangs", { class: "ConcurrentMut" }),
  blank: declare("blank"),
  done: declare("done", { class: "SerialMut" }),
  picture
}

const kit = Toolkit.make(...Object.values(plain), research.tool, dispatch.tool)

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

type Params = { readonly [key: string]: unknown }

const handlers = {
  read: ({ path }: Params) => Effect.succeed(`text of ${String(path)}`),
  write: ({ path }: Params) => Effect.succeed(`wrote ${String(path)}`),
  ask: ({ path }: Params) => Effect.succeed(`asked for ${String(path)}`),
  fails: () => Effect.fail("no such thing"),
  dies: () => Effect.die(new Error("a bug")),
  hangs: () => Effect.never,
  blank: () => Effect.succeed(""),
  done: () => Effect.succeed("handed in"),
  picture: () => Effect.succeed(png)
}

/** Everything of an agent but its model. */
export const executor = (options: LocalExecutor.Options = {}): Layer.Layer<ToolExecutor.ToolExecutor> =>
  LocalExecutor.layer(kit, { policy: { default: "allow", ask: ["ask"] }, ...options }).pipe(
    Layer.provide([
      Toolkit.make(...Object.values(plain)).toLayer(handlers as never) as Layer.Layer<never>,
      research.layer,
      dispatch.layer
    ]),
    // tools that are written in place have no types
    (layer) => Layer.orDie(layer as unknown as Layer.Layer<ToolExecutor.ToolExecutor>)
  )

/** A server that says what it is given. */
export interface Speaker extends Provider {
  /** What it says from now on, in this order; but for what `aside` has an answer to. */
  readonly says: (turns: ReadonlyArray<Turn>, aside?: (asked: Asked) => Turn | undefined) => void
}

export const speaker = (name: Name, options?: ProviderOptions): Effect.Effect<Speaker, never, Scope.Scope> =>
  Effect.suspend(() => {
    const left: Array<Turn> = []
    let others: (asked: Asked) => Turn | undefined = () => undefined
    const script = (asked: Asked): Turn => others(asked) ?? left.shift() ?? { text: "Nothing is left to say." }
    return Effect.map(provider(name, script, options), (it) => ({
      ...it,
      says: (turns, aside = () => undefined) => {
        left.splice(0, left.length, ...turns)
        others = aside
      }
    }))
  })

export const modelOf = ({ model }: Pick<Provider, "model">) => layerLanguageModel(model)

/** Agents over an executor, with the model of a server. */
export const agentsOf = (
  speaker: Provider,
  options?: LocalExecutor.Options,
  around: Layer.Layer<never> = Layer.empty
) =>
  Effect.map(
    Layer.build(Layer.fresh(
      AgentExecutor.layer.pipe(Layer.provide([executor(options), modelOf(speaker)]), Layer.provide(around))
    )),
    (context) => Context.get(context, AgentExecutor.AgentExecutor)
  )

export interface Had {
  readonly end: AgentEvent.OperationEnd
  readonly events: ReadonlyArray<AgentEvent.AgentEvent>
}

/** Has a conversation with a server. */
export const have = Effect.fnUntraced(
  function*(talk: Talk, speaker: Speaker): Effect.fn.Return<Had, never, Scope.Scope> {
    speaker.says(talk.turns)
    const agents = yield* agentsOf(speaker, talk.executor, talk.around)
    const agent = yield* Effect.orDie(agents.start({ ...talk.options, prompt: "Begin" }))
    const events: Array<AgentEvent.AgentEvent> = []
    yield* Stream.runForEach(agent.events, (event) => {
      events.push(event)
      return talk.on?.(event, agent) ?? Effect.void
    })
    return { end: yield* agent.result, events }
  },
  (effect, { still }) => still === true ? Effect.provide(effect, TestClock.layer()) : effect
)

/** What an operation came to, to be compared. */
export const comeOf = ({ end, events }: Had): Come => {
  const outcomes = new Map(
    events.flatMap((it) =>
      it._tag === "ToolResultReceived" && it.agentPath.length === 0 ? [[it.callId, it.outcome] as const] : []
    )
  )
  const calls = end.history.content.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((it) =>
        it.type === "tool-call" && !it.providerExecuted ? [`${it.name} ${wordOf(outcomes.get(it.id))}`] : []
      )
      : []
  )
  return { end: endOf(end.reason), text: end.text, calls }
}

/** A history that went through a store. */
export const kept = (history: Prompt.Prompt): Prompt.Prompt =>
  Schema.decodeSync(Prompt.Prompt)(
    JSON.parse(JSON.stringify(Schema.encodeSync(Prompt.Prompt)(history))) as typeof Prompt.Prompt.Encoded
  )

/** One more loop, to its end. */
export const goingOn: ReadonlyArray<Turn> = [
  { reasoning: "On we go", text: "Once more.", calls: [{ name: "read", args: { path: "on" } }] },
  { text: "Gone on." }
]

/** Goes on from a history with a server: one more loop with a call, to its end. */
export const goOn = Effect.fnUntraced(function*(history: Prompt.Prompt, speaker: Speaker) {
  const agents = yield* agentsOf(speaker)
  speaker.says(goingOn)
  return yield* Effect.orDie(agents.run({ prompt: Prompt.concat(kept(history), "Go on") }))
}, Effect.scoped)

/** Packages warn of what is left out for their models, and that is what is tried. */
export const quiet = Effect.provideService(References.MinimumLogLevel, "Error")

/** Notes what is not as it has to be. */
export const checking = () => {
  const problems: Array<string> = []
  return {
    problems,
    check: (what: string, is: unknown, expected: unknown) => {
      const [one, other] = [JSON.stringify(is), JSON.stringify(expected)]
      if (one !== other) problems.push(`${what}: it is ${one}, not ${other}`)
    }
  }
}

/** Has a conversation over a protocol, goes on from it over others, and says what is not as it has to be. */
export const problemsOf = Effect.fnUntraced(
  function*(talk: Talk, name: Name, others: ReadonlyArray<Name>) {
    const { check, problems } = checking()
    const own = yield* speaker(name, talk.provider)
    const had = yield* have(talk, own)
    check("refused", own.server.refusals.map((it) => it.message), [])
    check("it comes to", comeOf(had), { ...talk.comesTo, ...talk.butFor?.[name] })
    const { calls } = Conversation.open(had.end.history.content)
    check("it has calls without an answer", calls.length > 0, had.end.reason._tag === "Suspended")
    for (const other of others) {
      const next = other === name ? own : yield* speaker(other)
      const before = next.server.refusals.length
      const end = yield* goOn(had.end.history, next)
      check(`refused by ${other}`, next.server.refusals.slice(before).map((it) => it.message), [])
      check(`gone on over ${other}`, [end.reason._tag, end.text], ["Finished", "Gone on."])
    }
    return problems
  },
  Effect.scoped,
  quiet
)

// Utilities

const wordOf = (outcome: ToolOutcome.ToolOutcome | undefined): string => {
  if (outcome === undefined) return "Nothing"
  return outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag
}

const endOf = (reason: AgentEvent.EndReason): string => {
  switch (reason._tag) {
    case "LimitReached":
      return `LimitReached ${reason.limit}`
    case "CutOff":
      return `CutOff ${reason.finish}`
    case "RequirementUnmet":
      return `RequirementUnmet ${reason.tools.join(" ")}`
    default:
      return reason._tag
  }
}
