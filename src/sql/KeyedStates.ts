/**
 * States that processes share, one to a key: each changes in steps, and a step is isolated from all others.
 *
 * Both tables of what lasts longer than a process but not for ever (circuits, rate limits) are made of it. The clock is
 * the database's, so that processes whose clocks differ agree; a state whose time is over is as if it were not there,
 * and its row is deleted some time later.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import * as Versioned from "../internal/versioned.ts"
import * as Migrations from "./Migrations.ts"
import { own, transaction } from "./OwnConnection.ts"

/** What a step makes of a state. */
export interface Step<A, S> {
  readonly answer: A
  /** The state from now on; absent: it does not change. */
  readonly next?: {
    readonly state: S
    /** Epoch milliseconds from which on it is as if it were not there; absent: those that it has. */
    readonly expiresAt?: number | undefined
  } | undefined
}

export interface KeyedStates<S> {
  /** Makes a step; `now` is epoch milliseconds of the database. */
  readonly modify: <A>(
    key: string,
    step: (state: S | undefined, now: number) => Step<A, S>
  ) => Effect.Effect<A, Trouble>
  /** Reads a state without a lock. */
  readonly read: <A>(key: string, look: (state: S | undefined, now: number) => A) => Effect.Effect<A, Trouble>
}

export interface Table {
  /** The states of one kind: their keys are their own. */
  readonly states: <S>(kind: string, schema: Schema.Codec<S, unknown>) => KeyedStates<S>
}

/** The database cannot be reached, or has what it should not have. */
export type Trouble = SqlError.SqlError | Error

/** Opens a table, which is made if it is not there. */
export const open = Effect.fnUntraced(function*(
  table: string
): Effect.fn.Return<Table, Migrator.MigrationError | SqlError.SqlError, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  yield* Migrations.run(sql, {
    table: `${table}_migrations`,
    tables: [table],
    migrations: migrationsOf(table)
  })
  const now = nowIn(sql)
  const swept = { at: 0 }
  return {
    states: <S>(kind: string, schema: Schema.Codec<S, unknown>): KeyedStates<S> => {
      const nameOf = (key: string) => `${kind}:${key}`
      const readers = { 1: Schema.decodeUnknownResult(schema) }
      const encode = Schema.encodeEffect(Schema.fromJsonString(schema))
      const stateIn = (row: Row): Effect.Effect<S | undefined, Error> =>
        row.state === "" || row.expires_at <= row.now
          ? Effect.undefined
          : Effect.fromResult(Versioned.decode(readers, row.state))

      const modify = Effect.fnUntraced(function*<A>(
        name: string,
        step: (state: S | undefined, now: number) => Step<A, S>
      ): Effect.fn.Return<readonly [answer: A, now: number], Trouble> {
        // a missing row is locked, too, until the transaction ends; the clock is read under the lock
        const [row] = yield* sql<Row>`
          INSERT INTO ${sql(table)} (name, state, expires_at) VALUES (${name}, '', 0)
          ON CONFLICT (name) DO UPDATE SET name = excluded.name
          RETURNING state, expires_at, ${now} AS now
        `.withoutTransform
        const { answer, next } = step(yield* stateIn(row!), row!.now)
        if (next !== undefined) {
          const state = Versioned.encode(1, yield* encode(next.state))
          const expiresAt = next.expiresAt ?? row!.expires_at
          yield* sql`UPDATE ${sql(table)} SET state = ${state}, expires_at = ${expiresAt} WHERE name = ${name}`
        }
        return [answer, row!.now] as const
      })

      return {
        modify: Effect.fnUntraced(function*(key, step) {
          const [answer, now] = yield* transaction(sql)(modify(nameOf(key), step))
          if (now - swept.at < sweepMillis) return answer
          swept.at = now
          // failing to delete expired rows refuses no call
          yield* Effect.ignore(pruned(sql, table))
          return answer
        }),
        read: Effect.fnUntraced(function*(key, look) {
          const [row] = yield* own(sql)(
            // one row, also if the state is missing
            sql<Row>`
              SELECT COALESCE(state, '') AS state, COALESCE(expires_at, 0) AS expires_at, ${now} AS now
              FROM (SELECT 1) AS one LEFT JOIN ${sql(table)} ON name = ${nameOf(key)}
            `.withoutTransform
          )
          return look(yield* stateIn(row!), row!.now)
        })
      }
    }
  }
})

/** Deletes what is as if it were not there; gives how many states those were. */
export const prune = (table: string): Effect.Effect<number, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => pruned(sql, table))

interface Row {
  /** JSON; empty if there is no state. */
  readonly state: string
  readonly expires_at: number
  readonly now: number
}

/** Milliseconds between two deletions of expired rows. */
const sweepMillis = 10 * 60_000

const pruned = (sql: SqlClient.SqlClient, table: string): Effect.Effect<number, SqlError.SqlError> =>
  Effect.map(
    own(sql)(sql`DELETE FROM ${sql(table)} WHERE expires_at <= ${nowIn(sql)} RETURNING name`.values),
    (rows) => rows.length
  )

const nowIn = (sql: SqlClient.SqlClient) =>
  sql.onDialectOrElse({
    sqlite: () => sql.literal("unixepoch('subsec') * 1000.0"),
    orElse: () => sql.literal("(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::float8")
  })

const migrationsOf = (table: string): Migrations.Schema["migrations"] => ({
  "0001_states": Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`CREATE TABLE ${sql(table)} (
      name TEXT PRIMARY KEY,
      state TEXT NOT NULL,
      expires_at DOUBLE PRECISION NOT NULL
    )`)
})
