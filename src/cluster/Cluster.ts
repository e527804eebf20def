/**
 * Several processes as one service: each session runs in one of them, and every process answers for all sessions.
 *
 * `effect/cluster` only decides where a session runs and carries messages there. That one process at most writes for a
 * session is certain by the epochs of the `SessionRegistry`, and everything that must survive is in the stores.
 */
import type { Sharding } from "effect/cluster/Sharding"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as HttpClient from "effect/http/HttpClient"
import type * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionRegistry } from "../core/store/SessionRegistry.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { PendingApprovals } from "../server/approvals/PendingApprovals.ts"
import * as Health from "../server/live/Health.ts"
import { RunnerStatus } from "../server/live/RunnerStatus.ts"
import * as Draining from "../server/sessions/Draining.ts"
import { SessionDirectory } from "../server/sessions/SessionDirectory.ts"
import { SessionHost } from "../server/sessions/SessionHost.ts"
import { fromPrincipal } from "../server/users/Principals.ts"
import type { SqlRunner } from "../sql/SqlRunner.ts"
import * as SqlSessionRegistry from "../sql/SqlSessionRegistry.ts"
import * as ClusterRunner from "./ClusterRunner.ts"
import * as DatabaseCheck from "./DatabaseCheck.ts"
import * as FreshPlaces from "./FreshPlaces.ts"
import * as RoutedDirectory from "./RoutedDirectory.ts"
import * as RunnerHealth from "./RunnerHealth.ts"
import * as RunnerOptions from "./RunnerOptions.ts"
import * as RunnerTransport from "./RunnerTransport.ts"
import * as SessionHandlers from "./SessionHandlers.ts"
import * as Sweeper from "./Sweeper.ts"

/** Options of a runner. */
export type Options = RunnerOptions.Options

/** Default options. */
export const defaults = RunnerOptions.defaults

/** Services of a process that it has for the whole cluster: they replace those of `Server.layerExecutors`. */
export type Clustered = Draining.Draining | Health.Health | RunnerStatus | SessionDirectory

/** Services of one process: those of `Server.layerExecutors`, and a registry of sessions. */
export type Local =
  | Draining.Draining
  | Health.Health
  | PendingApprovals
  | SessionDirectory
  | SessionHost
  | SessionRegistry

/**
 * Layer of a runner: the directory reaches all sessions of the cluster, wherever they run.
 *
 * Runners find each other in the database and send messages over HTTP to `server`, which is for them alone.
 */
export const layer = <E, R>(
  /** A server that listens as soon as it is built, such as `NodeHttpServer.layer`. */
  server: Layer.Layer<HttpServer.HttpServer, E, R>,
  options: Options = {}
): Layer.Layer<Clustered, ConfigurationError | E | SqlError, HttpClient.HttpClient | Local | R | SqlClient.SqlClient> =>
  Layer.unwrap(Effect.gen(function*() {
    const settings = yield* RunnerOptions.read(options)
    const runner = yield* SqlSessionRegistry.thisProcess
    yield* RunnerOptions.checkLease(runner.leaseMillis)
    yield* DatabaseCheck.check(settings.isPooled)
    yield* RunnerOptions.checkPlacing(settings, yield* runner.placed(settings))
    return clustered(settings, runner).pipe(
      Layer.provide(ClusterRunner.layerHttp(settings, runner)),
      Layer.provide(RunnerTransport.closedSoon(server))
    )
  }))

/**
 * Layer of the only runner there is, without a database or a port of its own. Sessions leave memory as in a cluster,
 * so it is the same program on a laptop, and in tests.
 */
export const layerSingle = (options: Options = {}): Layer.Layer<Clustered, ConfigurationError, Local> =>
  Layer.unwrap(Effect.map(
    RunnerOptions.read(options),
    (settings) => Layer.provide(clustered(settings), ClusterRunner.layerSingle(settings))
  ))

const clustered = (
  settings: RunnerOptions.Settings,
  /** This process in the database; absent: it is the only one. */
  shared?: SqlRunner
): Layer.Layer<Clustered, never, Local | Sharding> =>
  Layer.effectContext(Effect.gen(function*() {
    const approvals = yield* PendingApprovals
    const draining = yield* Draining.Draining
    const health = yield* Health.Health
    const host = yield* SessionHost
    const local = yield* SessionDirectory
    const registry = yield* SessionRegistry
    const scope = yield* Effect.scope
    const { runner } = registry
    const counts = { held: 0, lost: 0, woken: 0 }

    let isLeaving = false
    const isBegun = Effect.map(draining.isBegun, (isBegun) => isBegun || isLeaving)
    const own = yield* RunnerHealth.make({ health, isBegun, runner, shards: settings.shards })
    const hosted = new SessionHandlers.Hosted()
    const { directory, poke } = yield* RoutedDirectory.make(local, hosted, {
      unready: own.unready,
      departed: shared?.departed ?? Effect.never
    })
    // closed after the place: sessions that move need their fibers
    const sessions = yield* Scope.fork(scope)
    // closed first, while messages still arrive
    const place = yield* Scope.fork(scope)
    const hosting = SessionHandlers.layer(local, {
      registry,
      isHere: yield* FreshPlaces.make(runner, (shard) => shared === undefined || shared.shards.has(shard)),
      host,
      refresh: approvals.refresh,
      scope: sessions,
      linger: settings.linger,
      within: settings.within,
      counts
    }, hosted)
    const sweeping = Sweeper.layer({
      registry,
      every: settings.sweep,
      poke: (principal) => {
        counts.woken++
        return poke(fromPrincipal(principal))
      }
    })
    yield* Layer.buildWithScope(Layer.merge(hosting, sweeping), place)

    // sessions move to other runners while this process still answers
    const leave = Effect.suspend(() => {
      isLeaving = true
      return Scope.close(place, Exit.void)
    })
    yield* Effect.addFinalizer(() => leave)
    const drain = yield* Effect.cached(Effect.andThen(leave, draining.drain))
    const now = Effect.sync(() => ({
      name: runner.name,
      ...shared?.address === undefined ? {} : { address: shared.address },
      isHeld: runner.isHeld,
      sessions: counts.held,
      lost: counts.lost,
      woken: counts.woken
    }))
    return Context.make(SessionDirectory, directory).pipe(
      Context.add(Draining.Draining, { isBegun, drain }),
      Context.add(Health.Health, own.health),
      Context.add(RunnerStatus, { now })
    )
  }))
