// A journal of four million entries: how long pages of it take, what appends and pruning
// cost beside it, and whether searches hold up a program that writes to SQLite.
//
//     node --import ./scripts/source-resolver.ts scripts/journal.ts                  all three
//     node --import ./scripts/source-resolver.ts scripts/journal.ts --store sqlite   one of them
//     … --entries 400000                                                             a smaller one
import type { Journal } from "effect-tool-executor"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as JournalContract from "../src/testing/JournalContract.ts"
import * as JournalFile from "../src/tools/folders/JournalFile.ts"
import * as Postgres from "../test/support/Postgres.ts"
import { flags } from "./flags.ts"

const { entries, store } = flags({ entries: 4_000_000, store: "" })

const table = "tool_executor_journal_entries"

/** Entries as they are written, with names in them that many or few share. */
const template = JSON.stringify(
  JournalContract.entry("Settled", { key: "@key", callId: "@call", tool: "@tool", batch: "@batch", principal: "@who" })
)

/** Fills the table in the database itself, without its indexes, which come back at the end. */
const fill = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const isPg = sql.onDialectOrElse({ pg: () => true, orElse: () => false })
  const indexes = yield* isPg
    ? sql<{ name: string; text: string }>`
      SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE indexname LIKE 'tool_executor_journal_by_%'`
    : sql<{ name: string; text: string }>`
      SELECT name, sql AS text FROM sqlite_master WHERE type = 'index' AND name LIKE 'tool_executor_journal_by_%'`
  for (const { name } of indexes) yield* sql`DROP INDEX ${sql(name)}`
  const numbers = isPg
    ? `SELECT generate_series(1, ${entries}) AS n`
    : `WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${entries}) SELECT n FROM counted`
  const named = {
    who: "'user' || (n % 50) || '/s' || (n % 500)",
    call: "'call' || (n / 8)",
    batch: "'batch' || (n / 400)"
  }
  const parts = { ...named, tool: "'tool' || (n % 20)", key: "'key' || (n / 8)" }
  const entry = Object.entries(parts).reduce(
    (text, [name, part]) => `replace(${text}, '@${name}', ${part})`,
    `'${template}'`
  )
  yield* sql.unsafe(`INSERT INTO ${table}
    (place, term, tag, call_key, at, reached_at, principal, owner, batch, tool, call_id, entry)
    SELECT n, 1, 'Settled', ${parts.key}, 1000 + n, 1000 + n, ${parts.who}, 'user' || (n % 50), ${parts.batch},
      ${parts.tool}, ${parts.call}, ${entry} FROM (${numbers}) AS numbers`)
  yield* sql`UPDATE tool_executor_journal SET last_place = ${entries}, latest_at = ${1_000 + entries}`
  for (const { text } of indexes) yield* sql.unsafe(text)
  if (isPg) yield* sql.unsafe(`VACUUM ANALYZE ${table}`)
})

const millis = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const start = performance.now()
    return Effect.map(effect, () => performance.now() - start)
  })

const line = (what: string, value: string) => console.log(`  ${what.padEnd(66)}${value.padStart(12)}`)

/** The middle and the worst of some tries, in the thread of the program. */
const timed = Effect.fnUntraced(function*<E, R>(what: string, effect: Effect.Effect<unknown, E, R>) {
  const all: Array<number> = []
  for (let n = 0; n < 9; n++) all.push(yield* millis(effect))
  const sorted = all.toSorted((a, b) => a - b)
  line(what, `${sorted[4]!.toFixed(1)} ms`)
  return sorted[4]!
})

const bounds = { entries: 100, chars: 1_000_000 }

const queries: Readonly<Record<string, Journal.Query>> = {
  "the newest": {},
  "a tool that nobody has": { tool: "nothing" },
  "a tool of many": { tool: "tool7" },
  "a call": { callId: "call4711" },
  "a batch": { batch: "batch42" },
  "a session": { principal: "user7/s57" },
  "a user": { owners: ["user7"] },
  "a user, and a tool that the user does not have": { owners: ["user7"], tool: "tool8" },
  "three users, a text that nowhere is": { owners: ["user1", "user2", "user3"], text: "nowhere" },
  "the latest, a text that nowhere is": { text: "nowhere" },
  "since lately": { since: 1_000 + entries - 500 },
  "since the future": { since: 2_000 + entries }
}

