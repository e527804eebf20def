// A runner under load, as a process of its own: real HTTP over PostgreSQL. Its parent is told where it is, and how much it
// holds whenever it asks.
import { NodeHttpServer } from "@effect/platform-node"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Cause, Context, Effect, Layer, Redacted, Schema } from "effect"
import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { SubAgent, TranscriptStore } from "effect-tool-executor/agent"
import { Cluster } from "effect-tool-executor/cluster"
import { Access, Agents, OperationStore, Server, Tokens, WaveStore } from "effect-tool-executor/server"
import { SqlJournal, SqlPermits, SqlSessionRows, SqlStateStore } from "effect-tool-executor/sql"
import { Toolkit } from "effect/ai"
import { FetchHttpClient, HttpServer } from "effect/http"
import { KeyValueStore } from "effect/persistence"
import { createServer } from "node:http"
import process from "node:process"
import * as SqlSessionRegistry from "../../../src/sql/SqlSessionRegistry.ts"
import { heap } from "../../bench/measure.ts"
import { model } from "../model.ts"
import { tokenOf } from "../tokens.ts"
import type { Settings } from "./runners.ts"
import { handlers, rules, toolkit } from "./tools.ts"

const { cluster, connections, ledger, life, port, postgres, users } = JSON.parse(process.argv[2] ?? "{}") as Settings

const Database = PgClient.layer({ url: Redacted.make(postgres), maxConnections: connections })

/** The stores of one server. */
const Alone = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer(),
  Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
    Layer.provide(KeyValueStore.layerSql({ table: "tool_executor_server" }))
  )
)

/** The stores of a runner: what it writes is in the epochs of the sessions that it holds. */
const Shared = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer({ lease: "9 seconds" }),
  SqlPermits.layer(),
  Layer.mergeAll(WaveStore.layerRows, OperationStore.layerRows, TranscriptStore.layerRows)
).pipe(
  Layer.provideMerge(SqlSessionRows.layer),
  Layer.provideMerge(SqlSessionRegistry.layer({ name: life, address: `127.0.0.1:${cluster?.port}` }))
)

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

const routes = Server.serve(Server.layer({ limits }), Http, { disableLogger: true, disableListenLog: true })

const services = [Access.layer({ users: everybody }), NodeHttpServer.layerHttpServices] as const

const One = routes.pipe(Layer.provide(Executors), Layer.provide([...services, Alone]), Layer.provide(Database))

const listening = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: cluster?.port ?? 0 })

const Many = routes.pipe(
  Layer.provide(Cluster.layer(listening, { shards: cluster?.shards, within: "2 seconds" })),
  Layer.provide(Executors),
  Layer.provide([...services, Shared, FetchHttpClient.layer]),
  Layer.provide(Database)
)

const main = Effect.gen(function*() {
  const { address } = Context.get(yield* Layer.build(cluster === undefined ? One : Many), HttpServer.HttpServer)
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
