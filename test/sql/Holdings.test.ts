/** What artifacts and checkpoints keep in a database beyond the contract of their ports. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ArtifactStore, Checkpoints, LayerConfig } from "../../src/index.ts"
import * as SqlArtifacts from "../../src/sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../../src/sql/SqlCheckpoints.ts"
import { write } from "../support/checkpoints.ts"
import * as Postgres from "../support/Postgres.ts"

const owner = (principal: string): ArtifactStore.Owner => ({ principal, batch: "b" })

const whole = { offset: 0, length: 1_000 }

const read = ({ read }: ArtifactStore.ArtifactStore["Service"], principal: string, id: string) =>
  Effect.map(
    Effect.result(read(owner(principal), id, whole)),
    (it) => Result.isSuccess(it) ? it.success.text : it.failure.reason
  )

/** Clients of one and the same empty database, as processes have them. */
type Clients = Effect.Effect<
  Effect.Effect<SqlClient.SqlClient, unknown, Scope.Scope>,
  never,
  Scope.Scope | Postgres.Postgres
>

const clientOf = (client: Layer.Layer<SqlClient.SqlClient, unknown>) =>
  Effect.map(Layer.build(Layer.fresh(client)), (context) => SqlClient.SqlClient.pipe(Effect.provideContext(context)))
    .pipe(Effect.flatten)

const sqlite: Clients = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "holdings-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => clientOf(Sqlite.layer({ filename: join(folder, "kept.db"), synchronous: "NORMAL" }))
)

const postgres: Clients = Effect.map(Effect.flatMap(Postgres.Postgres, ({ database }) => database), (url) => {
  return clientOf(Layer.provide(Postgres.clientOf(url), Postgres.realTime))
})

const make = <A, E>(store: Effect.Effect<A, E, SqlClient.SqlClient>, client: SqlClient.SqlClient) =>
  Effect.provideService(store, SqlClient.SqlClient, client)

/** Entries, parts of contents and the total as the tables have them. */
const rowsOf = (sql: SqlClient.SqlClient, component: string) =>
  Effect.gen(function*() {
    const [entries] = yield* sql`SELECT COUNT(*), SUM(size) FROM ${sql(`tool_executor_${component}`)}`.values
    const [parts] = yield* sql`SELECT COUNT(*) FROM ${sql(`tool_executor_${component}_parts`)}`.values
    const [total] = yield* sql`SELECT size FROM ${sql(`tool_executor_${component}_total`)}`.values
    return {
      entries: Number(entries?.[0]),
      parts: Number(parts?.[0]),
      size: Number(entries?.[1]),
      total: Number(total?.[0])
    }
  })

