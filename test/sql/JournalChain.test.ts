/**
 * The hash chain of a journal in a database: no row of it changes unseen.
 *
 * @module-tag J12
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type * as Journal from "../../src/core/store/Journal.ts"
import type { Checkpoint } from "../../src/core/store/JournalChain.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds } from "../support/seeds.ts"

const { entry } = JournalContract

/** Entries of a journal that is changed at random. */
const count = 1_000

type Service = Journal.Journal["Service"]

const append = (journal: Service, ...entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

const arrived = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => entry("Arrived", { key: String(from + index) }))

const problems = (checkpoint?: Checkpoint) =>
  Effect.map(SqlJournal.verify(checkpoint), ({ findings }) => findings.map(({ problem }) => problem))

const file = Layer.unwrap(Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => Sqlite.layer({ filename: join(folder, "journal.db") })
))

/** What holds in every database. */
const holds = <Needs>(
  client: Layer.Layer<SqlClient.SqlClient, unknown, Needs>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs>) => void
) => {
  const test = (name: string, body: Effect.Effect<void, unknown, SqlClient.SqlClient | Scope.Scope>) =>
    check(name, Effect.scoped(body).pipe(Effect.provide(client, { local: true })))

  test(
    "reveals every flipped bit, every removed row and every pair of rows that changed places",
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      for (let from = 0; from < count; from += 50) yield* append(journal, ...arrived(50, from))
      const whole = yield* SqlJournal.verify()
      assert.deepStrictEqual([whole.entries, whole.findings], [count, []])
      /** Whether a change is seen; it is undone. */
      const isSeen = Effect.fnUntraced(function*(change: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) {
        yield* change
        const found = yield* problems()
        return found.length > 0
      })
      const put = (place: number, text: string) =>
        sql`UPDATE tool_executor_journal_entries SET entry = ${text} WHERE place = ${place}`
      for (const seed of seeds(20)) {
        const random = randomFrom(seed)
        const one = 1 + random.int(count)
        const other = 1 + (one + random.int(count - 1)) % count
        const [row] = yield* sql<{ readonly entry: string }>`
          SELECT entry FROM tool_executor_journal_entries WHERE place = ${one}
        `
        const text = row!.entry
        const at = random.int(text.length)
        const flipped = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1 << random.int(4)) +
          text.slice(at + 1)
        assert.isTrue(yield* isSeen(put(one, flipped)), `a bit of row ${one}`)
        yield* put(one, text)
        const move = (from: number, to: number) =>
          sql`UPDATE tool_executor_journal_entries SET place = ${to} WHERE place = ${from}`
        const swap = Effect.andThen(move(one, 0), Effect.andThen(move(other, one), move(0, other)))
        assert.isTrue(yield* isSeen(swap), `rows ${one} and ${other}`)
        yield* swap
        assert.isTrue(yield* isSeen(move(one, 20_000 + one)), `row ${one} at the end`)
        yield* move(20_000 + one, one)
        const column = random.pick(["tag", "principal", "owner", "call_id", "tool", "batch", "call_key"])
        const before = yield* sql<{ readonly value: string }>`
          SELECT ${sql(column)} AS value FROM tool_executor_journal_entries WHERE place = ${one}
        `
        const set = (value: string) =>
          sql`UPDATE tool_executor_journal_entries SET ${sql(column)} = ${value} WHERE place = ${one}`
        assert.isTrue(yield* isSeen(set("x")), `${column} of row ${one}`)
        yield* set(before[0]!.value)
      }
      assert.deepStrictEqual(yield* problems(), [])
      for (const place of [count, count / 2, 1]) {
        const before = (yield* problems()).length
        yield* sql`DELETE FROM tool_executor_journal_entries WHERE place = ${place}`
        assert.isAbove((yield* problems()).length, before, `row ${place}`)
      }
    })
  )

  test(
    "reveals the last append that is removed together with its link",
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      yield* append(journal, ...arrived(3))
      yield* append(journal, ...arrived(2, 3))
      yield* sql`DELETE FROM tool_executor_journal_entries WHERE place > 3`
      yield* sql`DELETE FROM tool_executor_journal_links WHERE last_place > 3`
      assert.deepStrictEqual(yield* problems(), ["the last entries, from 4 on, are missing"])
    })
  )

  test(
    "covers claims, and what two processes append at once",
    Effect.gen(function*() {
      const [one, two] = [yield* SqlJournal.make(), yield* SqlJournal.make()]
      yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) => append(index % 2 === 0 ? one : two, ...arrived(1 + index % 3, 10 * index)),
        { concurrency: "unbounded" }
      )
      yield* one.claim(["claimed"], "p")
      const { entries, findings } = yield* SqlJournal.verify()
      assert.deepStrictEqual(findings, [])
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`SELECT 1 FROM tool_executor_journal_entries`
      assert.strictEqual(entries, rows.length)
      yield* sql`DELETE FROM tool_executor_journal_entries WHERE tag = 'Claimed'`
      assert.lengthOf(yield* problems(), 1)
    })
  )

  test(
    "does not take a prune for a change, and any other removal for one",
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      const call = (key: string, at: number) => [entry("Arrived", { key, at }), entry("Settled", { key, at })]
      for (let n = 0; n < 30; n++) yield* append(journal, ...call(`old ${n}`, 1_000 + n))
      yield* append(journal, entry("Arrived", { key: "open", at: 1_100 }), ...call("old", 1_101))
      for (let n = 0; n < 30; n++) yield* append(journal, ...call(`new ${n}`, 5_000 + n))
      const early = yield* SqlJournal.verify()
      assert.strictEqual(yield* SqlJournal.prune(2_000), 62)
      const pruned = yield* SqlJournal.verify()
      assert.deepStrictEqual([pruned.entries, pruned.pruned, pruned.findings], [61, 2, []])
      const [links] = yield* sql<{ readonly count: unknown }>`
        SELECT count(*) AS count FROM tool_executor_journal_links WHERE last_place <= 60
      `
      assert.strictEqual(Number(links!.count), 0, "links before the first row that is left")
      // again, and what was open has ended
      yield* append(journal, entry("Settled", { key: "open", at: 1_102 }))
      assert.strictEqual(yield* SqlJournal.prune(2_000), 2)
      assert.strictEqual(yield* SqlJournal.prune(1_500), 0)
      assert.deepStrictEqual((yield* SqlJournal.verify()).findings, [])
      const checkpoint: Checkpoint = { v: 1, journal: early.journal, ...early.head!, at: 0 }
      assert.deepStrictEqual(yield* problems(checkpoint), [])
      yield* append(journal, ...call("last", 9_000))
      assert.deepStrictEqual(yield* problems(checkpoint), [])
      // as a prune does it, though it is younger
      const [row] = yield* sql<{ readonly place: unknown }>`
        SELECT max(place) AS place FROM tool_executor_journal_entries
      `
      yield* sql`DELETE FROM tool_executor_journal_entries WHERE place = ${Number(row!.place)}`
      assert.lengthOf(yield* problems(), 1)
    })
  )

  test(
    "reveals an entry that was removed behind the forged record of a prune",
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      yield* append(journal, entry("Arrived", { key: "open", at: 1_000 }))
      for (let n = 0; n < 4; n++) yield* append(journal, entry("Settled", { key: String(n), at: 1_000 + n }))
      const rows = yield* sql<Record<string, unknown>>`
        SELECT * FROM tool_executor_journal_entries WHERE place IN (2, 3)
      `
      assert.strictEqual(yield* SqlJournal.prune(1_003), 3)
      assert.deepStrictEqual(yield* problems(), [])
      // as if only entry 4 had been removed
      for (const row of rows) yield* sql`INSERT INTO tool_executor_journal_entries ${sql.insert(row)}`
      yield* sql`DELETE FROM tool_executor_journal_pruned WHERE place IN (2, 3)`
      assert.deepStrictEqual(yield* problems(), [
        "entry 4 is gone, and entry 2, which a prune removes before it, is not: no prune removed it"
      ])
    })
  )

  test(
    "matches a checkpoint after a prune, and is not compared with one behind it",
    Effect.gen(function*() {
      const journal = yield* SqlJournal.make()
      const call = (key: string, at: number) => [entry("Arrived", { key, at }), entry("Settled", { key, at })]
      const checkpointOf = Effect.map(
        SqlJournal.verify(),
        ({ head, journal }): Checkpoint => ({ v: 1, journal, ...head!, at: 0 })
      )
      const compare = (checkpoint: Checkpoint) =>
        Effect.map(SqlJournal.verify(checkpoint), ({ compared, findings }) => [compared, findings.length])
      for (let n = 0; n < 4; n++) yield* append(journal, ...call(`old ${n}`, 1_000 + n))
      const early = yield* checkpointOf
      yield* SqlJournal.prune(1)
      const unchanged = yield* checkpointOf
      yield* append(journal, ...call("new", 5_000))
      assert.deepStrictEqual(yield* compare(unchanged), ["matches", 0])
      assert.deepStrictEqual(yield* compare(early), ["matches", 0])
      yield* SqlJournal.prune(9_000)
      for (const chain of [early.chain, "x"]) {
        assert.deepStrictEqual(yield* compare({ ...early, chain }), ["not compared", 0])
      }
      const empty = yield* checkpointOf
      assert.deepStrictEqual(yield* compare(empty), ["not compared", 0])
      yield* append(journal, ...call("last", 9_500))
      yield* SqlJournal.prune(9_000)
      assert.deepStrictEqual(yield* compare(empty), ["matches", 0])
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE tool_executor_journal_entries SET place = 0 WHERE call_key = 'last' AND tag = 'Arrived'`
      assert.include(yield* problems(), "entry 0 was not written by the journal")
    })
  )

  test(
    "does not match a checkpoint once all of it was written again",
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* SqlJournal.make()
      yield* append(journal, ...arrived(5))
      const { head, journal: id } = yield* SqlJournal.verify()
      const checkpoint: Checkpoint = { v: 1, journal: id, ...head!, at: 0 }
      yield* append(journal, ...arrived(5, 5))
      assert.deepStrictEqual(yield* problems(checkpoint), [])
      for (const table of ["entries", "links"]) yield* sql`DELETE FROM ${sql(`tool_executor_journal_${table}`)}`
      yield* sql`UPDATE tool_executor_journal_chain SET head = ''`
      yield* append(journal, ...arrived(5, 100))
      assert.deepStrictEqual(yield* problems(), [])
      assert.lengthOf(yield* problems(checkpoint), 1)
    })
  )
}

describe("the hash chain of a journal in SQLite", () => {
  holds(file, (name, check) => it.live(name, () => check, 120_000))
})

layer(Postgres.layer)("the hash chain of a journal in PostgreSQL", (it) => {
  holds(Postgres.client, (name, check) => it.effect(name, () => check, 120_000))
})
