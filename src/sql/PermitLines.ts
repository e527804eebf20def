/**
 * The table of permits that processes share: for each pool, the line of those that hold a permit of it or wait for one.
 *
 * Whoever is among the first places of a line, as many as the pool has permits, holds one. Places are only added at the
 * end and removed when their owner leaves or their lease has ended, so a permit that was given stays given. A statement
 * locks the lines that it changes in one order for all processes: two calls stand in the same order in every line that
 * both are in, so they never wait for each other in a circle.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Schema } from "./Migrations.ts"

export interface Place {
  readonly id: string
  /** Epoch milliseconds of the database at which its lease ends. */
  readonly until: number
  /** Why those who wait for it are to be refused. */
  readonly blocked?: string
}

/** The line of a pool, as it was at a time of the database. */
export interface Line {
  readonly pool: string
  readonly places: ReadonlyArray<Place>
  readonly now: number
}

/** What is to become of the places of one process in a line. */
export interface Change {
  readonly pool: string
  /** Ids that get a place at the end; those that have one keep it. All get a new lease. */
  readonly joins: ReadonlyArray<string>
  /** Ids that get a new lease, if they still have a place. */
  readonly keeps: ReadonlyArray<string>
  readonly leaves: ReadonlyArray<string>
  /** Places that are blocked from now on. */
  readonly blocks: ReadonlyArray<{ readonly id: string; readonly because: string }>
}

/** Changes of several lines, collected. */
export class Changes {
  private readonly byPool = new Map<string, ReturnType<typeof noChange>>()

  /** The change of a line, to add to. */
  of(pool: string) {
    const found = this.byPool.get(pool) ?? noChange(pool)
    this.byPool.set(pool, found)
    return found
  }

  get all(): ReadonlyArray<Change> {
    return Array.from(this.byPool.values())
  }
}

const noChange = (pool: string) => ({
  pool,
  joins: Array<string>(),
  keeps: Array<string>(),
  leaves: Array<string>(),
  blocks: Array<Change["blocks"][number]>()
})

/** How a place stands in a line. */
export interface Standing {
  readonly size: number
  /** Its position; below `size` it holds a permit, -1 if it is not there. */
  readonly at: number
  /** Another process waits. */
  readonly isWanted: boolean
  /** Why it is not to wait. */
  readonly blocked: string | undefined
}

/** Tells how a place of a process stands in a line. */
export const standing = ({ places }: Line, id: string, size: number, process: string): Standing => {
  const at = places.findIndex((it) => it.id === id)
  return {
    size,
    at,
    isWanted: places.some((it, index) => index >= size && !isOf(it.id, process)),
    blocked: at < size ? undefined : places.slice(0, size).find((it) => it.blocked !== undefined)?.blocked
  }
}

/** Whether a place is that of a process: ids begin with its name. */
export const isOf = (id: string, process: string): boolean => id.startsWith(`${process}.`)

/** The schema of the table. */
export const schema: Schema = {
  table: "tool_executor_permits_migrations",
  tables: ["tool_executor_permits"],
  migrations: {
    "0001_lines_of_permits": Effect.flatMap(SqlClient.SqlClient, (sql) =>
      sql`CREATE TABLE tool_executor_permits (
        pool TEXT PRIMARY KEY,
        places JSONB NOT NULL,
        until DOUBLE PRECISION NOT NULL
      )`)
  }
}

/** Changes lines in one statement, and removes the places in them whose lease has ended. Gives the lines. */
export const change = (
  sql: SqlClient.SqlClient,
  changes: ReadonlyArray<Change>,
  leaseMillis: number
): Effect.Effect<ReadonlyArray<Line>, SqlError> =>
  sql.unsafe<Line>(changeLines, [JSON.stringify(changes), leaseMillis]).withoutTransform

export const read = (
  sql: SqlClient.SqlClient,
  pools: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Line>, SqlError> => sql.unsafe<Line>(readLines, [JSON.stringify(pools)]).withoutTransform

/** Deletes lines in which nobody stands. */
export const prune = (sql: SqlClient.SqlClient): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(`DELETE FROM tool_executor_permits WHERE until <= ${now}`)

const now = "(extract(epoch FROM clock_timestamp()) * 1000)::float8"

// the time is read once, before the wait for a lock: a lease never ends later than its owner counts on
const changeLines = `
  WITH asked AS MATERIALIZED (
    SELECT it.*, t.now, t.now + $2::float8 AS until
    FROM jsonb_to_recordset($1::jsonb) AS it(pool TEXT, joins JSONB, keeps JSONB, leaves JSONB, blocks JSONB),
      (SELECT ${now} AS now) AS t
  )
  INSERT INTO tool_executor_permits AS p (pool, places, until)
  SELECT a.pool, (
    SELECT COALESCE(jsonb_agg(jsonb_build_object('id', j.id, 'until', a.until) ORDER BY j.n), '[]')
    FROM jsonb_array_elements_text(a.joins) WITH ORDINALITY AS j(id, n)
  ), CASE WHEN a.joins = '[]' THEN 0 ELSE a.until END
  FROM asked AS a ORDER BY a.pool
  ON CONFLICT (pool) DO UPDATE SET (places, until) = (
    SELECT
      COALESCE(jsonb_agg(e.place ORDER BY e.side, e.n), '[]'), COALESCE(MAX((e.place->>'until')::float8), 0)
    FROM (
      SELECT 1 AS side, l.n, l.it || CASE
        WHEN a.joins @> (l.it->'id') OR a.keeps @> (l.it->'id') THEN jsonb_build_object('until', a.until) ELSE '{}'
      END || COALESCE((
        SELECT jsonb_build_object('blocked', b->'because') FROM jsonb_array_elements(a.blocks) AS b
        WHERE b->'id' = l.it->'id' LIMIT 1
      ), '{}') AS place
      FROM asked AS a, jsonb_array_elements(p.places) WITH ORDINALITY AS l(it, n)
      WHERE a.pool = p.pool AND (l.it->>'until')::float8 > a.now AND NOT a.leaves @> (l.it->'id')
      UNION ALL
      SELECT 2, j.n, jsonb_build_object('id', j.id, 'until', a.until)
      FROM asked AS a, jsonb_array_elements_text(a.joins) WITH ORDINALITY AS j(id, n)
      WHERE a.pool = p.pool AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements(p.places) AS l(it)
        WHERE l.it->>'id' = j.id AND (l.it->>'until')::float8 > a.now
      )
    ) AS e
  )
  RETURNING p.pool, p.places, (SELECT MAX(a.now) FROM asked AS a) AS now`

const readLines = `
  SELECT p.pool, p.places, ${now} AS now FROM tool_executor_permits AS p
  WHERE p.pool = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))`
