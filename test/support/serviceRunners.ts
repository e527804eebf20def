/**
 * Runners over one PostgreSQL that can be killed, closed, cut off and joined by others, in this process. Each has a way
 * of its own to the database and to the other runners: a kill ends both, and nothing of it is released.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { createServer, type Server as HttpServer } from "node:http"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as Cluster from "../../src/cluster/Cluster.ts"
import * as Server from "../../src/server/api/Server.ts"
import { RunnerStatus } from "../../src/server/live/RunnerStatus.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import { Draining } from "../../src/server/sessions/Draining.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlApprovals from "../../src/sql/SqlApprovals.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlPermits from "../../src/sql/SqlPermits.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as World from "./serviceWorld.ts"
import * as SilentProxy from "./silentProxy.ts"

/** A runner. */
export interface Runner {
  readonly life: World.Life
  readonly directory: SessionDirectory["Service"]
  readonly status: RunnerStatus["Service"]
  /** Its way to the database. */
  readonly proxy: SilentProxy.Proxy
  /** Whether clients send it requests. */
  isIn: boolean
  /** It answers nobody any more. */
  readonly gone: Deferred.Deferred<void>
  /** Ends it without releasing anything. */
  readonly kill: Effect.Effect<void>
  /** Ends it properly. */
  readonly close: Effect.Effect<void>
}

/** Times of waiting are short. Those of leases are not: a machine that is busy must not lose sessions by that alone. */
const lease = "9 seconds"

const options: Cluster.Options = {
  healthCheck: "1 second",
  refreshAssignments: "100 millis",
  sweep: "300 millis",
  linger: "150 millis",
  within: "500 millis",
  shards: 20
}

/** A server that never gives up a connection: a runner must not wait for it. */
const listening = { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: "1 hour" } as const

const stores = (url: string) =>
  Layer.mergeAll(
    SqlJournal.layer(),
    SqlStateStore.layer({ lease }),
    SqlPermits.layer({ lease }),
    SqlApprovals.layer,
    WaveStore.layer,
    OperationStore.layer,
    TranscriptStore.layer
  ).pipe(
    Layer.provideMerge(SqlSessionRows.layer),
    Layer.provideMerge(SqlSessionRegistry.layer({ lease })),
    Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections: 8 }))
  )

/** Starts a runner over a database. It lives until it is closed or killed, or until the scope closes. */
export const start = Effect.fnUntraced(function*(url: string, ledger: World.Ledger, name: string) {
  const life: World.Life = { name, diedAt: undefined }
  const around = yield* Effect.scope
  const gone = yield* Deferred.make<void>()
  const proxy = yield* SilentProxy.make(Number(new URL(url).port))
  const through = Object.assign(new URL(url), { port: String(proxy.port) }).href
  const servers: Array<HttpServer> = []
  const http = () => {
    const server = createServer()
    servers.push(server)
    return server
  }
  const outgoing = Layer.provide(
    Layer.effect(
      HttpClient.HttpClient,
      Effect.map(
        HttpClient.HttpClient,
        HttpClient.mapRequestEffect((request) => life.diedAt === undefined ? Effect.succeed(request) : Effect.never)
      )
    ),
    FetchHttpClient.layer
  )
  const scope = yield* Scope.fork(around)
  const context = yield* Layer.fresh(
    Cluster.layer(NodeHttpServer.layerServer(http, listening), options).pipe(
      Layer.provideMerge(Server.layerExecutors({
        approvals: { timeout: "unlimited" },
        draining: { within: "500 millis" }
      })),
      Layer.provide([World.layer(ledger, life), outgoing]),
      Layer.provide(stores(through))
    )
  ).pipe(Layer.buildWithScope(scope))
  const runner: Runner = {
    life,
    directory: Context.get(context, SessionDirectory),
    status: Context.get(context, RunnerStatus),
    proxy,
    isIn: true,
    gone,
    kill: Effect.suspend(() => {
      life.diedAt = Date.now()
      runner.isIn = false
      proxy.cut()
      for (const server of servers) {
        server.close()
        server.closeAllConnections()
      }
      Deferred.doneUnsafe(gone, Exit.void)
      return Effect.asVoid(Effect.forkIn(Scope.close(scope, Exit.void), around))
    }),
    close: Effect.suspend(() => {
      runner.isIn = false
      return Effect.andThen(
        Effect.andThen(Context.get(context, Draining).drain, Scope.close(scope, Exit.void)),
        Deferred.succeed(gone, undefined)
      )
    })
  }
  return runner
})
