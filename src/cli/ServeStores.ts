/**
 * What `tool-executor serve` keeps: records in one database, which is a file of SQLite in a
 * folder of its own, or PostgreSQL.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Redacted from "effect/Redacted"
import { escape } from "../internal/escape.ts"
import type { ArtifactStore } from "../output/ArtifactStore.ts"
import type { Checkpoints } from "../output/Checkpoints.ts"
import * as SqlArtifacts from "../sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../sql/SqlCheckpoints.ts"
import * as SqlJournal from "../sql/SqlJournal.ts"
import * as SqlStateStore from "../sql/SqlStateStore.ts"
import type { Journal } from "../store/Journal.ts"
import type { StateStore } from "../store/StateStore.ts"
import * as FileLock from "../tools/FileLock.ts"
import * as PrivateFolder from "../tools/PrivateFolder.ts"
import { CliFailure, describe, wrong } from "./CliFailure.ts"
import * as Database from "./Database.ts"
import * as StateFolder from "./StateFolder.ts"

/**
 * Where it is kept.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The config file: without `data`, each has a folder of its own. */
  readonly config: string
  /** Folder that the tools work in, if they do. */
  readonly root: string | undefined
  readonly data: string | undefined
  readonly postgres: Redacted.Redacted<string> | undefined
}

/**
 * What is kept.
 *
 * @category models
 * @since 0.1.0
 */
export type Stores = Journal | StateStore | ArtifactStore | Checkpoints | KeyValueStore.KeyValueStore

/**
 * Layer of the stores. A folder has one server at a time.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options) =>
  Layer.unwrap(Effect.map(
    options.postgres === undefined ? fileIn(options) : urlOf(options.postgres),
    (at): Layer.Layer<Stores, CliFailure> =>
      stores.pipe(
        Layer.provide(Database.layer(at)),
        Layer.catch((error) => Layer.effectContext(Effect.fail(unusable(at, error))))
      )
  ))

// Utilities

const stores = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer(),
  SqlArtifacts.layer(),
  SqlCheckpoints.layer(),
  KeyValueStore.layerSql({ table: "tool_executor_server" })
)

/** It does not repeat the URL: there may be a password in it. */
const urlOf = (url: Redacted.Redacted<string>) =>
  Database.isPostgres(Redacted.value(url))
    ? Effect.succeed(Redacted.value(url))
    : Effect.fail(wrong("The database has to be given as postgres://…"))

/** The file of the records, in a folder that is this process's until it ends. */
const fileIn = Effect.fnUntraced(function*({ config, data, root }: Options) {
  const path = yield* Path.Path
  const given = data ?? (yield* defaultFolder(config))
  const folder = yield* Effect.catchTag(
    PrivateFolder.locate("--data", { directory: given, root }),
    "ConfigurationError",
    (error) => Effect.fail(wrong(describe(error)))
  )
  const unwritable = (cause: unknown) => wrong(escape(`${folder}: it cannot be written to (${messageOf(cause)})`))
  yield* Effect.tryPromise({ try: () => PrivateFolder.make(folder), catch: unwritable })
  const lock = yield* Effect.acquireRelease(
    Effect.try({ try: () => FileLock.take(path.join(folder, "server.lock")), catch: unwritable }),
    (it) => Effect.sync(() => it?.release())
  )
  if (lock !== undefined) return path.join(folder, "records.db")
  return yield* wrong(
    escape(
      `${folder}: another server keeps its records there. Stop it, or give this one a folder of its own: --data DIR`
    )
  )
})

const defaultFolder = Effect.fnUntraced(function*(config: string) {
  const files = yield* FileSystem.FileSystem
  const real = yield* Effect.orElseSucceed(files.realPath(config), () => config)
  const folder = yield* StateFolder.folderOf("serve", real)
  if (Option.isSome(folder)) return folder.value
  return yield* wrong("There is no home folder to keep records in. Give --data DIR.")
})

const unusable = (at: string, error: unknown): CliFailure => {
  if (error instanceof CliFailure) return error
  const reasons: Array<string> = []
  for (let it = error; it instanceof Error && reasons.length < 4; it = it.cause) {
    if (!reasons.includes(it.message)) reasons.push(it.message)
  }
  return wrong(escape(`${Database.isPostgres(at) ? "the records in PostgreSQL" : at}: ${reasons.join(": ")}`))
}

const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
