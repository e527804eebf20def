/**
 * Searching journals in databases: what is found, by which index, and how far a page looks.
 *
 * @module-tag J9
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Journal from "../../src/core/store/Journal.ts"
import * as JournalSearch from "../../src/sql/JournalSearch.ts"
import * as OwnConnection from "../../src/sql/OwnConnection.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as Postgres from "../support/Postgres.ts"

const { entry } = JournalContract

type Service = Journal.Journal["Service"]

const file = Layer.unwrap(Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-search-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => Sqlite.layer({ filename: join(folder, "journal.db") })
))

const append = (journal: Service, entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

/** Entries of many users, sessions, batches, tools and calls, made in the database itself. */
const fill = Effect.fnUntraced(function*(count: number) {
  const sql = yield* SqlClient.SqlClient
  const numbers = sql.onDialectOrElse({
    pg: () => `SELECT generate_series(1, ${count}) AS n`,
    orElse: () => `WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${count}) SELECT n FROM c`
  })
  yield* sql.unsafe(
    `INSERT INTO tool_executor_journal_entries
      (place, term, tag, call_key, at, reached_at, principal, owner, batch, tool, call_id, entry)
    SELECT n, 1, 'Settled', 'key' || (n / 8), n, n, 'user' || (n % 40) || '/s' || (n % 400), 'user' || (n % 40),
      'batch' || (n / 100), 'tool' || (n % 20), 'call' || (n / 8), '{}'
    FROM (${numbers}) AS numbers`
  )
  yield* sql`UPDATE tool_executor_journal SET last_place = ${count}, latest_at = ${count}`
  yield* sql`ANALYZE`
})

/** What a page asks for, and the index that it has to be found by; none is the order of places itself. */
const queries: ReadonlyArray<readonly [query: Journal.Query, index: string]> = [
  [{}, ""],
  [{ text: "nowhere" }, ""],
  [{ since: 1_000 }, ""],
  [{ tag: "Arrived" }, ""],
  [{ tag: "Settled", text: "nowhere", owners: ["user7"] }, "owner"],
  [{ tool: "nothing" }, "tool"],
  [{ tool: "tool7", since: 100 }, "tool"],
  [{ callId: "call4711", tool: "tool7" }, "call_id"],
  [{ batch: "batch42", callId: undefined }, "batch"],
  [{ batch: "batch42", tool: "tool7" }, "batch"],
  [{ principal: "user7/s7", batch: "batch42" }, "wave"],
  [{ principal: "user7/s7", batch: "batch42", callId: "call4711" }, "call_id"],
  [{ principal: "user7/s7" }, "principal"],
  [{ principal: "user7/s7", owners: ["user7"], tool: "tool7" }, "principal"],
  [{ owners: ["user7"] }, "owner"],
  [{ owners: ["user7", "nobody", "user8"], tool: "nothing", text: "nowhere" }, "owner"],
  [{ keys: ["key1", "key4711", "none"] }, "call_key"]
]

const planOf = Effect.fnUntraced(function*(query: Journal.Query) {
  const sql = yield* SqlClient.SqlClient
  const bounds = { after: 0, before: Infinity, entries: 100, chars: 1_000_000 }
  const [text, params] = JournalSearch.statementOf(sql, query, bounds).compile()
  const explain = sql.onDialectOrElse({ pg: () => "EXPLAIN", orElse: () => "EXPLAIN QUERY PLAN" })
  const rows = yield* sql.unsafe(`${explain} ${text}`, params).values
  return rows.map((row) => String(row.at(-1))).join("\n")
})

