// What records cost: next to the same calls without a journal, or with everything in memory.
import { Effect, Layer } from "effect"
import { Journal } from "effect-tool-executor"
import { SqlJournal, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Postgres from "../../test/support/Postgres.ts"
import { compare } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const { executor, open, ours, plenty, requests } = Subject

export const recorded = Effect.gen(function*() {
  const plain = yield* open(plenty)
  const journal = yield* open(plenty, undefined, Journal.layerMemory())
  const [value, peer] = yield* Effect.promise(() => compare([ours(journal, "read", 1_000), ours(plain, "read", 1_000)]))
  return [
    {
      what: "1,000 reads with the journal in memory",
      value,
      peer,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.3 }
    }
  ] satisfies ReadonlyArray<Line>
})

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-bench-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

/** Calls that may change things: each is on record before it starts, and when it has ended. */
export const durable = Effect.gen(function*() {
  const directory = yield* folder
  const [journal, store] = [SqlJournal.layer(), SqlStateStore.layer()]
  const sqlite = (name: string) => Layer.provide(Sqlite.layer({ filename: join(directory, name) }))
  const postgres = Layer.succeedContext(yield* Layer.build(Postgres.client))
  const executors = [
    yield* executor(plenty),
    yield* executor(plenty, undefined, sqlite("journal.db")(journal)),
    yield* executor(plenty, undefined, sqlite("store.db")(store)),
    yield* executor(plenty, undefined, sqlite("both.db")(Layer.mergeAll(journal, store))),
    yield* executor(plenty, undefined, Layer.provide(Layer.mergeAll(journal, store), postgres))
  ]
  const [peer, ...values] = yield* Effect.promise(() => compare(executors.map((it) => requests(it, "write", 1_000))))
  const line = (what: string, at: number) => ({ what, value: values[at]!, peer: peer!, unit: "µs/call" })
  return [
    { ...line("1,000 writes, the journal in SQLite", 0), bar: { of: "value", limit: 80 } },
    { ...line("the same, counts in SQLite", 1), bar: { of: "value", limit: 80 } },
    { ...line("the same, both in SQLite", 2), bar: { of: "value", limit: 80 } },
    // as milliseconds for all of them
    { ...line("the same, both in PostgreSQL", 3), bar: { of: "value", limit: 400 } }
  ] satisfies ReadonlyArray<Line>
}).pipe(Effect.provide(Postgres.layer))
