/**
 * The devices that users are notified on, in PostgreSQL or SQLite: a device that subscribed at one server is notified by
 * all, also after a restart.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { type Device, PushTable, PushTableError } from "../core/store/PushTable.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE tool_executor_devices (
    endpoint TEXT PRIMARY KEY,
    username TEXT NOT NULL,
    p256dh TEXT NOT NULL,
    auth TEXT NOT NULL,
    added_at DOUBLE PRECISION NOT NULL
  )`
  yield* sql`CREATE INDEX tool_executor_devices_by_user ON tool_executor_devices (username, added_at)`
})

const schema: Migrations.Schema = {
  table: "tool_executor_devices_migrations",
  tables: ["tool_executor_devices"],
  migrations: { "0001_devices": create }
}

/** Layer of devices in the database of a client; brings its schema up to date first. */
export const layer: Layer.Layer<PushTable, Migrator.MigrationError | SqlError, SqlClient.SqlClient> = Layer.effect(
  PushTable,
  Effect.suspend(() => make)
)

const make = Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  yield* Migrations.run(sql, schema)
  const run = own(sql)
  return PushTable.of({
    // devices at the same moment do not see each other: the next one forgets what is too many
    add: Effect.fnUntraced(function*({ addedAt, auth, endpoint, p256dh, user }, perUser) {
      yield* failing(
        "add",
        run(sql`INSERT INTO tool_executor_devices (endpoint, username, p256dh, auth, added_at)
          VALUES (${endpoint}, ${user}, ${p256dh}, ${auth}, ${addedAt})
          ON CONFLICT (endpoint) DO UPDATE SET username = excluded.username, p256dh = excluded.p256dh,
            auth = excluded.auth, added_at = excluded.added_at`)
      )
      yield* failing(
        "add",
        run(sql`DELETE FROM tool_executor_devices WHERE username = ${user} AND endpoint NOT IN (
          SELECT endpoint FROM tool_executor_devices WHERE username = ${user}
          ORDER BY added_at DESC, endpoint LIMIT ${perUser}
        )`)
      )
    }),
    remove: ({ endpoint, user }) =>
      failing(
        "remove",
        run(sql`DELETE FROM tool_executor_devices WHERE endpoint = ${endpoint} AND username = ${user}`)
      ),
    all: failing(
      "all",
      run(
        sql<Device>`SELECT endpoint, username AS "user", p256dh, auth, added_at AS "addedAt" FROM tool_executor_devices
          ORDER BY added_at, endpoint`.withoutTransform
      )
    )
  })
})

const failing = <A, R>(operation: string, effect: Effect.Effect<A, SqlError, R>) =>
  Effect.mapError(effect, (cause) => new PushTableError({ operation, cause }))
