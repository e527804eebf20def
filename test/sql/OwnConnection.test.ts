import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as TestClock from "effect/testing/TestClock"
import * as Database from "../../src/cli/serve/Database.ts"
import * as Migrations from "../../src/sql/Migrations.ts"
import * as OwnConnection from "../../src/sql/OwnConnection.ts"
import * as Postgres from "../support/Postgres.ts"

const count = (sql: SqlClient.SqlClient) =>
  Effect.map(sql<{ readonly n: number | bigint }>`SELECT COUNT(*) AS n FROM t`, ([row]) => Number(row?.n))

layer(Postgres.layer)("a statement on a separate connection", (it) => {
  it.effect("stays where the transaction of its caller is rolled back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE t (id INTEGER)`
      const host = sql.withTransaction(Effect.gen(function*() {
        yield* sql`INSERT INTO t VALUES (1)`
        yield* OwnConnection.own(sql)(sql.withTransaction(sql`INSERT INTO t VALUES (2)`))
        yield* sql`INSERT INTO t VALUES (3)`
        return yield* Effect.fail("rolled back" as const)
      }))
      assert.strictEqual(yield* Effect.flip(host), "rolled back")
      assert.deepEqual(yield* sql`SELECT id FROM t`.values, [[2]])
    }).pipe(Effect.provide(Postgres.client)), { tags: ["ST8"] })
})

layer(Postgres.layer, { excludeTestServices: true })(
  "a transaction of a process that is frozen in the middle",
  (it) => {
    it.effect("does not hold up the others", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE t (id INTEGER)`
        yield* sql`INSERT INTO t VALUES (1)`
        const locked = yield* Deferred.make<void>()
        const isFrozen = Latch.makeUnsafe(false)
        const frozen = Effect.gen(function*() {
          yield* sql`UPDATE t SET id = 2`
          yield* Deferred.succeed(locked, undefined)
          yield* isFrozen.await
          yield* sql`UPDATE t SET id = 3`
        })
        // the time of this process stands still, and that of the database does not
        const fiber = yield* Effect.forkChild(
          Effect.flip(OwnConnection.transaction(sql, 200)(frozen)).pipe(
            Effect.provide(TestClock.layer())
          )
        )
        yield* Deferred.await(locked)
        yield* OwnConnection.transaction(sql)(sql`UPDATE t SET id = id + 10`)
        isFrozen.openUnsafe()
        assert.isTrue(SqlError.isSqlError(yield* Fiber.join(fiber)))
        assert.deepEqual(yield* sql`SELECT id FROM t`.values, [[11]])
      }).pipe(Effect.provide(Postgres.client)))
  }
)

describe("a statement on a separate connection, where there is one in all", () => {
  it.effect("fails immediately instead of waiting for its own caller", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE t (id INTEGER)`
      const write = OwnConnection.own(sql)(sql`INSERT INTO t VALUES (2)`)
      const error = yield* Effect.flip(sql.withTransaction(write))
      assert.include(error.message, "a separate client")
      assert.strictEqual(yield* count(sql), 0)
      yield* write
      assert.strictEqual(yield* count(sql), 1)
    }).pipe(Effect.provide(Sqlite.layer({ filename: ":memory:" }))), { tags: ["ST8"] })
})

