/**
 * The tables of sessions and of the processes that hold them. PostgreSQL only; SQLite has one process.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ownerOf } from "../core/store/JournalEntry.ts"
import { dueAgain, heardWithin } from "../core/store/MemorySessions.ts"
import type { Epoch, Left } from "../core/store/SessionRegistry.ts"
import { among, amongAll } from "./Among.ts"
import { pgNow as now, plain } from "./JournalTables.ts"
import type { Schema } from "./Migrations.ts"
import { own } from "./OwnConnection.ts"
import * as RunnerTables from "./RunnerTables.ts"
import { epochsOf, mine, sessionId } from "./SessionFence.ts"

export { epochsOf, owned, sessionId } from "./SessionFence.ts"

type Sql = SqlClient.SqlClient

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // `clear_at`: no epoch before the current one takes its lease for valid from then on
  yield* sql`CREATE TABLE tool_executor_sessions (
    id TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    username TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    runner TEXT NOT NULL,
    state TEXT NOT NULL,
    woken BOOLEAN NOT NULL DEFAULT false,
    wake_at DOUBLE PRECISION,
    due_at DOUBLE PRECISION,
    clear_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    changed_at DOUBLE PRECISION NOT NULL
  ) WITH (fillfactor = 70)`
  yield* sql`CREATE INDEX tool_executor_sessions_due ON tool_executor_sessions (due_at) WHERE due_at IS NOT NULL`
  yield* sql`CREATE INDEX tool_executor_sessions_held ON tool_executor_sessions (runner) WHERE state = 'held'`
  yield* sql`CREATE INDEX tool_executor_sessions_old ON tool_executor_sessions (changed_at) WHERE state = 'free'`
  for (const statement of RunnerTables.create) yield* sql.unsafe(statement)
})

/** The schema of sessions. */
export const schema: Schema = {
  table: "tool_executor_sessions_migrations",
  tables: ["tool_executor_sessions", ...RunnerTables.tables],
  migrations: { "0001_sessions_and_runners": create }
}

/** The ids of those of some epochs that are current. */
export const currentOf = (sql: Sql, epochs: Iterable<Epoch>): Effect.Effect<ReadonlySet<string>, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly id: string }>(
      `SELECT it.id FROM tool_executor_sessions AS it JOIN ${mine("$1")}`,
      [epochsOf(epochs)]
    ).withoutTransform,
    (rows) => new Set(rows.map(({ id }) => id))
  )

/**
 * Raises the epoch of a session for a process; gives it, and in how many milliseconds no earlier epoch takes its lease
 * for valid. `undefined`: somebody else has made the session at this moment.
 *
 * The row of a process that held it is locked. So that process either renews its lease before, and is waited for so
 * long, or afterwards, and then finds that the session was taken. Epochs of a new row begin at the time: one that was
 * pruned never has an earlier epoch again.
 */
export const activate = (
  sql: Sql,
  name: string,
  principal: string
): Effect.Effect<{ readonly epoch: number; readonly waitMillis: number } | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly epoch: unknown; readonly wait: number }>(
      `WITH made AS (
        INSERT INTO tool_executor_sessions (id, principal, username, epoch, runner, state, changed_at)
        VALUES ($1, $2, $3, floor(${now}), $4, 'held', ${now}) ON CONFLICT (id) DO NOTHING RETURNING epoch
      ), before AS (
        SELECT id, epoch, runner, state, clear_at FROM tool_executor_sessions WHERE id = $1 FOR UPDATE
      ), rival AS (
        SELECT it.name, it.lease_until, before.id, before.epoch FROM tool_executor_runners AS it
        JOIN before ON it.name = before.runner WHERE before.state = 'held' AND it.name <> $4 FOR SHARE OF it
      ), told AS (
        INSERT INTO tool_executor_sessions_taken (runner, id, epoch)
        SELECT name, id, epoch FROM rival WHERE lease_until > ${now} ON CONFLICT DO NOTHING
      ), raised AS (
        UPDATE tool_executor_sessions AS it SET epoch = before.epoch + 1, runner = $4, state = 'held', woken = false,
          wake_at = NULL, due_at = NULL, changed_at = ${now},
          clear_at = greatest(before.clear_at, (SELECT lease_until FROM rival))
        FROM before WHERE it.id = before.id RETURNING it.epoch, it.clear_at
      )
      SELECT epoch, 0::float8 AS wait FROM made
      UNION ALL SELECT epoch, greatest(0, clear_at - ${now}) FROM raised`,
      [sessionId(principal), plain(principal), plain(ownerOf(principal)), name]
    ).withoutTransform,
    ([row]) => row === undefined ? undefined : { epoch: Number(row.epoch), waitMillis: row.wait }
  )

/** In how many milliseconds no earlier epoch takes its lease for valid; `undefined` if this one is over. */
export const waitOf = (
  sql: Sql,
  { epoch, principal }: { readonly epoch: number; readonly principal: string }
): Effect.Effect<number | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly wait: number }>(
      `SELECT greatest(0, clear_at - ${now}) AS wait FROM tool_executor_sessions WHERE id = $1 AND epoch = $2::bigint`,
      [sessionId(principal), epoch]
    ).withoutTransform,
    ([row]) => row?.wait
  )

