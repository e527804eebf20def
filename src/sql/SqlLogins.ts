/**
 * Logins of a server's page in PostgreSQL: a login on one server is one on all, and a logout ends it on all.
 *
 * The table has hashes of cookies, and tokens that are encrypted with the cookies.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { type Login, LoginTable, LoginTableError } from "../core/store/LoginTable.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { isPg } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE tool_executor_logins (
    key TEXT PRIMARY KEY,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    username TEXT NOT NULL,
    sealed TEXT NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
  )`
  yield* sql`CREATE INDEX tool_executor_logins_by_user ON tool_executor_logins (username, number)`
  yield* sql`CREATE INDEX tool_executor_logins_by_end ON tool_executor_logins (expires_at)`
})

const schema: Migrations.Schema = {
  table: "tool_executor_logins_migrations",
  tables: ["tool_executor_logins"],
  migrations: { "0001_logins": create }
}

/** Layer of logins in the database of a client; brings its schema up to date first. */
export const layer: Layer.Layer<
  LoginTable,
  ConfigurationError | Migrator.MigrationError | SqlError,
  SqlClient.SqlClient
> = Layer.effect(LoginTable, Effect.suspend(() => make))

const make = Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  if (!isPg(sql)) return yield* notPostgres
  yield* Migrations.run(sql, schema)
  const run = own(sql)
  return LoginTable.of({
    // logins at the same moment do not see each other: the next one ends what is too many
    add: ({ expiresAt, key, sealed, user }, { now, perUser }) =>
      failing(
        "add",
        run(sql`WITH ended AS (
          DELETE FROM tool_executor_logins WHERE expires_at <= ${now}
        ), surplus AS (
          DELETE FROM tool_executor_logins WHERE key = ANY (ARRAY(
            SELECT key FROM tool_executor_logins WHERE username = ${user} AND expires_at > ${now}
            ORDER BY number DESC OFFSET ${perUser - 1}
          ))
        )
        INSERT INTO tool_executor_logins (key, username, sealed, expires_at)
        VALUES (${key}, ${user}, ${sealed}, ${expiresAt})`)
      ),
    get: (key) =>
      failing(
        "get",
        Effect.map(
          run(
            sql<Login>`SELECT key, username AS "user", sealed, expires_at AS "expiresAt" FROM tool_executor_logins
              WHERE key = ${key}`.withoutTransform
          ),
          ([login]) => login
        )
      ),
    remove: (keys) =>
      keys.length === 0
        ? Effect.void
        : failing("remove", run(sql`DELETE FROM tool_executor_logins WHERE ${sql.in("key", keys)}`)),
    count: failing(
      "count",
      Effect.map(
        run(sql<{ readonly count: unknown }>`SELECT count(*) AS count FROM tool_executor_logins`.withoutTransform),
        ([row]) => Number(row?.count)
      )
    )
  })
})

const failing = <A, R>(operation: string, effect: Effect.Effect<A, SqlError, R>) =>
  Effect.mapError(effect, (cause) => new LoginTableError({ operation, cause }))

const notPostgres = new ConfigurationError({
  subject: "SqlLogins",
  problems: [{
    path: "SqlClient",
    problem: "it is not a client of PostgreSQL",
    expected: "PgClient.layer, or no LoginTable for one process"
  }]
})
