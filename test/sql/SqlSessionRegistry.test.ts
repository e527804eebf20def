/** Who holds a session, among several processes over one PostgreSQL. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import type { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as Tables from "../../src/sql/SessionTables.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as Postgres from "../support/Postgres.ts"
import { until } from "../support/silentProxy.ts"
import * as ThroughClient from "../support/throughClient.ts"

type Registry = SessionRegistry["Service"]

const principal = "ann/s1"

/** A process of its own over the database, until its scope is closed. */
const start = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, options?: SqlSessionRegistry.Options) {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const registry: Registry = yield* SqlSessionRegistry.make(options).pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Scope.provide(scope)
  )
  return { registry, stop: Scope.close(scope, Exit.void) }
})

/** Has the lease of a process expire in the database. */
const expire = (sql: SqlClient.SqlClient, { runner }: Registry) =>
  sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${runner.name}`

/** How many sessions were lost until now, as operators see it. */
const lostNow = Effect.map(Metric.snapshot, (all) => {
  const found = all.find(({ id }) => id === "tool_executor.sessions.lost")
  return found?.type === "Counter" ? Number(found.state.count) : 0
})

/** Makes everything due that is due within a while. */
const later = (sql: SqlClient.SqlClient) => sql`UPDATE tool_executor_sessions SET due_at = due_at - 60000`

layer(Postgres.layer)("sessions in PostgreSQL", (it) => {
  const processes = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const clients = yield* Layer.build(Postgres.clientOf(url))
    const sql = Context.get(clients, SqlClient.SqlClient)
    const one = yield* start(sql)
    const two = yield* start(sql)
    return { sql, one: one.registry, two: two.registry, stopOne: one.stop }
  })

  const test = (
    name: string,
    body: (it: Effect.Success<typeof processes>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(
      name,
      () => Effect.scoped(Effect.flatMap(processes, body)).pipe(Effect.provide(Postgres.realTime)),
      options
    )

  test("are held by who activated them, in an epoch that rises", ({ one }) =>
    Effect.gen(function*() {
      assert.isUndefined(one.current(principal))
      const first = yield* one.activate(principal)
      assert.strictEqual(one.current(principal), first)
      assert.isTrue(first.isHeld)
      assert.isTrue(yield* first.renew)
      const second = yield* one.activate(principal)
      assert.strictEqual(second.number, first.number + 1)
      assert.isTrue(first.isOver)
      assert.isFalse(first.isHeld)
      assert.isFalse(yield* first.renew)
      assert.strictEqual(one.current(principal), second)
    }))

  test("are taken from a process whose lease has expired at once, and it finds out when it asks", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const mine = yield* one.activate(principal)
      let told = 0
      mine.onOver(() => told++)
      yield* expire(sql, one)
      const lost = yield* lostNow
      const its = yield* two.activate(principal)
      assert.strictEqual(its.number, mine.number + 1)
      // it does not know yet
      assert.isFalse(mine.isOver)
      assert.isFalse(yield* mine.renew)
      assert.isTrue(mine.isOver)
      assert.strictEqual(told, 1)
      assert.strictEqual((yield* lostNow) - lost, 1)
      assert.isUndefined(one.current(principal))
      assert.isTrue(its.isHeld)
      assert.isTrue(yield* one.runner.renew)
    }))

  it.effect("are taken from a process that lives once it knows, or its lease has expired", () =>
    Effect.gen(function*() {
      const { sql, two } = yield* processes
      const { registry: one } = yield* start(sql, { lease: "600 millis" })
      const mine = yield* one.activate(principal)
      const its = yield* two.activate(principal)
      assert.isTrue(mine.isOver)
      assert.isTrue(its.isHeld)
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))

  test("keep their owner where a lease has expired and nobody took them", ({ one, sql }) =>
    Effect.gen(function*() {
      const mine = yield* one.activate(principal)
      yield* expire(sql, one)
      assert.isTrue(yield* mine.renew)
      assert.isTrue(mine.isHeld)
    }), { tags: ["SE4"] })

  test("are released with what is left, unless somebody else has them", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const stateOf = Effect.map(
        sql<
          { readonly state: string; readonly due_at: number | null }
        >`SELECT state, due_at FROM tool_executor_sessions`,
        ([row]) => [row!.state, row!.due_at === null ? undefined : Number(row!.due_at)]
      )
      const first = yield* one.activate(principal)
      assert.strictEqual(yield* one.release(first, { _tag: "Nothing" }), "Released")
      assert.isTrue(first.isOver)
      assert.isUndefined(one.current(principal))
      assert.deepStrictEqual(yield* stateOf, ["free", undefined])
      assert.deepStrictEqual(yield* two.due(10), [])
      const second = yield* one.activate(principal)
      assert.strictEqual(yield* one.release(second, { _tag: "Waiting", until: 1 }), "Released")
      assert.deepStrictEqual(yield* stateOf, ["waiting", 1])
      assert.deepStrictEqual(yield* two.due(10), [principal])
      const third = yield* one.activate(principal)
      assert.strictEqual(yield* one.release(third, { _tag: "Open" }), "Released")
      assert.deepStrictEqual(yield* two.due(10), [principal])
      const fourth = yield* one.activate(principal)
      yield* two.activate(principal).pipe(Effect.forkChild, Effect.andThen(expire(sql, one)))
      yield* until(
        Effect.map(sql`SELECT 1 FROM tool_executor_sessions WHERE runner = ${two.runner.name}`, (it) => it.length > 0)
      )
      assert.strictEqual(yield* one.release(fourth, { _tag: "Nothing" }), "Lost")
      assert.deepStrictEqual((yield* stateOf)[0], "held")
    }))

  test("are ready again where somebody woke them before the release", ({ one, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.activate(principal)
      yield* two.wake(principal)
      assert.strictEqual(yield* one.release(epoch, { _tag: "Waiting", until: undefined }), "Ready")
      const next = yield* one.activate(principal)
      // activation has heard it
      assert.strictEqual(yield* one.release(next, { _tag: "Waiting", until: undefined }), "Released")
    }), { tags: ["SE7"] })

  test("are due if their owner has not heard that they were woken", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.activate(principal)
      yield* two.wake(principal)
      assert.deepStrictEqual(yield* two.due(10), [])
      yield* later(sql)
      assert.deepStrictEqual(yield* two.due(10), [principal])
      // not again for a while
      assert.deepStrictEqual(yield* one.due(10), [])
      assert.isTrue(yield* one.heard(epoch))
      yield* later(sql)
      assert.deepStrictEqual(yield* one.due(10), [])
    }), { tags: ["SE7"] })

  test(
    "are due if the process that holds them has ended, once among all who ask",
    ({ one, stopOne, two }) =>
      Effect.gen(function*() {
        const all = Array.from({ length: 20 }, (_, n) => `ann/${n}`)
        yield* Effect.forEach(all, (it) => one.activate(it), { concurrency: 5 })
        assert.deepStrictEqual(yield* two.due(100), [])
        yield* stopOne
        const found = yield* Effect.all(Array.from({ length: 4 }, () => two.due(10)), { concurrency: "unbounded" })
        assert.deepStrictEqual(found.flat().toSorted(), all.toSorted())
      }),
    { tags: ["SE7"] }
  )

  test("are not due because of a wake-up for a session that nobody ever had", ({ one, sql }) =>
    Effect.gen(function*() {
      yield* one.wake("nobody/s")
      yield* later(sql)
      assert.deepStrictEqual(yield* one.due(10), [])
    }))

  test("are not heard by a process that has lost them", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const mine = yield* one.activate(principal)
      yield* expire(sql, one)
      yield* two.activate(principal)
      assert.isFalse(yield* one.heard(mine))
      assert.isTrue(mine.isOver)
    }))

  test("have their rows fenced: a statement writes for current epochs only", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const lost = yield* one.activate("ann/lost")
      const kept = yield* one.activate("ann/kept")
      yield* expire(sql, one)
      yield* two.activate("ann/lost")
      const rows = yield* sql.unsafe<{ readonly id: string }>(
        `WITH ${Tables.owned("$1")} SELECT id FROM owned`,
        [Tables.epochsOf([lost, kept])]
      )
      assert.deepStrictEqual(rows.map(({ id }) => id), [Tables.sessionId("ann/kept")])
    }))

  test("are activated by many at once, and one of them holds them in the end", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* expire(sql, one)
      yield* expire(sql, two)
      const epochs = yield* Effect.all(
        Array.from({ length: 10 }, (_, n) => (n % 2 === 0 ? one : two).activate(principal)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(epochs.map((it) => it.number)).size, 10)
      const asked = yield* Effect.forEach(epochs, (it) => it.renew)
      assert.lengthOf(asked.filter((it) => it === true), 1)
    }))

  it.effect("are found lost also where the answer that would have told it was lost", () =>
    Effect.gen(function*() {
      const { sql, two } = yield* processes
      const state = { isLost: false }
      const { client } = ThroughClient.lossy(sql, (statement) =>
        state.isLost && statement.includes("UPDATE tool_executor_runners") ? "answer" : undefined)
      const { registry: one } = yield* start(client, { lease: "1 hour" })
      const mine = yield* one.activate(principal)
      yield* expire(sql, one)
      yield* two.activate(principal)
      state.isLost = true
      assert.isFalse(yield* one.runner.renew)
      state.isLost = false
      assert.isFalse(mine.isOver)
      // the database knows a valid lease again by now
      assert.isFalse(yield* mine.renew)
      assert.isTrue(mine.isOver)
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))

  test("are refused under a name that is kept as another one", ({ one }) =>
    Effect.gen(function*() {
      for (const name of ["ann/\0", `ann/${"s".repeat(500)}`]) {
        const error = yield* Effect.flip(one.activate(name))
        assert.include(String(error.cause), "at most 500 characters")
      }
      assert.deepStrictEqual(yield* one.due(10), [])
    }))

  test("that were pruned never have an earlier epoch again", ({ one, sql }) =>
    Effect.gen(function*() {
      const first = yield* one.activate(principal)
      yield* one.release(first, { _tag: "Nothing" })
      const prune = SqlSessionRegistry.prune(sql, -60_000)
      assert.strictEqual(yield* prune, 1)
      const second = yield* one.activate(principal)
      assert.isAbove(second.number, first.number)
      assert.strictEqual(yield* prune, 0)
    }))

  test("are noted as taken only until their process knows it", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const mine = yield* one.activate(principal)
      const its = yield* Effect.forkChild(two.activate(principal))
      const taken = sql`SELECT 1 FROM tool_executor_sessions_taken`
      yield* until(Effect.map(taken, (rows) => rows.length === 1))
      assert.isTrue(yield* one.runner.renew)
      assert.isTrue(mine.isOver)
      assert.lengthOf(yield* taken, 0)
      yield* Fiber.interrupt(its)
    }))

  it.effect("are removed with their processes after a day without use, if nothing in them is open", () =>
    Effect.gen(function*() {
      const { one, sql, stopOne } = yield* Effect.provide(processes, Postgres.realTime)
      for (const [session, left] of [["free", "Nothing"], ["open", "Open"]] as const) {
        yield* one.release(yield* one.activate(`ann/${session}`), { _tag: left })
      }
      yield* stopOne
      yield* sql`UPDATE tool_executor_sessions SET changed_at = changed_at - 90000000`
      yield* start(sql, { lease: "30 days" })
      yield* TestClock.adjust("1 hour")
      const names = sql<{ readonly name: string }>`SELECT principal AS name FROM tool_executor_sessions
        UNION ALL SELECT name FROM tool_executor_runners WHERE name = ${one.runner.name}`
      yield* until(Effect.map(names, (rows) => rows.length === 1 && rows[0]?.name === "ann/open"))
    }).pipe(Effect.scoped))

  test("are removed however many there are, other than those that somebody woke or uses", ({ one, sql }) =>
    Effect.gen(function*() {
      for (const session of ["woken", "used"]) {
        yield* one.release(yield* one.activate(`ann/${session}`), { _tag: "Nothing" })
      }
      yield* one.wake("ann/woken")
      yield* sql`INSERT INTO tool_executor_sessions (id, principal, username, epoch, runner, state, changed_at)
        SELECT n, n, 'ann', 1, 'x', 'free', 0 FROM generate_series(1, 2500) AS n`
      yield* sql`INSERT INTO tool_executor_runners (name, lease_until, started_at) VALUES ('x', 0, 0)`
      yield* sql`INSERT INTO tool_executor_sessions_taken (runner, id, epoch)
        SELECT 'x', n, 1 FROM generate_series(1, 2500) AS n`
      const prune = SqlSessionRegistry.prune(sql, -60_000)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT 1 FROM tool_executor_sessions WHERE principal = 'ann/used' FOR UPDATE`
        assert.strictEqual(yield* prune, 2_500)
      }))
      assert.deepStrictEqual(
        yield* sql`SELECT principal FROM tool_executor_sessions ORDER BY principal`,
        [{ principal: "ann/used" }, { principal: "ann/woken" }]
      )
      assert.lengthOf(yield* sql`SELECT 1 FROM tool_executor_sessions_taken`, 0)
    }))

  test(
    "are all of one process, or shared: who starts beside the other is refused until that has ended",
    ({ sql, stopOne, two }) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const alone = Layer.build(SqlSessionRegistry.layerAlone).pipe(Effect.provideService(SqlClient.SqlClient, sql))
        yield* stopOne
        const refused = yield* Effect.flip(Effect.scoped(alone))
        assert.match(
          String(refused),
          /runners of a cluster are up on this database.*serve --cluster.* [1-9] more second/s
        )
        yield* expire(sql, two)
        yield* Scope.provide(alone, scope)
        // servers without epochs may be several, as before
        yield* Effect.scoped(alone)
        const other = yield* Effect.flip(start(sql))
        assert.match(String(other), /a server without a cluster is up on this database.* 15 more seconds/s)
        yield* Scope.close(scope, Exit.void)
        yield* start(sql)
        assert.lengthOf(yield* sql`SELECT 1 FROM tool_executor_runners WHERE alone`, 0)
      }),
    { tags: ["CL8"] }
  )

  test("of a process are over once it stops, and its fibers end", ({ one, stopOne }) =>
    Effect.gen(function*() {
      const epoch = yield* one.activate(principal)
      const over = yield* Effect.forkChild(
        Effect.callback<void>((resume) => void epoch.onOver(() => resume(Effect.void)))
      )
      yield* Effect.yieldNow
      yield* stopOne
      yield* Fiber.join(over)
      assert.isFalse(one.runner.isHeld)
    }))
})

describe("sessions in SQLite", () => {
  it.effect("are refused with a sentence: a file has one process", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(SqlSessionRegistry.make())
      assert.include(String(error), "it is not a client of PostgreSQL")
    }).pipe(Effect.scoped, Effect.provide(Sqlite.layer({ filename: ":memory:" }))))
})