const suite = (
  database: string,
  clients: Clients,
  bytesOf: (sql: SqlClient.SqlClient) => Effect.Effect<number, SqlError>,
  it: {
    readonly effect: (
      name: string,
      body: () => Effect.Effect<void, unknown, Scope.Scope | Postgres.Postgres>,
      options?: { tags: Array<string> }
    ) => void
  }
) =>
  describe(`data kept in ${database}`, () => {
    it.effect("has one set of bounds over all processes, whatever they put concurrently", () =>
      Effect.gen(function*() {
        const client = yield* clients
        const stores = yield* Effect.forEach(
          [1, 2, 3],
          () => Effect.flatMap(client, (sql) => make(SqlArtifacts.make({ maxChars: 100, maxTotalChars: 330 }), sql))
        )
        const puts = Array.from(
          { length: 60 },
          (_, index) => ({ principal: `p${index % 5}`, store: stores[index % 3]! })
        )
        const put = yield* Effect.forEach(
          puts,
          ({ principal, store }) =>
            Effect.map(
              Effect.result(store.put(owner(principal), principal.padEnd(30, "."))),
              (it) => ({ it, principal })
            ),
          { concurrency: "unbounded" }
        )
        assert.isTrue(put.every(({ it }) => Result.isSuccess(it) || it.failure.reason === "Full"))
        const ids = put.flatMap(({ it, principal }) => Result.isSuccess(it) ? [{ id: it.success.id, principal }] : [])
        const kept = yield* Effect.filter(
          ids,
          ({ id, principal }) => Effect.map(read(stores[0]!, principal, id), (it) => it === principal.padEnd(30, "."))
        )
        const { entries, parts, size, total } = yield* rowsOf(yield* client, "artifacts")
        assert.deepStrictEqual([entries, parts, size, total], [
          kept.length,
          kept.length,
          kept.length * 30,
          kept.length * 30
        ])
        assert.strictEqual(kept.length, 11)
        for (const name of new Set(puts.map(({ principal }) => principal))) {
          assert.isAtMost(kept.filter(({ principal }) => principal === name).length, 3)
        }
      }).pipe(Effect.scoped), { tags: ["ST9"] })

    it.effect("lets another process undo what this one did", () =>
      Effect.gen(function*() {
        const client = yield* clients
        const first = yield* make(SqlCheckpoints.make({ maxBytes: 100 }), yield* client)
        const second = yield* make(SqlCheckpoints.make({ maxBytes: 100 }), yield* client)
        const quarter = "x".repeat(25)
        const [a, b] = [yield* first.save(write({ "a.txt": quarter })), yield* second.save(write({ "a.txt": quarter }))]
        assert.deepStrictEqual(yield* first.list("p"), [b, a])
        assert.strictEqual(Buffer.from((yield* second.content(a, "a.txt"))!).toString(), quarter)
        const c = yield* second.save(write({ "a.txt": quarter, "b.txt": quarter, "c.txt": quarter }))
        assert.deepStrictEqual(yield* first.list("p"), [c, b])
        yield* first.forget(b)
        yield* first.forget(a)
        assert.deepStrictEqual(yield* second.list("p"), [c])
        assert.deepStrictEqual(yield* rowsOf(yield* client, "checkpoints"), {
          entries: 1,
          parts: 3,
          size: 75,
          total: 75
        })
      }).pipe(Effect.scoped))

    it.effect("leaves nothing of what was refused", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(clients)
        const { put } = yield* make(SqlArtifacts.make({ maxChars: 10 }), sql)
        assert.strictEqual((yield* Effect.flip(put(owner("p"), "x".repeat(11)))).reason, "TooLarge")
        assert.deepStrictEqual(yield* rowsOf(sql, "artifacts"), { entries: 0, parts: 0, size: 0, total: 0 })
      }).pipe(Effect.scoped))

    it.effect("takes no more room after endless puts than after some, without pruning", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(clients)
        const artifacts = yield* make(SqlArtifacts.make({ timeToLive: "10 seconds", maxCount: 5 }), sql)
        const checkpoints = yield* make(SqlCheckpoints.make({ maxAge: "10 seconds", maxCount: 5 }), sql)
        const some = (from: number) =>
          Effect.forEach(
            Array.from({ length: 30 }, (_, index) => `p${from + index}`),
            (principal) =>
              Effect.gen(function*() {
                for (const name of [principal, "same"]) {
                  yield* artifacts.put(owner(name), name.padEnd(20_000))
                  yield* checkpoints.save(
                    write({ "a.txt": name.padEnd(20_000), "b.txt": undefined }, { principal: name })
                  )
                }
                yield* TestClock.adjust("1 second")
              })
          )
        const sizes: Array<number> = []
        for (let n = 0; n < 6; n++) {
          yield* some(n * 30)
          sizes.push(yield* bytesOf(sql))
        }
        // PostgreSQL may take a page or two more; what is put in each round is a hundred times that
        assert.isAtMost(sizes[5]!, sizes[2]! + 2 * 8_192, `${sizes.join(", ")}`)
        yield* TestClock.adjust("10 seconds")
        assert.isAbove(yield* artifacts.prune, 0)
        assert.isAbove(yield* checkpoints.prune, 0)
        for (const component of ["artifacts", "checkpoints"]) {
          assert.deepStrictEqual(yield* rowsOf(sql, component), { entries: 0, parts: 0, size: 0, total: 0 })
        }
      }).pipe(Effect.scoped), { tags: ["ST9"] })

    it.effect("is pruned in steps, however much is past its time", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(clients)
        const { prune, put } = yield* make(SqlArtifacts.make(), sql)
        yield* put(owner("p"), "text")
        const now = yield* Clock.currentTimeMillis
        // of other principals, and of a clock that was wrong by hours
        for (let step = 0; step < 5; step++) {
          const rows = Arr.makeBy(500, (n) => ({
            id: `x${step * 500 + n}`,
            principal: `k${n % 7}`,
            at: n % 2 === 0 ? now - 3_600_000 : now + 3_600_000,
            size: 10,
            about: "b"
          }))
          yield* sql`INSERT INTO tool_executor_artifacts ${sql.insert(rows)}`
        }
        yield* sql`UPDATE tool_executor_artifacts_total SET size = 25004`
        // one that only keeps something does not clear away all of it
        yield* put(owner("p"), "text")
        assert.strictEqual((yield* rowsOf(sql, "artifacts")).entries, 502)
        assert.strictEqual(yield* prune, 500)
        assert.deepStrictEqual(yield* rowsOf(sql, "artifacts"), { entries: 2, parts: 2, size: 8, total: 8 })
      }).pipe(Effect.scoped))

    it.effect("fails as its port says where the database does not do its work", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(clients)
        const artifacts = yield* make(SqlArtifacts.make(), sql)
        const checkpoints = yield* make(SqlCheckpoints.make(), sql)
        const { id } = yield* artifacts.put(owner("p"), "text")
        const checkpoint = yield* checkpoints.save(write({ "a.txt": "text" }))
        for (const component of ["artifacts", "checkpoints"]) {
          yield* sql`DROP TABLE ${sql(`tool_executor_${component}`)}`
        }
        const failures: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          artifacts.put(owner("p"), "text"),
          artifacts.read(owner("p"), id, whole),
          artifacts.prune,
          checkpoints.save(write({ "a.txt": "text" })),
          checkpoints.list("p"),
          checkpoints.content(checkpoint, "a.txt"),
          checkpoints.forget(checkpoint),
          checkpoints.prune
        ]
        const reasons = yield* Effect.forEach(
          failures,
          (it) =>
            Effect.map(
              Effect.flip(it),
              (error) => (error as ArtifactStore.ArtifactError | Checkpoints.CheckpointError).reason
            )
        )
        assert.deepStrictEqual(reasons, [...Array(3).fill("StoreFailed"), ...Array(5).fill("Store")])
      }).pipe(Effect.scoped))

    it.effect("has its bounds from the configuration where it is told to", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(clients)
        const configured = <A, E>(layer: Layer.Layer<A, E, SqlClient.SqlClient>, MAX: string) =>
          layer.pipe(
            Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)),
            Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { MAX } })))
          )
        const put = (MAX: string) =>
          Effect.flatMap(ArtifactStore.ArtifactStore, ({ put }) => put(owner("p"), "text")).pipe(
            Effect.provide(configured(LayerConfig.from(SqlArtifacts.layer, { maxChars: Config.Int("MAX") }), MAX))
          )
        const save = (MAX: string) =>
          Effect.flatMap(Checkpoints.Checkpoints, ({ save }) => save(write({ "a.txt": "text" }))).pipe(
            Effect.provide(configured(LayerConfig.from(SqlCheckpoints.layer, { maxBytes: Config.Int("MAX") }), MAX))
          )
        assert.propertyVal(yield* Effect.flip(put("3")), "reason", "TooLarge")
        assert.isFalse((yield* save("15")).files[0]?.isKept)
        for (const wrong of [put("-1"), save("-1")] as const) {
          assert.propertyVal(yield* Effect.flip<unknown, unknown, never>(wrong), "_tag", "ConfigurationError")
        }
      }).pipe(Effect.scoped))
  })

