/** Permits that processes share in PostgreSQL. */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlPermits } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import { type Lease, SharedPermits } from "../../src/core/gates/PermitSource.ts"
import { keyOf } from "../../src/internal/textBytes.ts"
import * as Postgres from "../support/Postgres.ts"
import * as SilentProxy from "../support/silentProxy.ts"
import { counted } from "../support/throughClient.ts"

const { until } = SilentProxy

/** A database with any number of processes, each with a client of its own. */
const world = Effect.gen(function*() {
  const { database } = yield* Postgres.Postgres
  const url = yield* database
  const proxy = yield* SilentProxy.make(Number(new URL(url).port))
  const clientAt = (at: string) =>
    Effect.map(
      Layer.build(Layer.fresh(Postgres.clientOf(at).pipe(Layer.provide(Postgres.realTime)))),
      (context) => Context.get(context, SqlClient.SqlClient)
    )
  const sql = yield* clientAt(url)
  const processOver = (client: SqlClient.SqlClient, options?: SqlPermits.Options) =>
    Effect.map(
      Layer.build(Layer.fresh(
        SqlPermits.layer(options).pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, client)))
      )),
      (context) => Context.get(context, SharedPermits)
    )
  const counting = (options?: SqlPermits.Options) =>
    Effect.gen(function*() {
      const { client, state } = counted(yield* clientAt(url))
      asked.add(state)
      yield* Effect.addFinalizer(() => Effect.sync(() => asked.delete(state)))
      return { process: yield* processOver(client, options), state }
    })
  return {
    proxy,
    sql,
    /** A process that reaches the database directly. */
    process: (options?: SqlPermits.Options) => Effect.map(counting(options), ({ process }) => process),
    /** The same, and how often it asks. */
    counting,
    /** One that reaches it through the proxy. */
    through: (options?: SqlPermits.Options) =>
      Effect.flatMap(clientAt(url.replace(/:\d+\//, `:${proxy.port}/`)), (client) => processOver(client, options))
  }
})

type Process = SharedPermits["Service"]

const cap = (size: number) => [{ name: "cap", size }]
const keys = (...names: ReadonlyArray<string>) => names.map((name) => ({ name, size: 1 }))

/** Asks for a permit of each pool, in a scope of its own. */
const take = (process: Process, pools: Parameters<Process["source"]>[0]) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const fiber = yield* Effect.forkChild(Scope.provide(process.source(pools).lease, scope))
    return {
      fiber,
      isThere: () => fiber.pollUnsafe() !== undefined,
      give: Scope.close(scope, Exit.void),
      lease: Fiber.join(fiber)
    }
  })

/** What the clients ask that reach the database directly. */
const asked = new Set<{ readonly open: number }>()

/** Waits until the database has answered all of that: the time of a test is faster than a busy machine. */
const answered = until(Effect.sync(() => Array.from(asked).every((it) => it.open === 0)))

/** Lets time pass until something is so, in steps of 100 ms. */
const passing = (condition: () => boolean, times = 400) =>
  Effect.repeat(
    Effect.andThen(
      Effect.andThen(answered, TestClock.adjust("100 millis")),
      Effect.andThen(Effect.provide(Effect.sleep("2 millis"), Postgres.realTime), answered)
    ),
    { until: condition, times }
  )

/** The lease of who stands first in a line ends, by the clock of the database. */
const expire = (sql: SqlClient.SqlClient, pool: string) =>
  sql`UPDATE tool_executor_permits SET places =
    (SELECT jsonb_agg(CASE n WHEN 1 THEN jsonb_set(it, '{until}', '0') ELSE it END ORDER BY n)
    FROM jsonb_array_elements(places) WITH ORDINALITY AS a(it, n)) WHERE pool = ${keyOf(pool)}`

const isUnder = (lease: Lease): boolean | undefined => lease.isHeld?.()

