/** Connections to PostgreSQL that fall silent without being closed. */
import { assert, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Journal from "../../src/core/store/Journal.ts"
import { type StateStore } from "../../src/index.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import { call, open, tags } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"
import * as SilentProxy from "../support/silentProxy.ts"

const { until } = SilentProxy

/** A database, a client that reaches it, and one that reaches it through a proxy. */
const world = Effect.gen(function*() {
  const { database } = yield* Postgres.Postgres
  const url = yield* database
  const proxy = yield* SilentProxy.make(Number(new URL(url).port))
  const build = (at: string) =>
    Effect.map(
      Layer.build(Layer.fresh(Postgres.clientOf(at).pipe(Layer.provide(Postgres.realTime)))),
      (context) => Context.get(context, SqlClient.SqlClient)
    )
  const direct = yield* build(url)
  const through = yield* build(url.replace(/:\d+\//, `:${proxy.port}/`))
  return { proxy, direct, through }
})

const journalOver = (sql: SqlClient.SqlClient, options?: SqlJournal.Options) =>
  Effect.provideService(SqlJournal.make(options), SqlClient.SqlClient, sql)

const line = (tag: "Arrived" | "Settled", key: string): Journal.Line => ({ entry: JournalContract.entry(tag, { key }) })

const write = (journal: Journal.Journal["Service"], ...lines: ReadonlyArray<Journal.Line>) =>
  journal.append(lines, { durable: true })

const written = (journal: Journal.Journal["Service"]) =>
  Effect.map(
    Stream.runCollect(journal.read({})),
    (all) => all.map(({ entry }) => Journal.isOfCall(entry) ? `${entry._tag} ${entry.key}` : entry._tag)
  )

/** Runs what needs an answer that does not come, until the proxy has swallowed it and its deadline has passed. */
const missing = <A, E>(proxy: SilentProxy.Proxy, effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const before = proxy.state.swallowed
    const fiber = yield* Effect.forkChild(effect)
    yield* until(Effect.sync(() => proxy.state.swallowed > before))
    yield* TestClock.adjust("5 seconds")
    const exit = yield* Fiber.await(fiber)
    // its connection is given up
    yield* TestClock.adjust("1 second")
    return exit
  })

/** Lets the time of the test go on until something is so. */
const passing = <E>(condition: Effect.Effect<boolean, E>) =>
  Effect.repeat(Effect.andThen(SilentProxy.second, condition), { until: (it) => it, times: 120 })

/** What is built in it is closed while the time of the test goes on. */
const closing = <A, E, R>(body: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const exit = yield* Effect.exit(Scope.provide(body, scope))
    const closed = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    const since = yield* Clock.currentTimeMillis
    yield* passing(Effect.sync(() => closed.pollUnsafe() !== undefined))
    const millis = (yield* Clock.currentTimeMillis) - since
    return { result: yield* exit, millis }
  })

layer(Postgres.layer)("where a connection falls silent", (it) => {
  it.effect("the journal goes on over a new one", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const journal = yield* journalOver(through)
      yield* write(journal, line("Arrived", "1"))
      proxy.silence()
      const lines = [line("Arrived", "2")]
      assert.isTrue(Exit.isFailure(yield* missing(proxy, write(journal, ...lines))))
      yield* write(journal, ...lines, line("Arrived", "3"))
      assert.deepStrictEqual(yield* written(journal), ["Arrived 1", "Arrived 2", "Arrived 3"])
    }), { tags: ["ST7"] })

  it.effect("an unanswered write is made once", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const journal = yield* journalOver(through)
      yield* write(journal, line("Arrived", "1"))
      proxy.deafen()
      const lines = [line("Arrived", "2"), line("Settled", "2")]
      assert.isTrue(Exit.isFailure(yield* missing(proxy, write(journal, ...lines))))
      yield* write(journal, ...lines, line("Arrived", "3"))
      yield* write(journal, line("Arrived", "4"))
      const all = ["Arrived 1", "Arrived 2", "Settled 2", "Arrived 3", "Arrived 4"]
      assert.deepStrictEqual(yield* written(journal), all)
    }), { tags: ["ST7"] })

  it.effect("what a server hears late is not written a second time", () =>
    Effect.gen(function*() {
      const { direct, proxy, through } = yield* world
      const journal = yield* journalOver(through)
      yield* write(journal, line("Arrived", "1"))
      const release = proxy.hold()
      const lines = [line("Arrived", "2")]
      assert.isTrue(Exit.isFailure(yield* missing(proxy, write(journal, ...lines))))
      yield* write(journal, ...lines)
      const [before] = yield* direct<{ readonly last_place: string }>`SELECT last_place FROM tool_executor_journal`
      release()
      // it was heard once it has taken a place, which stays empty
      yield* until(Effect.map(
        direct<{ readonly last_place: string }>`SELECT last_place FROM tool_executor_journal`,
        ([row]) => row!.last_place !== before!.last_place
      ))
      assert.deepStrictEqual(yield* written(journal), ["Arrived 1", "Arrived 2"])
    }), { tags: ["ST7"] })

  it.effect(
    "its term is renewed over another one, and no process takes over a running call",
    () =>
      Effect.gen(function*() {
        const { direct, proxy, through } = yield* world
        const journal = yield* journalOver(through)
        const other = yield* journalOver(direct)
        yield* write(journal, line("Arrived", "1"))
        proxy.silence()
        const before = proxy.state.swallowed
        yield* TestClock.adjust("10 seconds")
        yield* until(Effect.sync(() => proxy.state.swallowed > before))
        yield* direct`UPDATE tool_executor_journal_terms SET expires_at = 0`
        // the renewal misses its deadline, and is tried again
        yield* TestClock.adjust("5 seconds")
        yield* TestClock.adjust("3 seconds")
        yield* until(Effect.map(
          direct`SELECT id FROM tool_executor_journal_terms WHERE expires_at > 0`,
          (rows) => rows.length > 0
        ))
        assert.deepStrictEqual(yield* other.claim(["1"], "p"), { _tag: "Busy", keys: ["1"] })
      }),
    { tags: ["ST7"] }
  )

  it.effect("a claim misses its deadline, and the next one has it", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const journal = yield* journalOver(through)
      proxy.silence()
      assert.isTrue(Exit.isFailure(yield* missing(proxy, journal.claim(["1"], "p"))))
      assert.deepStrictEqual(yield* journal.claim(["1"], "p"), { _tag: "Claimed", ended: [] })
    }))

  it.effect("the state store has its answer over another one", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const store = yield* Effect.provideService(SqlStateStore.make(), SqlClient.SqlClient, through)
      const claims: ReadonlyArray<StateStore.Claim> = [{ _tag: "Calls", batch: "b", tool: "t", max: 1 }]
      const request = { owner: "1", session: "s", claims }
      const [first] = yield* store.reserve([request], 0)
      proxy.deafen()
      const before = proxy.state.swallowed
      const settling = yield* Effect.forkChild(
        store.settle(first as StateStore.Reservation, {
          started: false,
          key: "release",
          windowMillis: 0,
          value: undefined
        }, 0)
      )
      yield* until(Effect.sync(() => proxy.state.swallowed > before))
      yield* TestClock.adjust("2500 millis")
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* Fiber.join(settling))
      const [second, third] = yield* store.reserve([request, request], 0)
      assert.property(second, "epoch")
      assert.deepStrictEqual(third, { _tag: "CallsUsedUp" })
    }), { tags: ["ST7"] })
})

