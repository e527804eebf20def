import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as DatabaseCheck from "../../src/cluster/DatabaseCheck.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as Postgres from "../support/Postgres.ts"
import * as Pooler from "../support/transactionPooler.ts"

const poolOf = (maxConnections: number) =>
  Layer.unwrap(Effect.map(
    Effect.flatMap(Postgres.Postgres, ({ database }) => database),
    (url) => PgClient.layer({ url: Redacted.make(url), maxConnections })
  ))

describe("the database of a runner", () => {
  it.layer(Postgres.layer, { timeout: "60 seconds", excludeTestServices: true })((it) => {
    it.effect("has enough connections, or the runner does not start", () =>
      Effect.gen(function*() {
        yield* Effect.provide(DatabaseCheck.check(false), poolOf(DatabaseCheck.leastConnections))
        const small = Effect.provide(
          DatabaseCheck.check(false, "200 millis"),
          poolOf(DatabaseCheck.leastConnections - 1)
        )
        assert.include(String(yield* Effect.flip(small)), "it lends fewer than 4 connections at a time")
      }))

    it.effect("is reached without a pooler that gives locks to others, unless that is said", () =>
      Effect.gen(function*() {
        const url = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
        for (const size of [1, 3, 12]) {
          const pooler = yield* Pooler.make(url, size)
          const client = PgClient.layer({ url: Redacted.make(pooler.url), maxConnections: 10, prepare: false })
          const unsaid = String(yield* Effect.flip(Effect.provide(DatabaseCheck.check(false), client)))
          assert.include(unsaid, "a pooler in transaction mode stands before it")
          assert.include(unsaid, "?pgbouncer=true")
          yield* Effect.provide(DatabaseCheck.check(true), client)
        }
      }).pipe(Effect.scoped))

    it.effect("is PostgreSQL", () =>
      Effect.gen(function*() {
        const other = Effect.provide(DatabaseCheck.check(false), Sqlite.layer({ filename: ":memory:" }))
        assert.include(String(yield* Effect.flip(other)), "it is not PostgreSQL")
      }))
  })
})