/** Ends an epoch; tells whether the session was woken meanwhile. `undefined`: the epoch was over. */
export const release = (sql: Sql, epoch: Epoch, left: Left): Effect.Effect<boolean | undefined, SqlError> => {
  const [state, wakeAt] = left._tag === "Waiting"
    ? ["waiting", left.until ?? null] as const
    : [left._tag === "Open" ? "open" : "free", null] as const
  return Effect.map(
    sql.unsafe<{ readonly woken: boolean }>(
      `UPDATE tool_executor_sessions SET state = $3, wake_at = $4::float8, changed_at = ${now},
        due_at = CASE WHEN woken THEN ${now} + ${heardWithin} WHEN $3 = 'open' THEN ${now} ELSE $4::float8 END
      WHERE id = $1 AND epoch = $2::bigint RETURNING woken`,
      [sessionId(epoch.principal), epoch.number, state, wakeAt]
    ).withoutTransform,
    ([row]) => row?.woken
  )
}

/**
 * Has somebody look after sessions that a process does not have, and still has in the database. They stay held: the
 * message may be late, and the process have them again.
 */
export const giveUp = (sql: Sql, name: string, principals: Iterable<string>): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `UPDATE tool_executor_sessions SET due_at = least(due_at, ${now})
    WHERE runner = $1 AND state = 'held' AND id ${among("$2")}`,
    [name, JSON.stringify(Array.from(principals, sessionId))]
  )

/** Notes that the owner of a session will look; false if the epoch is over. */
export const heard = (sql: Sql, { number, principal }: Epoch): Effect.Effect<boolean, SqlError> =>
  Effect.map(
    sql.unsafe(
      `UPDATE tool_executor_sessions SET woken = false, due_at = NULL WHERE id = $1 AND epoch = $2::bigint RETURNING 1`,
      [sessionId(principal), number]
    ).withoutTransform,
    (rows) => rows.length > 0
  )

/** What a statement sets in a session's row to wake it. */
export const woken = `woken = true, due_at = least(due_at, ${now} + ${heardWithin})`

/** Wakes a session. */
export const wake = (sql: Sql, principal: string): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(`UPDATE tool_executor_sessions SET ${woken} WHERE id = $1`, [sessionId(principal)])

/** Takes sessions that are due, each at one place only. */
export const due = (sql: Sql, limit: number): Effect.Effect<ReadonlyArray<string>, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly principal: string }>(
      `WITH ripe AS (
        SELECT id FROM tool_executor_sessions WHERE due_at <= (SELECT ${now})
        ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
      ), orphaned AS (
        SELECT it.id FROM tool_executor_sessions AS it JOIN tool_executor_runners AS held ON held.name = it.runner
        WHERE it.state = 'held' AND it.due_at IS NULL AND held.lease_until <= (SELECT ${now})
        LIMIT $1 FOR UPDATE OF it SKIP LOCKED
      )
      UPDATE tool_executor_sessions SET due_at = ${now} + ${dueAgain}
      WHERE id ${amongAll("SELECT id FROM ripe UNION ALL SELECT id FROM orphaned LIMIT $1")} RETURNING principal`,
      [limit]
    ).withoutTransform,
    (rows) => rows.map(({ principal }) => principal)
  )

/** Rows that are removed by one statement. */
const most = 1_000

/** Removes free sessions that nobody has used for some milliseconds, and processes that ended before. */
export const prune = Effect.fnUntraced(function*(sql: Sql, millis: number): Effect.fn.Return<number, SqlError> {
  const before = `(SELECT ${now} - $1::float8)`
  // one after the other, each within its deadline; rows that somebody has locked are in use
  const all = Effect.fnUntraced(function*(statement: string): Effect.fn.Return<number, SqlError> {
    for (let sum = 0;;) {
      const { length } = yield* own(sql)(sql.unsafe(statement, [millis, most]))
      sum += length
      if (length < most) return sum
    }
  })
  const free = yield* all(
    `DELETE FROM tool_executor_sessions WHERE id IN (
      SELECT id FROM tool_executor_sessions WHERE state = 'free' AND due_at IS NULL AND changed_at < ${before}
      LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1`
  )
  yield* all(
    `WITH gone AS (
      DELETE FROM tool_executor_runners WHERE name IN (
        SELECT name FROM tool_executor_runners WHERE lease_until < ${before} AND NOT EXISTS
          (SELECT 1 FROM tool_executor_sessions WHERE runner = name AND state = 'held')
        LIMIT $2 FOR UPDATE SKIP LOCKED
      ) RETURNING name
    ), known AS (
      DELETE FROM tool_executor_sessions_taken WHERE runner ${amongAll("SELECT name FROM gone")}
    )
    SELECT 1 FROM gone`
  )
  return free
})
