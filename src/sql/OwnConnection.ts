/**
 * What must be on record whatever the host rolls back runs on a connection of its own.
 *
 * A `SqlClient` has the open transaction in the context of whoever asks: a store that
 * a handler reaches from inside `sql.withTransaction` would write into the handler's
 * transaction, as a savepoint of it, and lose what it wrote when that is rolled back.
 * So every store of ours runs all it does through `own`, which leaves the transaction
 * of its client out of the context: PostgreSQL's pool then gives another connection.
 *
 * The pool has to have one: a pool whose connections are all in transactions that wait
 * for a store has none left. And a client of SQLite has one connection in all, which
 * the transaction has; there `own` fails at once instead of waiting for ever, and the
 * store needs a client of its own, best with a file of its own: SQLite has one writer
 * per file, so that a store in the file of an open transaction waits until its
 * patience is over.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"

/**
 * Runs an effect outside of any transaction of the client that its caller is in.
 *
 * @category running
 * @since 0.1.0
 */
export const own =
  (sql: SqlClient.SqlClient) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.contextWith((context: Context.Context<R>): Effect.Effect<A, E | SqlError.SqlError, R> => {
      if (Context.getOrUndefined(context, sql.transactionService) === undefined) return effect
      const hasOther = sql.onDialectOrElse({ sqlite: () => false, orElse: () => true })
      if (!hasOther) return Effect.fail(noOther)
      return Effect.updateContext(
        effect,
        (it: Context.Context<R>) => Context.omit(sql.transactionService)(it) as Context.Context<R>
      )
    })

/**
 * Says with which client one reads what may take long, where that is another one: a
 * client of SQLite works in the thread of its program.
 *
 * @category running
 * @since 0.1.0
 */
export const readWith = (sql: SqlClient.SqlClient, reader: SqlClient.SqlClient): void => void readers.set(sql, reader)

/**
 * The client with which one reads what may take long.
 *
 * @category running
 * @since 0.1.0
 */
export const reading = (sql: SqlClient.SqlClient): SqlClient.SqlClient => readers.get(sql) ?? sql

// Utilities

const readers = new WeakMap<SqlClient.SqlClient, SqlClient.SqlClient>()

const noOther = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({
    message: "the only connection is in a transaction of the caller: a store in SQLite needs a client of its own",
    operation: "acquire",
    cause: undefined
  })
})
