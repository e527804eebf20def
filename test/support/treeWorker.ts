/**
 * A process that runs a tree of agents over records in a folder until it is killed, or the tree has ended: sub-agents in
 * the foreground and in the background, each with writes and approvals. It tells in lines what it does.
 */
import { Approvals, Journal, LocalExecutor } from "effect-tool-executor"
import { AgentExecutor, BackgroundAgents, SubAgent } from "effect-tool-executor/agent"
import * as Sqlite from "effect-tool-executor/sqlite"
import { ScriptedModel } from "effect-tool-executor/testing"
import { TranscriptFolder } from "effect-tool-executor/tools"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { appendFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import { words } from "./Agents.ts"

const directory = process.argv[2]!

/** So long after a process was killed others may take over. */
const lease = "500 millis"

const Task = Schema.Struct({ task: Schema.String })
const Write = Tool.make("write", { parameters: Task, success: Schema.String })
const Asks = Tool.make("asks", { parameters: Task, success: Schema.String })
const Look = Tool.make("look", { parameters: Task, success: Schema.String }).annotate(Tool.Readonly, true)

const agent = <const Name extends string>(name: Name, background: boolean) =>
  SubAgent.make(name, { description: name, parameters: Task, prompt: ({ task }) => task, background })

const research = agent("research", false)
const behind = agent("behind", true)

const kit = Toolkit.merge(Toolkit.make(Write, Asks, Look), research.toolkit, behind.toolkit, BackgroundAgents.toolkit)

/** What the agents call in each of their turns, by their tasks. Those that are not here look around and write. */
const turns: Record<string, ReadonlyArray<ReadonlyArray<string>>> = {
  root: [["research", "behind", "write"], ["behind", "asks"], ["research"]],
  "root/research0": [["research", "asks"], ["write"]],
  "root/behind1": [["look"], ["research"], ["asks"]]
}

const script: ScriptedModel.Script = ({ prompt }) => {
  const task = words(prompt)[0]!.replace("user: ", "")
  const said = words(prompt).filter((it) => it.startsWith("assistant: ")).length
  const names = (turns[task] ?? [["look"], ["write", "asks"]])[said] ?? []
  const calls = names.map((name, index) => ({
    id: `${said}.${index}`,
    name,
    params: { task: `${task}/${name}${said === 0 ? index : `${said}.${index}`}` }
  }))
  return { text: `${task} ${calls.length === 0 ? "over" : said}`, calls, takes: "30 millis" } satisfies ModelTurn.Turn
}

const noting = (file: string, line: string) => Effect.sync(() => appendFileSync(join(directory, file), `${line}\n`))
const writes = ({ task }: typeof Task.Type) => Effect.as(noting("writes", task), "done")

const handlers = Layer.mergeAll(
  Toolkit.make(Write, Asks, Look).toLayer({
    write: writes,
    asks: writes,
    look: () => Effect.as(Effect.sleep("60 millis"), "seen")
  }),
  research.layer,
  behind.layer,
  BackgroundAgents.layer
)

const records = Layer.mergeAll(SqlStateStore.layer({ lease }), SqlJournal.layer({ lease })).pipe(
  Layer.provide(Sqlite.layer({ filename: join(directory, "records.sqlite") }))
)

const program = Effect.gen(function*() {
  const agents = yield* AgentExecutor.AgentExecutor
  const journal = yield* Journal.Journal
  const transcripts = yield* Transcripts.Transcripts
  const prompt = (yield* transcripts.list).length === 0 ? "root" : []
  const operation = yield* agents.start({ prompt, session: "s", mode: "Interactive" })
  writeSync(1, "running\n")
  const answers = Stream.runForEach(
    operation.events,
    (event) =>
      event._tag !== "RequestToolApprovals" ?
        Effect.void :
        Effect.forEach(event.requests, ({ args, id }) =>
          Effect.gen(function*() {
            yield* noting("asked", `${(args as typeof Task.Type).task} ${id}`)
            yield* Effect.sleep("100 millis")
            yield* operation.answer(id, { _tag: "ApproveOnce" })
          }).pipe(Effect.ignore, Effect.forkScoped), { discard: true })
  )
  yield* Effect.forkScoped(answers, { startImmediately: true })
  const { reason, text } = yield* operation.result
  const entries = yield* Stream.runCollect(journal.read({}))
  const tasks = new Map(
    entries.flatMap(({ entry }) =>
      entry._tag === "Arrived" && entry.args._tag === "Full"
        ? [[entry.key, (entry.args.value as typeof Task.Type).task]]
        : []
    )
  )
  const unknown = entries.flatMap(({ entry }) =>
    entry._tag === "Settled" && entry.outcome._tag === "Unknown" ? [tasks.get(entry.key)] : []
  )
  writeSync(1, `${JSON.stringify({ reason: reason._tag, text, unknown })}\n`)
}).pipe(
  Effect.scoped,
  Effect.provide(AgentExecutor.layer.pipe(
    Layer.provide(LocalExecutor.layer(kit, { policy: { default: "allow", ask: ["asks"] } })),
    Layer.provide(handlers),
    Layer.provide(Layer.unwrap(Effect.map(ScriptedModel.make(script), (it) => it.layer))),
    Layer.provideMerge(TranscriptFolder.layer({ directory: join(directory, "sessions") })),
    Layer.provideMerge(records),
    Layer.provide(Approvals.layer())
  ))
)

// what it prints is what it tells
await Effect.runPromise(Effect.provideService(program, Logger.LogToStderr, true))
process.exit(0)
