/**
 * A real PostgreSQL for tests: one server per run, a database of its own for each test.
 *
 * `TEST_POSTGRES` names the server (`support/globalPostgres.ts` starts it and sets the
 * variable). Without it, each layer starts a server of its own and stops it at the end.
 * With `TEST_POOLED`, every database is behind a pooler in transaction mode.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import * as EmbeddedPostgres from "../../src/cli/simulate/EmbeddedPostgres.ts"
import * as Pooler from "./transactionPooler.ts"

/** A server, and how to get at its databases. */
export class Postgres extends Context.Service<Postgres, {
  readonly urlFor: (database: string) => string
  /** Makes an empty database; gives its URL. */
  readonly database: Effect.Effect<string>
}>()("test/support/Postgres") {}

export { binariesOf, copyInto } from "../../src/cli/simulate/EmbeddedPostgres.ts"

/** The library, as it is installed. */
export const installed = EmbeddedPostgres.installed()!

/** Layer with a server that starts from where the library is. */
export const layerFrom = (library: string): Layer.Layer<Postgres> =>
  Layer.effect(Postgres, Effect.map(EmbeddedPostgres.start(library), (port) => serverAt(urlOf(port))))

/** The server of this run. */
const direct: Layer.Layer<Postgres> = Layer.unwrap(Effect.sync(() => {
  const url = process.env["TEST_POSTGRES"]
  return url === undefined ? layerFrom(installed) : Layer.succeed(Postgres, serverAt(url))
}))

/** Layer with the same server, each of whose databases is behind a pooler in transaction mode. */
export const pooled: Layer.Layer<Postgres> = Layer.effect(
  Postgres,
  Effect.gen(function*() {
    const { database, urlFor } = yield* Postgres
    const scope = yield* Effect.scope
    const behind = Effect.flatMap(database, (url) => Scope.provide(Pooler.make(url), scope))
    return { urlFor, database: Effect.map(behind, ({ url }) => `${url}?pgbouncer=true`) }
  })
).pipe(Layer.provide(direct))

/** Layer with the server of this run: `it.layer(Postgres.layer, { timeout: 60_000 })`. */
export const layer: Layer.Layer<Postgres> = process.env["TEST_POOLED"] === undefined ? direct : pooled

/** Has `simulate` use the server of this run. */
export const forSimulate: Layer.Layer<never> = Layer.unwrap(Effect.sync(() => {
  const url = process.env["TEST_POSTGRES"]
  return url === undefined
    ? Layer.empty
    : ConfigProvider.layer(ConfigProvider.fromUnknown({ TOOL_EXECUTOR_POSTGRES: url }))
}))

const urlOf = (port: number): string => EmbeddedPostgres.urlOf(port, "postgres")

const serverAt = (url: string): Postgres["Service"] => {
  const admin = PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })
  const urlFor = (database: string): string => Object.assign(new URL(url), { pathname: `/${database}` }).href
  return {
    urlFor,
    database: Effect.gen(function*() {
      const name = `test_${randomUUID().replaceAll("-", "")}`
      const sql = yield* PgClient.PgClient
      yield* sql`CREATE DATABASE ${sql(name)}`
      return urlFor(name)
    }).pipe(Effect.provide(admin, { local: true }), Effect.orDie)
  }
}

/** Has what is built in it go by real time, such as the pool of a client, whatever the clock of a test says. */
export const realTime: Layer.Layer<never> = Layer.succeed(Clock.Clock, Context.get(Context.empty(), Clock.Clock))

/** Layer with a client of a database; behind a pooler it prepares no statement. */
export const clientOf = (url: string) => {
  const direct = url.replace("?pgbouncer=true", "")
  return PgClient.layer({ url: Redacted.make(direct), prepare: direct === url, maxConnections: 10 })
}

/** Layer with a client of an empty database of its own, at each build. */
export const client: Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError, Postgres> = Layer.unwrap(
  Effect.gen(function*() {
    const { database } = yield* Postgres
    return clientOf(yield* database)
  })
).pipe(Layer.provide(realTime))
