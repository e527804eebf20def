/** Two runners of a cluster in this process, which share a PostgreSQL, for the contract of directories. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createServer } from "node:http"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as Cluster from "../../src/cluster/Cluster.ts"
import * as Server from "../../src/server/api/Server.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as Undoing from "../../src/server/records/Undoing.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlApprovals from "../../src/sql/SqlApprovals.ts"
import * as SqlCheckpoints from "../../src/sql/SqlCheckpoints.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlPushDevices from "../../src/sql/SqlPushDevices.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { Subject, type World } from "./directoryWorld.ts"
import * as Postgres from "./Postgres.ts"
import * as Pooler from "./transactionPooler.ts"

const stores = (url: string, prepare: boolean) =>
  Layer.mergeAll(
    SqlJournal.layer(),
    SqlStateStore.layer({ lease: "9 seconds" }),
    SqlApprovals.layer,
    SqlPushDevices.layer,
    SqlCheckpoints.layer(),
    WaveStore.layer,
    OperationStore.layer,
    TranscriptStore.layer
  ).pipe(
    Layer.provideMerge(SqlSessionRows.layer),
    Layer.provideMerge(SqlSessionRegistry.layer()),
    Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections: 10, prepare }))
  )

/** A runner over a database, with its stores. */
export const runner = (url: string, { layer }: Pick<World, "layer">, folder: string, options: Cluster.Options) =>
  Layer.fresh(
    Cluster.layer(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 }), {
      refreshAssignments: "100 millis",
      ...options
    }).pipe(
      Layer.provideMerge(Server.layerExecutors()),
      Layer.provide([layer, Undoing.layer({ root: folder }), FetchHttpClient.layer]),
      Layer.provideMerge(stores(url, options.isPooled !== true))
    )
  )

/** Layer of the runners, behind a pooler if they are pooled; `between` two steps of a sentence happens what is given. */
export const two = (options: Cluster.Options, between: Effect.Effect<void>) => (world: World, folder: string) =>
  Layer.effect(
    Subject,
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const direct = yield* database
      const url = options.isPooled === true ? (yield* Pooler.make(direct, 8)).url : direct
      const build = Layer.build(runner(url, world, folder, options))
      const runners = yield* Effect.all([build, build], {
        concurrency: "unbounded"
      })
      return Subject.of({
        directories: [directoryOf(runners[0]), directoryOf(runners[1])],
        between: () => between
      })
    })
  ).pipe(Layer.provide(Postgres.layer))

const directoryOf = (context: Context.Context<SessionDirectory>) => Context.get(context, SessionDirectory)
