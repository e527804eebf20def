/** Options of a runner, checked, and what they are for `effect/cluster`. */
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ConfigurationError, type Problem, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { hashOf } from "../core/vocabulary/FileChange.ts"

/** Options of a runner. All but the address, the secret and the number of sessions are the same for all runners. */
export interface Options {
  /** Host that other runners reach this one at. Default `127.0.0.1`. */
  readonly host?: string | undefined
  /** Port that other runners reach this one at. Default: the port that its server listens on. */
  readonly port?: number | undefined
  /** Secret that all runners share. Required unless the host is loopback. */
  readonly secret?: Redacted.Redacted<string> | undefined
  /** Number of shards that sessions are spread over. It must never change. Default 120. */
  readonly shards?: number | undefined
  /** Time after which the shards of a dead runner are free. Longer than all other leases. Default 12 seconds. */
  readonly lockExpiration?: Duration.Input | undefined
  /** Interval at which a runner renews its shards: at most a third of the expiration. Default 4 seconds. */
  readonly lockRefresh?: Duration.Input | undefined
  /** Interval at which one runner checks the others. Default 5 seconds. */
  readonly healthCheck?: Duration.Input | undefined
  /** Interval at which a runner reads which others there are. Default 1 second. */
  readonly refreshAssignments?: Duration.Input | undefined
  /** Time that a session stays in memory after its last use. Default 5 seconds. */
  readonly linger?: Duration.Input | undefined
  /** Time that running calls have to finish before their session moves to another runner. Default 20 seconds. */
  readonly within?: Duration.Input | undefined
  /** Interval at which forgotten sessions are looked for. Default 2 seconds. */
  readonly sweep?: Duration.Input | undefined
  /** Most sessions in memory of this runner. Default 10,000. */
  readonly maxSessions?: number | undefined
  /**
   * Whether the database is reached through a pooler in transaction mode: shards are then leased in a table, because
   * session locks do not work there. Default false.
   */
  readonly isPooled?: boolean | undefined
}

/** Default options. */
export const defaults = {
  host: "127.0.0.1",
  shards: 120,
  lockExpiration: "12 seconds",
  lockRefresh: "4 seconds",
  healthCheck: "5 seconds",
  refreshAssignments: "1 second",
  linger: "5 seconds",
  within: "20 seconds",
  sweep: "2 seconds",
  maxSessions: 10_000,
  isPooled: false
} as const satisfies Options

/** A runner asks the database three times in this time, and an answer may be slow. */
const leastExpiration = 1_000

/** Checked options; durations are milliseconds. */
export interface Settings {
  readonly host: string
  readonly port: number | undefined
  readonly secret: Redacted.Redacted<string> | undefined
  /** A hash of the secret; empty without one. */
  readonly secretHash: string
  readonly shards: number
  readonly lockExpiration: number
  readonly lockRefresh: number
  readonly healthCheck: number
  readonly refreshAssignments: number
  readonly linger: number
  readonly within: number
  readonly sweep: number
  readonly maxSessions: number
  readonly isPooled: boolean
}

