// Where executors live: what they share, and how one of them is opened.
import * as PgClient from "@effect/sql-pg/PgClient"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { ArtifactStore, Journal, LocalExecutor, ToolExecutor, ToolExecutors, ToolHandlers } from "effect-tool-executor"
import { SqlCircuitBreakerStore, SqlJournal, SqlRateLimiterStore, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { Faults as Parts } from "effect-tool-executor/testing"
import type * as SqlClient from "effect/sql/SqlClient"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import * as Pools from "../../src/core/gates/Pools.ts"
import * as StateStore from "../../src/core/store/StateStore.ts"
import type { SeededRandom } from "../../test/support/randomCase.ts"
import * as Faults from "./faults.ts"
import * as Tools from "./tools.ts"

/** A database by its file or URL; in memory without one. */
export type Database = string | undefined

/** A program of its own, as far as its executors can tell. */
export interface Host {
  readonly store: Faults.Faulty
  readonly journal: Faults.Faulty
  readonly approvals: Approvals.Approvals["Service"]
  readonly running: Tools.Running
  /** Its executors are sessions of one program, with pools of their own. */
  readonly areSessions: boolean
  /** Opens an executor for the rest of the scope. */
  readonly open: (
    principal: string,
    random: SeededRandom
  ) => Effect.Effect<ToolExecutor.Service, unknown, Scope.Scope>
}

/** So long is held what nobody renews. */
export const lease = 4_000

/** So long are batches remembered that nobody uses. */
export const batchTimeToLive = 15_000

export const client = (database: string): Layer.Layer<SqlClient.SqlClient, unknown> =>
  database.startsWith("postgres")
    ? PgClient.layer({ url: Redacted.make(database), maxConnections: 10 })
    : Sqlite.layer({ filename: database })

const records = (database: Database) =>
  database === undefined
    // small enough to be full soon: what is kept up to a bound is no leak
    ? Layer.mergeAll(
      StateStore.layerMemory({ batchTimeToLive, maxKeys: 200 }),
      Journal.layerMemory({ maxEntries: 500 })
    )
    : Layer.mergeAll(
      SqlStateStore.layer({ lease, batchTimeToLive, pruneEvery: "5 seconds", patience: "1 second" }),
      SqlJournal.layer(),
      SqlCircuitBreakerStore.layer({ idleTimeToLive: "10 seconds" }),
      SqlRateLimiterStore.layer
    ).pipe(Layer.provide(client(database)))

const settings = {
  executionTimeout: "400 millis",
  cleanupGrace: "300 millis",
  commitTimeout: "300 millis",
  storePatience: "1 second",
  storeRetry: "200 millis"
} as const

/** What executors over the same records and pools have for themselves. */
const optionsOf = ({ chance, pick }: SeededRandom) => ({
  ...settings,
  rules: Tools.rules,
  policy: Tools.policy,
  mode: pick(["classes", "classes", "parallel", "sequential"] as const),
  onExecutionError: pick(["continue", "continue", "continue", "stop"] as const),
  approval: pick(["perCall", "perCall", "upfront"] as const),
  dedupe: chance(0.1) ? false as const : {
    window: "3 seconds",
    scope: pick(["process", "batch", "principal"] as const),
    onDuplicate: pick(["reject", "replay"] as const),
    inFlight: pick(["reject", "join"] as const)
  } as const
})

/** Opens a host for the rest of the scope; `random` are those of the executors that share all gates. */
export const make = Effect.fnUntraced(function*(
  database: Database,
  random: SeededRandom,
  problems: Array<string>
): Effect.fn.Return<Host, unknown, Scope.Scope> {
  const [store, journal] = [new Faults.Faulty(), new Faults.Faulty()]
  const found = yield* Layer.build(records(database))
  const approvals = yield* Approvals.make({ timeout: "700 millis" })
  const shared = Layer.mergeAll(
    Layer.succeedContext(found),
    Layer.succeed(StateStore.StateStore, Parts.stateStore(store, Context.get(found, StateStore.StateStore))),
    Layer.succeed(Journal.Journal, Parts.journal(journal, Context.get(found, Journal.Journal))),
    Layer.succeed(Approvals.Approvals, approvals),
    Layer.succeed(Pools.Pools, yield* Pools.make(Tools.pools)),
    Layer.succeedContext(yield* Layer.build(ArtifactStore.layerMemory({ maxCount: 5, timeToLive: "10 seconds" })))
  )
  const areSessions = database === undefined
  const running = new Tools.Running(problems)
  const handlers = Tools.handlers(running, areSessions)
  const host = { store, journal, approvals, running, areSessions }
  // in a database each executor is opened by itself; in memory they are sessions of one program
  if (!areSessions) {
    const open = (principal: string, random: SeededRandom) =>
      Effect.map(
        Layer.build(Layer.fresh(
          LocalExecutor.layer(Tools.kit, { ...optionsOf(random), principal }).pipe(Layer.provide([handlers, shared]))
        )),
        (context) => Context.get(context, ToolExecutor.ToolExecutor)
      )
    return { ...host, open }
  }
  const executors = Context.get(
    yield* Layer.build(
      ToolExecutors.layer({ idleTimeToLive: "1 second" }).pipe(
        Layer.provide(LocalExecutor.layerGates(optionsOf(random))),
        Layer.provide(ToolHandlers.layer(Tools.kit)),
        Layer.provide([handlers, shared])
      )
    ),
    ToolExecutors.ToolExecutors
  )
  const open = (principal: string) =>
    Effect.tap(
      executors.get(principal),
      () => Effect.addFinalizer(() => executors.end(principal))
    )
  return { ...host, open }
})