suite(
  "SQLite",
  sqlite,
  (sql) => Effect.map(sql`PRAGMA page_count`.values, ([row]) => Number(row?.[0])),
  it as never
)

layer(Postgres.layer)((it) => {
  const tables = ["artifacts", "checkpoints"].flatMap((it) =>
    ["", "_parts", "_total"].map((part) => `tool_executor_${it}${part}`)
  )

  suite(
    "PostgreSQL",
    postgres,
    // vacuum as its own process does it, every minute
    (sql) =>
      Effect.map(
        Effect.forEach(tables, (table) =>
          Effect.andThen(
            sql`VACUUM ${sql(table)}`,
            sql`SELECT pg_table_size(${table}::regclass)`.values
          )),
        (sizes) => sizes.reduce((sum, [row]) => sum + Number(row?.[0]), 0)
      ),
    it
  )

  describe("data kept in PostgreSQL", () => {
    it.effect("is there whatever the host's transaction around it rolls back", () =>
      Effect.gen(function*() {
        const sql = yield* Effect.flatten(postgres)
        const artifacts = yield* make(SqlArtifacts.make(), sql)
        const checkpoints = yield* make(SqlCheckpoints.make(), sql)
        const kept: Array<string> = []
        const host = Effect.gen(function*() {
          kept.push((yield* artifacts.put(owner("p"), "text")).id)
          yield* checkpoints.save(write({ "a.txt": "before" }))
          assert.strictEqual(yield* read(artifacts, "p", kept[0]!), "text")
          return yield* Effect.fail("rolled back" as const)
        })
        assert.strictEqual(yield* Effect.flip(sql.withTransaction(host)), "rolled back")
        assert.strictEqual(yield* read(artifacts, "p", kept[0]!), "text")
        assert.lengthOf(yield* checkpoints.list("p"), 1)
      }).pipe(Effect.scoped))

    it.effect("is within its bounds whatever isolation the database has by default", () =>
      Effect.gen(function*() {
        const client = yield* postgres
        const admin = yield* client
        const [database] = yield* admin<{ readonly name: string }>`SELECT current_database() AS name`
        yield* admin`ALTER DATABASE ${admin(database!.name)} SET default_transaction_isolation = 'serializable'`
        const sql = yield* client
        assert.deepStrictEqual(yield* sql`SHOW transaction_isolation`.values, [["serializable"]])
        const { put } = yield* make(SqlArtifacts.make({ maxCount: 3 }), sql)
        const all = Array.from({ length: 20 }, () => put(owner("p"), "text"))
        yield* Effect.all(all, { concurrency: "unbounded" })
        assert.include(yield* rowsOf(sql, "artifacts"), { entries: 3, parts: 3 })
      }).pipe(Effect.scoped))
  })
})

