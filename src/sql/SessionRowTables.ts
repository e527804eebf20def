/** The table of the rows of sessions, and what is asked of it in PostgreSQL. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ownerOf } from "../core/store/JournalEntry.ts"
import type { Epoch } from "../core/store/SessionRegistry.ts"
import type { Change, Listing, Pruning, Row, Summary } from "../core/store/SessionRows.ts"
import { among } from "./Among.ts"
import { isPg, plain } from "./JournalTables.ts"
import type { Schema } from "./Migrations.ts"
import { epochsOf, owned, sessionId } from "./SessionTables.ts"

type Sql = SqlClient.SqlClient

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // the order of bytes makes the rows of a sequence a range of keys
  const bytes = sql.literal(isPg(sql) ? `COLLATE "C"` : "COLLATE BINARY")
  yield* sql`CREATE TABLE tool_executor_session_rows (
    session TEXT ${bytes} NOT NULL,
    key TEXT ${bytes} NOT NULL,
    value TEXT NOT NULL,
    kind TEXT,
    is_open BOOLEAN NOT NULL DEFAULT false,
    username TEXT,
    summary TEXT,
    changed_at DOUBLE PRECISION,
    PRIMARY KEY (session, key)
  )`
  yield* sql`CREATE INDEX tool_executor_session_rows_open ON tool_executor_session_rows (session, kind)
    WHERE is_open`
  yield* sql`CREATE INDEX tool_executor_session_rows_by_age ON tool_executor_session_rows (kind, is_open, changed_at)
    WHERE kind IS NOT NULL`
  yield* sql`CREATE INDEX tool_executor_session_rows_by_user ON tool_executor_session_rows
    (kind, username, is_open, changed_at) WHERE summary IS NOT NULL`
})

export const schema: Schema = {
  table: "tool_executor_session_rows_migrations",
  tables: ["tool_executor_session_rows"],
  migrations: { "0001_rows_of_sessions": create }
}

/** Reads rows by their keys, and those of sequences. */
export const read = (
  sql: Sql,
  principal: string,
  keys: ReadonlyArray<string>,
  sequences: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Row>, SqlError> => {
  const ofKeys = `SELECT key, value FROM tool_executor_session_rows
    WHERE session = $1 AND key ${among("$2")}`
  const ofSequences = (parameter: string) =>
    `SELECT it.key, it.value FROM json_array_elements_text(${parameter}::json) AS base
    JOIN tool_executor_session_rows AS it ON it.session = $1 AND ${isIn("base")}`
  const statement = sequences.length === 0
    ? sql.unsafe<Row>(ofKeys, [sessionId(principal), JSON.stringify(keys)])
    : keys.length === 0
    ? sql.unsafe<Row>(ofSequences("$2"), [sessionId(principal), JSON.stringify(sequences)])
    : sql.unsafe<Row>(`${ofKeys} UNION ALL ${ofSequences("$3")}`, [
      sessionId(principal),
      JSON.stringify(keys),
      JSON.stringify(sequences)
    ])
  return statement.withoutTransform
}

/** Reads the unfinished rows of a kind. */
export const open = (sql: Sql, principal: string, kind: string): Effect.Effect<ReadonlyArray<Row>, SqlError> =>
  sql<Row>`SELECT key, value FROM tool_executor_session_rows
    WHERE session = ${sessionId(principal)} AND kind = ${kind} AND is_open`.withoutTransform

/** Writes changes of different rows in an epoch; false if it is not current. A new row that is there is an error. */
export const write = (
  sql: Sql,
  epoch: Epoch,
  changes: Iterable<Change>
): Effect.Effect<boolean, SqlError> => {
  const given = Array.from(changes, givenOf)
  // statements differ in what they do, and not in how much of it
  const parts = Object.entries(writes).flatMap(([op, text]) => given.some((it) => it.op === op) ? [text] : [])
  return Effect.map(
    sql.unsafe<{ readonly owned: unknown }>(
      `WITH ${owned("$1")}, given AS (
        SELECT owned.id AS session, it.* FROM owned, json_to_recordset($2::json) AS it (
          op text, key text, value text, kind text, open boolean, at float8, summary text
        ) ORDER BY it.key
      ), ${parts.join(", ")} SELECT count(*) AS owned FROM owned`,
      [epochsOf([epoch]), JSON.stringify(given), ...usesUser(parts) ? [plain(ownerOf(epoch.principal))] : []]
    ).withoutTransform,
    ([row]) => Number(row?.owned) > 0
  )
}

/** Lists rows with a summary, unfinished ones before others, the latest change first. */
export const summaries = (
  sql: Sql,
  { kind, limit, principal, users }: Listing
): Effect.Effect<ReadonlyArray<Summary>, SqlError> => {
  const latest = (is: string, where: string) =>
    `(SELECT key, is_open AS "isOpen", changed_at AS at, summary FROM tool_executor_session_rows
    WHERE kind = $1 AND summary IS NOT NULL AND ${is} AND ${where} ORDER BY changed_at DESC LIMIT $2)`
  const both = (where: string) => `${latest("is_open", where)} UNION ALL ${latest("NOT is_open", where)}`
  const [from, given] = principal !== undefined
    ? [both("session = $3"), [sessionId(principal)]]
    : users === undefined
    ? [both("true"), []]
    : [
      `SELECT it.* FROM json_array_elements_text($3::json) AS name, LATERAL (${both("username = name")}) AS it`,
      [JSON.stringify(Array.from(new Set(users), plain))]
    ]
  return sql.unsafe<Summary>(`SELECT * FROM (${from}) AS it ORDER BY "isOpen" DESC, at DESC LIMIT $2`, [
    kind,
    limit,
    ...given
  ]).withoutTransform
}

/** The first row of each sequence of a kind and its last two, for the sequences that were changed last. */
export const sequences = (
  sql: Sql,
  kind: string,
  limit: number
): Effect.Effect<ReadonlyArray<ReadonlyArray<string>>, SqlError> => {
  const latest = (is: string) =>
    `(SELECT session, key, value, changed_at FROM tool_executor_session_rows
    WHERE kind = $1 AND ${is} ORDER BY changed_at DESC LIMIT $2)`
  return Effect.map(
    sql.unsafe<{ readonly first: string; readonly rest: ReadonlyArray<string> }>(
      `SELECT it.value AS first, ARRAY(
        SELECT value FROM tool_executor_session_rows AS one
        WHERE one.session = it.session AND ${isIn("left(it.key, -2)", "one")} AND one.key <> it.key
        ORDER BY length(one.key) DESC, one.key DESC LIMIT 2
      ) AS rest
      FROM (${latest("is_open")} UNION ALL ${latest("NOT is_open")}) AS it ORDER BY it.changed_at DESC LIMIT $2`,
      [kind, limit]
    ).withoutTransform,
    (rows) => rows.map(({ first, rest }) => [first, ...rest.toReversed()])
  )
}

/** Deletes finished rows of a kind that have not changed since a time, with their parts; gives how many there were. */
export const prune = (
  sql: Sql,
  { before, kind, parts }: Pruning,
  limit: number
): Effect.Effect<number, SqlError> => {
  // keys are ASCII, and `~` is the last character of it
  const withParts = `, parts AS (
    DELETE FROM tool_executor_session_rows AS it USING old WHERE it.session = old.session
    AND it.key >= $4 || substr(old.key, $5::int) AND it.key < $4 || substr(old.key, $5::int) || '~'
  )`
  const given = parts === undefined
    ? []
    : [parts.prefix, parts.insteadOf === undefined ? 10_000 : parts.insteadOf.length + 1]
  return Effect.map(
    sql.unsafe(
      `WITH old AS (
        SELECT session, key FROM tool_executor_session_rows
        WHERE kind = $1 AND NOT is_open AND changed_at < $2::float8
        ORDER BY changed_at LIMIT $3 FOR UPDATE SKIP LOCKED
      )${parts === undefined ? "" : withParts}
      DELETE FROM tool_executor_session_rows AS it USING old WHERE it.session = old.session AND it.key = old.key
      RETURNING 1`,
      [kind, before, limit, ...given]
    ),
    (rows) => rows.length
  )
}

// Utilities

/** The rows of a sequence: a digit follows `.`, and `:` is the character after `9`. */
const isIn = (base: string, it = "it"): string => `${it}.key >= ${base} || '.0' AND ${it}.key < ${base} || '.:'`

type Given = ReturnType<typeof givenOf>

const givenOf = (it: Change) => {
  switch (it._tag) {
    case "Put": {
      const { isNew, key, listed, value } = it
      return { op: isNew === true ? "new" : "put", key, value, ...listedOf(listed) } as const
    }
    case "List":
      return { op: "list", key: it.key, ...listedOf(it.listed) } as const
    case "Remove":
      return { op: "remove", key: it.key } as const
    case "RemoveSequence":
      return { op: "removeAll", key: it.key } as const
  }
}

const listedOf = (listed: Extract<Change, { readonly _tag: "Put" }>["listed"]) =>
  listed === undefined
    ? {}
    : { kind: listed.kind, open: listed.isOpen, at: listed.at, summary: listed.summary?.() }

const insert = `INSERT INTO tool_executor_session_rows AS it
  (session, key, value, kind, is_open, username, summary, changed_at)
  SELECT session, key, value, kind, COALESCE(open, false), CASE WHEN kind IS NULL THEN NULL ELSE $3 END, summary, at
  FROM given`

/** What is done for each kind of change. */
const writes: { readonly [Op in Given["op"]]: string } = {
  new: `made AS (${insert} WHERE op = 'new')`,
  put: `put AS (${insert} WHERE op = 'put' ON CONFLICT (session, key) DO UPDATE SET value = excluded.value,
    kind = COALESCE(excluded.kind, it.kind),
    is_open = CASE WHEN excluded.kind IS NULL THEN it.is_open ELSE excluded.is_open END,
    username = COALESCE(excluded.username, it.username), summary = COALESCE(excluded.summary, it.summary),
    changed_at = COALESCE(excluded.changed_at, it.changed_at))`,
  list: `listed AS (UPDATE tool_executor_session_rows AS it SET kind = given.kind, is_open = given.open,
    changed_at = given.at, summary = COALESCE(given.summary, it.summary), username = $3
    FROM given WHERE op = 'list' AND it.session = given.session AND it.key = given.key)`,
  remove: `removed AS (DELETE FROM tool_executor_session_rows AS it USING given
    WHERE op = 'remove' AND it.session = given.session AND it.key = given.key)`,
  removeAll: `emptied AS (DELETE FROM tool_executor_session_rows AS it USING given
    WHERE op = 'removeAll' AND it.session = given.session AND ${isIn("given.key")})`
}

const usesUser = (parts: ReadonlyArray<string>): boolean => parts.some((it) => it.includes("$3"))
