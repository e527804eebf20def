/**
 * A random tree of agents from a seed: what each model says, what each handler does, what
 * people answer and when the root is cancelled; and what was seen of it.
 *
 * What an agent does follows from its task alone, whatever happens elsewhere, so that a
 * seed always makes the same tree.
 */
import * as AiError from "effect/ai/AiError"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import {
  type AgentEvent,
  type AgentExecutor,
  type AgentLimits,
  DispatchAgent,
  SubAgent
} from "../../src/agent/index.ts"
import { type Approvals, ToolAnnotations, ToolContext } from "../../src/index.ts"
import type * as ModelRequest from "../../src/testing/ModelRequest.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import { agentTool, run, words } from "./Agents.ts"
import type { Handler, ToolSpec } from "./Harness.ts"
import { randomFrom, type SeededRandom } from "./randomCase.ts"

/** A handler that started. */
export interface Ran {
  readonly tool: string
  readonly callId: string
  readonly agentPath: ReadonlyArray<string>
  readonly afterCancel: boolean
}

export interface Seen {
  readonly mode: AgentExecutor.Mode
  readonly limits: AgentLimits.AgentLimits
  readonly events: ReadonlyArray<AgentEvent.AgentEvent>
  readonly ran: ReadonlyArray<Ran>
  /** Handlers that have not ended. */
  readonly running: number
  readonly left: ReadonlyArray<Approvals.ApprovalRequest>
  /** How long a wave took afterwards that fills the pool of readers. */
  readonly full: number
  readonly reason: string
  readonly cancelAt: number | undefined
}

const leaves = ["read", "write", "serial", "asks", "denied", "fails", "dies", "hangs", "deaf", "nope"] as const

/** Sub-agents, by name: their options, and what is not to happen below them. */
const agents = {
  plain: {},
  own: { limits: { turns: 2 } },
  poor: { limits: { tokens: 25 } },
  hasty: { limits: { time: "3 seconds" } },
  narrow: { policy: { default: "allow", deny: ["write", "serial"] } },
  alone: { mode: "Automatic" },
  reads: { readOnly: true }
} as const

const names = [...Object.keys(agents), "dispatch"]

/** A tool that a sub-agent of a path must not run. */
export const isForbidden = (path: ReadonlyArray<string>, tool: string): boolean =>
  tool === "denied" || (path.includes("narrow") && (tool === "write" || tool === "serial")) ||
  (path.some((it) => it === "reads" || it === "dispatch") && !["read", "hangs", "reads", "dispatch"].includes(tool))

/** Nobody is asked for a sub-agent of a path. */
export const asksNobody = (path: ReadonlyArray<string>): boolean =>
  path.some((it) => it === "alone" || it === "dispatch")

/** What an agent is to do, as its first message says it. */
interface Task {
  readonly id: string
  readonly path: ReadonlyArray<string>
  /** How many levels may be below it. */
  readonly depth: number
  /** Its first call is an agent as long as there may be one: how deep trees come about. */
  readonly isChain: boolean
}

const taskText = (task: Task): string => JSON.stringify(task)

const many = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))

const hashOf = (text: string): number => {
  let hash = 7
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash, 31) + text.charCodeAt(index) | 0
  return hash
}

/** The turn of an agent, by the seed, its task and how often it was asked. */
const turnOf = (seed: number, task: Task, turn: number, again: number): ModelTurn.Turn => {
  const random = randomFrom(hashOf(`${seed} ${task.id} ${turn}`))
  const { chance, int, pick } = random
  // wide at the top, a chain below
  const level = task.path.length
  const width = task.isChain ? 1 + int(2) : 1 + int(level === 0 ? 5 : 3)
  const isOver = turn >= (level === 0 ? 3 : 1 + int(2)) || (level > 2 && !task.isChain && chance(0.3))
  const calls = isOver ? [] : many(width, (index) => callOf(random, task, turn, index))
  const fault = chance(task.isChain ? 0.02 : level < 2 ? 0.05 : 0.15) ? faultOf(random, again) : {}
  return {
    text: `at ${JSON.stringify(task.path)}`,
    calls,
    usage: { input: 1 + int(10), output: 1 + int(5) },
    takes: pick([0, 0, "10 millis", "1 second"] as const),
    between: pick([0, 0, 0, "5 millis"] as const),
    ...fault
  }
}

