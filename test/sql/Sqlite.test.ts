import { assert, describe, it } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as LayerConfig from "../../src/core/vocabulary/LayerConfig.ts"

/** A folder for the rest of the scope. */
const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-sqlite-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

/** Clients of one new file. */
const clients = (count: number, options?: Partial<Sqlite.Options>) =>
  Effect.gen(function*() {
    const filename = join(yield* folder, "a.db")
    const all: Array<SqlClient.SqlClient> = []
    for (let n = 0; n < count; n++) {
      const context = yield* Layer.build(Layer.fresh(Sqlite.layer({ filename, ...options })))
      all.push(yield* Effect.provideContext(SqlClient.SqlClient, context))
    }
    yield* all[0]!`CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)`
    return { filename, sql: all[0]!, other: all[1]! }
  })

const reasonOf = <A, E extends { readonly reason: { readonly _tag: string } }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onFailure: (it) => it.reason._tag, onSuccess: () => "nothing" })

describe("a client of SQLite", () => {
  it.effect("puts what it commits on disk, in a file for its owner alone", () =>
    Effect.gen(function*() {
      const { filename, sql } = yield* clients(1)
      assert.deepStrictEqual(yield* sql`PRAGMA journal_mode`, [{ journal_mode: "wal" }])
      assert.deepStrictEqual(yield* sql`PRAGMA synchronous`, [{ synchronous: 2 }])
      assert.strictEqual(statSync(filename).mode & 0o777, 0o600)
      assert.strictEqual(statSync(`${filename}-wal`).mode & 0o777, 0o600)
    }))

  it.effect("gives rows, arrays and streams, and takes the values that programs have", () =>
    Effect.gen(function*() {
      const { sql } = yield* clients(1)
      yield* sql`INSERT INTO t ${sql.insert([{ id: 1, name: "a" }, { id: 2, name: "b" }])}`
      const all = sql`SELECT id, name FROM t ORDER BY id`
      assert.deepEqual(yield* all, [{ id: 1, name: "a" }, { id: 2, name: "b" }])
      assert.deepEqual(yield* all.values, [[1, "a"], [2, "b"]])
      assert.deepEqual(yield* all, [{ id: 1, name: "a" }, { id: 2, name: "b" }])
      assert.deepEqual(yield* Stream.runCollect(all.stream), [{ id: 1, name: "a" }, { id: 2, name: "b" }])
      const [row] = yield* sql<object>`SELECT ${new Date(0)} AS at, ${true} AS yes, ${null} AS no`
      assert.deepEqual(row, { at: "1970-01-01T00:00:00.000Z", yes: 1, no: null })
    }))

  it.effect("says of an error what was wrong", () =>
    Effect.gen(function*() {
      const { filename, sql } = yield* clients(1)
      yield* sql`INSERT INTO t (id, name) VALUES (1, 'a')`
      assert.strictEqual(yield* reasonOf(sql`INSERT INTO t (id, name) VALUES (1, 'b')`), "UniqueViolation")
      assert.strictEqual(yield* reasonOf(sql`INSERT INTO t (id, name) VALUES (2, 'a')`), "UniqueViolation")
      assert.strictEqual(yield* reasonOf(sql`SELECT nonsense`), "UnknownError")
      const nowhere = Layer.build(Sqlite.layer({ filename: `${filename}/x/y.db` }))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(nowhere)))
    }))

  it.effect("keeps all of a transaction or none of it, and of one inside another", () =>
    Effect.gen(function*() {
      const { sql } = yield* clients(1)
      const add = (id: number) => sql`INSERT INTO t (id) VALUES (${id})`
      const inner = sql.withTransaction(Effect.andThen(add(2), Effect.fail("no" as const)))
      yield* sql.withTransaction(Effect.andThen(add(1), Effect.ignore(inner)))
      yield* Effect.ignore(sql.withTransaction(Effect.andThen(add(3), Effect.fail("no" as const))))
      assert.deepEqual(yield* sql`SELECT id FROM t`.values, [[1]])
    }))

  it.live("waits for the transaction of another client without holding up the program", () =>
    Effect.gen(function*() {
      const { other, sql } = yield* clients(2)
      const isIn = yield* Deferred.make<void>()
      const mayEnd = yield* Deferred.make<void>()
      const holder = yield* sql.withTransaction(
        sql`INSERT INTO t (id) VALUES (1)`.pipe(
          Effect.andThen(Deferred.succeed(isIn, undefined)),
          Effect.andThen(Deferred.await(mayEnd))
        )
      ).pipe(Effect.forkChild)
      yield* Deferred.await(isIn)
      const waiters = yield* Effect.all([
        other`INSERT INTO t (id) VALUES (2)`,
        other.withTransaction(other`INSERT INTO t (id) VALUES (3)`)
      ], { concurrency: 2 }).pipe(Effect.forkChild)
      yield* Effect.sleep(50)
      assert.isUndefined(waiters.pollUnsafe())
      yield* Deferred.succeed(mayEnd, undefined)
      yield* Fiber.join(holder)
      yield* Fiber.join(waiters)
      assert.deepEqual(yield* sql`SELECT id FROM t ORDER BY id`.values, [[1], [2], [3]])
    }))

  it.effect("waits no longer than it is told to", () =>
    Effect.gen(function*() {
      const { other, sql } = yield* clients(2, { busyTimeout: 30 })
      yield* sql.withTransaction(Effect.gen(function*() {
        assert.strictEqual(yield* reasonOf(other`INSERT INTO t (id) VALUES (2)`), "LockTimeoutError")
      }))
      yield* other`INSERT INTO t (id) VALUES (2)`
    }))

  it.effect("reads while another client writes", () =>
    Effect.gen(function*() {
      const { other, sql } = yield* clients(2, { busyTimeout: 0 })
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`INSERT INTO t (id) VALUES (1)`
        assert.deepEqual(yield* other`SELECT id FROM t`.values, [])
      }))
      assert.deepEqual(yield* other`SELECT id FROM t`.values, [[1]])
    }))

  it.effect("is told its options by the configuration, and says what is wrong with them", () =>
    Effect.gen(function*() {
      const layer = LayerConfig.from(Sqlite.layer, {
        filename: Config.String("FILE"),
        busyTimeout: Config.Duration("BUSY")
      })
      const built = (env: Record<string, string>) =>
        Layer.build(Layer.provide(layer, ConfigProvider.layer(ConfigProvider.fromEnv({ env }))))
      const context = yield* built({ FILE: ":memory:", BUSY: "1 second" })
      const sql = yield* Effect.provideContext(SqlClient.SqlClient, context)
      assert.deepEqual(yield* sql`SELECT 1`.values, [[1]])
      assert.isTrue(Exit.isFailure(yield* Effect.exit(built({ FILE: ":memory:", BUSY: "soon" }))))
      const error = yield* Effect.flip(Layer.build(Sqlite.layer({ filename: "" })))
      assert.include(String(error), "filename")
    }))
})
