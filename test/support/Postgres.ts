/**
 * A real PostgreSQL for tests: one server per test file, a database of its own for
 * each test. The server has a folder and a port of its own, and is gone when the
 * file's layer is, whatever the tests did.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as EmbeddedPostgres from "../../src/cli/EmbeddedPostgres.ts"
/** Where a server listens. */
export class Postgres extends Context.Service<Postgres, {
  readonly port: number
  /** Makes an empty database; gives its URL. */
  readonly database: Effect.Effect<string>
}>()("test/support/Postgres") {}

export { binariesOf, copyInto } from "../../src/cli/EmbeddedPostgres.ts"

/** The library, as it is installed. */
export const installed = EmbeddedPostgres.installed()!

/** Layer with a server that starts from where the library is, for `layer` and the test of it. */
export const layerFrom = (library: string): Layer.Layer<Postgres> =>
  Layer.effect(
    Postgres,
    Effect.gen(function*() {
      const port = yield* EmbeddedPostgres.start(library)
      let last = 0
      const admin = PgClient.layer({ url: Redacted.make(EmbeddedPostgres.urlOf(port, "postgres")), maxConnections: 1 })
      return {
        port,
        database: Effect.gen(function*() {
          const name = `test_${++last}`
          const sql = yield* PgClient.PgClient
          yield* sql`CREATE DATABASE ${sql(name)}`
          return EmbeddedPostgres.urlOf(port, name)
        }).pipe(Effect.provide(admin, { local: true }), Effect.orDie)
      }
    })
  )

/** Layer with a server, for a test file: `it.layer(Postgres.layer, { timeout: 60_000 })`. */
export const layer: Layer.Layer<Postgres> = layerFrom(installed)

/** Has what is built in it go by real time, such as the pool of a client, whatever the clock of a test says. */
export const realTime: Layer.Layer<never> = Layer.succeed(Clock.Clock, Context.get(Context.empty(), Clock.Clock))

/** Layer with a client of a database. */
export const clientOf = (url: string) => PgClient.layer({ url: Redacted.make(url), maxConnections: 10 })

/** Layer with a client of an empty database of its own, at each build. */
export const client: Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError, Postgres> = Layer.unwrap(
  Effect.gen(function*() {
    const { database } = yield* Postgres
    return clientOf(yield* database)
  })
).pipe(Layer.provide(realTime))
