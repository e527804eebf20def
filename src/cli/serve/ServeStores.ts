/** The storage of `tool-executor serve`: one database, either a SQLite file in a private folder or PostgreSQL. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type * as RateLimiter from "effect/persistence/RateLimiter"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import type { Transcripts } from "../../agent/Transcripts.ts"
import * as TranscriptStore from "../../agent/TranscriptStore.ts"
import * as DatabaseCheck from "../../cluster/DatabaseCheck.ts"
import type { SharedPermits } from "../../core/gates/PermitSource.ts"
import type { ArtifactStore } from "../../core/output/ArtifactStore.ts"
import type { Checkpoints } from "../../core/output/Checkpoints.ts"
import type { ApprovalTable } from "../../core/store/ApprovalTable.ts"
import type { Journal } from "../../core/store/Journal.ts"
import type { LiveTable } from "../../core/store/LiveTable.ts"
import type { LoginTable } from "../../core/store/LoginTable.ts"
import type { PushTable } from "../../core/store/PushTable.ts"
import type { SessionRegistry } from "../../core/store/SessionRegistry.ts"
import type { SessionRows } from "../../core/store/SessionRows.ts"
import type { StateStore } from "../../core/store/StateStore.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import * as OperationStore from "../../server/operations/OperationStore.ts"
import * as WaveStore from "../../server/waves/WaveStore.ts"
import * as SqlApprovals from "../../sql/SqlApprovals.ts"
import * as SqlArtifacts from "../../sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../../sql/SqlCheckpoints.ts"
import * as SqlCircuitBreakerStore from "../../sql/SqlCircuitBreakerStore.ts"
import * as SqlJournal from "../../sql/SqlJournal.ts"
import * as SqlLive from "../../sql/SqlLive.ts"
import * as SqlLogins from "../../sql/SqlLogins.ts"
import * as SqlOwnRows from "../../sql/SqlOwnRows.ts"
import * as SqlPermits from "../../sql/SqlPermits.ts"
import * as SqlPushDevices from "../../sql/SqlPushDevices.ts"
import * as SqlRateLimiterStore from "../../sql/SqlRateLimiterStore.ts"
import * as SqlSessionRegistry from "../../sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../sql/SqlStateStore.ts"
import * as FileLock from "../../tools/workspace/FileLock.ts"
import * as PrivateFolder from "../../tools/workspace/PrivateFolder.ts"
import { CliFailure, describe, reasonsOf, wrong } from "../CliFailure.ts"
import * as GatewayProblems from "../gateway/GatewayProblems.ts"
import * as StateFolder from "../StateFolder.ts"
import * as Database from "./Database.ts"
import type { Runner } from "./ServeCluster.ts"

/** Where it is kept. */
export interface Options {
  /** The config file; without `data`, each config file gets a separate folder. */
  readonly config: string
  /** Folder that the tools work in, if they do. */
  readonly root: string | undefined
  readonly data: string | undefined
  readonly postgres: Redacted.Redacted<string> | undefined
}

/** What is kept. */
export type Stores =
  | ArtifactStore
  | Checkpoints
  | Journal
  | OperationStore.OperationStore
  | PushTable
  | StateStore
  | Transcripts
  | WaveStore.WaveStore

/** What processes share beside it, each with its part of the sessions. */
export type Shared =
  | ApprovalTable
  | CircuitBreaker.CircuitBreakerStore
  | LiveTable
  | LoginTable
  | RateLimiter.RateLimiterStore
  | SessionRegistry
  | SessionRows
  | SharedPermits
  | SqlClient.SqlClient

/** Layer of the stores. A folder has one server at a time. */
export const layer = (options: Options) => {
  const from = ({ at, ...held }: Place): Layer.Layer<Stores, CliFailure> =>
    usableAt(at)(storesWith(held).pipe(Layer.provide(readable), Layer.provide(Database.layer(at))))
  return Layer.unwrap(Effect.map(options.postgres === undefined ? fileIn(options) : urlOf(options.postgres), from))
}

/** Layer of the stores of a runner, which shares them with the others of its cluster. */
export const layerShared = (
  { lease, postgres }: Pick<Runner, "lease" | "postgres">
): Layer.Layer<Shared | Stores, CliFailure> => {
  const from = ({ at }: Place) =>
    usableAt(at)(
      sharedWith(lease, Database.isPooled(at)).pipe(Layer.provide(readable), Layer.provideMerge(Database.layer(at)))
    )
  return Layer.unwrap(Effect.map(urlOf(postgres), from))
}

const usableAt = (at: string) => <A, E, R>(stores: Layer.Layer<A, E, R>): Layer.Layer<A, CliFailure, R> =>
  Layer.catch(stores, (error) => Layer.effectContext<A, CliFailure, never>(Effect.fail(unusable(at, error))))

