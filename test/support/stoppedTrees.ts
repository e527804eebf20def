/**
 * A random tree of agents from a seed, and the hosts that run it one after another: each stops, or is killed, at some
 * moment, and the next one continues from what is on record.
 *
 * What an agent does follows from its conversation alone, so that a seed always makes the same tree.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type AgentEvent, AgentExecutor, BackgroundAgents, SubAgent } from "../../src/agent/index.ts"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { Journal } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, backgroundTools, problemsOf, words } from "./Agents.ts"
import * as Harness from "./Harness.ts"
import { randomFrom } from "./randomCase.ts"

/** How a host ends after so many milliseconds: `at record`: after so many records, whenever that is. */
export type Stop = "suspended" | "interrupted" | "closed" | "killed" | "at record"

export const stops: ReadonlyArray<Stop> = ["suspended", "interrupted", "closed", "killed"]

/** What a host leaves on record, and what has happened in the world. */
interface Left {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly below: ReadonlyArray<Transcripts.Below>
  readonly entries: ReadonlyArray<Journal.JournalEntry>
  readonly ran: ReadonlyArray<string>
}

const nothing: Left = { messages: [], below: [], entries: [], ran: [] }

/** What is seen of a tree that has ended. */
export interface Whole {
  readonly end: AgentEvent.OperationEnd
  readonly history: ReadonlyArray<string>
  /** The writes of its agents, in order of their names. */
  readonly writes: ReadonlyArray<string>
  /** The ids that each call's approval requests had. */
  readonly asked: ReadonlyMap<string, ReadonlySet<string>>
  /** How often a host ended before the operation did. */
  readonly stops: number
  /** Calls of which nobody knows whether they happened. */
  readonly unknown: number
}

const hashOf = (text: string): number => {
  let hash = 7
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash, 31) + text.charCodeAt(index) | 0
  return hash
}

const agents = {
  plain: {},
  own: { limits: { turns: 2 } },
  reads: { readOnly: true },
  behind: { background: true }
} as const

const leaves = ["look", "write", "asks", "slow"] as const

/** What trees are made of: agents that are waited for, or some in the background. */
export const kinds = {
  foreground: { agents: ["plain", "own", "reads"], leaves },
  background: { agents: ["plain", "reads", "behind", "behind"], leaves: [...leaves, "agent_wait"] }
} as const

export type Kind = keyof typeof kinds

/** The turn of an agent, by the seed, its task and how many turns it has had. */
const turnOf = (kind: Kind, seed: number, task: string, turn: number): ModelTurn.Turn => {
  const { agents, leaves } = kinds[kind]
  const { chance, int, pick } = randomFrom(hashOf(`${seed} ${task} ${turn}`))
  const depth = task.split("/").length
  const isOver = turn >= (depth === 1 ? 2 : 1 + randomFrom(hashOf(`${seed} ${task}`)).int(2))
  const calls = Array.from({ length: isOver ? 0 : 1 + int(3) }, (_, index) => {
    const id = `${turn}.${index}`
    const name: string = depth < 4 && chance(0.5) ? pick<string>(agents) : pick<string>(leaves)
    return { id, name, params: name === "agent_wait" ? { seconds: 600 } : { task: `${task}/${name}${id}` } }
  })
  const takes = pick([0, "10 millis", "1 second"] as const)
  return { text: `${task} ${isOver ? "over" : turn}`, calls, usage: { input: 1, output: 1 }, takes }
}

export const script = (kind: Kind, seed: number): ScriptedModel.Script => ({ prompt }) => {
  const said = words(prompt)
  const task = said[0]!.replace("user: ", "")
  return turnOf(kind, seed, task, prompt.content.filter((it) => it.role === "assistant").length)
}

/** The tools of a tree: calls that change something are run by `runs`. */
export const toolsOf = Effect.fnUntraced(function*(runs: Harness.Handler) {
  return {
    look: { class: "ReadOnly", handler: () => Effect.succeed("seen") },
    slow: { class: "ReadOnly", handler: () => Effect.as(Effect.sleep("2 seconds"), "seen late") },
    write: { class: "SerialMut", handler: runs },
    asks: { class: "ConcurrentMut", handler: runs },
    ...backgroundTools(yield* Layer.build(BackgroundAgents.layer)),
    ...Object.fromEntries(
      Object.entries(agents).map(([name, options]) => [
        name,
        agentTool(SubAgent.make(name, {
          description: name,
          parameters: Schema.Struct({ task: Schema.String }),
          prompt: ({ task }) => task,
          ...options
        }))
      ])
    )
  } as const satisfies Record<string, Harness.ToolSpec>
})

/** The answer to a request, and how long it takes. */
export const answerOf = (seed: number, task: string) => {
  const { chance, pick } = randomFrom(hashOf(`${seed} answer ${task}`))
  const after = pick([0, "500 millis", "3 seconds"] as const)
  const answer: Approvals.Answer = chance(0.25) ? { _tag: "Deny", reason: "no" } : { _tag: "ApproveOnce" }
  return { after, answer }
}

