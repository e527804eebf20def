/** A runner of `effect/cluster`, which only routes messages and places sessions: nothing of them is stored. */
import * as MessageStorage from "effect/cluster/MessageStorage"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as Runners from "effect/cluster/Runners"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Sharding from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as SqlRunnerStorage from "effect/cluster/SqlRunnerStorage"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as FreshPlaces from "./FreshPlaces.ts"
import * as RunnerOptions from "./RunnerOptions.ts"
import * as RunnerTransport from "./RunnerTransport.ts"

/** What a runner is made of. */
export type Runner = FreshPlaces.Renewals | Sharding.Sharding

/** Layer of a runner that other runners reach over HTTP. Its server listens once built. */
export const layerHttp = (
  settings: RunnerOptions.Settings
): Layer.Layer<Runner, never, HttpClient.HttpClient | HttpServer.HttpServer | RunnerStorage.RunnerStorage> => {
  const config = Layer.effect(
    ShardingConfig.ShardingConfig,
    Effect.map(
      HttpServer.HttpServer,
      ({ address }) => RunnerOptions.shardingConfig(settings, "port" in address ? address.port : 0)
    )
  )
  return RunnerTransport.layerServer(settings.secret).pipe(
    Layer.provideMerge(Sharding.layer),
    Layer.provideMerge(FreshPlaces.layer),
    Layer.provide(layerHealth),
    Layer.provide(Runners.layerRpc),
    Layer.provide(RunnerTransport.layerClient(settings.secret)),
    Layer.provide([RunnerTransport.layerSerialization, MessageStorage.layerNoop]),
    Layer.provide(config)
  )
}

/** Layer of the only runner there is: no server, no database. */
export const layerSingle = (settings: RunnerOptions.Settings): Layer.Layer<Runner> =>
  Sharding.layer.pipe(
    Layer.provideMerge(FreshPlaces.layer),
    Layer.provide([Runners.layerNoop, RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
    Layer.provide(MessageStorage.layerNoop),
    Layer.provide(Layer.succeed(ShardingConfig.ShardingConfig, RunnerOptions.shardingConfig(settings, 1)))
  )

/** Layer of the tables of runners and shards. */
export const layerStorage = (
  settings: RunnerOptions.Settings
): Layer.Layer<RunnerStorage.RunnerStorage, SqlError, SqlClient.SqlClient> =>
  SqlRunnerStorage.layerWith({ prefix: "tool_executor_cluster" }).pipe(
    Layer.provide(Layer.succeed(ShardingConfig.ShardingConfig, RunnerOptions.shardingConfig(settings, 1)))
  )

/** A runner that is frozen does not refuse a connection: it just does not answer. */
const layerHealth: Layer.Layer<RunnerHealth.RunnerHealth, never, Runners.Runners> = Layer.effect(
  RunnerHealth.RunnerHealth,
  Effect.map(Runners.Runners, (runners) => ({
    isAlive: (address) =>
      Effect.isSuccess(Effect.retry(Effect.timeout(runners.ping(address), "2 seconds"), { times: 1 }))
  }))
)
