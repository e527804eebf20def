/**
 * An operation that is stopped at any event: cancelled, read no further, or killed with its process; and what goes on
 * from what is left of it, with any model.
 */
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { layerLanguageModel, type ProviderModel } from "../../../src/adapters/AiSdk.ts"
import * as Conversation from "../../../src/agent/Conversation.ts"
import { type AgentEvent, AgentExecutor, SubAgent } from "../../../src/agent/index.ts"
import { LocalExecutor, type ToolExecutor } from "../../../src/index.ts"
import { JournalFile, TranscriptFolder } from "../../../src/tools/index.ts"
import { declare } from "../Harness.ts"
import { program } from "../programs.ts"
import type { Name } from "../providers/providers.ts"
import type { Asked, Turn } from "../providers/script.ts"
import { checking, goingOn, quiet, type Speaker, speaker } from "./talk.ts"

export const ways = ["cancelled", "unread", "killed"] as const

export type Way = typeof ways[number]

export interface Stop {
  readonly way: Way
  /** The protocol that it speaks. */
  readonly over: Name
  /** At which of its events, from 0; killed also in the middle of an execution, as it is noted. */
  readonly at: number | string
  /** Those that go on from it, each for itself. */
  readonly next: ReadonlyArray<Name>
}

/** What the model says: calls side by side, and a sub-agent that makes some of its own. */
export const turns: ReadonlyArray<Turn> = [
  {
    reasoning: "All at once",
    text: "I begin.",
    calls: [
      { name: "read", args: { path: "a" } },
      { name: "slow", args: { path: "b" } },
      { name: "write", args: { path: "c" } }
    ]
  },
  { reasoning: "Ask them", calls: [{ name: "research", args: { topic: "x" } }] },
  { calls: [{ name: "write", args: { path: "d" } }, { name: "read", args: { path: "e" } }] },
  { text: "It is so." },
  { reasoning: "That is it", text: "Done." }
]

/** Executions, as they are noted. */
export const executions = ["read a", "slow b", "write c", "write d", "read e"] as const

/** Agents whose sessions, journal and effects are in a folder. */
export const agentsIn = (
  folder: string,
  model: ProviderModel,
  onStart: (execution: string) => void = () => {}
): Effect.Effect<AgentExecutor.AgentExecutor["Service"], never, Scope.Scope> => {
  const start = (name: string, millis: number) => ({ path }: { readonly path?: unknown }) =>
    Effect.gen(function*() {
      const line = `${name} ${String(path)}`
      appendFileSync(join(folder, ran), `${line}\n`)
      onStart(line)
      yield* Effect.sleep(millis)
      return `${name}: ${String(path)}`
    })
  const handlers = { read: start("read", 0), write: start("write", 1), slow: start("slow", 15) }
  const executor = LocalExecutor.layer(kit, { policy: { default: "allow" } }).pipe(
    Layer.provide([plain.toLayer(handlers as never) as Layer.Layer<never>, research.layer]),
    Layer.provide(JournalFile.layer({ path: join(folder, "journal", "journal.ndjson") })),
    // tools that are written in place have no types
    (layer) => layer as unknown as Layer.Layer<ToolExecutor.ToolExecutor>
  )
  const layer = AgentExecutor.layer.pipe(
    Layer.provide([executor, layerLanguageModel(model)]),
    Layer.provide(TranscriptFolder.layer({ directory: join(folder, "sessions") }))
  )
  return Effect.map(
    Effect.orDie(Layer.build(Layer.fresh(layer))),
    (context) => Context.get(context, AgentExecutor.AgentExecutor)
  )
}

export const begin = { prompt: "Begin", session: "one" } as const

/** The events of an operation that nobody stops, by their names. */
export const eventsOver = (name: Name): Effect.Effect<ReadonlyArray<AgentEvent.AgentEvent["_tag"]>> =>
  Effect.scoped(Effect.gen(function*() {
    const [own, folder] = [yield* speaker(name), yield* folderOf]
    own.says(turns)
    const agents = yield* agentsIn(folder, own.model)
    const events = yield* Effect.orDie(Stream.runCollect(agents.runOperation(begin)))
    return events.map((it) => it._tag)
  })).pipe(quiet)

