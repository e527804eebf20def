/**
 * Approval requests in PostgreSQL, for as many processes as share the database: any of them answers, whichever holds
 * the session, also while none does.
 *
 * Requests become pending, and end without an answer, only in the epoch of their session (`SessionRegistry`). An answer
 * is one conditional update, which also wakes the session.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MigrationError } from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ApprovalTable, ApprovalTableError, type Begun } from "../core/store/ApprovalTable.ts"
import { SessionRegistry } from "../core/store/SessionRegistry.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as Tables from "./ApprovalTables.ts"
import { isPg } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"
import * as SessionTables from "./SessionTables.ts"

/** Layer of the requests in the database of a client; brings its schema up to date first. */
export const layer: Layer.Layer<
  ApprovalTable,
  ConfigurationError | MigrationError | SqlError,
  SessionRegistry | SqlClient.SqlClient
> = Layer.effect(
  ApprovalTable,
  Effect.gen(function*() {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    if (!isPg(sql)) return yield* notPostgres
    const registry = yield* SessionRegistry
    yield* Migrations.run(sql, SessionTables.schema)
    yield* Migrations.run(sql, Tables.schema)

    const run = <A, R>(operation: string, effect: Effect.Effect<A, SqlError, R>) =>
      Effect.mapError(own(sql)(effect), (cause) => new ApprovalTableError({ operation, cause }))

    return ApprovalTable.of({
      hold: registry.current,
      begin: (rows) =>
        run(
          "begin",
          Effect.gen(function*() {
            const [fresh, other] = [
              rows.filter((it) => it.replaces === undefined),
              rows.filter((it) => it.replaces !== undefined)
            ]
            const inserted = fresh.length === 0 ? new Map() : yield* Tables.insert(sql, fresh)
            const replaced = other.length === 0 ? new Set() : yield* Tables.replace(sql, other)
            return rows.map(({ id, replaces }): Begun => {
              if (replaces !== undefined) return { _tag: replaced.has(id) ? "Pending" : "Lost" }
              const row = inserted.get(id)
              return row !== undefined ? { _tag: "Known", row } : { _tag: inserted.has(id) ? "Pending" : "Lost" }
            })
          })
        ),
      answer: (answers, now) => run("answer", Tables.answer(sql, answers, now)),
      take: (epoch, ids) =>
        run(
          "take",
          Effect.map(Tables.take(sql, epoch, ids), (rows) => rows.map(({ end, id }) => ({ id, end: end! })))
        ),
      end: (ends) => run("end", Tables.end(sql, ends)),
      settle: (epoch, ids, end) => run("settle", Tables.settle(sql, epoch, ids, end)),
      find: (ids) => run("find", Tables.find(sql, ids)),
      details: (id) => run("details", Tables.details(sql, id)),
      alike: (principal, tool) => run("alike", Tables.alike(sql, principal, tool)),
      list: (options) => run("list", Tables.list(sql, options)),
      count: run("count", Tables.count(sql)),
      untold: (options) => run("untold", Tables.untold(sql, options)),
      told: (id, next) => run("told", Effect.asVoid(Tables.told(sql, id, next))),
      prune: (before) =>
        Effect.repeat(run("prune", Tables.prune(sql, before, most)), { while: (removed) => removed === most }).pipe(
          Effect.asVoid
        )
    })
  })
)

/** Requests that are removed by one statement. */
const most = 1_000

const notPostgres = new ConfigurationError({
  subject: "SqlApprovals",
  problems: [{
    path: "SqlClient",
    problem: "it is not a client of PostgreSQL",
    expected: "PgClient.layer. Approval requests of one process need no database"
  }]
})
