/**
 * Circuits and rate limits in real databases, with two clients at once: what is counted
 * in one is counted in the other, and nothing is let through twice.
 */
import { assert, layer } from "@effect/vitest"
import { SqlRateLimiterStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as RateLimiter from "effect/persistence/RateLimiter"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { LayerConfig, LocalExecutor, ToolCall, ToolExecutor } from "../../src/index.ts"
import * as SqlCircuitBreakerStore from "../../src/sql/SqlCircuitBreakerStore.ts"
import { tag, toolkit } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"

type Client = Layer.Layer<SqlClient.SqlClient, unknown>

/** A new database; each build of the layer is one more client of it. */
const databases: Readonly<Record<string, Effect.Effect<Client, unknown, Postgres.Postgres | Scope.Scope>>> = {
  PostgreSQL: Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    return Postgres.clientOf(url)
  }),
  SQLite: Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-limits-"))),
      (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
    )
    return Sqlite.layer({ filename: join(folder, "a.db") })
  })
}

const tripPolicy = CircuitBreaker.consecutive(1)

/** Ends once it is as it is to be: what a database does takes its time. */
const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>, is: (it: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.repeat(Effect.andThen(Effect.promise(() => new Promise((done) => setImmediate(done))), effect), {
    until: is
  })

const reasonOf = <A>(effect: Effect.Effect<A, { readonly reason: { readonly _tag: string } }>) =>
  Effect.match(effect, { onFailure: (it) => it.reason._tag, onSuccess: () => "nothing" })

layer(Postgres.layer)("limits in a database", (it) => {
  for (const [name, database] of Object.entries(databases)) {
    const clients = <I, S>(store: Context.Key<I, S>, layer: Layer.Layer<I, unknown, SqlClient.SqlClient>) =>
      Effect.gen(function*() {
        const client = yield* database
        const build = Effect.gen(function*() {
          const context = yield* Layer.build(Layer.fresh(layer.pipe(Layer.provideMerge(client))))
          return { store: Context.get(context, store), sql: Context.get(context, SqlClient.SqlClient) }
        })
        // both bring the schema up to date at once
        const [one, two] = yield* Effect.all([build, build], { concurrency: "unbounded" })
        return { client, one: one!, two: two! }
      })
    const limiters = clients(RateLimiter.RateLimiterStore, SqlRateLimiterStore.layer)
    const circuits = (options?: SqlCircuitBreakerStore.Options) =>
      clients(CircuitBreaker.CircuitBreakerStore, SqlCircuitBreakerStore.layer(options))

    it.effect(
      `let two processes together start no more, and no fewer, than they allow (${name})`,
      () =>
        Effect.gen(function*() {
          const { one, two } = yield* limiters
          for (const algorithm of ["fixed-window", "token-bucket"] as const) {
            const taken = yield* Effect.forEach(
              Array.from({ length: 80 }, (_, index) => index % 2 === 0 ? one.store : two.store),
              (store) =>
                Effect.flatMap(
                  Effect.provideService(RateLimiter.make, RateLimiter.RateLimiterStore, store),
                  (limiter) => reasonOf(limiter.consume({ algorithm, key: algorithm, limit: 25, window: "10 hours" }))
                ),
              { concurrency: "unbounded" }
            )
            assert.strictEqual(taken.filter((it) => it === "nothing").length, 25)
            assert.strictEqual(taken.filter((it) => it === "RateLimitExceeded").length, 55)
          }
        }),
      { tags: ["ST3"] }
    )

    it.effect(`let whoever takes no token look, also while others take some (${name})`, () =>
      Effect.gen(function*() {
        const { one: { store }, two } = yield* limiters
        const limiter = yield* Effect.provideService(RateLimiter.make, RateLimiter.RateLimiterStore, store)
        const consume = (tokens: number) => limiter.consume({ key: "k", limit: 3, window: "1 hour", tokens })
        assert.strictEqual((yield* consume(0)).remaining, 3)
        yield* consume(2)
        const looked = two.sql.withTransaction(
          Effect.andThen(two.sql`UPDATE tool_executor_rates SET expires_at = 0`, consume(0))
        )
        assert.strictEqual((yield* looked).remaining, 1)
      }))

    it.effect(`open a circuit for both, and let one call of all try (${name})`, () =>
      Effect.gen(function*() {
        const { one, two } = yield* circuits()
        const scope = yield* Scope.Scope
        const admit = (store: typeof one.store) => Scope.provide(store.admit("t"), scope)
        const { generation } = yield* admit(one.store)
        yield* one.store.record({ key: "t", generation, outcome: "Failure", tripPolicy, openFor: Duration.hours(1) })
        assert.strictEqual((yield* two.store.state("t"))._tag, "Open")
        assert.strictEqual(yield* reasonOf(admit(two.store)), "CircuitOpen")
        // its time is over
        yield* one.sql`UPDATE tool_executor_circuits SET state = replace(state, '"openUntil":', '"openUntil":0,"was":')`
        const tries = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => index % 2 === 0 ? one.store : two.store),
          (store) => Effect.exit(admit(store)),
          { concurrency: "unbounded" }
        )
        const [trying, ...more] = tries.flatMap((exit) => Exit.isSuccess(exit) ? [exit.value] : [])
        assert.deepStrictEqual(more, [])
        assert.isTrue(trying!.probe)
        assert.deepInclude(yield* two.store.state("t"), { _tag: "HalfOpen", probing: true })
        yield* two.store.record({
          key: "t",
          generation: trying!.generation,
          outcome: "Success",
          tripPolicy,
          openFor: Duration.hours(1)
        })
        assert.strictEqual((yield* one.store.state("t"))._tag, "Closed")
      }), { tags: ["ST3"] })

    it.effect(`give back the place of a call whose process is gone, and keep that of one that runs (${name})`, () =>
      Effect.gen(function*() {
        const { one, two } = yield* circuits({ probeLease: "1 minute" })
        const leaseUntil = Effect.map(
          one.sql<{ readonly state: string }>`SELECT state FROM tool_executor_circuits`,
          ([row]) => (JSON.parse(row!.state) as { readonly leaseUntil: number }).leaseUntil
        )
        const call = yield* Scope.make()
        const { generation } = yield* Scope.provide(one.store.admit("t"), call)
        yield* one.store.record({ key: "t", generation, outcome: "Failure", tripPolicy, openFor: Duration.zero })
        assert.isTrue((yield* Scope.provide(one.store.admit("t"), call)).probe)
        const before = yield* leaseUntil
        yield* TestClock.adjust("20 seconds")
        yield* eventually(leaseUntil, (it) => it > before)
        // nobody renews it any more
        yield* Scope.close(call, Exit.void)
        assert.strictEqual(yield* reasonOf(Effect.scoped(two.store.admit("t"))), "CircuitHalfOpen")
        yield* one
          .sql`UPDATE tool_executor_circuits SET state = replace(state, '"leaseUntil":', '"leaseUntil":0,"was":')`
        assert.isTrue((yield* Effect.scoped(two.store.admit("t"))).probe)
      }))

    it.effect(`are forgotten when their time is over, and nothing else is (${name})`, () =>
      Effect.gen(function*() {
        const { client, one: { sql, store } } = yield* circuits()
        for (const key of ["a", "b"]) {
          const { generation } = yield* Effect.scoped(store.admit(key))
          yield* store.record({ key, generation, outcome: "Failure", tripPolicy, openFor: Duration.hours(1) })
        }
        yield* sql`UPDATE tool_executor_circuits SET expires_at = 0 WHERE name = 'circuit:a'`
        assert.deepStrictEqual(
          [(yield* store.state("a"))._tag, (yield* store.state("b"))._tag],
          ["Closed", "Open"]
        )
        assert.strictEqual(yield* Effect.provide(SqlCircuitBreakerStore.prune, client), 1)
        assert.deepEqual(yield* sql`SELECT name FROM tool_executor_circuits`.values, [["circuit:b"]])
      }))

    it.effect(`are in trouble where their table is not what it was, and say so (${name})`, () =>
      Effect.gen(function*() {
        const { one: { sql, store } } = yield* circuits()
        yield* Effect.scoped(store.admit("t"))
        yield* sql`UPDATE tool_executor_circuits SET state = '{}'`
        assert.strictEqual(yield* reasonOf(store.state("t")), "CircuitBreakerStoreError")
        assert.strictEqual(yield* reasonOf(Effect.scoped(store.admit("t"))), "CircuitBreakerStoreError")
        const { one: limits } = yield* limiters
        yield* limits.sql`DROP TABLE tool_executor_rates`
        const consumed = limits.store.fixedWindow({ key: "k", tokens: 1, refillRate: Duration.seconds(1), limit: 3 })
        assert.strictEqual(yield* reasonOf(consumed), "RateLimitStoreError")
      }))

    it.effect(`hold for executors in two processes (${name})`, () =>
      Effect.gen(function*() {
        const client = yield* database
        const { handlers, kit } = toolkit({
          t: ({ fails }) => fails === true ? Effect.fail("it is down") : Effect.succeed("fine")
        })
        const executor = LocalExecutor.layer(kit, {
          policy: { default: "allow" },
          tools: { t: { rateLimit: { limit: 3, window: "1 hour" }, circuitBreaker: { failures: 1 } } }
        }).pipe(
          Layer.provide(SqlRateLimiterStore.layer),
          Layer.provide(SqlCircuitBreakerStore.layer()),
          Layer.provide(client),
          Layer.provide(handlers)
        )
        const build = Effect.gen(function*() {
          const context = yield* Layer.build(Layer.fresh(executor))
          return yield* Context.get(context, ToolExecutor.ToolExecutor).process()
        })
        const one = yield* build
        const two = yield* build
        const outcomes: Array<string> = []
        for (const [process, params] of [[one, {}], [two, {}], [one, { fails: true }], [two, { n: 1 }]] as const) {
          outcomes.push(tag(yield* process.execute(ToolCall.make(`${outcomes.length}`, "t", params))))
        }
        assert.deepStrictEqual(outcomes, ["Succeeded", "Succeeded", "Failed", "CircuitOpen"])
        // its circuit is closed again, and no token is left
        yield* Effect.provide(
          Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DELETE FROM tool_executor_circuits`),
          client
        )
        assert.strictEqual(tag(yield* one.execute(ToolCall.make("4", "t", { n: 2 }))), "RateLimited")
      }))
  }

  it.effect("are counted even where the host rolls back what it was doing", () =>
    Effect.gen(function*() {
      const client = yield* databases["PostgreSQL"]!
      const program = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { fixedWindow } = yield* RateLimiter.RateLimiterStore
        const consume = fixedWindow({ key: "k", tokens: 1, refillRate: Duration.hours(1), limit: 3 })
        yield* Effect.flip(sql.withTransaction(Effect.andThen(consume, Effect.fail("rolled back"))))
        assert.strictEqual((yield* consume)[0], 2)
      })
      yield* Effect.provide(program, SqlRateLimiterStore.layer.pipe(Layer.provideMerge(client)))
    }))

  it.effect("are exact also in a database that has transactions fail instead of wait", () =>
    Effect.gen(function*() {
      const client = yield* databases["PostgreSQL"]!
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) =>
          Effect.flatMap(
            sql<{ readonly name: string }>`SELECT current_database() AS name`,
            ([row]) => sql`ALTER DATABASE ${sql(row!.name)} SET default_transaction_isolation = 'serializable'`
          )),
        Layer.fresh(client)
      )
      const context = yield* Layer.build(Layer.fresh(SqlRateLimiterStore.layer.pipe(Layer.provide(client))))
      const { fixedWindow } = Context.get(context, RateLimiter.RateLimiterStore)
      const counts = yield* Effect.forEach(
        Array.from({ length: 40 }),
        () => fixedWindow({ key: "k", tokens: 1, refillRate: Duration.hours(1), limit: undefined }),
        { concurrency: "unbounded" }
      )
      assert.sameMembers(counts.map(([count]) => count), Array.from({ length: 40 }, (_, index) => index + 1))
    }))

  it.effect("take their times from the configuration", () =>
    Effect.gen(function*() {
      const client = yield* databases["SQLite"]!
      const layer = (LEASE: string) =>
        LayerConfig.from(SqlCircuitBreakerStore.layer, { probeLease: Config.Duration("LEASE") }).pipe(
          Layer.provide(client),
          Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { LEASE } })))
        )
      yield* Layer.build(layer("5 seconds"))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Layer.build(layer("soon")))))
    }))
})
