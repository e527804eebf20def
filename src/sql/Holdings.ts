/**
 * What principals keep in a database, each within a share and all within a total: the tables that artifacts and
 * checkpoints have alike.
 *
 * An entry has contents, which are stored in parts: a part of a large one is read without the rest. Whoever adds or
 * removes takes the row of the total first, so that of several processes one decides after the other and what it
 * decides by still holds when it is written. The total is read from that row: entries are never added up.
 *
 * Principals are kept as hashes: they may be any text, and a database has no place for some. Numbers are doubles, as in
 * JavaScript.
 */
import * as Effect from "effect/Effect"
import type { MigrationError } from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { keyOf } from "../internal/textBytes.ts"
import * as Migrations from "./Migrations.ts"
import { own, transaction } from "./OwnConnection.ts"

/** What is kept, without its contents. */
export interface Entry {
  readonly id: string
  /** Epoch milliseconds. */
  readonly at: number
  /** What it takes of its principal's share, and of the total. */
  readonly size: number
  /** What else is to be known of it. */
  readonly about: string
}

/** One of an entry's contents, or a piece of it, in bytes. */
export interface Piece {
  readonly item: number
  readonly from: number
  readonly to: number
}

/** What a principal keeps, oldest first, and the size of what all others keep. */
export interface There {
  readonly own: ReadonlyArray<Pick<Entry, "id" | "size">>
  readonly others: number
}

/** The tables of a component. */
export interface Holdings {
  /**
   * Adds what `decide` gives for the existing entries, after pruning some, and removes what has to give way to it: all
   * or nothing. `prepare` runs before others have to wait, where the database has several writers.
   */
  readonly add: <E>(
    principal: string,
    now: number,
    decide: (there: There) => Effect.Effect<{ readonly entry: Entry; readonly gone: There["own"] }, E | SqlError>,
    prepare?: Effect.Effect<void, SqlError>
  ) => Effect.Effect<Entry, E | SqlError>
  /** Writes one of the contents of an entry that is about to be added. */
  readonly write: (id: string, item: number, bytes: Uint8Array) => Effect.Effect<void, SqlError>
  /** An entry with a piece of its contents; those that are missing are not in `bytes`. */
  readonly read: (
    principal: string,
    id: string,
    piece: Piece
  ) => Effect.Effect<Entry & { readonly bytes: Uint8Array } | undefined, SqlError>
  /** The entries of a principal, in no order. */
  readonly list: (principal: string) => Effect.Effect<ReadonlyArray<Entry>, SqlError>
  /** Removes an entry of a principal, if it is there. */
  readonly remove: (principal: string, id: string) => Effect.Effect<void, SqlError>
  /** Removes all that is past its time; gives the number. */
  readonly prune: (now: number) => Effect.Effect<number, SqlError>
}

