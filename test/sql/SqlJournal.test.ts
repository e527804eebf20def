/**
 * @module-tag J3
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Journal from "../../src/core/store/Journal.ts"
import { ConfigurationError } from "../../src/index.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as Postgres from "../support/Postgres.ts"

const { entry } = JournalContract

type Service = Journal.Journal["Service"]

const append = (journal: Service, ...entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

const keysOf = (journal: Service) =>
  Effect.map(
    Stream.runCollect(journal.read({})),
    (all) => all.map(({ entry: it }) => Journal.isOfCall(it) ? `${it._tag} ${it.key}` : it._tag)
  )

/** A file of its own, gone with the layer. */
const file = Layer.unwrap(Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => Sqlite.layer({ filename: join(folder, "journal.db") })
))

const withJournal = <Needs>(client: Layer.Layer<SqlClient.SqlClient, unknown, Needs>) => ({
  layer: (options?: SqlJournal.Options) => SqlJournal.layer(options).pipe(Layer.provideMerge(client)),
  another: SqlJournal.make()
})

const expire = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE tool_executor_journal_terms SET expires_at = 0`
)

/** What holds in every database. */
const holds = <Needs>(
  client: Layer.Layer<SqlClient.SqlClient, unknown, Needs>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs>) => void
) => {
  const checkWith = (
    name: string,
    body: (journal: Service) => Effect.Effect<void, unknown, SqlClient.SqlClient | Scope.Scope>
  ) =>
    check(
      name,
      Effect.scoped(Effect.flatMap(Journal.Journal, body)).pipe(
        Effect.provide(withJournal(client).layer(), { local: true })
      )
    )
  for (const it of JournalContract.make(withJournal(client))) check(it.name, it.check)

  checkWith(
    "stops a process whose calls were taken over while it gave no sign of life",
    (journal) =>
      Effect.gen(function*() {
        yield* append(journal, entry("Arrived", { key: "1" }), entry("Started", { key: "1" }))
        const other = yield* SqlJournal.make()
        assert.deepStrictEqual(yield* other.claim(["1"], "p"), { _tag: "Busy", keys: ["1"] })
        yield* expire
        const claimer = yield* SqlJournal.make()
        assert.deepStrictEqual(yield* claimer.claim(["1"], "p"), { _tag: "Claimed", ended: [] })
        const error = yield* Effect.flip(append(journal, entry("Settled", { key: "1" })))
        assert.include(String(error.cause), "its term is over")
        yield* append(claimer, entry("Settled", { key: "1" }))
        assert.deepStrictEqual(yield* keysOf(claimer), ["Arrived 1", "Started 1", "Settled 1"])
      })
  )

  checkWith("reads the newest without what is older than they", (journal) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* append(journal, ...Array.from({ length: 2_500 }, (_, index) => entry("Arrived", { key: String(index) })))
      // what would be found out if it were read
      yield* sql`UPDATE tool_executor_journal_entries SET entry = '?' WHERE call_key = '1000'`
      const newest = yield* Stream.runCollect(Stream.take(journal.read({ order: "newest" }), 1_000))
      assert.deepStrictEqual(newest.map(({ entry: it }) => Journal.isOfCall(it) && Number(it.key)).slice(0, 3), [
        2_499,
        2_498,
        2_497
      ])
      assert.include(
        String((yield* Effect.flip(Stream.runDrain(journal.read({ order: "newest" })))).cause),
        "not valid"
      )
    }))

  checkWith("lets one go on who was only late, and whose calls nobody wanted", (journal) =>
    Effect.gen(function*() {
      yield* append(journal, entry("Arrived", { key: "1" }))
      const other = yield* SqlJournal.make()
      yield* append(other, entry("Arrived", { key: "2" }))
      yield* expire
      const claimer = yield* SqlJournal.make()
      yield* claimer.claim(["2"], "p")
      yield* append(journal, entry("Settled", { key: "1" }))
      assert.deepStrictEqual(yield* claimer.claim(["1"], "p"), { _tag: "Claimed", ended: ["1"] })
    }))

  checkWith("takes over nothing where one of the calls runs", (journal) =>
    Effect.gen(function*() {
      yield* append(journal, entry("Arrived", { key: "1" }))
      yield* expire
      const other = yield* SqlJournal.make()
      yield* append(other, entry("Arrived", { key: "2" }))
      const claimer = yield* SqlJournal.make()
      assert.deepStrictEqual(yield* claimer.claim(["1", "2"], "p"), { _tag: "Busy", keys: ["2"] })
      yield* append(journal, entry("Settled", { key: "1" }))
    }))

  checkWith("takes over again what it claimed where the answer was lost", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const state = { isLost: false }
      const withTransaction: SqlClient.SqlClient["withTransaction"] = (effect) =>
        Effect.flatMap(sql.withTransaction(effect), (it) => state.isLost ? Effect.die("no answer") : Effect.succeed(it))
      const lossy = new Proxy(sql, {
        get: (target, name) => name === "withTransaction" ? withTransaction : Reflect.get(target, name)
      })
      const journal = yield* Effect.provideService(SqlJournal.make(), SqlClient.SqlClient, lossy)
      state.isLost = true
      assert.strictEqual((yield* Effect.exit(journal.claim(["1"], "p")))._tag, "Failure")
      state.isLost = false
      assert.deepStrictEqual(yield* journal.claim(["1"], "p"), { _tag: "Claimed", ended: [] })
      // and once more it is somebody's
      assert.deepStrictEqual(yield* journal.claim(["1"], "p"), { _tag: "Busy", keys: ["1"] })
      yield* append(journal, entry("Suspended", { key: "1" }))
      assert.deepStrictEqual(yield* journal.claim(["1"], "p"), { _tag: "Claimed", ended: [] })
    }))

  checkWith("is outside of the transaction of whoever appends", (journal) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const isPg = sql.onDialectOrElse({ pg: () => true, orElse: () => false })
      yield* Effect.ignore(sql.withTransaction(Effect.gen(function*() {
        // the one connection of SQLite is the transaction's
        if (isPg) yield* append(journal, entry("Arrived", { key: "1" }))
        yield* isPg ? journal.claim(["2"], "p") : Effect.flip(journal.claim(["2"], "p"))
        return yield* Effect.fail("rolled back")
      })))
      assert.deepStrictEqual(yield* keysOf(journal), isPg ? ["Arrived 1"] : [])
      assert.strictEqual((yield* journal.claim(["2"], "p"))._tag, isPg ? "Busy" : "Claimed")
    }))

  checkWith("goes on where everything was removed, whatever time that was told", (journal) =>
    Effect.gen(function*() {
      yield* append(journal, entry("Arrived", { key: "1" }), entry("Settled", { key: "1" }))
      yield* SqlJournal.prune(Number.MAX_SAFE_INTEGER)
      yield* append(journal, entry("Arrived", { key: "2" }))
      assert.deepStrictEqual(yield* keysOf(journal), ["Arrived 2"])
    }))

  checkWith("removes what is old, but for calls that have no end", (journal) =>
    Effect.gen(function*() {
      const old = (key: string) => ({ key, at: 10 })
      yield* append(
        journal,
        entry("Arrived", old("ended")),
        entry("Settled", old("ended")),
        entry("OrphanEnded", old("ended")),
        entry("Arrived", old("open")),
        entry("Started", old("open")),
        { _tag: "Gap", at: 11, principal: "p", session: "s", lost: 1 },
        // a call of the same key, handed over once more
        entry("Arrived", old("again")),
        entry("Settled", old("again")),
        entry("Arrived", old("again")),
        entry("Arrived", { key: "new", at: 20 }),
        entry("Settled", { key: "new", at: 20 })
      )
      const kept = ["Arrived open", "Started open", "Arrived again", "Arrived new", "Settled new"]
      assert.strictEqual(yield* SqlJournal.prune(20), 6)
      assert.deepStrictEqual(yield* keysOf(journal), kept)
      assert.strictEqual(yield* SqlJournal.prune(20), 0)
      yield* append(journal, entry("Arrived", { key: "next" }))
      assert.deepStrictEqual(yield* keysOf(journal), [...kept, "Arrived next"])
    }))

  checkWith(
    "has nothing but what it was told in its tables, and no entry that it cannot read",
    (journal) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* append(journal, entry("Arrived", { key: "1" }))
        yield* sql`UPDATE tool_executor_journal_entries SET entry = 'torn'`
        const error = yield* Effect.flip(keysOf(journal))
        assert.include(String(error.cause), "the entry at 1 is not valid")
      })
  )
}

describe("the journal in SQLite", () => {
  holds(file, (name, check) => it.effect(name, () => check))

  it.effect("is refused where what was committed may be lost", () =>
    Effect.gen(function*() {
      const client = Sqlite.layer({ filename: ":memory:", synchronous: "NORMAL" })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(SqlJournal.layer().pipe(Layer.provide(client)))))
      assert.instanceOf(error, ConfigurationError.ConfigurationError)
      assert.include(error.message, "synchronous")
    }), { tags: ["J5"] })
})

layer(Postgres.layer)("the journal in PostgreSQL", (it) => {
  it.effect("writes nothing of what waited while its term was ended", () =>
    Effect.scoped(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      const writing = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT 1 FROM tool_executor_journal FOR UPDATE`
        const writing = yield* Effect.forkDetach(append(journal, entry("Settled", { key: "1" })), {
          startImmediately: true
        })
        // until it waits for the row
        yield* sql`SELECT 1 FROM pg_locks WHERE NOT granted`.values.pipe(
          Effect.repeat({ until: (rows) => rows.length > 0 })
        )
        yield* sql`UPDATE tool_executor_journal_terms SET ended_at = 1`
        return writing
      }))
      assert.include(String((yield* Effect.flip(Fiber.join(writing))).cause), "its term is over")
      assert.deepStrictEqual(yield* keysOf(journal), [])
    })).pipe(Effect.provide(Postgres.client)))

  holds(Postgres.client, (name, check) => it.effect(name, () => check))

  it.effect("is refused where what was committed may be lost", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
      yield* sql`ALTER DATABASE ${sql(row!.name)} SET synchronous_commit = off`
      const again = Effect.gen(function*() {
        const { urlFor } = yield* Postgres.Postgres
        return Postgres.clientOf(urlFor(row!.name))
      })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(
        SqlJournal.layer().pipe(Layer.provide(Layer.unwrap(again)))
      )))
      assert.include(String(error), "synchronous_commit: it is off")
    }).pipe(Effect.provide(Postgres.client)))
})
