// The server under load, as a process of its own: real HTTP, real SQLite. Its parent is told where it is, and how much it
// holds whenever it asks.
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, Random, Redacted, Schema } from "effect"
import { LocalExecutor, ToolContext, ToolHandlers } from "effect-tool-executor"
import { SubAgent, TranscriptStore } from "effect-tool-executor/agent"
import { Access, Agents, OperationStore, Server, Tokens, WaveStore } from "effect-tool-executor/server"
import { SqlJournal, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { Tool, Toolkit } from "effect/ai"
import { HttpServer } from "effect/http"
import { KeyValueStore } from "effect/persistence"
import { appendFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import process from "node:process"
import { heap } from "../bench/measure.ts"
import { model } from "./model.ts"
import { tokenOf } from "./tokens.ts"

const [folder = ".", users = "1"] = process.argv.slice(2)

const Params = Schema.Struct({ key: Schema.String, millis: Schema.Finite })

const toolkit = Toolkit.make(
  Tool.make("look", { parameters: Params, success: Schema.String }).annotate(Tool.Readonly, true),
  // leaves a line where its parent can count how often it happened
  Tool.make("note", { parameters: Params, success: Schema.String }),
  // the same, and people are asked about it
  Tool.make("ask", { parameters: Params, success: Schema.String })
)

const work = ({ key, millis }: typeof Params.Type) =>
  Effect.gen(function*() {
    const context = yield* ToolContext.ToolContext
    const parts = yield* Random.nextIntBetween(1, 4)
    for (let part = 1; part <= parts; part++) {
      yield* Effect.sleep(millis / parts)
      yield* context.progress({ progress: part, total: parts })
    }
    return key
  })

const done = (params: typeof Params.Type) =>
  Effect.tap(work(params), () => Effect.sync(() => appendFileSync(join(folder, "done"), `${params.key}\n`)))

const Stores = Layer.mergeAll(
  // what was killed is taken over soon
  SqlJournal.layer({ lease: "2 seconds" }),
  SqlStateStore.layer(),
  Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
    Layer.provide(KeyValueStore.layerSql())
  )
).pipe(Layer.provide(Sqlite.layer({ filename: join(folder, "records.db") })))

const everybody = Array.from({ length: Number(users) }, (_, index): Access.UserOptions => ({
  name: `u${index}`,
  run: true,
  ...index === 0 ? { approve: ["*"] } : {},
  tokens: [{ hash: Tokens.hash(Redacted.make(tokenOf(index))) }]
}))

// the agent of `agents.ts`: it notes, has a sub-agent that asks, and is done
const writer = SubAgent.make("writer", {
  description: "Asks",
  parameters: Schema.Struct({ prompt: Schema.String }),
  prompt: ({ prompt }) => prompt,
  toolkit: Toolkit.make(toolkit.tools.ask)
})

const helper = Agents.layer({ helper: { model, toolkit: Toolkit.merge(toolkit, writer.toolkit) } })

const bounds = { maxSessions: 10_000, maxWaves: 10_000 }

const Executors = Server.layerExecutors({
  waves: bounds,
  operations: { maxOperations: 10_000 },
  approvals: { timeout: "unlimited" },
  draining: { within: "2 seconds" }
}).pipe(
  Layer.provide(
    LocalExecutor.layerGates({ policy: { allow: ["look", "note", "writer"], ask: ["ask"] }, dedupe: false })
  ),
  Layer.provide(helper),
  Layer.provide(ToolHandlers.layer([toolkit, writer.toolkit])),
  Layer.provide([toolkit.toLayer({ look: work, note: done, ask: done }), writer.layer])
)

const Http = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 })

const App = Server.serve(Server.layer(), Http, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(Executors),
  Layer.provide([Access.layer({ users: everybody }), Stores, NodeHttpServer.layerHttpServices])
)

const main = Effect.gen(function*() {
  const { address } = Context.get(yield* Layer.build(App), HttpServer.HttpServer)
  process.send?.({ url: HttpServer.formatAddress(address) })
  process.on("message", () => process.send?.({ heap: heap() }))
  process.once("disconnect", () => process.exit())
  return yield* Effect.never
})

const running = Effect.runFork(Effect.scoped(main))

process.once("SIGTERM", () => running.interruptUnsafe())
running.addObserver(() => process.exit())
