import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { execFileSync } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Postgres from "../support/Postgres.ts"

/** A copy of the library in a folder that only its owner can enter, as `/root` is. */
const closed = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-closed-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => {
    chmodSync(folder, 0o700)
    return Postgres.copyInto(folder, Postgres.installed)
  }
)

describe("PostgreSQL for tests", () => {
  it.effect("starts from a folder that only its owner can enter", () =>
    Effect.gen(function*() {
      const rows = yield* Effect.provide(
        Effect.flatMap(PgClient.PgClient, (sql) => sql`SELECT 1 AS one`),
        Postgres.client.pipe(Layer.provide(Postgres.layerFrom(yield* closed)))
      )
      assert.deepStrictEqual(rows, [{ one: 1 }])
    }).pipe(Effect.scoped))

  it.effect("starts where new files are closed to all but their owner, and was installed so", () =>
    Effect.gen(function*() {
      yield* Effect.acquireRelease(
        Effect.sync(() => process.umask(0o077)),
        (mask) => Effect.sync(() => process.umask(mask))
      )
      const library = yield* closed
      execFileSync("chmod", ["-R", "go-rwx", join(library, "../../..")])
      const rows = yield* Effect.provide(
        Effect.flatMap(PgClient.PgClient, (sql) => sql`SELECT 1 AS one`),
        Postgres.client.pipe(Layer.provide(Postgres.layerFrom(library)))
      )
      assert.deepStrictEqual(rows, [{ one: 1 }])
    }).pipe(Effect.scoped))

  it.effect("says why it does not start", () =>
    Effect.gen(function*() {
      const library = yield* closed
      const binary = join(Postgres.binariesOf(library), "native/bin/postgres")
      writeFileSync(binary, "#!/is/not/there\n")
      const exit = yield* Effect.exit(Layer.build(Postgres.layerFrom(library)))
      assert.isTrue(Exit.isFailure(exit))
      assert.include(String(exit), "PostgreSQL did not start")
      assert.include(String(exit), Postgres.binariesOf(library))
    }).pipe(Effect.scoped))
})