const holds = <Needs>(
  client: Layer.Layer<SqlClient.SqlClient, unknown, Needs>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs>) => void
) => {
  const checkWith = (name: string, body: (journal: Service) => Effect.Effect<void, unknown, SqlClient.SqlClient>) =>
    check(
      name,
      Effect.flatMap(Journal.Journal, body).pipe(
        Effect.provide(SqlJournal.layer().pipe(Layer.provideMerge(client)), { local: true })
      )
    )

  checkWith("finds what a page asks for by an index, and never looks through the table", () =>
    Effect.gen(function*() {
      yield* fill(150_000)
      for (const [query, index] of queries) {
        for (const order of ["oldest", "newest"] as const) {
          const plan = yield* planOf({ ...query, order })
          const about = `${JSON.stringify(query)}, the ${order} first:\n${plan}`
          if (index !== "") assert.include(plan, `tool_executor_journal_by_${index}`, about)
          assert.notMatch(plan, /Seq Scan on tool_executor_journal_entries|SCAN tool_executor_journal_entries$/m, about)
          assert.notMatch(plan, /SCAN (?:tool_executor_journal_entries|it)\b(?! USING)/, about)
        }
      }
    }))

  checkWith(
    "looks at a bounded number of entries for a page, and says where the next begins",
    (journal) =>
      Effect.gen(function*() {
        yield* fill(3 * Journal.mostLookedAt)
        const bounds = { entries: 10, chars: 100_000 }
        for (
          const rare of [{ text: "nowhere" }, { owners: ["user7", "user8"], tool: "nothing" }, { since: 1, text: "no" }]
        ) {
          for (const order of ["oldest", "newest"] as const) {
            let pages = 0
            for (let next: number | undefined = order === "newest" ? Infinity : 0; next !== undefined; pages++) {
              const from = order === "newest" ? { before: next } : { after: next }
              const page: Journal.Page = yield* journal.page({ ...rare, ...from, order }, bounds)
              assert.deepStrictEqual(page.entries, [])
              next = page.next
            }
            assert.strictEqual(pages, rare.owners === undefined ? 4 : 1, JSON.stringify(rare))
          }
        }
        // nothing has to be looked at but what its index says
        assert.deepStrictEqual(yield* journal.page({ tool: "nothing", order: "newest" }, bounds), { entries: [] })
      })
  )

  checkWith(
    "reads only the calls of one session, however many sessions name a wave alike",
    (journal) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* fill(3 * Journal.mostLookedAt)
        yield* sql`UPDATE tool_executor_journal_entries SET batch = 'refund'`
        const bounds = { entries: 10, chars: 100_000 }
        for (const order of ["oldest", "newest"] as const) {
          const page = yield* journal.page({ principal: "nobody/s1", batch: "refund", isOpen: true, order }, bounds)
          assert.deepStrictEqual(page, { entries: [] })
        }
      })
  )

  checkWith(
    "has no more in a page than its characters allow, and one entry at least",
    (journal) =>
      Effect.gen(function*() {
        const large = (key: string) =>
          entry("Arrived", { key, args: { _tag: "Full", value: "x".repeat(key === "2" ? 500_000 : 1_000) } })
        yield* append(journal, ["0", "1", "2", "3", "4"].map(large))
        const seen: Array<ReadonlyArray<string>> = []
        for (let before: number | undefined = Infinity; before !== undefined;) {
          const page: Journal.Page = yield* journal.page({ order: "newest", before }, { entries: 10, chars: 3_000 })
          seen.push(page.entries.map(({ entry: it }) => Journal.isOfCall(it) ? it.key : ""))
          before = page.next
        }
        assert.deepStrictEqual(seen.filter((it) => it.length > 0), [["4", "3", "2"], ["1", "0"]])
      })
  )

  checkWith(
    "knows from which place on something happened, whatever the clocks of those who wrote it",
    (journal) =>
      Effect.gen(function*() {
        const ats = [10, 30, 20, 20, 15, 50, 40, 60, 5, 70]
        for (const [index, at] of ats.entries()) yield* append(journal, [entry("Arrived", { key: String(index), at })])
        for (const since of [0, 10, 16, 20, 21, 30, 31, 50, 51, 60, 61, 70, 71]) {
          for (const order of ["oldest", "newest"] as const) {
            const found = yield* Stream.runCollect(journal.read({ since, order }))
            const expected = ats.flatMap((at, index) => at >= since ? [String(index)] : [])
            assert.deepStrictEqual(
              found.map(({ entry: it }) => Journal.isOfCall(it) ? it.key : ""),
              order === "newest" ? expected.toReversed() : expected
            )
          }
        }
      })
  )

  checkWith("finds texts in whatever case, and as clients see them written", (journal) =>
    Effect.gen(function*() {
      const args = (value: unknown) => ({ args: { _tag: "Full" as const, value } })
      yield* append(journal, [
        entry("Arrived", { key: "1", ...args("Überweisung an 100%_of_them!") }),
        entry("Arrived", { key: "2", ...args("something else") })
      ])
      const found = (text: string) =>
        Effect.map(journal.page({ text }, { entries: 10, chars: 10_000 }), ({ entries }) =>
          entries.map(({ entry: it }) => Journal.isOfCall(it) ? it.key : ""))
      for (const text of ["überweisung", "ÜBER", "100%_OF", "them!", "n 100%"]) {
        assert.deepStrictEqual(yield* found(text), ["1"], text)
      }
      assert.deepStrictEqual(yield* found("CALL_ID"), ["1", "2"])
      assert.deepStrictEqual(yield* found("100!"), [])
    }))
}

describe("searching a journal in SQLite", () => {
  holds(file, (name, check) => it.effect(name, () => check))

  it.effect(
    "is done in another thread: what the program asks meanwhile is answered before",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const reader = OwnConnection.reading(sql)
        assert.notStrictEqual(reader, sql)
        yield* sql`CREATE TABLE t (id INTEGER)`
        const ended: Array<string> = []
        const long = reader.unsafe(
          "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000000) SELECT count(*) AS count FROM c"
        )
        yield* Effect.all([
          Effect.andThen(long, Effect.sync(() => ended.push("search"))),
          Effect.andThen(sql`INSERT INTO t VALUES (1)`, Effect.sync(() => ended.push("write")))
        ], { concurrency: 2 })
        assert.deepStrictEqual(ended, ["write", "search"])
        assert.deepEqual(yield* reader`SELECT id FROM t`.values, [[1]])
        assert.include(String(yield* Effect.flip(reader`INSERT INTO t VALUES (2)`)), "could not read")
        assert.include(String(yield* Effect.flip(reader`SELECT nothing`)), "could not read")
      }).pipe(Effect.provide(file)),
    { tags: ["J9"] }
  )

  it.effect("ends with its client, also in the middle", () =>
    Effect.gen(function*() {
      const search = yield* Effect.scoped(Effect.gen(function*() {
        const sql = yield* Effect.flatMap(Layer.build(file), (it) => Effect.provideContext(SqlClient.SqlClient, it))
        const long = OwnConnection.reading(sql).unsafe(
          "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
        )
        return yield* Effect.forkDetach(Effect.exit(long), { startImmediately: true })
      }))
      const exit = yield* Effect.promise(() =>
        new Promise<string>((resolve) =>
          search.addObserver((it) => resolve(it._tag === "Success" ? it.value._tag : it._tag))
        )
      )
      assert.strictEqual(exit, "Failure")
    }))
})

layer(Postgres.layer)("searching a journal in PostgreSQL", (it) => {
  holds(Postgres.client, (name, check) => it.effect(name, () => check))
})