/** Stops an operation, goes on from it, and says what is not as it has to be. */
export const problemsOf = Effect.fnUntraced(
  function*(stop: Stop) {
    const { check, problems } = checking()
    const [own, folder] = [yield* speaker(stop.over), yield* folderOf]
    own.says(turns)
    const late = yield* stopping[stop.way](stop, own, folder)
    check("started after the stop", late, [])
    check("refused", own.server.refusals.map((it) => it.message), [])
    const first = starts(folder)
    for (const name of stop.next) {
      const copy = yield* folderOf
      cpSync(folder, copy, { recursive: true })
      const next = name === stop.over ? own : yield* speaker(name)
      const refused = next.server.refusals.length
      const end = yield* onFrom(copy, next)
      check(`refused by ${name}`, next.server.refusals.slice(refused).map((it) => it.message), [])
      check(`gone on over ${name}`, [end.reason._tag, end.text], ["Finished", "Gone on."])
      check(`open over ${name}`, Conversation.open(end.history.content).calls, [])
      const effects = starts(copy).filter((it) => !it.startsWith("read"))
      check(`repeated over ${name}`, effects.filter((it, index) => effects.indexOf(it) !== index), [])
      const since = starts(copy).slice(first.length)
      if (stop.way === "cancelled") check("resumed though it was cancelled", since, ["read on"])
    }
    return problems
  },
  Effect.scoped,
  quiet
)

// Utilities

const ran = "ran.txt"

const starts = (folder: string): ReadonlyArray<string> =>
  existsSync(join(folder, ran)) ? readFileSync(join(folder, ran), "utf8").split("\n").slice(0, -1) : []

const folderOf = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "talks-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const plain = Toolkit.make(
  declare("read"),
  declare("write", { class: "SerialMut" }),
  declare("slow", { class: "ConcurrentMut" })
)

const research = SubAgent.make("research", {
  description: "Finds out",
  parameters: Schema.Struct({ topic: Schema.String }),
  prompt: ({ topic }) => `Find out about ${topic}`
})

const kit = Toolkit.merge(plain, research.toolkit)

/** A sub-agent that had not started does so when its call is resumed. */
const below = ({ messages: [first] }: Asked): Turn | undefined =>
  first?.role === "user" && first.text.startsWith("Find out") ? { text: "It is so." } : undefined

const onFrom = Effect.fnUntraced(function*(folder: string, next: Speaker) {
  const agents = yield* agentsIn(folder, next.model)
  next.says(goingOn, below)
  return yield* Effect.orDie(agents.run({ ...begin, prompt: "Go on" }))
}, Effect.scoped)

/** Time in which a call that nobody holds back would start. */
const aWhile = Effect.sleep("20 millis")

/** Each stops it, and gives the calls that started afterwards all the same. */
const stopping: {
  readonly [W in Way]: (stop: Stop, own: Speaker, folder: string) => Effect.Effect<ReadonlyArray<string>>
} = {
  cancelled: ({ at }, own, folder) =>
    Effect.scoped(Effect.gen(function*() {
      const agents = yield* agentsIn(folder, own.model)
      const agent = yield* Effect.orDie(agents.start(begin))
      let count = 0
      let started = Infinity
      yield* Stream.runForEach(agent.events, () =>
        Effect.gen(function*() {
          if (count++ !== at) return
          yield* agent.cancel("enough")
          started = starts(folder).length
        }))
      return starts(folder).slice(started)
    })),
  unread: ({ at }, own, folder) =>
    Effect.scoped(Effect.gen(function*() {
      const agents = yield* agentsIn(folder, own.model)
      yield* Effect.orDie(Stream.runDrain(Stream.take(agents.runOperation(begin), Number(at) + 1)))
      const started = starts(folder).length
      yield* aWhile
      return starts(folder).slice(started)
    })),
  killed: ({ at, over }, own, folder) =>
    Effect.promise(async () => {
      const child = spawn(process.execPath, [
        ...program("test/support/talks/stoppedWorker.ts"),
        JSON.stringify({ name: over, url: own.server.url, folder, at })
      ], { stdio: ["ignore", "ignore", "pipe"] })
      let told = ""
      child.stderr.on("data", (text) => told += String(text))
      const [code, signal] = await once(child, "close") as [number | null, string | null]
      // it was over before
      if (signal !== "SIGKILL" && code !== 0) throw new Error(`it ended with ${code}: ${told}`)
      return []
    })
}