const measure = Effect.scoped(Effect.gen(function*() {
  const journal = yield* SqlJournal.make()
  line(`${entries.toLocaleString("en")} entries made`, `${((yield* millis(fill)) / 1_000).toFixed(0)} s`)
  for (const [what, query] of Object.entries(queries)) {
    yield* timed(`page: ${what}`, journal.page({ ...query, order: "newest" }, bounds))
  }
  yield* timed("page: oldest first, behind the middle", journal.page({ after: entries / 2 }, bounds))
  yield* timed(
    "the state of 20 calls is found (resuming)",
    journal.claim(Array.from({ length: 20 }, (_, n) => `key${n * 99}`), "p")
  )

  const some = (count: number, from: number) =>
    Array.from({ length: count }, (_, n) => ({
      entry: JournalContract.entry("Settled", { key: `new${from + n}`, callId: `new${n}`, principal: "user1/s1" })
    }))
  // ten callers, each with a wave of ten calls at a time
  const appends = Effect.forEach(
    Array.from({ length: 10 }, (_, n) => n),
    (lane) =>
      Effect.forEach(
        Array.from({ length: 100 }, (_, n) => n),
        (n) => journal.append(some(10, lane * 1_000 + n * 10), { durable: true })
      ),
    { concurrency: 10 }
  )
  line("appended durably by ten callers, ten at a time", `${(10_000_000 / (yield* millis(appends))).toFixed(0)}/s`)

  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const searches = Effect.forEach(
    Array.from({ length: 6 }, (_, n) => n),
    () => journal.page({ text: "nowhere", order: "newest" }, { entries: 1_000, chars: 5_000_000 }),
    { concurrency: "unbounded" }
  )
  line("six searches at once", `${(yield* millis(searches)).toFixed(0)} ms`)
  line("the program stood still meanwhile for at most", `${(delay.max / 1e6).toFixed(0)} ms`)
  delay.reset()
  const pruned = yield* millis(SqlJournal.prune(1_000 + Math.min(entries, 200_000)))
  line(`pruned the oldest ${Math.min(entries, 200_000).toLocaleString("en")}`, `${(pruned / 1_000).toFixed(1)} s`)
  line("the program stood still meanwhile for at most", `${(delay.max / 1e6).toFixed(0)} ms`)
}))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-journal-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

const sqlite = Effect.flatMap(
  folder,
  (it) => Effect.provide(measure, Sqlite.layer({ filename: join(it, "journal.db") }), { local: true })
)

/** A journal in files, of an entry for every four in a database, each with a kilobyte. */
const files = Effect.flatMap(folder, (directory) =>
  Effect.gen(function*() {
    const path = join(directory, "in", "journal.ndjson")
    const count = entries / 4
    const made = Effect.scoped(Effect.gen(function*() {
      const journal = yield* JournalFile.make({ path })
      const args = { _tag: "Full" as const, value: "x".repeat(700) }
      for (let at = 0; at < count; at += 1_000) {
        yield* journal.append(
          Array.from({ length: 1_000 }, (_, n) => {
            const key = `key${Math.floor((at + n) / 2)}`
            const isEnd = (at + n) % 2 === 1 && (at + n) % 50_000 !== 1
            return {
              entry: isEnd ? JournalContract.entry("Settled", { key }) : JournalContract.entry("Arrived", { key, args })
            }
          }),
          { durable: true }
        )
      }
    }))
    line(`${count.toLocaleString("en")} entries written`, `${((yield* millis(made)) / 1_000).toFixed(0)} s`)
    const sizes = readdirSync(join(directory, "in")).map((it) =>
      [it, statSync(join(directory, "in", it)).size] as const
    )
    const sum = (isIndex: boolean) =>
      sizes.reduce((sum, [name, size]) => name.endsWith(".index") === isIndex ? sum + size : sum, 0)
    line("bytes of them, and of their indexes", `${(sum(false) / 1e6).toFixed(0)} + ${(sum(true) / 1e6).toFixed(0)} MB`)
    yield* Effect.scoped(Effect.gen(function*() {
      const journal = yield* JournalFile.make({ path })
      const keys = Array.from({ length: 20 }, (_, n) => `key${n * 24_999}`)
      const open = Stream.runCollect(journal.read({ isOpen: true, batch: "b" }))
      line("open calls of the batch are found, before anything is written", `${(yield* millis(open)).toFixed(0)} ms`)
      line("twenty calls are taken over", `${(yield* millis(journal.claim(keys, "p"))).toFixed(0)} ms`)
      line(
        "what is on record of them is read",
        `${(yield* millis(Stream.runCollect(journal.read({ keys })))).toFixed(0)} ms`
      )
      yield* timed("page: the newest", journal.page({ order: "newest" }, bounds))
      yield* timed("page: a tool that nobody has", journal.page({ order: "newest", tool: "nothing" }, bounds))
      const some = [{ entry: JournalContract.entry("Arrived", { key: "new" }) }]
      yield* timed("an entry is written durably", journal.append(some, { durable: true }))
    }))
  }))

const databases: Readonly<Record<string, Effect.Effect<void, unknown>>> = {
  file: Effect.scoped(files),
  sqlite: Effect.scoped(sqlite),
  postgres: Effect.scoped(Effect.provide(measure, Layer.provide(Postgres.client, Postgres.layer)))
}

for (const [name, run] of Object.entries(databases)) {
  if (store !== "" && store !== name) continue
  console.log(name)
  await Effect.runPromise(run)
}
