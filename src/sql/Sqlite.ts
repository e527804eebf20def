/**
 * A `SqlClient` over `node:sqlite`: one connection to one file, in WAL mode, that puts what it commits on disk before
 * it answers.
 *
 * Whoever shares the file waits for its lock without holding up this thread: SQLite's own waiting would, and a
 * transaction of this very process that another fiber still has open could never end. The wait is in real time, since
 * the lock may be another process's; a transaction takes the lock as it begins, so nothing in it waits.
 *
 * What may take long to read, such as a search of the journal, is read by another connection in a separate thread
 * (`SqliteThread`).
 *
 * One connection has one transaction at a time: two parts of a program that write inside of each other need a client
 * each (see `sql/OwnConnection`).
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { closeSync, openSync } from "node:fs"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { setTimeout as sleep } from "node:timers/promises"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import * as OwnConnection from "./OwnConnection.ts"
import * as SqliteThread from "./SqliteThread.ts"

/** Which database, and how careful it is. */
export interface Options {
  /** The file, made if it is not there, for its owner alone; `":memory:"` for a database that ends with the client. */
  readonly filename: string
  /** How long to wait for others who have locked the file. Default 5 seconds. */
  readonly busyTimeout?: Duration.Input | undefined
  /**
   * `FULL` has what was committed survive a loss of power; `NORMAL` is faster, and has it survive the end of the
   * process only. Default `FULL`.
   */
  readonly synchronous?: "FULL" | "NORMAL" | undefined
  /** The file has to exist, and is not changed. */
  readonly isReadOnly?: boolean | undefined
}

/** The defaults. */
export const defaults = {
  busyTimeout: "5 seconds",
  synchronous: "FULL"
} as const satisfies Partial<Options>

/** Opens a database for the rest of the scope. */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<
  SqlClient.SqlClient,
  ConfigurationError | SqlError.SqlError,
  Scope.Scope | Reactivity.Reactivity
