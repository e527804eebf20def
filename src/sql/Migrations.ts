/**
 * The schema of a component, brought up to date when its layer is built.
 *
 * Each component has separate migrations and a separate table of versions, so that components share a database, in
 * whatever versions. A migration that was released is never changed: what it should have done is done by the next one.
 * A database that a newer version has been at is refused, since its content is unknown. So is one that lacks a table of
 * its version.
 */
import * as Effect from "effect/Effect"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { own } from "./OwnConnection.ts"

/** The schema of a component. */
export interface Schema {
  /** The table of its versions, such as `tool_executor_state_migrations`. No other component's. */
  readonly table: string
  /** The tables that it has at its last version. */
  readonly tables: ReadonlyArray<string>
  /** Keys are `0001_what_it_does`, with no number left out. */
  readonly migrations: Readonly<Record<string, Effect.Effect<unknown, unknown, SqlClient.SqlClient>>>
}

/** Runs the migrations that a database has not seen; several processes take turns. */
export const run = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  { migrations, table, tables }: Schema
): Effect.fn.Return<void, Migrator.MigrationError | SqlError> {
  const migrate = Migrator.make({})({ table, loader: Migrator.fromRecord({ ...migrations }) })
  yield* Effect.provideService(migrate, SqlClient.SqlClient, sql).pipe(own(sql, patience))
  const [row] = yield* own(sql)(
    sql<{ readonly version: number }>`SELECT MAX(migration_id) AS version FROM ${sql(table)}`.withoutTransform
  )
  const [known, found] = [Object.keys(migrations).length, row?.version ?? 0]
  if (found > known) {
    return yield* new Migrator.MigrationError({
      kind: "BadState",
      message: `${table} is at version ${found}, and this program knows no version above ${known}`
    })
  }
  const missing = yield* own(sql)(missingOf(sql, tables))
  if (missing.length > 0) {
    return yield* new Migrator.MigrationError({
      kind: "BadState",
      message:
        `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} missing, though ${table} is at version ` +
        `${found}. Restore what was removed from a backup, or drop ${table} and all tables of this store to start over.`
    })
  }
})

/** Milliseconds that all migrations of a component may take, and the wait for those of another process. */
const patience = 120_000

/** Those tables of a version that are not there: somebody has removed them, or restored a part of a backup. */
const missingOf = (sql: SqlClient.SqlClient, tables: ReadonlyArray<string>) =>
  Effect.map(
    sql.onDialectOrElse({
      pg: () =>
        sql.unsafe<{ readonly name: string }>(
          "SELECT name FROM json_array_elements_text($1::json) AS name WHERE to_regclass(name) IS NOT NULL",
          [JSON.stringify(tables)]
        ),
      orElse: () => sql<{ readonly name: string }>`SELECT name FROM sqlite_master WHERE type = 'table'`
    }).withoutTransform,
    (rows) => {
      const there = new Set(rows.map(({ name }) => name))
      return tables.filter((it) => !there.has(it))
    }
  )
