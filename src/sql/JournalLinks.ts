/**
 * The hash chain of the journal in SQL: each append has a link, with a hash over its rows and the link before it.
 *
 * The hash of a row remains when `prune` removes the row, until everything before it is removed, too. Each `prune` has a
 * link that says up to when it removed rows: a younger row that is missing was removed by somebody else.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { createHash } from "node:crypto"

type Sql = SqlClient.SqlClient

const isPg = (sql: Sql): boolean => sql.onDialectOrElse({ pg: () => true, orElse: () => false })

/** Makes the tables. What the journal has already is not chained. */
export const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [id, number] = isPg(sql)
    ? ["BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "DOUBLE PRECISION"]
    : ["INTEGER PRIMARY KEY AUTOINCREMENT", "REAL"]
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal_chain (
    id INTEGER PRIMARY KEY,
    head TEXT NOT NULL,
    base_place BIGINT NOT NULL,
    base_head TEXT NOT NULL
  )`)
  yield* sql.unsafe(`INSERT INTO tool_executor_journal_chain (id, head, base_place, base_head)
    SELECT 1, '', coalesce(max(place), 0), '' FROM tool_executor_journal_entries`)
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal_links (
    number ${id},
    first_place BIGINT,
    last_place BIGINT,
    pruned_before ${number},
    base_place BIGINT,
    base_head TEXT,
    chain TEXT NOT NULL
  )`)
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal_pruned (
    place BIGINT PRIMARY KEY,
    at ${number} NOT NULL,
    hash TEXT NOT NULL
  )`)
})

export const tables = ["tool_executor_journal_chain", "tool_executor_journal_links", "tool_executor_journal_pruned"]

/** What the hash of a row covers: all of it. */
const covered = [
  "term",
  "tag",
  "call_key",
  "at",
  "reached_at",
  "principal",
  "owner",
  "batch",
  "tool",
  "call_id",
  "entry"
]

const pgHash = (text: string): string => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`

/** The hash of a row in PostgreSQL. */
export const pgRowHash = pgHash(`json_build_array(${covered.join(", ")})::text`)

/** The hash of a row with its place and time, which remain when it is removed. */
const pgPlaced = (hash: string): string => pgHash(`place || ' ' || at || ' ' || ${hash}`)

/** Parts of a statement that link what it has `written`, which gives `place`, `at` and `hash` of each row. */
export const pgLinked = `chained AS (
    UPDATE tool_executor_journal_chain AS chain SET head = ${pgHash("chain.head || E'\\n' || batch.hashes")}
    FROM (
      SELECT min(place) AS first, max(place) AS last, string_agg(${pgPlaced("hash")}, '' ORDER BY place) AS hashes
      FROM written HAVING count(*) > 0
    ) AS batch
    WHERE chain.id = 1 RETURNING chain.head, batch.first, batch.last
  ), linked AS (
    INSERT INTO tool_executor_journal_links (first_place, last_place, chain) SELECT first, last, head FROM chained
  )`

/** The columns of a row that its hash covers, and its place. */
export type Covered = Readonly<Record<string, unknown>> & { readonly place: unknown; readonly at: unknown }

/** What a statement of SQLite returns of rows, to have them linked or remembered. */
export const returned = ["place", ...covered].join(", ")

/** Links rows that were written in a transaction of SQLite. */
export const link = Effect.fnUntraced(function*(
  sql: Sql,
  rows: ReadonlyArray<Covered>
): Effect.fn.Return<void, SqlError> {
  if (rows.length === 0) return
  const inOrder = rows.toSorted((one, other) => Number(one.place) - Number(other.place))
  const { head } = yield* state(sql)
  const chain = chained(head, inOrder.map((it) => placed(it.place, it.at, rowHash(it))).join(""))
  const [first, last] = [inOrder[0]!.place, inOrder.at(-1)!.place]
  yield* sql`UPDATE tool_executor_journal_chain SET head = ${chain} WHERE id = 1`
  yield* sql.unsafe("INSERT INTO tool_executor_journal_links (first_place, last_place, chain) VALUES (?1, ?2, ?3)", [
    first,
    last,
    chain
  ])
})

/** Remembers the hashes of rows that were removed in a transaction of SQLite. */
export const remember = (sql: Sql, rows: ReadonlyArray<Covered>): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `INSERT INTO tool_executor_journal_pruned (place, at, hash)
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)`,
    [JSON.stringify(rows.map((it) => [it.place, it.at, rowHash(it)]))]
  )

/** The end of the chain, and what it begins after. */
export interface State {
  readonly head: string
  readonly basePlace: number
  readonly baseHead: string
}

/** Reads the end of the chain; `isLocked`: nobody else changes it for the rest of the transaction. */
export const state = (sql: Sql, isLocked = false): Effect.Effect<State, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly head: string; readonly base_place: unknown; readonly base_head: string }>(
      `SELECT head, base_place, base_head FROM tool_executor_journal_chain WHERE id = 1${
        isLocked && isPg(sql) ? " FOR UPDATE" : ""
      }`
    ).withoutTransform,
    ([row]) => ({ head: row?.head ?? "", basePlace: Number(row?.base_place ?? 0), baseHead: row?.base_head ?? "" })
  )

/**
 * Records, in a transaction, that rows older than a time are removed, and forgets the hashes of the oldest ones if no
 * row is left before them.
 */