describe("a store in SQLite", () => {
  it.effect("says at once that it needs a client of its own where the host's transaction has the only one", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const artifacts = yield* SqlArtifacts.make()
      const checkpoints = yield* SqlCheckpoints.make()
      const error = yield* Effect.flip(sql.withTransaction(artifacts.put(owner("p"), "text")))
      assert.propertyVal(error, "reason", "StoreFailed")
      assert.include(String(error.cause), "a separate client")
      assert.propertyVal(yield* Effect.flip(sql.withTransaction(checkpoints.list("p"))), "reason", "Store")
      assert.strictEqual((yield* artifacts.put(owner("p"), "text")).chars, 4)
    }).pipe(Effect.provide(Sqlite.layer({ filename: ":memory:" }))))
})

describe("a database that is neither PostgreSQL nor SQLite", () => {
  it.effect("is refused before anything is done in it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const other: SqlClient.SqlClient = Object.assign(Object.create(sql), {
        onDialectOrElse: (options: { readonly orElse: () => unknown }) => options.orElse()
      })
      for (const store of [SqlArtifacts.make(), SqlCheckpoints.make()]) {
        const error = yield* Effect.flip<unknown, unknown, never>(make<unknown, unknown>(store, other))
        assert.propertyVal(error, "_tag", "ConfigurationError")
      }
    }).pipe(Effect.provide(Sqlite.layer({ filename: ":memory:" }))))
})