/** A host over what another one has left, until the scope is closed. */
const host = Effect.fnUntraced(function*(kind: Kind, seed: number, left: Left, records: number) {
  const messages = [...left.messages]
  const below = [...left.below]
  const ran = [...left.ran]
  const died = yield* Deferred.make<void>()
  let written = 0
  /** Something is on record now; the host may die with that, and then nothing of it continues. */
  const record = Effect.suspend(() =>
    ++written < records ? Effect.void : Effect.andThen(Deferred.succeed(died, undefined), Effect.never)
  )
  const transcripts = Transcripts.Transcripts.of({
    list: Effect.succeed([]),
    open: () =>
      Effect.sync(() => ({
        messages: [...messages],
        append: (more) => Effect.andThen(Effect.sync(() => messages.push(...more)), record),
        below: [...below],
        appendBelow: (part) => Effect.andThen(Effect.sync(() => below.push(part)), record)
      }))
  })
  const kept = Context.get(
    yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries: left.entries })))),
    Journal.Journal
  )
  const journal: Journal.Journal["Service"] = {
    ...kept,
    append: (lines, options) => Effect.andThen(kept.append(lines, options), record)
  }
  const tools = yield* toolsOf(({ task }) => Effect.sync(() => (ran.push(String(task)), "done")))
  const recorded = yield* Effect.orDie(Approvals.makeRecorded({ begin: () => undefined }))
  const model = yield* Effect.orDie(ScriptedModel.make(script(kind, seed)))
  const context = yield* Effect.orDie(Layer.build(AgentExecutor.layer.pipe(
    Layer.provide([Harness.layer(tools, { journal, policy: { default: "allow", ask: ["asks"] } }), model.layer]),
    Layer.provide(Layer.mergeAll(
      Layer.succeed(Transcripts.Transcripts, transcripts),
      Layer.succeed(Approvals.Approvals, recorded.approvals)
    ))
  )))
  return {
    agents: Context.get(context, AgentExecutor.AgentExecutor),
    suspend: recorded.suspend("the host stops"),
    died: Deferred.await(died),
    left: Effect.map(
      Effect.orDie(Stream.runCollect(journal.read({}))),
      (all): Left => ({
        messages: [...messages],
        below: [...below],
        entries: all.map(({ entry }) => entry),
        ran: [...ran]
      })
    )
  }
})

/**
 * Plays the tree of a seed, with hosts that stop like this after so many milliseconds each. Without a session, each
 * continues from the history that the one before it gave back.
 */
export const play = Effect.fnUntraced(function*(
  seed: number,
  lives: ReadonlyArray<readonly [Stop, number]>,
  { kind = "foreground", session }: { readonly kind?: Kind; readonly session: string | undefined } = { session: "s" }
): Effect.fn.Return<Whole, unknown> {
  const asked = new Map<string, Set<string>>()
  let left = nothing
  for (const [index, [stop, after]] of [...lives, ["none", Infinity] as const].entries()) {
    const scope = yield* Scope.make()
    const records = stop === "at record" ? after : Infinity
    const { agents, died, left: leaves, suspend } = yield* Scope.provide(host(kind, seed, left, records), scope)
    const prompt = left.messages.length === 0 ? "root" : session === undefined ? left.messages : []
    const agent = yield* Scope.provide(agents.start({ prompt, session, mode: "Interactive" }), scope)
    const answers = Stream.runForEach(
      agent.events,
      (event) =>
        event._tag !== "RequestToolApprovals" ?
          Effect.void :
          Effect.forEach(event.requests, ({ args, id }) =>
            Effect.gen(function*() {
              const { task } = args as { readonly task: string }
              asked.set(task, (asked.get(task) ?? new Set()).add(id))
              const { after, answer } = answerOf(seed, task)
              yield* Effect.sleep(after)
              yield* agent.answer(id, answer)
            }).pipe(Effect.ignore, Effect.forkIn(scope)), { discard: true })
    )
    yield* Effect.forkIn(answers, scope, { startImmediately: true })
    const running = yield* Effect.forkIn(agent.result, scope, { startImmediately: true })
    const ended = Effect.exit(Fiber.join(running))
    yield* stop === "at record" ? Effect.raceFirst(ended, died) : after === Infinity ? ended : Effect.sleep(after)
    if (stop === "suspended") {
      yield* suspend
      yield* Effect.exit(Fiber.join(running))
    }
    // nothing of a killed host happens after this
    const isKilled = stop === "killed" || stop === "at record"
    if (isKilled) left = yield* leaves
    const end = running.pollUnsafe()
    yield* Scope.close(scope, Exit.void)
    if (!isKilled) left = yield* leaves
    if (session === undefined) left = { ...left, messages: (yield* agent.history).content }
    if (end === undefined || Exit.isFailure(end) || end.value.reason._tag === "Suspended") continue
    return {
      end: end.value,
      history: [...words(end.value.history), ...problemsOf(end.value.history)],
      writes: left.ran.toSorted(),
      asked,
      stops: index,
      unknown: left.entries.filter((it) => it._tag === "Settled" && it.outcome._tag === "Unknown").length
    }
  }
  return yield* Effect.die(new Error(`seed ${seed} does not end`))
}, (played) => VirtualTime.run(Effect.orDie(played), { limit: "1 day" }))
