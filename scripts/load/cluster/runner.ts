// A runner under load, as a process of its own: real HTTP over PostgreSQL. Its parent is told where it is, and how much it
// holds whenever it asks.
import { NodeHttpServer } from "@effect/platform-node"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Cause, Context, Effect, Layer, Redacted, Schema } from "effect"
import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { SubAgent, TranscriptStore } from "effect-tool-executor/agent"
import { Access, Agents, OperationStore, Server, Tokens, WaveStore } from "effect-tool-executor/server"
import { SqlJournal, SqlStateStore } from "effect-tool-executor/sql"
import { Toolkit } from "effect/ai"
import { HttpServer } from "effect/http"
import { KeyValueStore } from "effect/persistence"
import { createServer } from "node:http"
import process from "node:process"
import { heap } from "../../bench/measure.ts"
import { model } from "../model.ts"
import { tokenOf } from "../tokens.ts"
import type { Settings } from "./runners.ts"
import { handlers, rules, toolkit } from "./tools.ts"

const { connections, ledger, life, port, postgres, users } = JSON.parse(process.argv[2] ?? "{}") as Settings

const Client = PgClient.layer({ url: Redacted.make(postgres), maxConnections: connections })

const Stores = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer(),
  Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
    Layer.provide(KeyValueStore.layerSql({ table: "tool_executor_server" }))
  )
).pipe(Layer.provide(Client))

const everybody = Array.from({ length: users }, (_, index): Access.UserOptions => ({
  name: `u${index}`,
  run: true,
  operate: true,
  // the first ones are approvers
  ...index < 3 ? { approve: ["*"] } : {},
  tokens: [{ hash: Tokens.hash(Redacted.make(tokenOf(index))) }]
}))

// the agent of `../model.ts`: it notes, has a sub-agent that asks, and is done
const writer = SubAgent.make("writer", {
  description: "Asks",
  parameters: Schema.Struct({ prompt: Schema.String }),
  prompt: ({ prompt }) => prompt,
  toolkit: Toolkit.make(toolkit.tools.ask)
})

const helper = Agents.layer({ helper: { model, toolkit: Toolkit.merge(toolkit, writer.toolkit) } })

const many = 100_000

const Executors = Server.layerExecutors({
  waves: { maxSessions: many, maxSessionsPerUser: many, maxWaves: many, maxWavesPerUser: many },
  operations: { maxOperations: many, maxOperationsPerUser: many },
  approvals: { timeout: "unlimited" },
  draining: { within: "2 seconds" }
}).pipe(
  Layer.provide(LocalExecutor.layerGates({ rules, policy: { default: "allow", ask: ["ask"] }, dedupe: false })),
  Layer.provide(helper),
  Layer.provide(ToolHandlers.layer([toolkit, writer.toolkit])),
  Layer.provide([handlers(ledger, life), writer.layer])
)

const Http = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port })

// it is one machine that sends everything
const limits = {
  perAddress: { perSecond: many, burst: many },
  perUser: { perSecond: many, burst: many },
  open: { ofAll: many, perUser: many },
  streams: { ofAll: many, perUser: many }
}

const App = Server.serve(Server.layer({ limits }), Http, { disableLogger: true, disableListenLog: true }).pipe(
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
running.addObserver((exit) => {
  if (exit._tag === "Failure" && !Cause.hasInterruptsOnly(exit.cause)) console.error(Cause.pretty(exit.cause))
  process.exit()
})
