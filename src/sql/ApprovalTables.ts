/**
 * The table of approval requests and its statements. PostgreSQL only.
 *
 * Statements that change rows lock the sessions first, by id, and then the rows, by id: so none of them waits for
 * another one that waits for it.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type * as Table from "../core/store/ApprovalTable.ts"
import type { Epoch } from "../core/store/SessionRegistry.ts"
import { among, amongAll } from "./Among.ts"
import { plain } from "./JournalTables.ts"
import type { Schema } from "./Migrations.ts"
import { epochsOf, owned, sessionId, woken } from "./SessionTables.ts"

type Sql = SqlClient.SqlClient

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // `epoch`: the one in which a call asked for it last. `tell_at`: when a process may notify of it
  yield* sql`CREATE TABLE tool_executor_approvals (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    username TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    requested_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    tell_at DOUBLE PRECISION,
    taken BOOLEAN NOT NULL DEFAULT false,
    request TEXT NOT NULL,
    details TEXT NOT NULL,
    how TEXT,
    ending TEXT
  )`
  yield* sql`CREATE INDEX tool_executor_approvals_session ON tool_executor_approvals (session) WHERE how IS NULL`
  yield* sql`CREATE INDEX tool_executor_approvals_pending ON tool_executor_approvals (requested_at) WHERE how IS NULL`
  yield* sql`CREATE INDEX tool_executor_approvals_pending_of
    ON tool_executor_approvals (username, requested_at) WHERE how IS NULL`
  yield* sql`CREATE INDEX tool_executor_approvals_ended ON tool_executor_approvals (ended_at) WHERE how IS NOT NULL`
  yield* sql`CREATE INDEX tool_executor_approvals_ended_of
    ON tool_executor_approvals (username, ended_at) WHERE how IS NOT NULL`
  yield* sql`CREATE INDEX tool_executor_approvals_untold ON tool_executor_approvals (tell_at)
    WHERE how IS NULL AND tell_at IS NOT NULL`
})

/** `approved`: the record of approvals that need others. `version`: how often it was changed. */
const approved = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE tool_executor_approvals ADD COLUMN approved TEXT,
    ADD COLUMN version INTEGER NOT NULL DEFAULT 0`
})

/** The schema of approval requests. That of sessions comes first. */
export const schema: Schema = {
  table: "tool_executor_approvals_migrations",
  tables: ["tool_executor_approvals"],
  migrations: { "0001_approvals": create, "0002_approved": approved }
}

interface Stored {
  readonly id: string
  readonly hash: string
  readonly request: string
  readonly approved: string | null
  readonly version: number
  readonly how: string | null
  readonly ending: string | null
  readonly ended_at: number | null
}

const columns = "it.id, it.hash, it.request, it.approved, it.version, it.how, it.ending, it.ended_at"

const rowOf = ({ approved, ended_at, ending, hash, how, id, request, version }: Stored): Table.ApprovalRow => ({
  id,
  hash,
  request,
  approvals: approved ?? undefined,
  version,
  end: how === null ? undefined : { how, at: ended_at!, ending: ending! }
})

const rowsOf = (effect: { readonly withoutTransform: Effect.Effect<ReadonlyArray<Stored>, SqlError> }) =>
  Effect.map(effect.withoutTransform, (rows) => rows.map(rowOf))

const idsOf = (
  effect: { readonly withoutTransform: Effect.Effect<ReadonlyArray<{ readonly id: string }>, SqlError> }
) => Effect.map(effect.withoutTransform, (rows): ReadonlySet<string> => new Set(rows.map(({ id }) => id)))

const json = (ids: ReadonlyArray<string>): string => JSON.stringify(ids.map(plain))

/** A condition: a request is one of those in a part of the statement. */
const isIn = (part: string): string => `it.id ${amongAll(`SELECT id FROM ${part}`)}`

const epochsOfAll = (of: ReadonlyArray<{ readonly epoch: Epoch }>): string =>
  epochsOf(new Set(of.map(({ epoch }) => epoch)))

const fields = `(id text, session text, username text, tool text, hash text, requested_at float8, expires_at float8,
  request text, details text, approved text, replaces text)`

const given = (rows: ReadonlyArray<Table.NewRow>): string =>
  JSON.stringify(rows.map((it) => ({
    id: plain(it.id),
    session: sessionId(it.epoch.principal),
    username: plain(it.user),
    tool: plain(it.tool),
    hash: it.hash,
    requested_at: it.requestedAt,
    expires_at: it.expiresAt ?? null,
    request: it.request,
    details: it.details,
    approved: it.approvals ?? null,
    replaces: it.replaces ?? null
  })))

/** Writes rows of sessions in their epochs. Rows of these ids that exist are returned, and their ends are taken. */
export const insert = Effect.fnUntraced(function*(
  sql: Sql,
  rows: ReadonlyArray<Table.NewRow>
): Effect.fn.Return<ReadonlyMap<string, Table.ApprovalRow | undefined>, SqlError> {
  const found = yield* sql.unsafe<Stored & { readonly is_new: boolean }>(
    `WITH ${owned("$1")}, given AS (
      SELECT r.*, owned.epoch FROM json_to_recordset($2::json) AS r ${fields} JOIN owned ON owned.id = r.session
      ORDER BY r.id
    )
    INSERT INTO tool_executor_approvals AS it
      (id, session, username, tool, hash, epoch, requested_at, expires_at, request, details, approved, tell_at)
    SELECT id, session, username, tool, hash, epoch, requested_at, expires_at, request, details, approved, requested_at
      FROM given
    ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, taken = it.taken OR it.how IS NOT NULL
      WHERE it.session = excluded.session
    RETURNING it.id, it.xmax = 0 AS is_new, it.hash, CASE WHEN it.xmax = 0 THEN '' ELSE it.request END AS request,
      it.approved, it.version, it.how, it.ending, it.ended_at`,
    [epochsOfAll(rows), given(rows)]
  ).withoutTransform
  return new Map(found.map((it) => [it.id, it.is_new ? undefined : rowOf(it)]))
})

/** Replaces rows that still have the hash that they replace. */
export const replace = (
  sql: Sql,
  rows: ReadonlyArray<Table.NewRow>
): Effect.Effect<ReadonlySet<string>, SqlError> =>
  idsOf(sql.unsafe(
    `WITH ${owned("$1")}, given AS (
      SELECT r.*, owned.epoch FROM json_to_recordset($2::json) AS r ${fields} JOIN owned ON owned.id = r.session
    ), ready AS (
      SELECT it.id FROM tool_executor_approvals AS it JOIN given ON it.id = given.id AND it.session = given.session
      WHERE ${isIn("given")} ORDER BY it.id FOR UPDATE OF it
    )
    UPDATE tool_executor_approvals AS it SET tool = given.tool, hash = given.hash, epoch = given.epoch,
      requested_at = given.requested_at, expires_at = given.expires_at, request = given.request,
      details = given.details, approved = given.approved, version = it.version + 1, how = NULL, ending = NULL,
      ended_at = NULL, taken = false, tell_at = given.requested_at
    FROM given WHERE it.id = given.id AND ${isIn("ready")} AND it.hash = given.replaces
    RETURNING it.id`,
    [epochsOfAll(rows), given(rows)]
  ))

/**
 * Ends pending requests and wakes their sessions, or notes their approvals: all that are not optional, or none. A
 * request that another statement has ended since this one began does not count as pending, and one whose approvals
 * were changed meanwhile does not count as it was.
 */
export const answer = (
  sql: Sql,
  answers: ReadonlyArray<Table.Answering>,
  now: number
): Effect.Effect<ReadonlySet<string>, SqlError> =>
  idsOf(sql.unsafe(
    `WITH given AS (
      SELECT * FROM json_to_recordset($1::json)
        AS r (id text, hash text, how text, ending text, ended_at float8, optional boolean, approved text, version int)
    ), locked AS (
      SELECT id FROM tool_executor_sessions
      WHERE id ${amongAll(`SELECT it.session FROM tool_executor_approvals AS it WHERE ${isIn("given")}`)}
      ORDER BY id FOR NO KEY UPDATE
    ), ready AS (
      SELECT it.id FROM tool_executor_approvals AS it JOIN given ON it.id = given.id AND it.hash = given.hash
        AND (given.optional OR it.version = given.version)
      WHERE ${isIn("given")} AND it.how IS NULL AND (it.expires_at IS NULL OR it.expires_at > $2::float8)
        AND (SELECT count(*) FROM locked) >= 0
      ORDER BY it.id FOR UPDATE OF it
    ), done AS (
      UPDATE tool_executor_approvals AS it
      SET how = given.how, ending = given.ending, ended_at = given.ended_at,
        approved = CASE WHEN given.how IS NULL THEN given.approved ELSE it.approved END, version = it.version + 1,
        tell_at = CASE WHEN given.how IS NULL THEN it.tell_at END
      FROM given WHERE it.id = given.id AND ${isIn("ready")} AND it.how IS NULL
        AND (given.optional OR it.version = given.version)
        AND NOT EXISTS (SELECT 1 FROM given AS other WHERE NOT optional AND other.id NOT IN (SELECT id FROM ready))
      RETURNING it.id, it.session, it.how
    ), awake AS (
      UPDATE tool_executor_sessions SET ${woken}
      WHERE id ${amongAll("SELECT session FROM done WHERE how IS NOT NULL")}
    )
    SELECT id FROM done`,
    [
      JSON.stringify(answers.map(({ approvals, end, hash, id, isCovered, version }) => ({
        id: plain(id),
        hash,
        how: end?.how,
        ending: end?.ending,
        ended_at: end?.at,
        optional: isCovered,
        approved: approvals,
        version
      }))),
      now
    ]
  ))

/** The ends of requests of a session in its epoch. */
export const take = (
  sql: Sql,
  epoch: Epoch,
  ids: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Table.ApprovalRow>, SqlError> =>
  rowsOf(sql.unsafe(
    `WITH ${owned("$1")}, ready AS (
      SELECT it.id FROM tool_executor_approvals AS it JOIN owned ON it.session = owned.id
      WHERE it.id ${among("$2")} AND it.how IS NOT NULL ORDER BY it.id FOR UPDATE OF it
    )
    UPDATE tool_executor_approvals AS it SET taken = true WHERE ${isIn("ready")} RETURNING ${columns}`,
    [epochsOf([epoch]), json(ids)]
  ))

/** Ends pending requests of sessions in their epochs. */
export const end = (
  sql: Sql,
  ends: ReadonlyArray<Table.OwnEnding>
): Effect.Effect<ReadonlySet<string>, SqlError> =>
  idsOf(sql.unsafe(
    `WITH ${owned("$1")}, given AS (
      SELECT r.* FROM json_to_recordset($2::json)
        AS r (id text, session text, how text, ending text, ended_at float8) JOIN owned ON owned.id = r.session
    ), ready AS (
      SELECT it.id FROM tool_executor_approvals AS it JOIN given ON it.id = given.id AND it.session = given.session
      WHERE ${isIn("given")} AND it.how IS NULL ORDER BY it.id FOR UPDATE OF it
    )
    UPDATE tool_executor_approvals AS it
    SET how = given.how, ending = given.ending, ended_at = given.ended_at, taken = true, tell_at = NULL
    FROM given WHERE it.id = given.id AND ${isIn("ready")} AND it.how IS NULL RETURNING it.id`,
    [
      epochsOfAll(ends),
      JSON.stringify(ends.map(({ end, epoch, id }) => ({
        id: plain(id),
        session: sessionId(epoch.principal),
        how: end.how,
        ending: end.ending,
        ended_at: end.at
      })))
    ]
  ))

/** Ends pending requests of a session that no call asked for in its epoch; the number of pending ones among some ids. */
export const settle = Effect.fnUntraced(function*(
  sql: Sql,
  epoch: Epoch,
  ids: ReadonlyArray<string>,
  end: Table.RowEnd
): Effect.fn.Return<
  { readonly pending: number; readonly withdrawn: ReadonlyArray<Table.ApprovalRow> },
  SqlError
> {
  const rows = yield* sql.unsafe<Stored & { readonly pending: unknown }>(
    `WITH ${owned("$1")}, ready AS (
      SELECT it.id FROM tool_executor_approvals AS it JOIN owned ON it.session = owned.id
      WHERE it.how IS NULL AND it.epoch < owned.epoch ORDER BY it.id FOR UPDATE OF it
    ), gone AS (
      UPDATE tool_executor_approvals AS it SET how = $3, ending = $4, ended_at = $5::float8, taken = true, tell_at = NULL
      WHERE ${isIn("ready")} AND it.how IS NULL RETURNING ${columns}
    )
    SELECT count(*) AS pending, NULL AS id, NULL AS hash, NULL AS request, NULL AS approved, NULL::int AS version,
      NULL AS how, NULL AS ending, NULL::float8 AS ended_at
    FROM tool_executor_approvals AS it JOIN owned ON it.session = owned.id
    WHERE it.how IS NULL AND it.id ${among("$2")}
    UNION ALL SELECT NULL, id, hash, request, approved, version, how, ending, ended_at FROM gone`,
    [epochsOf([epoch]), json(ids), end.how, end.ending, end.at]
  ).withoutTransform
  return {
    pending: Number(rows.find((it) => it.pending !== null)?.pending ?? 0),
    withdrawn: rows.filter((it) => it.pending === null).map(rowOf)
  }
})

export const find = (sql: Sql, ids: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Table.ApprovalRow>, SqlError> =>
  rowsOf(sql.unsafe(`SELECT ${columns} FROM tool_executor_approvals AS it WHERE it.id ${among("$1")}`, [json(ids)]))

export const details = (sql: Sql, id: string): Effect.Effect<string | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly details: string }>("SELECT details FROM tool_executor_approvals WHERE id = $1", [plain(id)])
      .withoutTransform,
    ([row]) => row?.details
  )

export const alike = (
  sql: Sql,
  principal: string,
  tool: string
): Effect.Effect<ReadonlyArray<Table.ApprovalRow>, SqlError> =>
  rowsOf(sql.unsafe(
    `SELECT ${columns} FROM tool_executor_approvals AS it WHERE it.session = $1 AND it.tool = $2 AND it.how IS NULL`,
    [sessionId(principal), plain(tool)]
  ))

/** More pending requests are not counted for a list: it would take seconds. */
const counted = 100_000

/** Pending requests, ended ones, and their number; in one statement, so that none is missing between two. */
export const list = Effect.fnUntraced(function*(
  sql: Sql,
  { limit, since, users }: Parameters<Table.ApprovalTable["Service"]["list"]>[0]
): Effect.fn.Return<Effect.Success<ReturnType<Table.ApprovalTable["Service"]["list"]>>, SqlError> {
  const of = users === undefined ? "" : `AND it.username ${among("$4")}`
  const rows = yield* sql.unsafe<Stored & { readonly pending: unknown }>(
    `(SELECT ${columns}, NULL::bigint AS pending FROM tool_executor_approvals AS it WHERE it.how IS NULL ${of}
      ORDER BY it.requested_at DESC LIMIT $1)
    UNION ALL (SELECT ${columns}, NULL FROM tool_executor_approvals AS it
      WHERE it.how IS NOT NULL AND it.ended_at > $3::float8 ${of} ORDER BY it.ended_at DESC LIMIT $2)
    UNION ALL SELECT '', '', '', NULL, 0, NULL, NULL, NULL, count(*)
      FROM (SELECT 1 FROM tool_executor_approvals AS it WHERE it.how IS NULL ${of} LIMIT ${counted})`,
    [limit.open, limit.ended, since, ...users === undefined ? [] : [json(users)]]
  ).withoutTransform
  const all = rows.filter((it) => it.pending === null)
  return {
    open: all.filter((it) => it.how === null).map(rowOf).reverse(),
    ended: all.filter((it) => it.how !== null).map(rowOf),
    pending: Number(rows.find((it) => it.pending !== null)!.pending)
  }
})

export const count = (sql: Sql): Effect.Effect<number, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly count: unknown }>(
      `SELECT count(*) FROM (SELECT 1 FROM tool_executor_approvals WHERE how IS NULL LIMIT ${counted})`
    ).withoutTransform,
    ([row]) => Number(row!.count)
  )

/** Gives pending requests to this process, to notify of them. */
export const untold = (
  sql: Sql,
  { before, ids, limit, until }: Parameters<Table.ApprovalTable["Service"]["untold"]>[0]
): Effect.Effect<ReadonlyArray<Table.Untold>, SqlError> =>
  Effect.map(
    sql.unsafe<Stored & { readonly since: number }>(
      `WITH ready AS (
        SELECT id, tell_at AS since FROM tool_executor_approvals WHERE how IS NULL AND tell_at <= $1::float8
          ${ids === undefined ? "" : `AND id ${among("$4")}`}
        ORDER BY tell_at LIMIT $3 FOR UPDATE SKIP LOCKED
      )
      UPDATE tool_executor_approvals AS it SET tell_at = $2::float8 FROM ready WHERE it.id = ready.id
      RETURNING ${columns}, ready.since`,
      [before, until, limit, ...ids === undefined ? [] : [json(ids)]]
    ).withoutTransform,
    (rows) => rows.map((row) => ({ ...rowOf(row), since: row.since }))
  )

export const told = (sql: Sql, id: string, next: number | undefined): Effect.Effect<unknown, SqlError> =>
  sql.unsafe("UPDATE tool_executor_approvals SET tell_at = $2::float8 WHERE id = $1 AND how IS NULL", [
    plain(id),
    next ?? null
  ])

/**
 * Removes requests that ended before, other than answers that a call may still take: none does where nothing of its
 * session is unfinished.
 */
export const prune = (sql: Sql, before: number, limit: number): Effect.Effect<number, SqlError> =>
  Effect.map(
    sql.unsafe(
      `DELETE FROM tool_executor_approvals WHERE id IN (
        SELECT id FROM tool_executor_approvals AS it WHERE how IS NOT NULL AND ended_at < $1::float8 AND
          (taken OR NOT EXISTS (SELECT 1 FROM tool_executor_sessions WHERE id = it.session AND state <> 'free'))
        LIMIT $2 FOR UPDATE SKIP LOCKED
      ) RETURNING 1`,
      [before, limit]
    ),
    ({ length }) => length
  )
