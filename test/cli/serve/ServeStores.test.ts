/** What a server finds where it keeps its records. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Database from "../../../src/cli/serve/Database.ts"
import * as ServeStores from "../../../src/cli/serve/ServeStores.ts"

describe("a server that meets records of an older version", () => {
  it.live("does not start empty but says what to do, and starts once the table has none", () =>
    Effect.gen(function*() {
      const data = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      const inDatabase = (statement: string) =>
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement)).pipe(
          Effect.provide(Database.layer(`${data}/records.db`))
        )
      const start = Effect.scoped(
        Layer.build(ServeStores.layer({ config: `${data}/config.json`, root: undefined, data, postgres: undefined }))
      )
      yield* inDatabase("CREATE TABLE tool_executor_server (id TEXT PRIMARY KEY, value TEXT NOT NULL)")
      yield* start
      yield* inDatabase("INSERT INTO tool_executor_server VALUES ('served.wave', '{}')")
      const failure = yield* Effect.flip(start)
      assert.include(failure.message, "The table tool_executor_server has records of an older version")
      assert.include(failure.message, "--data DIR")
      yield* inDatabase("DELETE FROM tool_executor_server")
      yield* start
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})