const faultOf = ({ chance, int, pick }: SeededRandom, again: number): Partial<ModelTurn.Turn> => {
  switch (pick(["busy", "broken", "dies", "cut", "unproven", "never", "length", "slow"] as const)) {
    case "busy":
      return again > 0 ? {} : { cutAfter: 0, fails: "busy" }
    case "broken":
      return {
        cutAfter: int(6),
        fails: AiError.make({ module: "T", method: "m", reason: new AiError.UnknownError({}) })
      }
    case "dies":
      return { cutAfter: int(6), dies: "broken" }
    case "cut":
      return { cutAfter: int(6) }
    case "unproven":
      return { finish: chance(0.5) ? "unknown" : "error" }
    case "never":
      return { cutAfter: int(6), never: true }
    case "length":
      return { finish: chance(0.5) ? "length" : "content-filter" }
    case "slow":
      return { takes: "30 seconds" }
  }
}

const callOf = ({ chance, pick }: SeededRandom, task: Task, turn: number, index: number) => {
  const place = `${turn}.${index}`
  const isChain = task.isChain && turn === 0 && index === 0
  const isAgent = task.depth > 0 && (isChain || chance(task.isChain ? 0.2 : task.path.length < 3 ? 0.65 : 0.5))
  const name = isAgent ? isChain ? pick(["plain", "plain", "narrow", "alone"]) : pick(names) : pick(leaves)
  const below: Task = { id: `${task.id}/${place}`, path: [...task.path, name], depth: task.depth - 1, isChain }
  const params = chance(0.03) ? "{\"task\": " : { task: taskText(below) }
  return { id: chance(0.1) ? "" : chance(0.1) ? "same" : place, name, params }
}

