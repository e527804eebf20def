/**
 * Searching the journal in PostgreSQL or SQLite.
 *
 * Each statement looks at a bounded number of rows, in the order of an index, however rare what is asked for may be:
 * one condition chooses the index, the others are looked at in the rows that it gives.
 */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type * as Statement from "effect/sql/Statement"
import { mostLookedAt, type Query } from "../core/store/JournalEntry.ts"
import * as Tables from "./JournalTables.ts"

/** A row that was found. */
export interface Row extends Tables.Stored {
  readonly place: number
}

/** Between which places is searched, and how much a page has at most. */
export interface Bounds {
  readonly after: number
  readonly before: number
  readonly entries: number
  readonly chars: number
}

/** Finds a page of rows, in the order of the query; `next` is where what is left begins. */
export const page = (
  sql: SqlClient.SqlClient,
  query: Query,
  bounds: Bounds
): Effect.Effect<{ readonly rows: ReadonlyArray<Row>; readonly next: number | undefined }, SqlError> =>
  Effect.map(statementOf(sql, query, bounds).withoutTransform, (all) => {
    const rows = all.flatMap((row) => isFound(row) ? [{ ...row, place: Number(row.place) }] : [])
    const [first] = all
    if (rows.length >= bounds.entries) return { rows, next: rows.at(-1)!.place }
    return { rows, next: Number(first?.more) === 1 ? Number(first!.edge) : undefined }
  })

/** A place behind which everything is that happened at a time (epoch milliseconds) or later. */
export const placeBefore = (sql: SqlClient.SqlClient, since: number): Effect.Effect<number, SqlError> => {
  const { param, params } = parameters(sql)
  const [zero, time] = Tables.isPg(sql) ? ["0::bigint", `${param(since)}::float8`] : ["0", param(since)]
  const middle = "(low + high) / 2"
  const isBefore = `(SELECT reached_at FROM ${table} WHERE place >= ${middle} ORDER BY place LIMIT 1) < ${time}`
  return Effect.map(
    // `reached_at` never falls from place to place, so that halving finds where it gets there
    sql.unsafe<{ readonly low: unknown }>(
      `WITH RECURSIVE halves (low, high) AS (
        SELECT ${zero}, (SELECT coalesce(max(place), 0) + 1 FROM ${table})
        UNION ALL
        SELECT CASE WHEN ${isBefore} THEN ${middle} ELSE low END, CASE WHEN ${isBefore} THEN high ELSE ${middle} END
        FROM halves WHERE high - low > 1
      )
      SELECT max(low) AS low FROM halves`,
      params
    ).withoutTransform,
    ([row]) => Number(row?.low ?? 0)
  )
}

/** The statement of a page. */
export const statementOf = (
  sql: SqlClient.SqlClient,
  query: Query,
  { after, before, chars, entries }: Bounds
): Statement.Statement<Looked> => {
  const { param, params } = parameters(sql)
  const { first, others } = conditionsOf(query)
  const isPg = Tables.isPg(sql)
  const isNewestFirst = query.order === "newest"
  const order = isNewestFirst ? "DESC" : "ASC"
  const [behind, until] = [`> ${param(after)}`, `< ${param(Math.min(before, Number.MAX_SAFE_INTEGER))}`]
  const also = others.map(({ column, values }) => `${column} IN ${listOf(sql, param(JSON.stringify(values)))}`)
  if (query.since !== undefined) also.push(`at >= ${param(query.since)}`)
  if (query.tag !== undefined) also.push(`tag = ${param(query.tag)}`)
  if (query.isOpen === true) {
    also.push(
      `NOT EXISTS (SELECT 1 FROM ${table} AS ended WHERE ended.call_key = ${table}.call_key
        AND ended.place > ${table}.place AND ended.tag = 'Settled')`
    )
  }
  if (query.text !== undefined) {
    also.push(`${Tables.searched(sql)} ${isPg ? "ILIKE" : "LIKE"} ${param(patternOf(query.text))} ESCAPE '!'`)
  }
  const count = also.length === 0 ? Math.min(entries, mostLookedAt) : mostLookedAt
  const [most, size] = [param(count), param(chars)]
  // PostgreSQL takes an array for short, and looks its places up whatever it believes of the other conditions
  const places = `SELECT place FROM looked WHERE earlier < ${size}`
  const chosen = isPg ? `= ANY (ARRAY(${places}))` : `IN (${places})`
  const near = indexedRows(sql, first, param, order)
  return sql.unsafe(
    `WITH near AS (${near([behind, until], most)}),
    sized AS (
      SELECT place, (SELECT octet_length(entry) FROM ${table} AS it WHERE it.place = near.place) AS size FROM near
    ),
    looked AS (SELECT place, sum(size) OVER (ORDER BY place ${order}) - size AS earlier FROM sized),
    edge AS (
      SELECT ${isNewestFirst ? "min" : "max"}(CASE WHEN earlier < ${size} THEN place END) AS edge,
        CASE WHEN count(*) >= ${most} OR max(earlier) >= ${size} THEN 1 ELSE 0 END AS more
      FROM looked
    ),
    found AS (
      SELECT place, ${stored} FROM ${table} WHERE place ${chosen} AND ${["tag <> 'Claimed'", ...also].join(" AND ")}
      ORDER BY place ${order} LIMIT ${param(entries)}
    )
    SELECT edge, more, place, ${stored} FROM edge LEFT JOIN found ON 1 = 1 ORDER BY place ${order}`,
    params
  )
}