/** Reads the options; fails with all that is wrong with them. */
export const read = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<Settings, ConfigurationError> {
  const settings = yield* readOptions("Cluster", (reader) => ({
    host: reader.text("host", options.host ?? defaults.host),
    port: options.port === undefined ? undefined : reader.count("port", options.port, 1, 65_535),
    secret: options.secret,
    secretHash: options.secret === undefined ? "" : hashOf(`cluster ${Redacted.value(options.secret)}`),
    shards: reader.count("shards", options.shards ?? defaults.shards, 1, 10_000),
    lockExpiration: reader.millis("lockExpiration", options.lockExpiration ?? defaults.lockExpiration),
    lockRefresh: reader.millis("lockRefresh", options.lockRefresh ?? defaults.lockRefresh),
    healthCheck: reader.millis("healthCheck", options.healthCheck ?? defaults.healthCheck),
    refreshAssignments: reader.millis("refreshAssignments", options.refreshAssignments ?? defaults.refreshAssignments),
    linger: reader.millis("linger", options.linger ?? defaults.linger, true),
    within: reader.millis("within", options.within ?? defaults.within, true),
    sweep: reader.millis("sweep", options.sweep ?? defaults.sweep),
    maxSessions: reader.count("maxSessions", options.maxSessions ?? defaults.maxSessions, 1),
    isPooled: reader.flag("isPooled", options.isPooled ?? defaults.isPooled)
  }))
  const problems = [
    ...settings.lockExpiration >= leastExpiration ? [] : [{
      path: "lockExpiration",
      problem: `it is ${settings.lockExpiration} ms`,
      expected: `${leastExpiration} ms or more: a runner that is slow for so long loses its sessions`
    }],
    ...isLoopback(settings.host) || settings.secret !== undefined ? [] : [{
      path: "secret",
      problem: `it is missing, and ${settings.host} can be reached from other machines`,
      expected: "a secret that all runners share; without it anybody could run calls"
    }],
    ...settings.lockRefresh * 3 <= settings.lockExpiration ? [] : [{
      path: "lockRefresh",
      problem: `it is ${settings.lockRefresh} ms`,
      expected: `at most a third of lockExpiration (${settings.lockExpiration} ms)`
    }]
  ]
  return problems.length === 0 ? settings : yield* new ConfigurationError({ subject: "Cluster", problems })
})

/** Fails if others could get the shards of a runner that still takes its lease for valid. */
export const checkLease = (
  { lockExpiration }: Settings,
  leaseMillis: number
): Effect.Effect<void, ConfigurationError> =>
  leaseMillis < lockExpiration ? Effect.void : Effect.fail(
    new ConfigurationError({
      subject: "Cluster",
      problems: [{
        path: "lockExpiration",
        problem: `it is ${lockExpiration} ms, and the lease of the session registry ${leaseMillis} ms`,
        expected:
          "a longer expiration, or a shorter lease: a frozen runner must know first that it may have lost its sessions"
      }]
    })
  )

/** Settings that place sessions. Runners that differ in one, or in the secret, would take sessions from each other. */
const placing = ["shards", "lockExpiration", "isPooled"] as const

/** What runners compare when one starts. */
type Placing = Pick<Settings, typeof placing[number] | "secretHash">

/** Fails if a runner that is alive places sessions in another way. */
export const checkPlacing = (
  settings: Settings,
  others: ReadonlyArray<Placing>
): Effect.Effect<void, ConfigurationError> => {
  const expected = "the same for all runners. To change it, stop all of them first"
  const problems: Array<Problem> = placing.flatMap((path) => {
    const other = others.find((it) => it[path] !== settings[path])
    return other === undefined
      ? []
      : [{ path, problem: `it is ${settings[path]}, and ${other[path]} in a runner that is up`, expected }]
  })
  if (others.some(({ secretHash }) => secretHash !== settings.secretHash)) {
    problems.push({ path: "secret", problem: "a runner that is up has another one, or none", expected })
  }
  return problems.length === 0 ? Effect.void : Effect.fail(new ConfigurationError({ subject: "Cluster", problems }))
}

/** Tells whether only this machine reaches a host. */
export const isLoopback = (host: string): boolean => /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i.test(host)

/** The settings of `effect/cluster`, for a runner that listens on a port. */
export const shardingConfig = (
  settings: Settings,
  port: number
): ShardingConfig.ShardingConfig["Service"] => ({
  ...ShardingConfig.defaults,
  runnerAddress: Option.some(RunnerAddress.make(settings.host, settings.port ?? port)),
  shardsPerGroup: settings.shards,
  shardLockExpiration: settings.lockExpiration,
  shardLockRefreshInterval: settings.lockRefresh,
  shardLockDisableAdvisory: settings.isPooled,
  runnerHealthCheckInterval: settings.healthCheck,
  refreshAssignmentsInterval: settings.refreshAssignments,
  maxResidentEntities: settings.maxSessions,
  // a session that has been released leaves soon
  entityMaxIdleTime: 5_000,
  entityTerminationTimeout: settings.within + 5_000,
  // what is sent within a runner stays as it is
  simulateRemoteSerialization: false
})
