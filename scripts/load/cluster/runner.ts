// A server or a runner under load, as a process of its own: real HTTP over SQLite or PostgreSQL. Its parent is told where it is, and how much it
// holds whenever it asks.
import { NodeHttpServer, NodeServices } from "@effect/platform-node"
import { Cause, Context, Effect, Layer, Redacted, Schema } from "effect"
import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { SubAgent } from "effect-tool-executor/agent"
import { Cluster } from "effect-tool-executor/cluster"
import { Access, Agents, Server, Tokens } from "effect-tool-executor/server"
import { Toolkit } from "effect/ai"
import { FetchHttpClient, HttpServer } from "effect/http"
import { createServer } from "node:http"
import process from "node:process"
import * as ServeStores from "../../../src/cli/serve/ServeStores.ts"
import { heap } from "../../bench/measure.ts"
import { model } from "../model.ts"
import { tokenOf } from "../tokens.ts"
import type { Settings } from "./runners.ts"
import { handlers, rules, toolkit } from "./tools.ts"

const { approvers = 3, cluster, data, ledger, life, port, postgres, users } = JSON.parse(
  process.argv[2] ?? "{}"
) as Settings

/** The stores of `tool-executor serve`, and with `--cluster`. */
const url = Redacted.make(postgres ?? "")
const Alone = ServeStores.layer(
  postgres === undefined
    ? { config: "", root: undefined, data, postgres: undefined }
    : { config: "", root: undefined, data: undefined, postgres: url }
)
const Shared = ServeStores.layerShared({ lease: 9_000, postgres: url })

const everybody = Array.from({ length: users }, (_, index): Access.UserOptions => ({
  name: `u${index}`,
  run: true,
  operate: true,
  ...index < approvers ? { approve: ["*"] } : {},
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

const services = Layer.mergeAll(Access.layer({ users: everybody }), NodeHttpServer.layerHttpServices)

const One = routes.pipe(Layer.provide(Executors), Layer.provide(services), Layer.provide(Alone))

const listening = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: cluster?.port ?? 0 })

const Many = routes.pipe(
  Layer.provide(
    Layer.provideMerge(Cluster.layer(listening, { shards: cluster?.shards, within: "2 seconds" }), Executors)
  ),
  Layer.provide([services, FetchHttpClient.layer]),
  Layer.provide(Shared)
)

const main = Effect.gen(function*() {
  const { address } = Context.get(
    yield* Layer.build(cluster === undefined ? One : Many).pipe(
      Effect.provide(NodeServices.layer)
    ),
    HttpServer.HttpServer
  )
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
