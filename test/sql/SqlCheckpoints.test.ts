import { layer } from "@effect/vitest"
import { SqlCheckpoints } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { CheckpointsContract } from "effect-tool-executor/testing"
import * as Layer from "effect/Layer"
import * as Contract from "../support/contract.ts"
import * as Postgres from "../support/Postgres.ts"

Contract.run(
  "Checkpoints in SQLite",
  CheckpointsContract.make({
    layer: (options) => Layer.provide(SqlCheckpoints.layer(options), Sqlite.layer({ filename: ":memory:" }))
  })
)

layer(Postgres.layer)((it) => {
  Contract.run(
    "Checkpoints in PostgreSQL",
    CheckpointsContract.make({
      layer: (options) => Layer.provide(SqlCheckpoints.layer(options), Postgres.client)
    }),
    it
  )
})
