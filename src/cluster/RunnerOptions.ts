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
  /** Interval at which one runner tries whether it reaches the others. Default 5 seconds. */
  readonly healthCheck?: Duration.Input | undefined
  /** Interval at which a runner looks which others there are. Default 500 milliseconds. */
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
   * Whether the database is reached through a pooler in transaction mode, by a client that prepares no statements.
   * Default false: a runner behind such a pooler is then refused.
   */
  readonly isPooled?: boolean | undefined
}

/** Default options. */
export const defaults = {
  host: "127.0.0.1",
  shards: 120,
  healthCheck: "5 seconds",
  refreshAssignments: "500 millis",
  linger: "5 seconds",
  within: "20 seconds",
  sweep: "2 seconds",
  maxSessions: 10_000,
  isPooled: false
} as const satisfies Options

/** A runner asks the database three times in this time, and an answer may be slow. */
const leastLease = 1_000

/** Checked options; durations are milliseconds. */
export interface Settings {
  readonly host: string
  readonly port: number | undefined
  readonly secret: Redacted.Redacted<string> | undefined
  /** A hash of the secret; empty without one. */
  readonly secretHash: string
  readonly shards: number
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
    healthCheck: reader.millis("healthCheck", options.healthCheck ?? defaults.healthCheck),
    refreshAssignments: reader.millis("refreshAssignments", options.refreshAssignments ?? defaults.refreshAssignments),
    linger: reader.millis("linger", options.linger ?? defaults.linger, true),
    within: reader.millis("within", options.within ?? defaults.within, true),
    sweep: reader.millis("sweep", options.sweep ?? defaults.sweep),
    maxSessions: reader.count("maxSessions", options.maxSessions ?? defaults.maxSessions, 1),
    isPooled: reader.flag("isPooled", options.isPooled ?? defaults.isPooled)
  }))
  const problems: Array<Problem> = []
  if (!isHost(settings.host)) {
    problems.push({ path: "host", problem: `it is ${JSON.stringify(settings.host)}`, expected: aHost })
  }
  if (!isLoopback(settings.host) && settings.secret === undefined) {
    problems.push({
      path: "secret",
      problem: `it is missing, and ${settings.host} can be reached from other machines`,
      expected: "a secret that all runners share; without it anybody could run calls"
    })
  }
  return problems.length === 0 ? settings : yield* new ConfigurationError({ subject: "Cluster", problems })
})

/** Fails if a runner that is only slow would lose its sessions. */
export const checkLease = (leaseMillis: number): Effect.Effect<void, ConfigurationError> =>
  leaseMillis >= leastLease ? Effect.void : Effect.fail(
    new ConfigurationError({
      subject: "Cluster",
      problems: [{
        path: "lease",
        problem: `the lease of the session registry is ${leaseMillis} ms`,
        expected: `${leastLease} ms or more: a runner that is slow for so long loses its sessions`
      }]
    })
  )

/** Fails if a runner that is alive places sessions in another way: they would take sessions from each other. */
export const checkPlacing = (
  { secretHash, shards }: Placing,
  others: ReadonlyArray<Placing>
): Effect.Effect<void, ConfigurationError> => {
  const expected = "the same for all runners. To change it, stop all of them first"
  const other = others.find((it) => it.shards !== shards)
  const problems: Array<Problem> = other === undefined
    ? []
    : [{ path: "shards", problem: `it is ${shards}, and ${other.shards} in a runner that is up`, expected }]
  if (others.some((it) => it.secretHash !== secretHash)) {
    problems.push({ path: "secret", problem: "a runner that is up has another one, or none", expected })
  }
  return problems.length === 0 ? Effect.void : Effect.fail(new ConfigurationError({ subject: "Cluster", problems }))
}

/** What runners compare when one starts. */
type Placing = Pick<Settings, "secretHash" | "shards">

/** Tells whether a text can be a host: a name or an address, and nothing around it. */
export const isHost = (text: string): boolean => /^(?:[^\s:/?#@%[\]]+|(?=.*:.*:)[\da-f:.]+(?:%[\w.-]+)?)$/i.test(text)

/** What a host is, for those who wrote something else. */
export const aHost = "a host name or an IP address alone: no http://, no port, no path"

/** Tells whether only this machine reaches a host. */
export const isLoopback = (host: string): boolean => /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i.test(host)

/** The settings of `effect/cluster`, for a runner that listens on a port and has a lease. */
export const shardingConfig = (
  settings: Settings,
  port: number,
  leaseMillis: number
): ShardingConfig.ShardingConfig["Service"] => ({
  ...ShardingConfig.defaults,
  runnerAddress: Option.some(RunnerAddress.make(settings.host, port)),
  shardsPerGroup: settings.shards,
  shardLockExpiration: leaseMillis,
  shardLockRefreshInterval: leaseMillis / 3,
  runnerHealthCheckInterval: settings.healthCheck,
  refreshAssignmentsInterval: settings.refreshAssignments,
  // no messages are stored: it is only how long shards are not taken or given up after a statement that failed
  entityMessagePollInterval: 1_000,
  maxResidentEntities: settings.maxSessions,
  // a session that has been released leaves soon
  entityMaxIdleTime: 5_000,
  entityTerminationTimeout: settings.within + 5_000,
  // what is sent within a runner stays as it is
  simulateRemoteSerialization: false
})