layer(Postgres.layer)("where the database is silent for all", (it) => {
  it.effect("noted entries are written when it is back, once and in order", () =>
    closing(Effect.gen(function*() {
      const { direct, proxy, through } = yield* world
      const journal = yield* journalOver(through)
      const { process } = yield* open({ read: () => Effect.succeed("read") }, { journal })
      yield* process.executeWave([call("1", "read", {})])
      const reader = yield* journalOver(direct)
      yield* until(Effect.map(written(reader), (it) => it.length === 3))
      proxy.down()
      assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "read", { n: 2 })])), ["Succeeded"])
      yield* until(Effect.sync(() => proxy.state.swallowed > 0))
      yield* TestClock.adjust("6 seconds")
      proxy.up()
      const all = ["1", "2"].flatMap((id) => ["Arrived", "Started", "Settled"].map((tag) => `${tag} ${id}`))
      yield* passing(Effect.map(written(reader), (it) => it.length >= all.length))
      const entries = yield* Stream.runCollect(reader.read({}))
      assert.deepStrictEqual(
        entries.map(({ entry }) => Journal.isOfCall(entry) ? `${entry._tag} ${entry.callId}` : entry._tag),
        all
      )
    })), { tags: ["ST7"] })

  it.effect("a call that was taken over does not succeed here", () =>
    closing(Effect.gen(function*() {
      const { direct, proxy, through } = yield* world
      const ran: Array<string> = []
      const gate = { open: () => {} }
      const specs = (name: string) => ({
        write: {
          class: "ConcurrentMut" as const,
          handler: () =>
            Effect.callback<string>((resume) => {
              ran.push(name)
              gate.open = () => resume(Effect.succeed(name))
            })
        }
      })
      const journal = yield* journalOver(through)
      const { executor } = yield* open(specs("one"), { journal })
      const process = yield* executor.process({ batch: "b" })
      const wave = [call("1", "write", {})]
      const running = yield* Effect.forkChild(process.executeWave(wave))
      yield* until(Effect.sync(() => ran.length === 1))
      const open1 = gate.open
      proxy.down()
      yield* direct`UPDATE tool_executor_journal_terms SET expires_at = 0`
      const other = yield* open(specs("two"), { journal: yield* journalOver(direct) })
      const second = yield* other.executor.process({ batch: "b" })
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Unknown"])
      yield* TestClock.adjust("31 seconds")
      open1()
      yield* passing(Effect.sync(() => running.pollUnsafe() !== undefined))
      assert.deepStrictEqual(tags(yield* Fiber.join(running)), ["Unknown"])
      assert.deepStrictEqual(ran, ["one"])
    })), { tags: ["J4"] })

  it.effect("an executor over it still closes in bounded time", () =>
    Effect.gen(function*() {
      const { proxy, through } = yield* world
      const { millis } = yield* closing(Effect.gen(function*() {
        const journal = yield* journalOver(through)
        const store = yield* Effect.provideService(SqlStateStore.make(), SqlClient.SqlClient, through)
        const { process } = yield* open({ write: { class: "ConcurrentMut", handler: () => Effect.succeed("done") } }, {
          journal,
          store
        })
        assert.deepStrictEqual(tags(yield* process.executeWave([call("1", "write", {})])), ["Succeeded"])
        proxy.down()
        yield* Effect.forkScoped(process.executeWave([call("2", "write", { n: 2 })]))
        yield* until(Effect.sync(() => proxy.state.swallowed > 0))
      }))
      assert.isBelow(millis, 45_000)
    }), { tags: ["ST7"] })
})