> {
  const checked = yield* readOptions("Sqlite", (read) => ({
    filename: read.text("filename", options.filename),
    busyTimeout: read.millis("busyTimeout", options.busyTimeout ?? defaults.busyTimeout, true),
    synchronous: read.oneOf("synchronous", options.synchronous ?? defaults.synchronous, ["FULL", "NORMAL"])
  }))
  const isReadOnly = options.isReadOnly === true
  const database = yield* Effect.acquireRelease(
    attempt("open", () => open(checked.filename, isReadOnly)),
    (it) => Effect.sync(() => it.close())
  )
  const connection = connectionOf(database, checked.busyTimeout)
  if (!isReadOnly) yield* connection.executeUnprepared("PRAGMA journal_mode = WAL", [], undefined)
  yield* connection.executeUnprepared(`PRAGMA synchronous = ${checked.synchronous}`, [], undefined)
  const { isTransaction, ...acquirers } = SqlClient.makeSqliteAcquirers({
    connection: Effect.succeed(connection),
    semaphore: yield* Semaphore.make(1),
    isTransaction: () => database.isTransaction
  })
  const common = {
    driver: "node:sqlite",
    compiler: Statement.makeCompilerSqlite(),
    spanAttributes: [["db.system.name", "sqlite"] as const]
  }
  const client = yield* SqlClient.make({
    ...common,
    ...acquirers,
    isTransaction,
    // one that only read so far could not write any more once another has written
    beginTransaction: "BEGIN IMMEDIATE",
    prepareTransactionControls: true,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`
  })
  // a database in memory is its connection's alone
  if (isMadeHere(checked.filename)) {
    const reading = yield* SqliteThread.make(checked.filename, errorOf("read"))
    // one statement after the other: who gives up waiting leaves nothing to be done
    const turns = yield* Semaphore.make(1)
    const reader = SqlClient.makeSqliteAcquirers({ connection: Effect.succeed(reading), semaphore: turns })
    OwnConnection.readWith(client, yield* SqlClient.make({ ...common, ...reader }))
  }
  return client
})

/** Layer with a client of a database, which is closed with the layer. */
export const layer = (
  options: Options
): Layer.Layer<SqlClient.SqlClient, ConfigurationError | SqlError.SqlError> =>
  Layer.effect(SqlClient.SqlClient, make(options)).pipe(Layer.provide(Reactivity.layer))

/** Waits of SQLite itself hold up the thread: it waits as long as a commit of others takes, no longer. */
const blockingMillis = 2

const open = (filename: string, readOnly: boolean): DatabaseSync => {
  // SQLite would let everybody read it; its other files get the mode of this one
  if (!readOnly && isMadeHere(filename)) closeSync(openSync(filename, "a", 0o600))
  return new DatabaseSync(filename, { readOnly, timeout: blockingMillis, enableForeignKeyConstraints: true })
}

/** It is a file of that name, and nothing that SQLite alone knows what to do with. */
const isMadeHere = (filename: string): boolean => !filename.startsWith(":") && !filename.startsWith("file:")

type Transform = (<A extends object>(rows: ReadonlyArray<A>) => ReadonlyArray<A>) | undefined

const connectionOf = (database: DatabaseSync, busyTimeout: number): SqlConnection.Connection => {
  const statements = new Statements(database)
  const run = <A>(work: () => A): Effect.Effect<A, SqlError.SqlError> =>
    Effect.suspend(() =>
      database.isTransaction ? attempt("execute", work) : patiently(attempt("execute", work), busyTimeout)
    )
  // the rows are what the caller says they are, as with every `SqlClient`
  const rows = <A>(statement: StatementSync, params: ReadonlyArray<unknown>, asArrays: boolean) => {
    statement.setReturnArrays(asArrays)
    return statement.all(...params.map(bound)) as unknown as ReadonlyArray<A>
  }
  const execute = (sql: string, params: ReadonlyArray<unknown>, transform: Transform) =>
    Effect.map(
      run(() => rows<object>(statements.get(sql), params, false)),
      (it) => transform === undefined ? it : transform(it)
    )
  const executeUnprepared = (sql: string, params: ReadonlyArray<unknown>, transform: Transform) =>
    Effect.map(
      run(() => rows<object>(database.prepare(sql), params, false)),
      (it) => transform === undefined ? it : transform(it)
    )
  return {
    execute,
    executeUnprepared,
    executeRaw: (sql, params) => run(() => statements.get(sql).run(...params.map(bound))),
    executeValues: (sql, params) => run(() => rows<ReadonlyArray<unknown>>(statements.get(sql), params, true)),
    executeValuesUnprepared: (sql, params) =>
      run(() => rows<ReadonlyArray<unknown>>(database.prepare(sql), params, true)),
    executeStream: (sql, params, transform) => Stream.fromIterableEffect(execute(sql, params, transform))
  }
}

/** Statements that were prepared; the one that was not used for longest goes first. */
class Statements {
  private readonly database: DatabaseSync
  private readonly prepared = new Map<string, StatementSync>()

  constructor(database: DatabaseSync) {
    this.database = database
  }

  get(sql: string): StatementSync {
    let statement = this.prepared.get(sql)
    if (statement === undefined) statement = this.database.prepare(sql)
    else this.prepared.delete(sql)
    this.prepared.set(sql, statement)
    if (this.prepared.size > maxStatements) {
      for (const oldest of this.prepared.keys()) {
        this.prepared.delete(oldest)
        break
      }
    }
    return statement
  }
}

const maxStatements = 200

const bound = (value: unknown): SQLInputValue => {
  if (value instanceof Date) return value.toISOString()
  if (typeof value === "boolean") return value ? 1 : 0
  // what SQLite has no type for is refused by it
  return (value ?? null) as SQLInputValue
}

/** Retries while other processes have locked the file, less and less often, until the timeout. */
const patiently = <A>(
  once: Effect.Effect<A, SqlError.SqlError>,
  busyTimeout: number,
  pause = 1
): Effect.Effect<A, SqlError.SqlError> =>
  Effect.catchIf(
    once,
    ({ reason }) => reason._tag === "LockTimeoutError" && busyTimeout > 0,
    () =>
      Effect.promise((signal) => sleep(Math.min(pause, busyTimeout), undefined, { signal })).pipe(
        Effect.andThen(patiently(once, busyTimeout - pause - blockingMillis, Math.min(pause * 2, longestPause)))
      )
  )

/** Milliseconds between two tries. */
const longestPause = 25

const attempt = <A>(operation: string, work: () => A): Effect.Effect<A, SqlError.SqlError> =>
  Effect.try({ try: work, catch: errorOf(operation) })

const errorOf = (operation: string) => (error: unknown): SqlError.SqlError =>
  new SqlError.SqlError({
    reason: SqlError.classifySqliteError(classifiable(error), {
      message: `SQLite could not ${operation}`,
      operation
    })
  })

/** `node:sqlite` has the code as `errcode`, Effect looks for `errno`; of unique keys it knows the code of an index alone. */
const classifiable = (error: unknown): unknown => {
  if (!(error instanceof Error && "errcode" in error && typeof error.errcode === "number")) return error
  const errno = error.errcode === primaryKeyCode ? uniqueCode : error.errcode
  return Object.assign(new Error(error.message, { cause: error }), { errno })
}

const primaryKeyCode = 1555

const uniqueCode = 2067
