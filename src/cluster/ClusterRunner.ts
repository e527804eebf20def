/** A runner of `effect/cluster`, which only routes messages and places sessions: nothing of them is stored. */
import { PersistenceError } from "effect/cluster/ClusterError"
import * as MessageStorage from "effect/cluster/MessageStorage"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as Runners from "effect/cluster/Runners"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Sharding from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import type { SqlError } from "effect/sql/SqlError"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { SqlRunner } from "../sql/SqlRunner.ts"
import * as LeasedShards from "./LeasedShards.ts"
import * as RunnerOptions from "./RunnerOptions.ts"
import * as RunnerTransport from "./RunnerTransport.ts"

/** Layer of a runner that other runners reach over HTTP. Its server listens once built. */
export const layerHttp = (
  settings: RunnerOptions.Settings,
  runner: SqlRunner
): Layer.Layer<Sharding.Sharding, ConfigurationError | SqlError, HttpClient.HttpClient | HttpServer.HttpServer> => {
  const config = Layer.effect(
    ShardingConfig.ShardingConfig,
    Effect.gen(function*() {
      const { address } = yield* HttpServer.HttpServer
      const port = settings.port ?? ("port" in address ? address.port : 0)
      yield* LeasedShards.ownAddress(runner, `${settings.host}:${port}`)
      return RunnerOptions.shardingConfig(settings, port, runner.leaseMillis)
    })
  )
  return RunnerTransport.closedSoon(RunnerTransport.layerServer(settings.secret)).pipe(
    Layer.provideMerge(Sharding.layer),
    Layer.provide(LeasedShards.layer(runner)),
    Layer.provide(layerHealth),
    Layer.provide(layerRunners),
    Layer.provide(RunnerTransport.layerClient(settings.secret)),
    Layer.provide([RunnerTransport.layerSerialization, MessageStorage.layerNoop]),
    Layer.provide(config)
  )
}

/**
 * Messages to other runners. One whose runner could not be reached, or not until its answer, fails: whoever sent it knows
 * then that it may have arrived, and sends it again.
 */
const layerRunners = Layer.effect(
  Runners.Runners,
  Effect.map(Runners.Runners, (runners): Runners.Runners["Service"] => ({
    ...runners,
    send: (sent) =>
      Effect.catchTag(
        runners.send(sent),
        "RunnerUnavailable",
        (error) => Effect.fail(sent.message._tag === "OutgoingRequest" ? new PersistenceError({ cause: error }) : error)
      )
  }))
).pipe(Layer.provide(Runners.layerRpc))

/** Layer of the only runner there is: no server, no database. */
export const layerSingle = (settings: RunnerOptions.Settings): Layer.Layer<Sharding.Sharding> =>
  Sharding.layer.pipe(
    Layer.provide([Runners.layerNoop, RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
    Layer.provide(MessageStorage.layerNoop),
    Layer.provide(Layer.succeed(ShardingConfig.ShardingConfig, RunnerOptions.shardingConfig(settings, 1, soleMillis)))
  )

/** Nobody takes the shards of the only runner. */
const soleMillis = 60_000

/**
 * A runner that is alive, by its lease, and cannot be reached by the one that looks after all: its sessions move to
 * where messages reach them. There is no hurry, and a slow runner must not be taken for a deaf one.
 */
const layerHealth: Layer.Layer<RunnerHealth.RunnerHealth, never, Runners.Runners> = Layer.effect(
  RunnerHealth.RunnerHealth,
  Effect.map(Runners.Runners, (runners) => ({
    isAlive: (address) =>
      Effect.isSuccess(Effect.retry(Effect.timeout(runners.ping(address), "5 seconds"), { times: 2 }))
  }))
)