export const recordPrune = Effect.fnUntraced(function*(sql: Sql, before: number): Effect.fn.Return<void, SqlError> {
  const { baseHead, basePlace, head } = yield* state(sql, true)
  const base = yield* newBase(sql, { place: basePlace, chain: baseHead })
  const chain = chained(head, pruned(before, base.place, base.chain))
  yield* sql`
    INSERT INTO tool_executor_journal_links (pruned_before, base_place, base_head, chain)
    VALUES (${before}, ${base.place}, ${base.chain}, ${chain})
  `
  yield* sql`
    UPDATE tool_executor_journal_chain SET head = ${chain}, base_place = ${base.place}, base_head = ${base.chain}
    WHERE id = 1
  `
})

/** A link of the chain. */
export interface Link {
  readonly number: number
  readonly first: number
  readonly last: number
  /** Of an append absent. */
  readonly pruned: { readonly before: number; readonly basePlace: number; readonly baseHead: string } | undefined
  readonly chain: string
}

/** The next links after a number. */
export const links = (sql: Sql, after: number, count: number): Effect.Effect<ReadonlyArray<Link>, SqlError> =>
  Effect.map(
    sql<{
      readonly number: unknown
      readonly first_place: unknown
      readonly last_place: unknown
      readonly pruned_before: number | null
      readonly base_place: unknown
      readonly base_head: string | null
      readonly chain: string
    }>`SELECT * FROM tool_executor_journal_links WHERE number > ${after} ORDER BY number LIMIT ${count}`
      .withoutTransform,
    (rows) =>
      rows.map((it) => ({
        number: Number(it.number),
        first: Number(it.first_place ?? 0),
        last: Number(it.last_place ?? 0),
        pruned: it.pruned_before === null
          ? undefined
          : { before: it.pruned_before, basePlace: Number(it.base_place), baseHead: it.base_head ?? "" },
        chain: it.chain
      }))
  )

/** A row, or what is left of one. */
export interface Hashed {
  readonly place: number
  readonly at: number
  readonly isPruned: boolean
  /** With its place and time. */
  readonly hash: string
}

/** The hashes of the rows between two places, these included, and of those that were removed. */
export const hashes = (sql: Sql, from: number, to: number): Effect.Effect<ReadonlyArray<Hashed>, SqlError> => {
  const [low, high] = isPg(sql) ? ["$1::bigint", "$2::bigint"] : ["?1", "?2"]
  const between = `WHERE place BETWEEN ${low} AND ${high}`
  const known = "SELECT place, at, hash, 1 AS pruned FROM tool_executor_journal_pruned"
  if (isPg(sql)) {
    return Effect.map(
      sql.unsafe<{ readonly place: unknown; readonly at: number; readonly pruned: number; readonly placed: string }>(
        `SELECT place, at, pruned, ${pgPlaced("hash")} AS placed FROM (
          SELECT place, at, ${pgRowHash} AS hash, 0 AS pruned FROM tool_executor_journal_entries ${between}
          UNION ALL ${known} ${between}
        ) AS every ORDER BY place`,
        [from, to]
      ).withoutTransform,
      (rows) =>
        rows.map(({ at, placed, ...it }) => ({ place: Number(it.place), at, isPruned: it.pruned === 1, hash: placed }))
    )
  }
  const rows = sql.unsafe<Covered>(`SELECT ${returned} FROM tool_executor_journal_entries ${between}`, [from, to])
  const removed = sql.unsafe<{ readonly place: number; readonly at: number; readonly hash: string }>(
    `${known} ${between}`,
    [from, to]
  )
  const both = Effect.all([rows.withoutTransform, removed.withoutTransform])
  return Effect.map(both, ([rows, removed]) =>
    [
      ...rows.map((it) => ({
        place: Number(it.place),
        at: Number(it.at),
        isPruned: false,
        hash: placed(it.place, it.at, rowHash(it))
      })),
      ...removed.map(({ at, hash, place }) => ({ place, at, isPruned: true, hash: placed(place, at, hash) }))
    ].sort((one, other) => one.place - other.place))
}

/** The hash of a link by the one before it and what it covers. */
export const chained = (before: string, text: string): string => sha256(`${before}\n${text}`)

/** What the hash of a prune covers. */
export const pruned = (before: number, basePlace: number, baseHead: string): string =>
  `pruned ${before} ${basePlace} ${baseHead}`

/** Forgets links and hashes before the first row that is left; gives the last link that was forgotten. */
const newBase = Effect.fnUntraced(function*(
  sql: Sql,
  base: { readonly place: number; readonly chain: string }
): Effect.fn.Return<{ readonly place: number; readonly chain: string }, SqlError> {
  const [first] = yield* sql<{ readonly place: unknown }>`
    SELECT min(place) AS place FROM tool_executor_journal_entries
  `.withoutTransform
  // the journal is empty, or what is first is not chained
  const left = first?.place === null || first === undefined ? Infinity : Number(first.place)
  let [last, next] = [0, base]
  for (let isOver = false; !isOver;) {
    const some = yield* links(sql, last, 1_000)
    isOver = some.length < 1_000
    for (const it of some) {
      // a checkpoint may have the hash of a prune that nothing was written after
      if (it.pruned !== undefined) continue
      if (it.last >= left) {
        isOver = true
        break
      }
      ;[last, next] = [it.number, { place: it.last, chain: it.chain }]
    }
  }
  if (last === 0 || left <= base.place) return base
  yield* sql`DELETE FROM tool_executor_journal_links WHERE number <= ${last}`
  yield* sql`DELETE FROM tool_executor_journal_pruned WHERE place <= ${next.place}`
  return next
})

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")

const rowHash = (row: Covered): string => sha256(JSON.stringify(covered.map((it) => row[it])))

const placed = (place: unknown, at: unknown, hash: string): string => sha256(`${place} ${at} ${hash}`)
