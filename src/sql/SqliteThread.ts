/**
 * A read-only connection of SQLite in a separate thread: nothing that takes long there holds up the program.
 *
 * The thread starts with the first statement, runs one statement after the other, and keeps no program alive. The next
 * statement restarts one that has died.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as SqlConnection from "effect/sql/SqlConnection"
import type * as SqlError from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { Worker } from "node:worker_threads"

export interface Statement {
  readonly sql: string
  readonly params: ReadonlyArray<unknown>
  readonly asArrays: boolean
}

/** Opens the connection for the rest of the scope; `failed` makes an error of what went wrong there. */
export const make = Effect.fnUntraced(function*(
  filename: string,
  failed: (cause: unknown) => SqlError.SqlError
): Effect.fn.Return<SqlConnection.Connection, never, Scope.Scope> {
  const thread = yield* Effect.acquireRelease(
    Effect.sync(() => new Thread(filename, failed)),
    (it) => Effect.promise(() => it.close())
  )
  const rows = <A>(sql: string, params: ReadonlyArray<unknown>, asArrays: boolean) =>
    Effect.map(thread.run({ sql, params, asArrays }), (it) => it as ReadonlyArray<A>)
  const execute: SqlConnection.Connection["execute"] = (sql, params, transform) =>
    Effect.map(rows<object>(sql, params, false), (it) => transform === undefined ? it : transform(it))
  return {
    execute,
    executeUnprepared: execute,
    executeRaw: (sql, params) => rows(sql, params, false),
    executeValues: (sql, params) => rows(sql, params, true),
    executeValuesUnprepared: (sql, params) => rows(sql, params, true),
    executeStream: (sql, params, transform) => Stream.fromIterableEffect(execute(sql, params, transform))
  }
})

type Answer = { readonly rows: ReadonlyArray<unknown> } | {
  readonly error: { readonly message: string; readonly errcode: number | undefined }
}

/** The thread, and who waits for its answers, in their order. */
class Thread {
  private readonly filename: string
  private readonly failed: (cause: unknown) => SqlError.SqlError
  private worker: Worker | undefined
  private waiting: Array<(answer: Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>) => void> = []
  private isClosed = false

  constructor(filename: string, failed: (cause: unknown) => SqlError.SqlError) {
    this.filename = filename
    this.failed = failed
  }

  run(statement: Statement): Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError> {
    return Effect.callback((resume) => {
      try {
        const worker = this.worker ??= this.start()
        worker.postMessage(statement, [])
        worker.ref()
        this.waiting.push(resume)
      } catch (cause) {
        resume(Effect.fail(this.failed(cause)))
      }
    })
  }

  async close(): Promise<void> {
    this.isClosed = true
    await this.worker?.terminate()
  }

  private start(): Worker {
    if (this.isClosed) throw new Error("the database is closed")
    // No options or environment of the process: they could turn the program into a module or load code into it.
    const worker = new Worker(program, { eval: true, execArgv: [], env: {}, workerData: this.filename })
    worker.unref()
    worker.on("message", (answer: Answer) => {
      const resume = this.waiting.shift()
      if (this.waiting.length === 0) worker.unref()
      if ("rows" in answer) resume?.(Effect.succeed(answer.rows))
      else resume?.(Effect.fail(this.failed(Object.assign(new Error(answer.error.message), answer.error))))
    })
    const ended = (cause: unknown) => {
      if (this.worker !== worker) return
      this.worker = undefined
      const waiting = this.waiting
      this.waiting = []
      for (const resume of waiting) resume(Effect.fail(this.failed(cause)))
    }
    worker.on("error", ended)
    worker.on("exit", () => ended(new Error("the thread that reads the database has ended")))
    return worker
  }
}

/** Plain JavaScript, since the thread has no loader. */
const program = `
"use strict"
const { parentPort, workerData } = require("node:worker_threads")
const { DatabaseSync } = require("node:sqlite")
const database = new DatabaseSync(workerData, { readOnly: true, timeout: 1000 })
const prepared = new Map()
const statementOf = (sql) => {
  let statement = prepared.get(sql)
  if (statement === undefined) {
    if (prepared.size >= 100) prepared.clear()
    prepared.set(sql, statement = database.prepare(sql))
  }
  return statement
}
parentPort.on("message", ({ asArrays, params, sql }) => {
  try {
    const statement = statementOf(sql)
    statement.setReturnArrays(asArrays)
    parentPort.postMessage({ rows: statement.all(...params) })
  } catch (error) {
    parentPort.postMessage({ error: { message: String(error && error.message), errcode: error && error.errcode } })
  }
})
`
