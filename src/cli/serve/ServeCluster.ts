/** How a server is a runner of a cluster: what the config and the environment say of `tool-executor serve --cluster`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Cluster from "../../cluster/Cluster.ts"
import * as RunnerOptions from "../../cluster/RunnerOptions.ts"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import { describe, wrong } from "../CliFailure.ts"
import { variable } from "../Variables.ts"
import * as Database from "./Database.ts"
import { isAnywhere } from "./ServeAddress.ts"
import { defaults, type ServeConfig } from "./ServeConfig.ts"

export interface Runner {
  readonly postgres: Redacted.Redacted<string>
  /** Where it listens for other runners. */
  readonly listen: { readonly host: string; readonly port: number }
  readonly options: Cluster.Options
  /** Milliseconds of its leases: of its sessions, and of what its calls reserve. */
  readonly lease: number
}

/** Fewer characters could be guessed. */
const leastSecret = 32

const randomSecret = `${leastSecret} or more random characters, such as \`openssl rand -base64 32\` prints`

/** Reads what a runner needs; fails with all that is wrong. */
export const read = Effect.fnUntraced(
  function*(config: ServeConfig, file: string, postgres: Redacted.Redacted<string> | undefined) {
    if (postgres === undefined) {
      return yield* wrong(
        "--cluster needs PostgreSQL, which the runners share sessions through. Set TOOL_EXECUTOR_POSTGRES, or use --postgres."
      )
    }
    const problems: Array<Problem> = []
    const { cluster = {}, drain = defaults.drain } = config.server ?? {}
    const host = (yield* variable("TOOL_EXECUTOR_CLUSTER_HOST")) ?? cluster.host ?? defaults.clusterHost
    const port = (yield* portIn(problems)) ?? cluster.port ?? defaults.clusterPort
    const advertise = cluster.advertise ?? host
    const secret = yield* variable("TOOL_EXECUTOR_CLUSTER_SECRET")
    if (isAnywhere(advertise)) {
      problems.push({
        path: "server.cluster.advertise",
        problem: `${advertise} stands for every address of this machine`,
        expected: "the host that other runners reach this one at"
      })
    }
    if (!RunnerOptions.isHost(advertise)) {
      problems.push({
        path: "server.cluster.advertise",
        problem: `it is ${JSON.stringify(advertise)}`,
        expected: RunnerOptions.aHost
      })
    }
    if (secret !== undefined && secret.length < leastSecret) {
      problems.push({
        path: "TOOL_EXECUTOR_CLUSTER_SECRET",
        problem: "it is too short, so that it can be guessed",
        expected: randomSecret
      })
    }
    if (secret === undefined && !(RunnerOptions.isLoopback(host) && RunnerOptions.isLoopback(advertise))) {
      problems.push({
        path: "TOOL_EXECUTOR_CLUSTER_SECRET",
        problem: "it is not set, and other machines can reach this runner",
        expected: `${randomSecret}, the same for all runners; without it anybody could run calls`
      })
    }
    if (problems.length > 0) return yield* wrong(describe({ subject: `${file} and the environment`, problems }))
    // durations were checked when the file was decoded
    const lease = Duration.toMillis((cluster.lease ?? defaults.clusterLease) as Duration.Input)
    const runner: Runner = {
      postgres,
      listen: { host, port },
      lease,
      options: {
        host: advertise,
        secret: secret === undefined ? undefined : Redacted.make(secret),
        shards: cluster.shards,
        within: drain as Duration.Input,
        isPooled: Database.isPooled(Redacted.value(postgres))
      }
    }
    return runner
  }
)

/** Says why a runner cannot listen for the others. */
export const unheard = ({ listen: { host, port } }: Runner, cause: unknown): string =>
  `Cannot listen for other runners at ${escape(host)}:${port} (${escape(String(cause))}).${hintOf(cause)}`

const hintOf = (cause: unknown): string => {
  switch (Predicate.hasProperty(cause, "code") ? cause.code : undefined) {
    case "EADDRINUSE":
      return " The port is in use. Each runner of a machine needs its own: set TOOL_EXECUTOR_CLUSTER_PORT."
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return " The host is not an address of this machine. Set TOOL_EXECUTOR_CLUSTER_HOST to one that the other runners " +
        "reach. If this machine cannot listen there, set server.cluster.host to 0.0.0.0 and server.cluster.advertise " +
        "to that address."
    default:
      return ""
  }
}

const portIn = Effect.fnUntraced(function*(problems: Array<Problem>) {
  const text = yield* variable("TOOL_EXECUTOR_CLUSTER_PORT")
  if (text === undefined) return undefined
  const port = Number(text)
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port
  problems.push({
    path: "TOOL_EXECUTOR_CLUSTER_PORT",
    problem: "it is not a port",
    expected: "a whole number from 0 to 65535"
  })
  return 0
})
