/**
 * Tools for agents in the background (`SubAgent.make` with `background: true`): wait for them and look at them, send
 * them a message, stop them.
 *
 * Each acts on the agents that its caller has started, and on no others. None of them changes anything outside, so they
 * are ReadOnly and need no approval.
 *
 * **Example** (An agent that researches while it works)
 *
 * ```ts
 * import { Layer, Schema } from "effect"
 * import { Toolkit } from "effect/ai"
 * import { BackgroundAgents, SubAgent } from "effect-tool-executor/agent"
 *
 * const research = SubAgent.make("research", {
 *   description: "Finds out about a topic and reports",
 *   parameters: Schema.Struct({ topic: Schema.String }),
 *   prompt: ({ topic }) => `Find out about ${topic}.`,
 *   background: true
 * })
 *
 * export const toolkit = Toolkit.merge(research.toolkit, BackgroundAgents.toolkit)
 * export const handlers = Layer.merge(research.layer, BackgroundAgents.layer)
 * ```
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ToolContext } from "../core/contract/ToolContext.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import type { BackgroundCalls, Entry } from "./BackgroundCalls.ts"
import { Current, type OperationTree } from "./OperationTree.ts"

const Name = Schema.String.annotate({ description: "The name that its call returned" })

/** Seconds that a call waits at most. */
const maxSeconds = 600

const own = <T extends Tool.Any>(tool: T): T =>
  tool
    .annotate(Tool.Readonly, true)
    .annotate(Tool.OpenWorld, false)
    .annotate(ToolAnnotations.Volatile, true)
    .annotate(ToolAnnotations.Timeout, `${maxSeconds + 10} seconds`)
    // a host that stops leaves it open, and then it runs again
    .annotate(ToolAnnotations.Continues, () => Effect.succeed(true))
    .annotate(ToolAnnotations.FailureText, String) as unknown as T

/** Waits until an agent has ended, and says where the agents are. */
const Wait = own(Tool.make("agent_wait", {
  description: "Waits until one of the agents in the background has ended, and says where they are. " +
    "The result of an agent that has ended follows as a message.",
  parameters: Schema.Struct({
    names: Schema.optional(Schema.Array(Name).annotate({ description: "The agents to wait for. Default: all" })),
    seconds: Schema.optional(
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: maxSeconds }))
        .annotate({ description: "How long to wait at most. 0 only looks. Default: 60" })
    )
  }),
  success: Schema.String,
  failure: Schema.String
}))

/** Sends an agent a message. */
const Send = own(Tool.make("agent_send", {
  description: "Sends a message to an agent in the background. The agent reads it before its next turn.",
  parameters: Schema.Struct({ name: Name, message: Schema.NonEmptyString }),
  success: Schema.String,
  failure: Schema.String
}))

const Stop = own(Tool.make("agent_stop", {
  description: "Stops an agent in the background. What it has done remains.",
  parameters: Schema.Struct({ name: Name, reason: Schema.optional(Schema.String) }),
  success: Schema.String,
  failure: Schema.String
}))

/** The tools `agent_wait`, `agent_send` and `agent_stop`. */
export const toolkit = Toolkit.make(Wait, Send, Stop)

/** Their handlers. */
export const layer = toolkit.toLayer({
  agent_wait: ({ names, seconds = 60 }) =>
    Effect.gen(function*() {
      const { background } = yield* operation
      const entries = names === undefined || names.length === 0
        ? background.all
        : yield* Effect.forEach(names, (it) => entryOf(background, it))
      if (entries.length === 0) return "No agent has been started in the background."
      const isUnderWay = () => entries.some(({ state }) => state === "running")
      const before = entries.filter(({ state }) => state === "running")
      const isEnough = () => before.some(({ state }) => state === "ended") || !isUnderWay()
      if (seconds > 0) yield* Effect.timeoutOption(background.until(isEnough), `${seconds} seconds`)
      if (seconds > 0 && entries.some(isSuspended) && !before.some(hasEnded)) return yield* suspend
      return entries.map(stateOf).join("\n")
    }),
  agent_send: ({ message, name }) =>
    Effect.gen(function*() {
      const { background, branch } = yield* operation
      const { agent, call, process, state } = yield* entryOf(background, name)
      const id = (yield* ToolContext).idempotencyKey ?? message
      const sent = agent?.receives(message, id) ??
        Effect.as(branch.begin({ process: process.id, call }, true).receives({ id, text: message }), true)
      const isSent = state !== "ended" && (yield* Effect.mapError(sent, String))
      if (!isSent) return yield* Effect.fail(`"${name}" has ended, so it reads no more messages.`)
      return `"${name}" reads the message before its next turn.`
    }),
  agent_stop: ({ name, reason }) =>
    Effect.gen(function*() {
      const { background } = yield* operation
      const entry = yield* entryOf(background, name)
      if (hasEnded(entry)) return `"${name}" had ended already.`
      yield* entry.process.cancelCall(entry.call, reason ?? "the agent that started it stopped it")
      yield* background.until(() => entry.state !== "running")
      if (isSuspended(entry)) return yield* suspend
      return `"${name}" was stopped.`
    })
})

/** The operation of the agent that makes the call. */
const operation: Effect.Effect<OperationTree, string> = Effect.flatMap(Current, (tree) =>
  tree === undefined
    ? Effect.fail("There are no agents in the background: no agent makes this call.")
    : Effect.succeed(tree))

const entryOf = (background: BackgroundCalls, name: string): Effect.Effect<Entry, string> => {
  const entry = background.get(name)
  if (entry !== undefined) return Effect.succeed(entry)
  const names = background.all.map((it) => `"${it.name}"`)
  return Effect.fail(
    `There is no agent ${JSON.stringify(name)} in the background. ` +
      (names.length === 0 ? "None has been started." : `Agents: ${names.join(", ")}.`)
  )
}

/** The host stops: the call stays open for the next operation. */
const suspend = Effect.flatMap(ToolContext, (it) => it.suspend("the host stops"))

const isSuspended = ({ state }: Entry): boolean => state === "suspended"

const hasEnded = ({ state }: Entry): boolean => state === "ended"

const stateOf = ({ agent, name, state }: Entry): string => {
  if (state === "ended") return `"${name}" has ended. Its result follows as a message, unless you have it.`
  if (agent === undefined) return `"${name}" has not begun yet.`
  const said = agent.text === "" ? "" : ` It said last: ${agent.text}`
  const waits = agent.isAsked ? " It waits for approval." : ""
  return `"${name}" is running, in turn ${agent.turn}.${waits}${said}`
}
