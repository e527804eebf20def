import { assert, describe, it, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import { StateStoreContract } from "effect-tool-executor/testing"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as TestClock from "effect/testing/TestClock"
import * as StateStore from "../../src/core/store/StateStore.ts"
import * as LayerConfig from "../../src/core/vocabulary/LayerConfig.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as Contract from "../support/contract.ts"
import * as Postgres from "../support/Postgres.ts"
import * as SilentProxy from "../support/silentProxy.ts"

Contract.run(
  "StateStore in SQLite",
  StateStoreContract.make({
    layer: (options) =>
      SqlStateStore.layer(options).pipe(Layer.provideMerge(Sqlite.layer({ filename: ":memory:" })), Layer.fresh),
    later: Contract.later
  })
)

layer(Postgres.layer)((it) => {
  Contract.run(
    "StateStore in PostgreSQL",
    StateStoreContract.make({
      layer: (options) => SqlStateStore.layer(options).pipe(Layer.provideMerge(Postgres.client), Layer.fresh),
      later: Contract.later
    }),
    it
  )
})

const unstarted = { started: false, key: "release", windowMillis: 0, value: undefined } as const

const slot = (batch: string, max = 1): StateStore.Claim => ({ _tag: "Calls", batch, tool: "t", max })
const request = (batch: string): StateStore.Request => ({ owner: "a", session: "s", claims: [slot(batch)] })

const tagOf = (store: StateStore.StateStore["Service"], batch: string) =>
  Effect.map(store.check([slot(batch)], 0), (it) => it?._tag)

/** A client whose statements something else may become of. */
const heard = (
  sql: SqlClient.SqlClient,
  unsafe: (text: string, params: ReadonlyArray<unknown>) => Effect.Effect<unknown, SqlError.SqlError>
): SqlClient.SqlClient => {
  const client: SqlClient.SqlClient = new Proxy(sql, {
    get: (target, name) =>
      name === "unsafe" ? unsafe : name === "withoutTransforms" ? () => client : Reflect.get(target, name)
  })
  return client
}

layer(Postgres.layer)("a store in PostgreSQL", (it) => {
  it.effect("keeps what was reserved inside a transaction that is rolled back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* SqlStateStore.make()
      const error = yield* Effect.flip(sql.withTransaction(Effect.gen(function*() {
        yield* store.reserve([request("b")], 0)
        yield* store.grant({
          id: "g",
          principal: "p",
          tool: "t",
          agentPath: [],
          answer: "ApproveForScope",
          grantedAt: 0
        })
        return yield* Effect.fail("rolled back" as const)
      })))
      assert.strictEqual(error, "rolled back")
      assert.strictEqual(yield* tagOf(store, "b"), "CallsUsedUp")
      assert.lengthOf(yield* store.grants("p", 0), 1)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))

  it.effect("makes a change once whose answer was lost, and gives its answer", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const lost = { changes: 0 }
      const client = heard(sql, (text, params) => {
        const statement = sql.unsafe(text, params)
        if (!text.includes("tool_executor_writes (id")) return statement
        lost.changes++
        const reason = new SqlError.ConnectionError({ message: "cut", cause: undefined })
        return Effect.andThen(statement, Effect.fail(new SqlError.SqlError({ reason })))
      })
      const store = yield* SqlStateStore.make().pipe(Effect.provideService(SqlClient.SqlClient, client))
      const [one] = yield* store.reserve([{ owner: "a", session: "s", claims: [slot("b", 9)] }], 0)
      assert.isFalse("_tag" in one!)
      const [row] = yield* sql<{ readonly n: unknown }>`SELECT COUNT(*) AS n FROM tool_executor_reservations`
      assert.strictEqual(Number(row?.n), 1)
      assert.strictEqual(lost.changes, 1)
      assert.isTrue(yield* store.settle(one as StateStore.Reservation, { ...unstarted, started: true }, 0))
      assert.strictEqual(lost.changes, 2)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client), TestClock.withLive))

  it.effect("is refused by what stays silent, within its patience", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const silence = yield* Deferred.make<void>()
      const silent = { is: false }
      const client = heard(
        sql,
        (text, params) =>
          silent.is ? Effect.andThen(Deferred.succeed(silence, undefined), Effect.never) : sql.unsafe(text, params)
      )
      const store = yield* SqlStateStore.make({ patience: 100 }).pipe(
        Effect.provideService(SqlClient.SqlClient, client)
      )
      silent.is = true
      const refused = yield* Effect.forkChild(Effect.flip(store.reserve([request("b")], 0)))
      yield* Deferred.await(silence)
      yield* Effect.repeat(SilentProxy.second, { until: () => refused.pollUnsafe() !== undefined })
      assert.strictEqual((yield* Fiber.join(refused)).operation, "reserve")
      silent.is = false
      assert.isFalse("_tag" in (yield* store.reserve([request("b")], 0))[0]!)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))

  it.effect("is one for all who share the database, whatever version made its tables", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [one, other] = [yield* SqlStateStore.make(), yield* SqlStateStore.make()]
      yield* one.reserve([request("b")], 0)
      assert.strictEqual(yield* tagOf(other, "b"), "CallsUsedUp")
      const again = yield* SqlStateStore.make()
      assert.strictEqual(yield* tagOf(again, "b"), "CallsUsedUp")
      yield* sql`INSERT INTO tool_executor_state_migrations (migration_id, name) VALUES (99, 'of_a_newer_one')`
      assert.include((yield* Effect.flip(SqlStateStore.make())).message, "version 99")
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))
})