const table = "tool_executor_journal_entries"

const stored = "tag, at, principal, call_key, batch, tool, call_id, entry"

/** What a statement gives: a row, unless nothing was found, and how far it has looked. */
interface Looked extends Omit<Tables.Stored, "entry"> {
  readonly edge: unknown
  readonly more: unknown
  readonly place: unknown
  readonly entry: string | null
}

const isFound = (row: Looked): row is Looked & Tables.Stored => row.entry !== null

/** The parameters of a statement, in the order of its text. */
const parameters = (sql: SqlClient.SqlClient) => {
  const params: Array<unknown> = []
  const sign = Tables.isPg(sql) ? "$" : "?"
  const param = (value: unknown): string => `${sign}${params.push(value)}`
  return { param, params }
}

const listOf = (sql: SqlClient.SqlClient, param: string): string =>
  Tables.isPg(sql) ? `(SELECT json_array_elements_text(${param}::json))` : `(SELECT value FROM json_each(${param}))`

interface Condition {
  readonly column: Column
  readonly values: ReadonlyArray<string>
}

type Column = typeof Tables.indexed[number]

/** The index that chooses rows. */
interface Choice {
  readonly column: Column | "wave"
  readonly values: ReadonlyArray<string>
}

/** More owners than these are not looked up one by one. */
const mostOwners = 50

/** What columns have to be. The one that leaves least is the first, whose index is used. */
const conditionsOf = (
  { batch, callId, keys, owners, principal, tool }: Query
): { readonly first: Choice | undefined; readonly others: ReadonlyArray<Condition> } => {
  const one = (column: Column, value: string | undefined): ReadonlyArray<Condition> =>
    value === undefined ? [] : [{ column, values: [Tables.plain(value)] }]
  const whose = owners === undefined ? [] : [{ column: "owner" as const, values: owners.map(Tables.plain) }]
  const areMany = whose.some(({ values }) => values.length > mostOwners)
  const all = [
    ...(keys === undefined ? [] : [{ column: "call_key" as const, values: keys }]),
    ...one("call_id", callId),
    ...one("batch", batch),
    ...one("principal", principal),
    ...(areMany ? [] : whose),
    ...one("tool", tool)
  ]
  const [first, ...others] = all
  const rest = areMany ? whose : []
  if (first?.column !== "batch" || principal === undefined) return { first, others: [...others, ...rest] }
  const wave = [principal, batch!].map(Tables.plain).join("/")
  return { first: { column: "wave", values: [wave] }, others: [...all, ...rest] }
}

/** What a place is compared with on either side. */
type Between = readonly [low: string, high: string]

/** Selects rows by the index of a condition, in the order of places. */
const indexedRows = (
  sql: SqlClient.SqlClient,
  first: Choice | undefined,
  param: (value: unknown) => string,
  order: "ASC" | "DESC"
) => {
  type Select = (between: Between, most: string) => string
  const rows = (where: ReadonlyArray<string>, sorted: string, most: string) =>
    `SELECT place FROM ${table} WHERE ${where.join(" AND ")} ORDER BY ${sorted} ${order} LIMIT ${most}`
  const places = ([low, high]: Between) => [`place ${low}`, `place ${high}`]
  if (first === undefined) {
    const select: Select = (between, most) => rows(places(between), "place", most)
    return select
  }
  const isWave = first.column === "wave"
  const column = isWave ? Tables.waveKey(sql, Tables.waveText) : first.column
  if (column === "call_key" || first.values.length === 0) {
    const isOne = `${column} IN ${listOf(sql, param(JSON.stringify(first.values)))}`
    // a call has few entries: they are looked up, and then put in order
    const select: Select = (between, most) => rows([isOne, ...places(between)], "place + 0", most)
    return select
  }
  const values = first.values.map((it) => isWave ? Tables.waveKey(sql, param(it)) : param(it))
  const one = (value: string): Select => (between, most) => {
    if (!Tables.isPg(sql)) return rows([`${column} = ${value}`, ...places(between)], "place", most)
    // PostgreSQL takes rows for evenly spread: if it could, it would look for rare ones through all places
    const pairs = between.map((it) =>
      it.replace(
        /^([<>]) (.*)$/,
        (_, sign: string, place: string) => `(${column}, ${Tables.pgNear}) ${sign}= (${value}, ${place}::bigint >> 10)`
      )
    )
    return rows([...pairs, ...places(between)], `${column} ${order}, ${Tables.pgNear} ${order}, place`, most)
  }
  const select: Select = (between, most) => {
    const each = values.map((value) => one(value)(between, most))
    if (each.length === 1) return each[0]!
    const all = each.map((it, index) => `SELECT * FROM (${it}) AS each_${index}`).join(" UNION ALL ")
    return `SELECT * FROM (${all}) AS every ORDER BY place ${order} LIMIT ${most}`
  }
  return select
}

/**
 * The pattern of a text, in whatever case. What clients see is written a little differently (`call_id` for `callId`),
 * and not all databases know the cases of all letters: there the pattern takes anything.
 */
const patternOf = (text: string): string =>
  `%${Tables.plain(text).replace(/[!%]/g, "!$&").replace(/(?:_|[^\x20-\x7e])+/g, "%")}%`
