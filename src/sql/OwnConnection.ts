/**
 * Every statement of a store runs outside of its host's transactions, and ends in time.
 *
 * A `SqlClient` has the open transaction in the context of its caller: a store that a handler reaches from inside
 * `sql.withTransaction` would write into the handler's transaction, as a savepoint of it, and lose what it wrote when
 * that is rolled back. So every store runs its statements through `own`, which leaves the caller's transaction out of
 * the context: PostgreSQL's pool then lends another connection.
 *
 * A connection may fall silent without being closed, after a failover for example. A statement that misses its deadline
 * fails, and the pool discards its connection unless the server cancels the statement within a second.
 *
 * The pool needs a free connection: if all of its connections are in transactions that wait for a store, the store
 * fails at its deadline. A client of SQLite has one connection in all, which the transaction has; there `own` fails
 * immediately, and the store needs a separate client, best with a separate file: SQLite has one writer per file, so a
 * store in the file of an open transaction waits for its deadline.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"

/** Milliseconds that a statement or a transaction of a store may take. */
export const deadline = 5_000

/**
 * Runs statements, or a transaction, outside of any transaction of the caller, on one connection and within a deadline.
 */
export const own =
  (sql: SqlClient.SqlClient, millis = deadline) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.contextWith((context: Context.Context<R>): Effect.Effect<A, E | SqlError.SqlError, R> => {
      const isSqlite = sql.onDialectOrElse({ sqlite: () => true, orElse: () => false })
      if (!isSqlite) return Effect.catchCause(lent(sql, effect, millis, context), explained)
      const isInTransaction = Context.getOrUndefined(context, sql.transactionService) !== undefined
      return isInTransaction ? Effect.fail(noOther) : inTime(effect, millis, context)
    })

/**
 * Runs statements as a transaction, outside of any transaction of the caller and within a deadline. Others wait for the
 * rows that it has locked, so PostgreSQL ends it where its process has been frozen in the middle. It reads what was
 * committed before it got a lock, whatever isolation the database has by default.
 */
export const transaction =
  (sql: SqlClient.SqlClient, millis = deadline) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    sql.onDialectOrElse({
      pg: () => {
        const limited = sql`SELECT set_config('idle_in_transaction_session_timeout', ${String(millis)}, true)`
        return own(sql, millis)(Effect.provideService(
          sql.withTransaction(Effect.andThen(limited, effect)),
          SqlClient.BeginTransaction,
          "BEGIN ISOLATION LEVEL READ COMMITTED"
        ))
      },
      orElse: () => own(sql, millis)(sql.withTransaction(effect))
    })

/**
 * Says with which client one reads what may take long, where that is another one: a client of SQLite works in the
 * thread of its program.
 */
export const readWith = (sql: SqlClient.SqlClient, reader: SqlClient.SqlClient): void => void readers.set(sql, reader)

/** The client with which one reads what may take long. */
export const reading = (sql: SqlClient.SqlClient): SqlClient.SqlClient => readers.get(sql) ?? sql

const readers = new WeakMap<SqlClient.SqlClient, SqlClient.SqlClient>()

/** Milliseconds that a server has to cancel a statement before its connection is given up. */
const cancelMillis = 1_000

/** Runs an effect on a connection of the pool, exclusively. */
const lent = <A, E, R>(
  sql: SqlClient.SqlClient,
  effect: Effect.Effect<A, E, R>,
  millis: number,
  context: Context.Context<R>
): Effect.Effect<A, E | SqlError.SqlError, R> =>
  Effect.suspend(() => {
    const scope = Scope.makeUnsafe()
    const used = Effect.flatMap(
      Scope.provide(sql.reserve, scope),
      // in no transaction yet: the first one that begins on it is at depth 0
      (connection) => Effect.provideService(effect, sql.transactionService, [connection, -1])
    )
    const outside = Context.omit(sql.transactionService)(context) as Context.Context<R>
    return inTime(used, millis, outside, scope)
  })

/**
 * An effect with a timeout. `scope` has its connection: a statement that goes on when it is closed takes the connection
 * out of the pool.
 */
const inTime = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  millis: number,
  context: Context.Context<R>,
  scope?: Scope.Closeable
): Effect.Effect<A, E | SqlError.SqlError> =>
  Effect.callback((resume) => {
    let isOpen = true
    let timer: Fiber.Fiber<void> | undefined
    const close = scope === undefined ? Effect.void : Effect.suspend(() => Scope.close(scope, Exit.void))
    const fiber = Effect.runForkWith(context)(effect)
    const giveUp = (): void => {
      if (!isOpen) return
      isOpen = false
      timer?.interruptUnsafe()
      timer = Effect.runForkWith(context)(Effect.delay(close, cancelMillis))
      fiber.interruptUnsafe()
    }
    fiber.addObserver((exit) => {
      timer?.interruptUnsafe()
      if (scope !== undefined) Effect.runForkWith(context)(close)
      if (!isOpen) return
      isOpen = false
      resume(exit)
    })
    if (!isOpen) return
    timer = Effect.runForkWith(context)(Effect.andThen(
      Effect.sleep(millis),
      Effect.sync(() => {
        timer = undefined
        giveUp()
        resume(Effect.fail(silent))
      })
    ))
    return Effect.sync(giveUp)
  })

/**
 * Says what to do about statements that a pooler has prepared on another connection. A rollback on a connection that is
 * closed is a failure like others.
 */
const explained = <E>(cause: Cause.Cause<E>): Effect.Effect<never, E | SqlError.SqlError> => {
  for (const reason of cause.reasons) {
    const error = Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : undefined
    if (!SqlError.isSqlError(error)) continue
    const { cause: why, operation } = error.reason
    const isLost = Predicate.hasProperty(why, "code") && (why.code === "26000" || why.code === "42P05")
    if (!isLost) {
      if (Cause.isDieReason(reason)) return Effect.fail(error)
      continue
    }
    return Effect.fail(
      new SqlError.SqlError({ reason: new SqlError.ConnectionError({ message: pooled, operation, cause: why }) })
    )
  }
  return Effect.failCause(cause)
}

const pooled =
  "PostgreSQL does not know a statement that was prepared, as behind PgBouncer in transaction mode, where " +
  "each transaction has another connection. Add ?pgbouncer=true to the URL of the command line, or give PgClient.layer " +
  "`prepare: false`"

const connectionError = (message: string, operation: string): SqlError.SqlError =>
  new SqlError.SqlError({ reason: new SqlError.ConnectionError({ message, operation, cause: undefined }) })

const silent = connectionError("no answer in time", "execute")

const noOther = connectionError(
  "the only connection is in a transaction of the caller. Give the store in SQLite a separate client",
  "acquire"
)
