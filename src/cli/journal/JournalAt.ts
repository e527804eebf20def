/** Where a journal of the command line is: in a file of lines, in a SQLite database, or in PostgreSQL. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type * as Stream from "effect/Stream"
import * as Journal from "../../core/store/Journal.ts"
import type * as Chain from "../../core/store/JournalChain.ts"
import { escape } from "../../internal/escape.ts"
import * as SqlJournal from "../../sql/SqlJournal.ts"
import * as JournalFile from "../../tools/folders/JournalFile.ts"
import * as PrivateFolder from "../../tools/workspace/PrivateFolder.ts"
import * as Workspace from "../../tools/workspace/Workspace.ts"
import { type CliFailure, describe, reasonsOf, wrong } from "../CliFailure.ts"
import * as Flags from "../Flags.ts"
import * as Database from "../serve/Database.ts"

/** What it says of where a journal may be. */
export const description = "a file of lines (NDJSON), a SQLite database (*.db, *.sqlite), or postgres://…"

/** The flag that has a command record what it does. */
export const flag = Flags.text(
  "journal",
  "FILE|DSN",
  `Record every call here before it changes anything: ${description}. Default: no journal. ` +
    "`tool-executor journal` shows it"
)

/** The layer of the journal that is there, made if it is not. */
export const layerOf = (at: string): Layer.Layer<Journal.Journal, CliFailure> =>
  isStrayUrl(at)
    ? Layer.effectContext(strayUrl)
    : (isFile(at)
      ? JournalFile.layer({ path: at })
      : SqlJournal.layer().pipe(Layer.provide(Database.layer(at)))).pipe(
        Layer.catch((error) => Layer.effectContext(Effect.fail(unusable(at, error))))
      )

/** The same, where tools work in a root: the journal is not in it, for they could change it there. */
export const layerOutside = Effect.fnUntraced(function*(at: string, root: string) {
  if (isUrl(at)) return layerOf(at)
  const path = yield* Path.Path
  const workspace = yield* Workspace.make(root)
  const folder = yield* PrivateFolder.locate("--journal", { directory: path.dirname(path.resolve(at)) })
  if (!Workspace.isWithin(workspace.root, folder)) return layerOf(at)
  return yield* wrong(
    `${escape(at)} lies in the root, where tools can change it. Move the journal out of the root.`
  )
}, Effect.catchTag("ConfigurationError", (error) => Effect.fail(wrong(describe(error)))))

/** A journal to read. */
export interface Opened {
  readonly read: (query: Journal.Query) => Stream.Stream<Journal.Recorded, Journal.JournalError>
  /** Checks its hash chain. */
  readonly verify: (
    checkpoint: Chain.Checkpoint | undefined,
    earlierElsewhere: boolean
  ) => Effect.Effect<Chain.Verified, Journal.JournalError>
}

/** Reads the journal that is there, for the rest of the scope. */
export const open = Effect.fnUntraced(function*(at: string): Effect.fn.Return<
  Opened,
  CliFailure,
  FileSystem.FileSystem | Scope.Scope
> {
  if (isStrayUrl(at)) return yield* strayUrl
  if (!Database.isPostgres(at)) {
    const files = yield* FileSystem.FileSystem
    const isThere = yield* Effect.orElseSucceed(files.exists(at), () => false)
    if (!isThere) return yield* wrong(`${escape(at)}: there is no such file`)
  }
  if (isFile(at)) {
    return {
      read: (query) => JournalFile.read(at, query),
      verify: (checkpoint, earlierElsewhere) => JournalFile.verify(at, checkpoint, { earlierElsewhere })
    }
  }
  const context = yield* Effect.mapError(Layer.build(Database.layer(at, true)), (error) => unusable(at, error))
  const sql = yield* Effect.provideContext(SqlClient.SqlClient, context)
  return {
    read: (query) => SqlJournal.read(sql, query),
    verify: (checkpoint) => SqlJournal.verifyIn(sql, checkpoint)
  }
})

/** Error of a journal that cannot be used. */
export const unusable = (at: string, error: unknown): CliFailure => {
  // that it failed is said by being told
  const reasons = reasonsOf(error, (it) => it instanceof Journal.JournalError)
  const where = Database.isPostgres(at) ? "the journal in PostgreSQL" : at
  return wrong(escape(`${where}: ${reasons.join(": ")}`))
}

const isUrl = (at: string): boolean => /^[a-z][a-z\d+.-]*:\/\//i.test(at)

const isStrayUrl = (at: string): boolean => isUrl(at) && !Database.isPostgres(at)

/** It does not repeat the URL: there may be a password in it. */
const strayUrl: Effect.Effect<never, CliFailure> = Effect.suspend(() =>
  Effect.fail(wrong(`Unsupported URL for a journal. Use ${description}`))
)

const isFile = (at: string): boolean => !Database.isPostgres(at) && !/\.(?:db|sqlite3?)$/i.test(at)
