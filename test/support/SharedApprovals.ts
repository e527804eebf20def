/** Several processes over one database, each with its own approval requests; all of them in this process. */
import { Approvals, ToolHandlers } from "effect-tool-executor"
import * as Toolkit from "effect/ai/Toolkit"

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { ApprovalTable } from "../../src/core/store/ApprovalTable.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as PendingApprovals from "../../src/server/approvals/PendingApprovals.ts"
import * as LiveLog from "../../src/server/live/LiveLog.ts"
import * as SqlApprovals from "../../src/sql/SqlApprovals.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import { approval } from "./Asking.ts"
import * as Postgres from "./Postgres.ts"

export type Runner = Effect.Success<ReturnType<typeof runner>>

/** A process over the database, until its scope is closed. */
export const runner = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  options?: PendingApprovals.Options,
  tools: Layer.Layer<ToolHandlers.ToolHandlers, unknown> = ToolHandlers.layer(Toolkit.empty),
  /** Happens between the moment when a request is written and the one when its process knows. */
  written: Effect.Effect<void> = Effect.void
) {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const client = Layer.succeed(SqlClient.SqlClient, sql)
  const registries = SqlSessionRegistry.layer().pipe(Layer.provide(client), Layer.provide(Postgres.realTime))
  const table = inRealTime(written).pipe(
    Layer.provide(SqlApprovals.layer),
    Layer.provide(client),
    Layer.provideMerge(registries)
  )
  const services = yield* Layer.buildWithScope(
    PendingApprovals.layer(options).pipe(
      Layer.provideMerge(LiveLog.layer()),
      Layer.provideMerge(table),
      Layer.provide(tools)
    ),
    scope
  )
  const approvals = Context.get(services, Approvals.Approvals)
  return {
    services,
    registry: Context.get(services, SessionRegistry),
    pending: Context.get(services, PendingApprovals.PendingApprovals),
    approvals,
    live: Context.get(services, LiveLog.LiveLog),
    /** Asks, and waits in a fiber until the test ends. */
    ask: Effect.fnUntraced(function*(more?: Partial<Approvals.NewRequest>) {
      const request = yield* approvals.request(approval(more))
      const fiber = yield* Effect.forkScoped(approvals.submit(request), { startImmediately: true })
      return { id: request.id, request, fiber }
    }),
    stop: Scope.close(scope, Exit.void)
  }
})

/** The database of this file: each world empties its tables. */
let database: string | undefined

/** Two processes over a database without sessions and requests. */
export const world = Effect.fnUntraced(function*(options?: PendingApprovals.Options) {
  const isNew = database === undefined
  const url = database ?? (yield* (yield* Postgres.Postgres).database)
  database = url
  const clients = yield* Layer.build(Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime)))
  const sql = Context.get(clients, SqlClient.SqlClient)
  if (!isNew) yield* sql`TRUNCATE tool_executor_approvals, tool_executor_sessions`
  return { sql, one: yield* runner(sql, options), two: yield* runner(sql, options) }
})

/** Statements end in time by the clock of the machine, however far the clock of a test jumps. */
const inRealTime = (written: Effect.Effect<void>) =>
  Layer.effect(
    ApprovalTable,
    Effect.map(ApprovalTable, (table): ApprovalTable["Service"] => {
      const real = <A, E>(effect: Effect.Effect<A, E>) => Effect.provide(effect, Postgres.realTime)
      return {
        hold: table.hold,
        begin: (rows) => real(Effect.tap(table.begin(rows), () => written)),
        answer: (answers, now) => real(table.answer(answers, now)),
        take: (epoch, ids) => real(table.take(epoch, ids)),
        end: (ends) => real(table.end(ends)),
        settle: (epoch, ids, end) => real(table.settle(epoch, ids, end)),
        find: (ids) => real(table.find(ids)),
        details: (id) => real(table.details(id)),
        alike: (principal, tool) => real(table.alike(principal, tool)),
        list: (options) => real(table.list(options)),
        count: real(table.count),
        untold: (options) => real(table.untold(options)),
        told: (id, next) => real(table.told(id, next)),
        prune: (before) => real(table.prune(before))
      }
    })
  )