/** Opens the tables of a component, and makes them first where they are not there. */
export const make = Effect.fnUntraced(function*(
  component: "artifacts" | "checkpoints",
  timeToLiveMillis: number
): Effect.fn.Return<Holdings, ConfigurationError | MigrationError | SqlError, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  if (!isSupported(sql)) {
    return yield* new ConfigurationError({
      subject: `sql/${component}`,
      problems: [{
        path: "SqlClient",
        problem: "it is for a database that nothing here was tried with",
        expected: "a client of PostgreSQL or SQLite"
      }]
    })
  }
  const names = namesOf(component)
  yield* Migrations.run(sql, {
    table: names.migrations,
    tables: [names.entries, names.parts, names.total],
    migrations: migrationsOf(names)
  })
  const entries = sql(names.entries)
  const parts = sql(names.parts)
  const total = sql(names.total)
  const forUpdate = sql.onDialectOrElse({ pg: () => sql`FOR UPDATE`, orElse: () => sql`` })

  /** One after the other; gives the total at that time. */
  const alone = <A, E>(
    use: (total: number) => Effect.Effect<A, E | SqlError>,
    prepare: Effect.Effect<void, SqlError> = Effect.void
  ): Effect.Effect<A, E | SqlError> =>
    Effect.gen(function*() {
      yield* prepare
      const [row] = yield* sql<{ readonly size: number }>`SELECT size FROM ${total} ${forUpdate}`.withoutTransform
      return yield* use(row?.size ?? 0)
    }).pipe(transaction(sql))
  const setTotal = (size: number) => sql`UPDATE ${total} SET size = ${size}`
  const drop = Effect.fnUntraced(function*(gone: There["own"]) {
    for (let from = 0; from < gone.length; from += statementIds) {
      const ids = gone.slice(from, from + statementIds).map(({ id }) => id)
      yield* sql`DELETE FROM ${parts} WHERE ${sql.in("entry", ids)}`
      yield* sql`DELETE FROM ${entries} WHERE ${sql.in("id", ids)}`
    }
  })
  const isPast = (now: number) => sql`at <= ${now - timeToLiveMillis} OR at >= ${now + timeToLiveMillis}`
  /** Whether there is anything to prune: found at the ends of an index, without a lock. */
  const hasPast = Effect.fnUntraced(function*(now: number) {
    const [row] = yield* sql<{ readonly oldest: number | null; readonly newest: number | null }>`
      SELECT (SELECT MIN(at) FROM ${entries}) AS oldest, (SELECT MAX(at) FROM ${entries}) AS newest`.withoutTransform
    const { newest, oldest } = row ?? {}
    return typeof oldest === "number" && typeof newest === "number" &&
      (oldest <= now - timeToLiveMillis || newest >= now + timeToLiveMillis)
  })
  const dropPast = (now: number) =>
    alone(Effect.fnUntraced(function*(before) {
      const past = yield* sql<{ readonly id: string; readonly size: number }>`
        SELECT id, size FROM ${entries} WHERE ${isPast(now)} LIMIT ${pruned}`.withoutTransform
      yield* drop(past)
      yield* setTotal(before - sum(past))
      return past.length
    }))
  const prune = Effect.fnUntraced(function*(now: number, steps: number) {
    let count = 0
    // a few at a time: other writers get their turn
    for (let step = 0; step < steps && (yield* own(sql)(hasPast(now))); step++) {
      count += yield* dropPast(now)
      yield* Effect.yieldNow
    }
    return count
  })

  return {
    add: (principal, now, decide, prepare) =>
      Effect.andThen(
        prune(now, stepsOfOne),
        alone(
          Effect.fnUntraced(function*(before) {
            const key = keyOf(principal)
            const found = yield* sql<{ readonly id: string; readonly size: number }>`
            SELECT id, size FROM ${entries} WHERE principal = ${key}`.withoutTransform
            const oldestFirst = found.toSorted((a, b) => a.id < b.id ? -1 : 1)
            const { entry, gone } = yield* decide({ own: oldestFirst, others: before - sum(found) })
            const { about, at, id, size } = entry
            yield* drop(gone)
            yield* sql`INSERT INTO ${entries} (id, principal, at, size, about) VALUES (${id}, ${key}, ${at}, ${size}, ${about})`
            yield* setTotal(before - sum(gone) + size)
            return entry
          }),
          prepare
        )
      ),
    write: Effect.fnUntraced(function*(id, item, bytes) {
      for (let from = 0; from < bytes.length; from += partBytes) {
        const part = bytes.subarray(from, from + partBytes)
        yield* sql`INSERT INTO ${parts} (entry, item, part, bytes) VALUES (${id}, ${item}, ${
          from / partBytes
        }, ${part})`
      }
    }),
    read: (principal, id, { from, item, to }) => {
      const first = Math.floor(from / partBytes)
      const last = Math.ceil(to / partBytes)
      // one statement: a concurrent removal takes all of it or nothing
      const found = sql<Entry & { readonly part: number | null; readonly bytes: Uint8Array | null }>`
        SELECT e.id, e.at, e.size, e.about, p.part, p.bytes FROM ${entries} e
        LEFT JOIN ${parts} p ON p.entry = e.id AND p.item = ${item} AND p.part >= ${first} AND p.part < ${last}
        WHERE e.id = ${id} AND e.principal = ${keyOf(principal)} ORDER BY p.part`.withoutTransform
      return Effect.map(own(sql)(found), (rows) => {
        const [entry] = rows
        if (entry === undefined) return undefined
        const pieces = rows.flatMap(({ bytes }) => bytes === null ? [] : [bytes])
        const whole = new Uint8Array(pieces.reduce((length, it) => length + it.length, 0))
        let at = 0
        for (const piece of pieces) {
          whole.set(piece, at)
          at += piece.length
        }
        return { ...entry, bytes: whole.subarray(from - first * partBytes, to - first * partBytes) }
      })
    },
    list: (principal) =>
      own(sql)(
        sql<Entry>`SELECT id, at, size, about FROM ${entries} WHERE principal = ${keyOf(principal)}`.withoutTransform
      ),
    remove: (principal, id) =>
      alone(Effect.fnUntraced(function*(before) {
        const found = yield* sql<{ readonly id: string; readonly size: number }>`
          SELECT id, size FROM ${entries} WHERE id = ${id} AND principal = ${keyOf(principal)}`.withoutTransform
        yield* drop(found)
        yield* setTotal(before - sum(found))
      })),
    prune: (now) => prune(now, Infinity)
  }
})

/** Bytes of a part: little enough to be read for a page of it, large enough that few are. */
const partBytes = 262_144

/** Ids that one statement names. */
const statementIds = 500

/** Entries that are pruned in one transaction. */
const pruned = 1_000

/** Steps of pruning that one write waits for; the rest is left to later writes. */
const stepsOfOne = 2

const sum = (all: ReadonlyArray<{ readonly size: number }>): number => all.reduce((size, it) => size + it.size, 0)

const isSupported = (sql: SqlClient.SqlClient): boolean =>
  sql.onDialectOrElse({ pg: () => true, sqlite: () => true, orElse: () => false })

const namesOf = (component: string) => ({
  entries: `tool_executor_${component}`,
  parts: `tool_executor_${component}_parts`,
  total: `tool_executor_${component}_total`,
  migrations: `tool_executor_${component}_migrations`
})

const migrationsOf = (names: ReturnType<typeof namesOf>) => ({
  "0001_entries_and_their_parts": Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const bytes = sql.onDialectOrElse({ pg: () => sql`BYTEA`, orElse: () => sql`BLOB` })
    yield* sql`CREATE TABLE ${sql(names.entries)} (
      id TEXT PRIMARY KEY,
      principal TEXT NOT NULL,
      at DOUBLE PRECISION NOT NULL,
      size DOUBLE PRECISION NOT NULL,
      about TEXT NOT NULL
    )`
    yield* sql`CREATE INDEX ${sql(`${names.entries}_by_principal`)} ON ${sql(names.entries)} (principal)`
    yield* sql`CREATE INDEX ${sql(`${names.entries}_by_time`)} ON ${sql(names.entries)} (at)`
    yield* sql`CREATE TABLE ${sql(names.parts)} (
      entry TEXT NOT NULL,
      item INTEGER NOT NULL,
      part INTEGER NOT NULL,
      bytes ${bytes} NOT NULL,
      PRIMARY KEY (entry, item, part)
    )`
    yield* sql`CREATE TABLE ${sql(names.total)} (size DOUBLE PRECISION NOT NULL)`
    yield* sql`INSERT INTO ${sql(names.total)} (size) VALUES (0)`
  })
})
