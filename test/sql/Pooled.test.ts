/** Stores behind a pooler in transaction mode, where each transaction has another connection. */
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, layer } from "@effect/vitest"
import { SqlJournal, SqlPermits } from "effect-tool-executor/sql"
import { StateStoreContract } from "effect-tool-executor/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { SharedPermits } from "../../src/core/gates/PermitSource.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { SessionRows } from "../../src/core/store/SessionRows.ts"
import { own } from "../../src/sql/OwnConnection.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as Contract from "../support/contract.ts"
import * as Postgres from "../support/Postgres.ts"
import { sample } from "../support/seeds.ts"
import * as Pooler from "../support/transactionPooler.ts"

layer(Postgres.pooled)("behind a pooler in transaction mode,", (it) => {
  const contracts = {
    "a journal": JournalContract.make({
      layer: (options) => SqlJournal.layer(options).pipe(Layer.provideMerge(Postgres.client)),
      another: SqlJournal.make()
    }),
    "a state store": StateStoreContract.make({
      layer: (options) => SqlStateStore.layer(options).pipe(Layer.provideMerge(Postgres.client), Layer.fresh),
      later: Contract.later
    })
  }
  for (const [name, checks] of Object.entries(contracts)) {
    for (const { check, name: does } of sample(checks)) it.effect(`${name}: ${does}`, () => check)
  }

  it.effect("sessions move between processes, their rows with them, and permits too", () =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const client = Postgres.clientOf(yield* database)
      const process = Effect.map(
        Layer.build(Layer.fresh(
          Layer.mergeAll(SqlSessionRows.layer, SqlPermits.layer()).pipe(
            Layer.provideMerge(SqlSessionRegistry.layer()),
            Layer.provide(client)
          )
        )),
        (context) => ({
          registry: Context.get(context, SessionRegistry),
          rows: Context.get(context, SessionRows),
          permits: Context.get(context, SharedPermits)
        })
      )
      const [one, two] = [yield* process, yield* process]
      const first = yield* one.registry.activate("ada/s")
      yield* one.rows.of("ada/s").write([{ _tag: "Put", key: "a", value: "1" }])
      const key = [{ name: "key", size: 1 }]
      yield* Effect.scoped(one.permits.source(key).lease)
      assert.strictEqual(yield* one.registry.release(first, { _tag: "Nothing" }), "Released")
      yield* two.registry.activate("ada/s")
      assert.deepStrictEqual(Array.from(yield* two.rows.of("ada/s").read({ keys: ["a"] })), [["a", "1"]])
      yield* Effect.scoped(two.permits.source(key).lease)
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))
})

layer(Postgres.layer)("a pooler of tests", (it) => {
  const sqlBehind = (prepare: boolean) =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const { state, url } = yield* Pooler.make((yield* database).replace("?pgbouncer=true", ""))
      const client = PgClient.layer({ url: Redacted.make(url), prepare, maxConnections: 5 })
      const context = yield* Layer.build(client.pipe(Layer.provide(Postgres.realTime)))
      return { sql: Context.get(context, SqlClient.SqlClient), state }
    })

  it.effect("has the next transaction on another connection, and a transaction on one", () =>
    Effect.gen(function*() {
      const { sql, state } = yield* sqlBehind(false)
      const pid = Effect.map(
        sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid, ${1}::int AS n`,
        ([row]) => row!.pid
      )
      const pids = yield* Effect.all(Array.from({ length: 6 }, () => pid))
      assert.isAtLeast(new Set(pids).size, 2)
      const inside = yield* sql.withTransaction(Effect.all(Array.from({ length: 6 }, () => pid)))
      assert.strictEqual(new Set(inside).size, 1)
      assert.strictEqual(state.transactions, 7)
      const more = Array.from({ length: 40 }, () => sql.withTransaction(Effect.andThen(pid, pid)))
      assert.lengthOf(yield* Effect.all(more, { concurrency: "unbounded" }), 40)
    }))

  it.effect("loses what a session leaves on a connection", () =>
    Effect.gen(function*() {
      const { sql } = yield* sqlBehind(true)
      const asked = own(sql)(sql.withTransaction(sql`SELECT ${1}::int AS n`))
      const error = yield* Effect.flip(Effect.all(Array.from({ length: 6 }, () => asked)))
      assert.include(error.message, "Add ?pgbouncer=true to the URL")
    }))
})