const migrationsHold = (client: Layer.Layer<SqlClient.SqlClient, unknown, Postgres.Postgres>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const ran: Array<string> = []
    const step = (name: string, sql: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
      Effect.andThen(sql, Effect.sync(() => ran.push(name)))
    const migrations = {
      "0001_one": step("1", Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CREATE TABLE t (id INTEGER)`)),
      "0002_two": step("2", Effect.flatMap(SqlClient.SqlClient, (sql) => sql`INSERT INTO t VALUES (1)`))
    }
    const first = { table: "a_migrations", tables: [], migrations: { "0001_one": migrations["0001_one"] } }
    yield* Migrations.run(sql, first)
    yield* Migrations.run(sql, { table: "a_migrations", tables: [], migrations })
    yield* Migrations.run(sql, { table: "a_migrations", tables: [], migrations })
    assert.deepStrictEqual(ran, ["1", "2"])
    yield* Migrations.run(sql, {
      table: "b_migrations",
      tables: [],
      migrations: { "0001_two": migrations["0002_two"] }
    })
    assert.strictEqual(yield* count(sql), 2)
    const error = yield* Effect.flip(Migrations.run(sql, first))
    assert.instanceOf(error, Migrator.MigrationError)
    assert.include(error.message, "a_migrations is at version 2")
    const lacking = yield* Effect.flip(
      Migrations.run(sql, { table: "a_migrations", tables: ["t", "u", "v"], migrations })
    )
    assert.instanceOf(lacking, Migrator.MigrationError)
    assert.include(lacking.message, "u and v are missing, though a_migrations is at version 2")
  }).pipe(Effect.provide(client))

layer(Postgres.layer)("statements that a pooler has prepared on another connection", (it) => {
  /** A client of one connection, which forgets what was prepared as a pooler's other connections do. */
  const forgetful = Effect.fnUntraced(function*(prepare: boolean) {
    const { database } = yield* Postgres.Postgres
    const url = Redacted.make(yield* database)
    const context = yield* Layer.build(PgClient.layer({ url, prepare, maxConnections: 1 })).pipe(
      Effect.provide(Postgres.realTime)
    )
    const sql = yield* Effect.provideContext(SqlClient.SqlClient, context)
    // in a transaction the client cannot prepare it once more by itself
    const ask = OwnConnection.own(sql)(sql.withTransaction(sql`SELECT ${1}::int AS n`.values))
    yield* ask
    // in a block, where the client does not see it
    yield* sql.unsafe("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$").unprepared
    return ask
  })

  it.effect("are an error that says what to do", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(yield* forgetful(true))
      assert.include(error.message, "Add ?pgbouncer=true to the URL of the command line")
    }))

  it.effect("are none where nothing is prepared", () =>
    Effect.gen(function*() {
      assert.deepEqual(yield* yield* forgetful(false), [[1]])
    }))

  it.effect("are none for the command line whose URL says so", () =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const url = yield* database
      for (const at of [`${url}?pgbouncer=true`, `${url}?application_name=a&pgbouncer=true`]) {
        const sql = yield* Effect.provideContext(SqlClient.SqlClient, yield* Layer.build(Database.layer(at)))
        yield* OwnConnection.own(sql)(sql`SELECT ${1}::int AS n`)
        assert.deepEqual(
          yield* OwnConnection.own(sql)(sql`SELECT name FROM pg_prepared_statements WHERE name <> ''`.values),
          []
        )
      }
      const sql = yield* Effect.provideContext(SqlClient.SqlClient, yield* Layer.build(Database.layer(url)))
      yield* OwnConnection.own(sql)(sql`SELECT ${1}::int AS n`)
      assert.isAbove((yield* sql`SELECT name FROM pg_prepared_statements`).length, 0)
    }).pipe(Effect.provide(Postgres.realTime)))
})

layer(Postgres.layer)("migrations", (it) => {
  it.effect(
    "run once each, per component, and refuse a database that is newer or lacks a table (PostgreSQL)",
    () => migrationsHold(Postgres.client),
    { tags: ["ST11", "ST12"] }
  )

  it.effect("run once each, per component, and refuse a database that is newer or lacks a table (SQLite)", () =>
    migrationsHold(Sqlite.layer({ filename: ":memory:" })))

  it.effect("run once each where processes begin together", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const table = "a_migrations"
      const create = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CREATE TABLE t (id INTEGER)`)
      yield* Effect.all(
        Array.from({ length: 8 }, () =>
          Migrations.run(sql, { table, tables: ["t"], migrations: { "0001_one": create } })),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(yield* count(sql), 0)
    }).pipe(Effect.provide(Postgres.client)), { tags: ["ST11"] })
})
