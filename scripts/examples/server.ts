/**
 * A backend with the server mounted beside its own routes: users of its own, one tool that people are asked
 * about, records in a file of SQLite, and a stop in good order.
 *
 *     node scripts/examples/server.ts
 *
 * prints a token for ada and serves on http://127.0.0.1:3000/.
 */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Redacted, Schema } from "effect"
import { LocalExecutor, ToolAnnotations, ToolHandlers } from "effect-tool-executor"
import { Access, Server, Tokens, WaveStore } from "effect-tool-executor/server"
import { SqlJournal, SqlOwnRows, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { Tool, Toolkit } from "effect/ai"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"

// Tools

const FindOrder = Tool.make("find_order", {
  description: "Finds an order by its number",
  parameters: Schema.Struct({ number: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false)

const Refund = ToolAnnotations.for(
  Tool.make("refund", {
    description: "Pays an order back",
    parameters: Schema.Struct({ number: Schema.String, cents: Schema.Int }),
    success: Schema.String
  }),
  // an approval for a while holds for this order
  { targets: ({ number }) => [{ text: number }] }
)

export const toolkit = Toolkit.make(FindOrder, Refund)

export const Handlers = toolkit.toLayer({
  find_order: ({ number }) => Effect.succeed(`order ${number}: shipped`),
  refund: ({ cents, number }) => Effect.succeed(`${cents} cents were paid back for ${number}`)
})

// Executors and records: what has no end when the server stops goes on at the next start

export const records = (filename: string) =>
  Layer.mergeAll(SqlJournal.layer(), SqlStateStore.layer(), Layer.provide(WaveStore.layer, SqlOwnRows.layer))
    .pipe(
      Layer.provide(Sqlite.layer({ filename }))
    )

export const Executors = Server.layerExecutors({ approvals: { timeout: "8 hours" } }).pipe(
  Layer.provide(LocalExecutor.layerGates()),
  Layer.provide(ToolHandlers.layer(toolkit))
)

// Users: here a list; a host that has its own provides `Access` by a function

export const users = (ada: Redacted.Redacted<string>, bob: Redacted.Redacted<string>) =>
  Access.layer({
    users: [
      { name: "ada", run: true, approve: ["ada"], records: ["ada"], tokens: [{ hash: Tokens.hash(ada) }] },
      // looks after everybody's approval requests, and runs nothing
      { name: "bob", approve: ["*"], records: ["*"], tokens: [{ hash: Tokens.hash(bob) }] }
    ]
  })

// The backend's own routes, and the server's beside them

const Hello = HttpRouter.add("GET", "/hello", HttpServerResponse.text("This is the backend itself."))

export const Routes = Layer.merge(Hello, Server.layer())

if (import.meta.main) {
  const Users = Layer.unwrap(Effect.gen(function*() {
    const ada = yield* Tokens.make
    yield* Console.log(`The token of ada: ${Redacted.value(ada)}`)
    return users(ada, yield* Tokens.make)
  }))
  const Http = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 3000 })
  Server.serve(Routes, Http).pipe(
    Layer.provide(Executors),
    Layer.provide(Users),
    Layer.provide([Handlers, records("server-example.db"), NodeHttpServer.layerHttpServices]),
    Layer.launch,
    NodeRuntime.runMain
  )
}
