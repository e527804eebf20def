// What records cost: beside the same calls without a journal, or with everything in memory.
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

const { open, ours, plenty } = Subject

export const recorded = Effect.gen(function*() {
  const plain = yield* open(plenty)
  const journal = yield* open(plenty, undefined, Journal.layerMemory())
  const [value, beside] = yield* Effect.promise(() =>
    compare([ours(journal, "read", 1_000), ours(plain, "read", 1_000)])
  )
  return [
    {
      what: "1,000 reads with the journal in memory",
      value,
      beside,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.3, aim: 1.15 }
    }
  ] satisfies ReadonlyArray<Line>
})

const records = Layer.mergeAll(SqlStateStore.layer(), SqlJournal.layer())

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-bench-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

/** Calls that may change things: each is on record before it starts, and when it has ended. */
export const durable = Effect.gen(function*() {
  const sqlite = Sqlite.layer({ filename: join(yield* folder, "records.db") })
  const plain = yield* open(plenty)
  const inSqlite = yield* open(plenty, undefined, Layer.provide(records, sqlite))
  const inPostgres = yield* open(
    plenty,
    undefined,
    Layer.provide(records, Layer.succeedContext(yield* Layer.build(Postgres.client)))
  )
  const [value, far, beside] = yield* Effect.promise(() =>
    compare([inSqlite, inPostgres, plain].map((it) => ours(it, "write", 1_000)))
  )
  return [
    {
      what: "1,000 writes, counts and journal in SQLite",
      value: value!,
      beside: beside!,
      unit: "µs/call",
      bar: { of: "value", limit: 80, aim: 60 }
    },
    {
      what: "the same in PostgreSQL, all 1,000",
      value: far!,
      beside: beside!,
      unit: "ms/wave",
      bar: { of: "value", limit: 400, aim: 200 }
    }
  ] satisfies ReadonlyArray<Line>
}).pipe(Effect.provide(Postgres.layer))