describe("what a store in SQL keeps", () => {
  it.effect("is gone once it is pruned, but for what is held", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* SqlStateStore.make()
      const key = (n: number): StateStore.KeyClaim => ({
        _tag: "Key",
        scope: "batch",
        principal: `p${n}`,
        batch: `b${n}`,
        process: "process",
        tool: "t",
        key: `${n}`,
        wave: "wave",
        endsWithWave: false,
        endsWithChange: false,
        ignoreOtherProcesses: false
      })
      const reserve = (n: number) =>
        store.reserve([{
          owner: "a",
          session: "s",
          claims: [key(n), slot(`b${n}`), { _tag: "Cooldown", principal: `p${n}`, tool: "t", millis: 1_000 }]
        }], 0)
      const taken = yield* Effect.forEach(Array.from({ length: 50 }, (_, n) => n), reserve, {
        concurrency: "unbounded"
      })
      const [held, ...others] = taken.flat() as ReadonlyArray<StateStore.Reservation>
      yield* Effect.forEach(
        others,
        (it) => store.settle(it, { started: true, key: "keep", windowMillis: 1_000, value: undefined }, 0),
        { concurrency: "unbounded" }
      )
      const sizes = Effect.forEach(["scopes", "reservations", "keys"], (table) =>
        Effect.map(
          sql<{ readonly n: number }>`SELECT COUNT(*) AS n FROM ${sql(`tool_executor_${table}`)}`,
          ([row]) => row!.n
        ))
      assert.deepStrictEqual(yield* sizes, [100, 1, 50])
      // the keys and batches of those that are over
      assert.strictEqual(yield* store.pruneExpired(3_600_000), 98)
      assert.deepStrictEqual(yield* sizes, [2, 1, 1])
      yield* store.settle(held!, unstarted, 3_600_000)
      yield* store.pruneExpired(7_200_000)
      assert.deepStrictEqual(yield* sizes, [0, 0, 0])
    }).pipe(Effect.scoped, Effect.provide(Sqlite.layer({ filename: ":memory:" }))))
})

describe("the layer of a store in SQL", () => {
  const over = <A, E, R>(layer: Layer.Layer<A, E, R | SqlClient.SqlClient>) =>
    Layer.build(layer.pipe(Layer.provide(Sqlite.layer({ filename: ":memory:" }))))

  it.effect("is told its options by the configuration, and says what is wrong with them", () =>
    Effect.gen(function*() {
      const layer = LayerConfig.from(SqlStateStore.layer, { lease: Config.Duration("LEASE") })
      const built = (LEASE: string) =>
        over(layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { LEASE } })))))
      const store = yield* Effect.provideContext(StateStore.StateStore, yield* built("12 seconds"))
      assert.deepInclude((yield* store.reserve([request("b")], 0))[0], { leaseMillis: 12_000 })
      assert.isTrue(Exit.isFailure(yield* Effect.exit(built("soon"))))
      const wrong = SqlStateStore.layer({ lease: -1, patience: 0, pruneEvery: -1, batchTimeToLive: -1 })
      const error = yield* Effect.flip(over(wrong))
      for (const name of ["lease", "patience", "pruneEvery", "batchTimeToLive"]) assert.include(String(error), name)
    }).pipe(Effect.scoped))
})
