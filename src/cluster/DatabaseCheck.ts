/**
 * What a runner needs of its database connections, checked at startup: a cluster with a pool that is too small, or
 * whose prepared statements get lost in a pooler, works until it does not.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"

/** Connections that a runner needs: its lease must not wait for those of the journal and the state. */
export const leastConnections = 4

const rounds = 2

/** Fails unless a pool has enough connections, and each of them is a session of its own or need not be. */
export const check = Effect.fnUntraced(function*(
  isPooled: boolean,
  patience: Duration.Input = "10 seconds"
): Effect.fn.Return<void, ConfigurationError | SqlError, SqlClient.SqlClient> {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  if (sql.onDialectOrElse({ pg: () => false, orElse: () => true })) {
    return yield* refused("it is not PostgreSQL", "PostgreSQL: runners share sessions through it")
  }
  const sessions = yield* Effect.timeoutOption(Effect.scoped(sessionsOf(sql.reserve)), patience)
  if (Option.isNone(sessions)) {
    return yield* refused(
      `it lends fewer than ${leastConnections} connections at a time`,
      `a pool of at least ${leastConnections} connections for each runner, such as PgClient.layer({ maxConnections: 10 })`
    )
  }
  if (isPooled || areOwn(sessions.value)) return
  return yield* refused(
    "a pooler in transaction mode stands before it, which does not know the statements that were prepared",
    "?pgbouncer=true in the URL of the command line, or `isPooled: true` and PgClient.layer({ prepare: false }); or a " +
      "direct connection"
  )
})

const sessionsOf = Effect.fnUntraced(function*(reserve: Effect.Effect<Connection, SqlError, Scope.Scope>) {
  const connections = yield* Effect.all(Array.from({ length: leastConnections }, () => reserve), {
    concurrency: "unbounded"
  })
  const pids: Array<ReadonlyArray<unknown>> = []
  for (let round = 0; round < rounds; round++) {
    pids.push(
      yield* Effect.forEach(
        connections,
        (it) => Effect.map(it.executeValuesUnprepared("SELECT pg_backend_pid()", []), (rows) => rows[0]?.[0])
      )
    )
  }
  return pids
})

/** Connections that are held at the same time have sessions of their own, and keep them. */
const areOwn = (rounds: ReadonlyArray<ReadonlyArray<unknown>>): boolean =>
  rounds.every((pids) => new Set(pids).size === pids.length && pids.every((pid, at) => pid === rounds[0]?.[at]))

const refused = (problem: string, expected: string): Effect.Effect<never, ConfigurationError> =>
  Effect.fail(new ConfigurationError({ subject: "Cluster", problems: [{ path: "database", problem, expected }] }))