export const play = (seed: number): Effect.Effect<Seen, unknown> => {
  const random = randomFrom(seed)
  const { chance, int, pick } = random
  const mode = pick(["Automatic", "Interactive"] as const)
  const limits: AgentLimits.AgentLimits = {
    time: "1 hour",
    ...chance(0.15) ? { calls: 1 + int(15) } : {},
    ...chance(0.15) ? { tokens: 1 + int(100) } : {},
    ...chance(0.15) ? { turns: 1 + int(3) } : {},
    ...chance(0.15) ? { time: `${1 + int(30)} seconds` } : {}
  }
  const cancelAt = chance(0.5) ? pick([0, 1, 10, 500, 1_000, 1_010, 2_500, 31_000, 200_000]) : undefined
  const sayAt = chance(0.3) ? pick([0, 10, 1_000, 5_000]) : undefined
  const ran: Array<Ran> = []
  let isCancelled = false
  let running = 0

  const noted = (rest: Effect.Effect<unknown, unknown>): Handler => () =>
    Effect.flatMap(ToolContext.ToolContext, ({ agentPath, callId, tool }) => {
      ran.push({ tool: String(tool), callId: String(callId), agentPath: agentPath ?? [], afterCancel: isCancelled })
      running++
      return Effect.ensuring(rest, Effect.sync(() => void running--))
    })
  const limited = (tool: Tool.Any) => tool.annotate(ToolAnnotations.Timeout, "5 seconds")
  const serial = (handler: Handler): ToolSpec => ({ handler, class: "SerialMut", annotate: limited })
  const concurrent = (handler: Handler): ToolSpec => ({ handler, class: "ConcurrentMut", annotate: limited })
  const tools: Record<string, ToolSpec | Handler> = {
    read: noted(Effect.as(Effect.sleep("1 second"), "read")),
    write: concurrent(noted(Effect.as(Effect.sleep("10 millis"), "written"))),
    serial: serial(noted(Effect.as(Effect.sleep("100 millis"), "written"))),
    asks: concurrent(noted(Effect.succeed("asked"))),
    denied: concurrent(noted(Effect.succeed("denied"))),
    fails: concurrent(noted(Effect.fail("no"))),
    dies: concurrent(noted(Effect.die(new Error("broken")))),
    hangs: { handler: noted(Effect.never), annotate: limited },
    deaf: concurrent(noted(Effect.uninterruptible(Effect.sleep("1 minute")))),
    dispatch: agentTool(DispatchAgent.make({ name: "dispatch" })),
    ...Object.fromEntries(
      Object.entries(agents).map(([name, options]) => [
        name,
        agentTool(SubAgent.make(name, {
          description: "Works",
          parameters: Schema.Struct({ task: Schema.String }),
          prompt: ({ task }) => task,
          ...options
        }))
      ])
    )
  }

  const asked = new Map<string, number>()
  const script = (request: ModelRequest.ModelRequest): ModelTurn.Turn => {
    const said = words(request.prompt)
    const first = said.find((it) => it.startsWith("user: {"))
    if (first === undefined) {
      const isOver = said.length > 1
      return isOver ? { text: "Done." } : { calls: many(20, (n) => ({ id: `${n}`, name: "read", params: { n } })) }
    }
    const task = JSON.parse(first.slice("user: ".length)) as Task
    // how often the model has spoken, and how often it was asked the same again
    const turn = said.filter((it) => it.startsWith("assistant:")).length
    const key = `${task.id} ${turn}`
    const again = asked.get(key) ?? 0
    asked.set(key, again + 1)
    return turnOf(seed, task, turn, again)
  }

  const played = run(tools, script, ({ agents }) =>
    Effect.gen(function*() {
      const isChain = chance(0.3)
      const root: Task = { id: "root", path: [], depth: isChain ? 9 : 2 + int(6), isChain }
      const agent = yield* agents.start({ prompt: taskText(root), mode, limits })
      const events: Array<AgentEvent.AgentEvent> = []
      const answer = Effect.fnUntraced(function*({ id }: Approvals.ApprovalRequest) {
        const its = randomFrom(hashOf(`${seed} ${events.length}`))
        const wait = its.pick([0, 1, 1_000, 20_000])
        const says = its.pick(["yes", "yes", "no", "silence"] as const)
        if (says === "silence") return
        yield* Effect.sleep(wait)
        yield* Effect.ignore(agent.answer(id, says === "yes" ? { _tag: "ApproveOnce" } : { _tag: "Deny" }))
      })
      const read = Stream.runForEach(agent.events, (event) => {
        events.push(event)
        return event._tag === "RequestToolApprovals"
          ? Effect.forEach(event.requests, (it) => Effect.forkChild(answer(it)), { discard: true })
          : Effect.void
      })
      const reader = yield* Effect.forkChild(read, { startImmediately: true })
      if (sayAt !== undefined) {
        yield* Effect.forkChild(Effect.andThen(Effect.sleep(sayAt), agent.say("And?", { settle: chance(0.5) })))
      }
      if (cancelAt !== undefined) {
        yield* Effect.forkChild(Effect.andThen(
          Effect.sleep(cancelAt),
          Effect.andThen(agent.cancel("enough"), Effect.sync(() => (isCancelled = true)))
        ))
      }
      const end = yield* agent.result
      yield* Effect.sleep("2 hours")
      const left = yield* agent.pending
      const done = [...ran]
      reader.interruptUnsafe()
      const before = yield* agents.run({ prompt: "full" })
      return {
        mode,
        limits,
        events,
        ran: done,
        running,
        left,
        full: before.at - (end.at + 7_200_000),
        reason: end.reason._tag,
        cancelAt
      }
    }), {
    policy: {
      default: "ask",
      allow: [...leaves.filter((it) => it !== "asks" && it !== "nope"), ...names],
      deny: ["denied"]
    }
  })
  // handlers that die are told of
  return Effect.provideService(played, References.MinimumLogLevel, "None")
}
