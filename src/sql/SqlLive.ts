/**
 * Live items in PostgreSQL, for as many processes as share the database. Nothing listens: a process reads each second,
 * and only while somebody follows its page.
 *
 * The numbers come from one row, so that an item never appears before an earlier one.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MigrationError } from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import { type LiveRow, LiveTable, LiveTableError } from "../core/store/LiveTable.ts"
import { ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { isPg, plain } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"

/** How much is kept. */
export interface Options {
  /** Items. A page that falls further behind loads its lists again. Default 20,000. */
  readonly maxItems?: number | undefined
}

/** The defaults. */
export const defaults = { maxItems: 20_000 } as const satisfies Options

/** Layer of the items in the database of a client; brings its schema up to date first. */
export const layer = (
  options: Options = {}
): Layer.Layer<LiveTable, ConfigurationError | MigrationError | SqlError, SqlClient.SqlClient> =>
  Layer.effect(
    LiveTable,
    Effect.gen(function*() {
      const sql = (yield* SqlClient.SqlClient).withoutTransforms()
      if (!isPg(sql)) return yield* notPostgres
      const { maxItems } = yield* readOptions("SqlLive", (read) => ({
        maxItems: read.count("maxItems", options.maxItems ?? defaults.maxItems, 1)
      }))
      yield* Migrations.run(sql, schema)
      const runner = randomUUID()
      let sincePrune = 0
      const run = <A>(operation: string, effect: Effect.Effect<A, SqlError>) =>
        Effect.mapError(own(sql)(effect), (cause) => new LiveTableError({ operation, cause }))

      return LiveTable.of({
        append: (rows) =>
          run(
            "append",
            Effect.gen(function*() {
              const [row] = yield* append(sql, runner, rows)
              sincePrune += rows.length
              if (sincePrune < maxItems / 10) return
              sincePrune = 0
              yield* sql`DELETE FROM tool_executor_live WHERE number <= ${Number(row!.last) - maxItems}`
            })
          ),
        end: run("end", Effect.map(sql<{ readonly last: unknown }>`SELECT last FROM tool_executor_live_end`, lastOf)),
        read: (after) => run("read", read(sql, runner, after))
      })
    })
  )

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE tool_executor_live (
    number BIGINT PRIMARY KEY,
    runner TEXT NOT NULL,
    username TEXT NOT NULL,
    item TEXT NOT NULL
  )`
  yield* sql`CREATE TABLE tool_executor_live_end (
    id INTEGER PRIMARY KEY,
    last BIGINT NOT NULL
  ) WITH (fillfactor = 10)`
  yield* sql`INSERT INTO tool_executor_live_end (id, last) VALUES (1, 0)`
})

const schema: Migrations.Schema = {
  table: "tool_executor_live_migrations",
  tables: ["tool_executor_live", "tool_executor_live_end"],
  migrations: { "0001_live": create }
}

/** Items that are read at once. */
const atOnce = 500

const append = (sql: SqlClient.SqlClient, runner: string, rows: ReadonlyArray<LiveRow>) =>
  sql.unsafe<{ readonly last: unknown }>(
    `WITH place AS (
      UPDATE tool_executor_live_end SET last = last + $3::bigint WHERE id = 1 RETURNING last
    ), written AS (
      INSERT INTO tool_executor_live (number, runner, username, item)
      SELECT place.last - $3::bigint + r.n, $1, r.username, r.item
      FROM place, ROWS FROM (json_to_recordset($2::json) AS (username text, item text)) WITH ORDINALITY
        AS r (username, item, n)
    )
    SELECT last FROM place`,
    [runner, JSON.stringify(rows.map(({ item, user }) => ({ username: plain(user), item }))), rows.length]
  ).withoutTransform

const lastOf = (rows: ReadonlyArray<{ readonly last: unknown }>): number => Number(rows[0]?.last ?? 0)

const read = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  runner: string,
  after: number
): Effect.fn.Return<Effect.Success<ReturnType<LiveTable["Service"]["read"]>>, SqlError> {
  const rows = yield* sql.unsafe<{
    readonly number: unknown
    readonly username: string | null
    readonly item: string | null
    readonly first: unknown
  }>(
    `(SELECT number, username, item, NULL::bigint AS first FROM tool_executor_live
      WHERE number > $1::bigint AND runner <> $2 ORDER BY number LIMIT $3)
    UNION ALL SELECT last, NULL, NULL, (SELECT min(number) FROM tool_executor_live) FROM tool_executor_live_end
    ORDER BY number`,
    [after, runner, atOnce]
  ).withoutTransform
  const found = rows.flatMap(({ item, number, username }) =>
    item === null ? [] : [{ number: Number(number), user: username!, item }]
  )
  const end = rows.find(({ item }) => item === null)
  const last = Number(end?.number ?? 0)
  return {
    rows: found,
    end: found.length === atOnce ? found.at(-1)!.number : last,
    isComplete: last <= after || (end?.first !== null && Number(end?.first) <= after + 1)
  }
})

const notPostgres = new ConfigurationError({
  subject: "SqlLive",
  problems: [{
    path: "SqlClient",
    problem: "it is not a client of PostgreSQL",
    expected: "PgClient.layer. One process needs no database for its live items"
  }]
})
