/** Statements about processes: their leases, how they place sessions, and which shards each of them has. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { among } from "./Among.ts"
import { pgNow as now } from "./JournalTables.ts"

type Sql = SqlClient.SqlClient

/** What makes the tables. */
export const create = [
  // `place`: what other runners need to know to reach it; absent: it has no shards
  `CREATE TABLE tool_executor_runners (
    name TEXT PRIMARY KEY,
    machine INTEGER GENERATED ALWAYS AS IDENTITY,
    address TEXT,
    lease_until DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    alone BOOLEAN NOT NULL DEFAULT false,
    place TEXT,
    reachable BOOLEAN NOT NULL DEFAULT true,
    shards INTEGER,
    secret_hash TEXT
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE tool_executor_shards (
    id TEXT PRIMARY KEY,
    runner TEXT NOT NULL
  )`,
  "CREATE INDEX tool_executor_shards_runner ON tool_executor_shards (runner)",
  // sessions that were taken from a process with a valid lease: it reads them when it renews that
  `CREATE TABLE tool_executor_sessions_taken (
    runner TEXT NOT NULL,
    id TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (runner, id, epoch)
  )`
]

/** The tables. */
export const tables = ["tool_executor_runners", "tool_executor_shards", "tool_executor_sessions_taken"]

/** A process with its lease. */
export interface Registration {
  readonly name: string
  readonly leaseMillis: number
  /** It has all sessions of the database. */
  readonly isAlone?: boolean | undefined
}

/** Registers a process. Rows of those that had all sessions are not needed once they have ended: none is held there. */
export const register = (
  sql: Sql,
  { isAlone = false, leaseMillis, name }: Registration
): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `WITH ended AS (DELETE FROM tool_executor_runners WHERE alone AND lease_until <= ${now} AND name <> $1)
    INSERT INTO tool_executor_runners (name, lease_until, started_at, alone)
    VALUES ($1, ${now} + $2::float8, ${now}, $3)
    ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until`,
    [name, leaseMillis, isAlone]
  )

/** Processes that are alive and have all sessions, for one that shares them; the others for one that has them all. */
export interface Rivals {
  readonly count: number
  /** In how many milliseconds the last of their leases expires. */
  readonly millis: number
}

/** Of two rivals that registered at once, one at least sees the other. */
export const rivals = (sql: Sql, isAlone: boolean): Effect.Effect<Rivals, SqlError> =>
  Effect.map(
    sql.unsafe<Rivals>(
      `SELECT count(*)::int AS count, coalesce(max(lease_until) - ${now}, 0) AS millis FROM tool_executor_runners
      WHERE alone <> $1 AND lease_until > ${now}`,
      [isAlone]
    ).withoutTransform,
    ([row]) => row!
  )

/**
 * Renews a lease, and says where the process is if it has shards; tells whether the lease had expired before.
 * `undefined`: the process is not registered any more.
 */
export const renew = (
  sql: Sql,
  { leaseMillis, name }: Registration,
  place: string | undefined
): Effect.Effect<boolean | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly expired: boolean }>(
      `WITH before AS (SELECT name, lease_until FROM tool_executor_runners WHERE name = $1 FOR UPDATE)
      UPDATE tool_executor_runners AS it SET lease_until = ${now} + $2::float8, place = $3
      FROM before WHERE it.name = before.name
      RETURNING before.lease_until <= ${now} AS expired`,
      [name, leaseMillis, place ?? null]
    ).withoutTransform,
    ([row]) => row?.expired
  )

/** A session that was taken, with the epoch that ended. */
export interface Taken {
  readonly id: string
  readonly epoch: number
}

/** A process that has shards. */
export interface Member {
  readonly place: string
  /** Its number, which no other process has. */
  readonly machine: number
  /** Whether another one reached it when it last tried. */
  readonly isReachable: boolean
  /** Milliseconds until its lease expires. */
  readonly left: number
}

/** What a process reads after each renewal. */
export interface News {
  /** The sessions that were taken from it while its lease was valid. */
  readonly taken: ReadonlyArray<Taken>
  /** The shards that it has. */
  readonly shards: ReadonlyArray<string>
  readonly members: ReadonlyArray<Member>
}

/** One that was killed may still have a lease at the place of the one that was started for it. */
const membersOf = `(SELECT json_agg(json_build_object(
    'place', place, 'machine', machine, 'isReachable', reachable, 'left', lease_until - ${now}
  ) ORDER BY place) FROM (
    SELECT DISTINCT ON (place) place, machine, reachable, lease_until FROM tool_executor_runners
    WHERE place IS NOT NULL AND lease_until > ${now} ORDER BY place, machine DESC
  ) AS it)::text AS members`

/** Reads what concerns a process, in a statement of its own: it has to see what was there before the lease was renewed. */
export const news = (sql: Sql, name: string): Effect.Effect<News, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly [Name in keyof News]: string | null }>(
      `SELECT ${membersOf},
        (SELECT json_agg(id) FROM tool_executor_shards WHERE runner = $1)::text AS shards,
        (SELECT json_agg(json_build_object('id', id, 'epoch', epoch))
          FROM tool_executor_sessions_taken WHERE runner = $1)::text AS taken`,
      [name]
    ).withoutTransform,
    ([row]) => ({ members: listOf(row?.members), shards: listOf(row?.shards), taken: listOf(row?.taken) })
  )

