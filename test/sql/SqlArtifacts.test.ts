import { layer } from "@effect/vitest"
import { SqlArtifacts } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { ArtifactStoreContract } from "effect-tool-executor/testing"
import * as Layer from "effect/Layer"
import * as Contract from "../support/contract.ts"
import * as Postgres from "../support/Postgres.ts"

Contract.run(
  "ArtifactStore in SQLite",
  ArtifactStoreContract.make({
    layer: (options) => Layer.provide(SqlArtifacts.layer(options), Sqlite.layer({ filename: ":memory:" }))
  })
)

layer(Postgres.layer)((it) => {
  Contract.run(
    "ArtifactStore in PostgreSQL",
    ArtifactStoreContract.make({
      layer: (options) => Layer.provide(SqlArtifacts.layer(options), Postgres.client)
    }),
    it
  )
})