/** Fails where an older version has records, which would otherwise be missing without a word. */
const readable = Layer.effectDiscard(Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const [found] = yield* sql.onDialectOrElse({
    pg: () => sql`SELECT 1 AS found WHERE to_regclass(${olderTable}) IS NOT NULL`,
    orElse: () => sql`SELECT 1 AS found FROM sqlite_master WHERE name = ${olderTable}`
  })
  if (found === undefined) return
  const [row] = yield* sql`SELECT 1 FROM ${sql(olderTable)} LIMIT 1`
  if (row === undefined) return
  return yield* wrong(
    `The table ${olderTable} has records of an older version, which this version does not read. Let the older version ` +
      `finish what runs there. Then choose another folder (--data DIR) or database, or drop the table to start without them`
  )
}))

/** What servers without a cluster kept their sessions in before there were rows of sessions. */
const olderTable = "tool_executor_server"

interface Place {
  readonly at: string
  readonly lease: "2 minutes" | undefined
  readonly isAlone: boolean
}

const storesWith = (held: Omit<Place, "at">) =>
  Layer.mergeAll(
    SqlJournal.layer(held),
    SqlStateStore.layer(held),
    SqlArtifacts.layer(),
    SqlCheckpoints.layer(),
    SqlPushDevices.layer,
    Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
      Layer.provide(SqlOwnRows.layer)
    )
  ).pipe(Layer.provide(held.isAlone ? Layer.empty : SqlSessionRegistry.layerAlone))

const sharedWith = (lease: number, isPooled: boolean) =>
  Layer.mergeAll(
    SqlJournal.layer(),
    SqlStateStore.layer({ lease }),
    SqlArtifacts.layer(),
    SqlCheckpoints.layer(),
    SqlPushDevices.layer,
    SqlLogins.layer,
    SqlPermits.layer({ lease }),
    SqlRateLimiterStore.layer,
    SqlCircuitBreakerStore.layer(),
    SqlApprovals.layer,
    SqlLive.layer(),
    WaveStore.layer,
    OperationStore.layer,
    TranscriptStore.layer
  ).pipe(
    Layer.provideMerge(SqlSessionRows.layer),
    Layer.provideMerge(SqlSessionRegistry.layer({ lease })),
    Layer.provide(Layer.effectDiscard(DatabaseCheck.check(isPooled)))
  )

/** It does not repeat the URL: there may be a password in it. */
const urlOf = (url: Redacted.Redacted<string>): Effect.Effect<Place, CliFailure> =>
  Database.isPostgres(Redacted.value(url))
    ? Effect.succeed({ at: Redacted.value(url), lease: undefined, isAlone: false })
    : Effect.fail(wrong("TOOL_EXECUTOR_POSTGRES (or --postgres) must be a URL of the form postgres://…"))

/** The file of the records, in a folder that is this process's until it ends. */
const fileIn = Effect.fnUntraced(function*({ config, data, root }: Options) {
  const path = yield* Path.Path
  const given = data ?? (yield* defaultFolder(config))
  const folder = yield* Effect.catchTag(
    PrivateFolder.locate("--data", { directory: given, root }),
    "ConfigurationError",
    (error) =>
      // what is wrong with the root stands in the config
      Effect.fail(wrong(describe(error.subject === "--data" ? error : GatewayProblems.inFile(config, error))))
  )
  const unwritable = (cause: unknown) => wrong(escape(`${folder}: cannot be written (${messageOf(cause)})`))
  yield* Effect.tryPromise({ try: () => PrivateFolder.makeOwn(folder), catch: unwritable })
  const own = ["server.lock", "records.db", "records.db-wal", "records.db-shm"]
  yield* Effect.forEach(
    own,
    (name) => Effect.tryPromise({ try: () => PrivateFolder.closeToOthers(path.join(folder, name)), catch: unwritable }),
    { discard: true }
  )
  const lock = yield* Effect.acquireRelease(
    Effect.try({ try: () => FileLock.take(path.join(folder, "server.lock")), catch: unwritable }),
    (it) => Effect.sync(() => it?.release())
  )
  // only the holder of the lock uses the folder: the next start takes over what a dead process held, and a live process
  // loses nothing by being slow
  const place: Place = { at: path.join(folder, "records.db"), lease: "2 minutes", isAlone: true }
  return lock !== undefined ? place : yield* wrong(
    escape(
      `${folder}: another server uses this folder. Stop it, or choose another folder with --data DIR`
    )
  )
})

const defaultFolder = Effect.fnUntraced(function*(config: string) {
  const files = yield* FileSystem.FileSystem
  const real = yield* Effect.orElseSucceed(files.realPath(config), () => config)
  const folder = yield* StateFolder.folderOf("serve", real)
  return folder ?? (yield* wrong("There is no home folder for records. Use --data DIR."))
})

const unusable = (at: string, error: unknown): CliFailure => {
  if (error instanceof CliFailure) return error
  if (error instanceof ConfigurationError) return wrong(describe(error))
  return wrong(escape(`${Database.isPostgres(at) ? "the records in PostgreSQL" : at}: ${reasonsOf(error).join(": ")}`))
}

const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