layer(Postgres.layer)("permits of processes over one PostgreSQL", (it) => {
  it.effect("are never more than the pool has, and go to the process that came first", () =>
    Effect.gen(function*() {
      const { process } = yield* world
      const [one, two] = [yield* process(), yield* process()]
      const first = yield* take(one, cap(2))
      yield* first.lease
      const second = yield* take(two, cap(2))
      yield* second.lease
      const third = yield* take(two, cap(2))
      yield* passing(() => false, 5)
      const fourth = yield* take(one, cap(2))
      yield* passing(() => false, 5)
      assert.deepStrictEqual([third.isThere(), fourth.isThere()], [false, false])
      // it has had its turn by now, and another process waits: not to its own next call
      yield* first.give
      yield* passing(third.isThere)
      assert.deepStrictEqual([third.isThere(), fourth.isThere()], [true, false])
      yield* third.give
      yield* passing(fourth.isThere)
    }))

  it.effect("are given all or none, and calls that want several never wait in a circle", () =>
    Effect.gen(function*() {
      const { process } = yield* world
      const processes = [yield* process(), yield* process(), yield* process()]
      const names = ["a", "b", "c", "d"]
      const held = new Map<string, number>()
      const problems: Array<string> = []
      const one = Effect.fnUntraced(function*(n: number) {
        const own = names.filter((_, index) => index === n % 4 || (n >> index) % 2 === 1)
        yield* Effect.scoped(Effect.gen(function*() {
          yield* processes[n % 3]!.source(keys(...(n % 2 === 0 ? own : own.toReversed()))).lease
          for (const name of own) {
            held.set(name, (held.get(name) ?? 0) + 1)
            if (held.get(name)! > 1) problems.push(`${name} is held twice`)
          }
          yield* Effect.yieldNow
          for (const name of own) held.set(name, held.get(name)! - 1)
        }))
      })
      const all = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 60 }, (_, n) => n), one, { concurrency: "unbounded" })
      )
      yield* passing(() => all.pollUnsafe() !== undefined, 2_000)
      yield* Fiber.join(all)
      assert.deepStrictEqual(problems, [])
    }), { tags: ["C11"] })

  it.effect("go on to the next call of a process without a question, and cost nothing while nobody wants one", () =>
    Effect.gen(function*() {
      const { counting } = yield* world
      const { process, state } = yield* counting()
      yield* passing(() => false, 10)
      const before = state.asked
      yield* passing(() => false, 100)
      assert.strictEqual(state.asked, before)
      const first = yield* take(process, cap(1))
      yield* first.lease
      const second = yield* take(process, cap(1))
      yield* passing(() => false, 1)
      const asked = state.asked
      yield* first.give
      assert.isTrue(second.isThere())
      assert.strictEqual(state.asked, asked)
      yield* second.give
    }))

  it.effect("are asked for once in an interval, however many calls wait", () =>
    Effect.gen(function*() {
      const { counting, process } = yield* world
      const other = yield* process()
      const { process: one, state } = yield* counting()
      const names = Array.from({ length: 100 }, (_, n) => `key ${n}`)
      const held = yield* take(other, keys(...names))
      yield* held.lease
      const waiting = yield* Effect.forEach(names, (name) => take(one, keys(name)))
      yield* passing(() => false, 1)
      state.asked = 0
      yield* passing(() => false, 50)
      // five seconds: 50 intervals, two renewals, and some sooner at first
      assert.isAtMost(state.asked, 60)
      assert.isFalse(waiting.some((it) => it.isThere()))
      yield* held.give
      yield* passing(() => waiting.every((it) => it.isThere()))
    }))

  it.effect("stay with a call for as long as it runs", () =>
    Effect.gen(function*() {
      const { process } = yield* world
      const [one, two] = [yield* process(), yield* process()]
      const lease = yield* (yield* take(one, keys("a", "b"))).lease
      const other = yield* take(two, keys("b"))
      yield* passing(() => false, 300)
      assert.deepStrictEqual([isUnder(lease), other.isThere()], [true, false])
    }))

  it.effect("of a process that is gone are free when their lease ends", () =>
    Effect.gen(function*() {
      const { process, proxy, sql, through } = yield* world
      const gone = yield* through()
      yield* (yield* take(gone, cap(1))).lease
      const other = yield* take(yield* process(), cap(1))
      yield* passing(() => false, 20)
      proxy.down()
      assert.isFalse(other.isThere())
      yield* expire(sql, "cap")
      yield* passing(other.isThere)
      // it can only be closed in time if time passes
      proxy.up()
      yield* passing(() => false, 50)
    }))

  it.effect(
    "are given up by a process that cannot renew them, before another one can have them",
    () =>
      Effect.gen(function*() {
        const { proxy, through } = yield* world
        const process = yield* through()
        const lease = yield* (yield* take(process, cap(1))).lease
        const lost = yield* Effect.forkChild(lease.lost!)
        proxy.down()
        yield* TestClock.adjust("7800 millis")
        assert.isTrue(isUnder(lease))
        yield* TestClock.adjust("100 millis")
        assert.strictEqual(yield* Fiber.join(lost), "the database could not be reached to renew its lease")
        assert.isFalse(isUnder(lease))
        // also where the database knows it still
        proxy.up()
        yield* passing(() => false, 50)
        assert.isFalse(isUnder(lease))
      }),
    { tags: ["C11"] }
  )

  it.effect("that the database no longer has are lost", () =>
    Effect.gen(function*() {
      const { process, sql } = yield* world
      const lease = yield* (yield* take(yield* process(), cap(1))).lease
      const lost = yield* Effect.forkChild(lease.lost!)
      yield* expire(sql, "cap")
      yield* passing(() => lost.pollUnsafe() !== undefined)
      assert.strictEqual(yield* Fiber.join(lost), "its lease has ended")
      assert.isFalse(isUnder(lease))
    }))

  it.effect("are refused while the database is away, and given again when it is back", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const process = yield* through()
      proxy.down()
      const refused = yield* take(process, cap(1))
      yield* passing(refused.isThere, 100)
      const exit = yield* Fiber.await(refused.fiber)
      assert.include(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), "cannot be reached")
      proxy.up()
      const given = yield* take(process, cap(1))
      yield* passing(given.isThere)
      assert.isTrue(isUnder(yield* given.lease))
    }))

  it.effect("that a handler holds which does not stop are refused to calls of other processes, until it ends", () =>
    Effect.gen(function*() {
      const { process } = yield* world
      const [one, two] = [yield* process(), yield* process()]
      const stuck = yield* take(one, keys("a", "b"))
      const lease = yield* stuck.lease
      const early = yield* take(two, keys("b", "c"))
      yield* passing(() => false, 5)
      lease.block!("it still runs")
      yield* passing(early.isThere)
      const late = yield* take(two, keys("a"))
      yield* passing(late.isThere)
      for (const { fiber } of [early, late]) {
        const exit = yield* Fiber.await(fiber)
        assert.include(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), "it still runs")
      }
      yield* stuck.give
      yield* passing(() => false, 5)
      const next = yield* take(two, keys("b"))
      yield* passing(next.isThere)
      assert.isTrue(isUnder(yield* next.lease))
    }))

  it.effect("of a process that ends are free at once", () =>
    Effect.gen(function*() {
      const { process } = yield* world
      const scope = yield* Scope.make()
      const ending = yield* Scope.provide(process(), scope)
      yield* (yield* take(ending, cap(1))).lease
      yield* Scope.close(scope, Exit.void)
      const next = yield* take(yield* process(), cap(1))
      yield* passing(next.isThere, 5)
      const late = yield* take(ending, cap(1))
      assert.isTrue(Exit.isFailure(yield* Fiber.await(late.fiber)))
    }))

  it.effect("that nobody waits for any more are not left taken", () =>
    Effect.gen(function*() {
      const { process, sql } = yield* world
      const [one, two] = [yield* process(), yield* process()]
      const held = yield* take(one, cap(1))
      yield* held.lease
      const waiting = yield* take(two, cap(1))
      yield* passing(() => false, 5)
      yield* Fiber.interrupt(waiting.fiber)
      yield* held.give
      yield* passing(() => false, 5)
      assert.deepStrictEqual(yield* sql`SELECT places FROM tool_executor_permits`.values, [[[]]])
    }))

  it.effect("are exact also in a database that has transactions fail instead of wait", () =>
    Effect.gen(function*() {
      const { process, sql } = yield* world
      const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
      yield* sql`ALTER DATABASE ${sql(row!.name)} SET default_transaction_isolation = 'serializable'`
      const processes = [yield* process(), yield* process()]
      let running = 0
      const most: Array<number> = []
      const one = (n: number) =>
        Effect.scoped(Effect.andThen(
          processes[n % 2]!.source(cap(3)).lease,
          Effect.sync(() => most.push(++running)).pipe(
            Effect.andThen(Effect.yieldNow),
            Effect.andThen(Effect.sync(() => running--))
          )
        ))
      const all = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 30 }, (_, n) => n), one, { concurrency: "unbounded" })
      )
      yield* passing(() => all.pollUnsafe() !== undefined, 1_000)
      yield* Fiber.join(all)
      assert.isAtMost(Math.max(...most), 3)
    }))
})

describe("permits of processes in SQLite", () => {
  it.effect("are refused with a sentence", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(
        Layer.build(SqlPermits.layer().pipe(Layer.provide(Sqlite.layer({ filename: ":memory:" }))))
      )
      assert.include(String(error), "it is not a client of PostgreSQL")
    }))
})
