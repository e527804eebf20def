/** Devices that servers share: in memory, SQLite and PostgreSQL they are the same. */
import { assert, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import { type Device, makeMemory, PushTable } from "../../src/core/store/PushTable.ts"
import * as SqlPushDevices from "../../src/sql/SqlPushDevices.ts"
import * as Postgres from "../support/Postgres.ts"

const device = (endpoint: string, user: string, addedAt: number): Device => ({
  endpoint,
  user,
  p256dh: `key of ${user}`,
  auth: "secret",
  addedAt
})

layer(Postgres.layer)("the devices of users", (it) => {
  it.effect(
    "are kept up to a number, change their user, and are removed by theirs, in each store",
    () =>
      Effect.gen(function*() {
        const url = yield* (yield* Postgres.Postgres).database
        const opened = (client: Context.Context<SqlClient.SqlClient>) =>
          Effect.map(
            Layer.build(Layer.provide(Layer.fresh(SqlPushDevices.layer), Layer.succeedContext(client))),
            (it) => Context.get(it, PushTable)
          )
        const postgres = yield* Layer.build(Postgres.clientOf(url))
        const sqlite = yield* Layer.build(Sqlite.layer({ filename: ":memory:" }))
        for (
          const table of [makeMemory(), yield* opened(postgres), yield* opened(postgres), yield* opened(sqlite)]
        ) {
          const all = Effect.map(table.all, (it) => it.map(({ endpoint, user }) => `${user} ${endpoint}`))
          yield* Effect.forEach(yield* table.all, table.remove)
          yield* table.add(device("a", "ada", 1), 2)
          yield* table.add(device("b", "bob", 2), 2)
          yield* table.add(device("c", "ada", 3), 2)
          yield* table.add(device("d", "ada", 4), 2)
          assert.deepStrictEqual(yield* all, ["bob b", "ada c", "ada d"])
          yield* table.remove({ endpoint: "c", user: "bob" })
          yield* table.add(device("d", "bob", 5), 2)
          assert.deepStrictEqual(yield* all, ["bob b", "ada c", "bob d"])
          yield* table.remove({ endpoint: "c", user: "ada" })
          assert.deepStrictEqual(yield* table.all, [device("b", "bob", 2), device("d", "bob", 5)])
        }
      }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)),
    { tags: ["SV34"] }
  )
})