/** The processes that have shards and are alive. */
export const members = (sql: Sql): Effect.Effect<ReadonlyArray<Member>, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly members: string | null }>(`SELECT ${membersOf}`).withoutTransform,
    ([row]) => listOf(row?.members)
  )

/** Forgets sessions that were taken, once their process knows. */
export const forgetTaken = (sql: Sql, name: string, taken: ReadonlyArray<Taken>): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `DELETE FROM tool_executor_sessions_taken AS it USING json_to_recordset($2::json) AS known (id text, epoch bigint)
    WHERE it.runner = $1 AND it.id = known.id AND it.epoch = known.epoch`,
    [name, JSON.stringify(taken)]
  )

/** What the processes of a cluster must have in common to place sessions alike. */
export interface Placing {
  readonly shards: number
  /** A hash of their secret; empty without one. */
  readonly secretHash: string
}

/** Notes how a process places sessions; gives how others do that are alive. Of two at once, one sees the other. */
export const placed = Effect.fnUntraced(function*(
  sql: Sql,
  name: string,
  { secretHash, shards }: Placing
): Effect.fn.Return<ReadonlyArray<Placing>, SqlError> {
  yield* sql.unsafe("UPDATE tool_executor_runners SET shards = $2, secret_hash = $3 WHERE name = $1", [
    name,
    shards,
    secretHash
  ])
  return yield* sql.unsafe<Placing>(
    `SELECT DISTINCT shards, secret_hash AS "secretHash" FROM tool_executor_runners
    WHERE name <> $1 AND shards IS NOT NULL AND lease_until > ${now}`,
    [name]
  ).withoutTransform
})

/** A process that came before under the same address, with the time when its lease expires. */
export interface Namesake {
  readonly name: string
  readonly until: number
  /** Milliseconds until then. */
  readonly left: number
}

/** Notes the address of a process; gives who was alive under it before. Of two at once, the later one sees the other. */
export const namesakes = Effect.fnUntraced(function*(
  sql: Sql,
  name: string,
  address: string
): Effect.fn.Return<ReadonlyArray<Namesake>, SqlError> {
  yield* sql.unsafe("UPDATE tool_executor_runners SET address = $2 WHERE name = $1", [name, address])
  return yield* sql.unsafe<Namesake>(
    `SELECT name, lease_until AS until, lease_until - ${now} AS left FROM tool_executor_runners
    WHERE address = $2 AND lease_until > ${now} AND machine < (SELECT machine FROM tool_executor_runners WHERE name = $1)`,
    [name, address]
  ).withoutTransform
})

/** Notes that a process has shards from now on, and where it is; gives its number. */
export const join = (sql: Sql, name: string, place: string): Effect.Effect<number | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly machine: number }>(
      "UPDATE tool_executor_runners SET place = $2, reachable = true WHERE name = $1 RETURNING machine",
      [name, place]
    ).withoutTransform,
    ([row]) => row?.machine
  )

/** Notes whether a runner could be reached at its address. */
export const reach = (sql: Sql, address: string, isReachable: boolean): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `UPDATE tool_executor_runners SET reachable = $2 WHERE address = $1 AND place IS NOT NULL AND lease_until > ${now}`,
    [address, isReachable]
  )

/** Takes those of some shards that nobody has whose lease is valid; gives all that the process has then. */
export const acquireShards = (
  sql: Sql,
  name: string,
  ids: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly id: string }>(
      `INSERT INTO tool_executor_shards AS it (id, runner)
      SELECT id, $1 FROM json_array_elements_text($2::json) AS id
      WHERE EXISTS (SELECT 1 FROM tool_executor_runners WHERE name = $1 AND lease_until > ${now}) ORDER BY id
      ON CONFLICT (id) DO UPDATE SET runner = excluded.runner
      WHERE it.runner = excluded.runner
        OR NOT EXISTS (SELECT 1 FROM tool_executor_runners WHERE name = it.runner AND lease_until > ${now})
      RETURNING id`,
      [name, JSON.stringify(ids)]
    ).withoutTransform,
    (rows) => rows.map(({ id }) => id)
  )

/** Frees shards of a process. */
export const releaseShards = (
  sql: Sql,
  name: string,
  ids: ReadonlyArray<string>
): Effect.Effect<unknown, SqlError> =>
  sql.unsafe(
    `DELETE FROM tool_executor_shards
    WHERE runner = $1 AND id ${among("$2")}`,
    [name, JSON.stringify(ids)]
  )

/** Ends the life of a process. Its row stays as long as it may hold sessions. */
export const unregister = (sql: Sql, name: string): Effect.Effect<unknown, SqlError> =>
  sql.unsafe("UPDATE tool_executor_runners SET lease_until = 0, place = NULL WHERE name = $1", [name])

/** A list that PostgreSQL gives as JSON; `null` if it is empty. */
const listOf = <A>(json: string | null | undefined): ReadonlyArray<A> =>
  json === null || json === undefined ? [] : JSON.parse(json) as ReadonlyArray<A>
