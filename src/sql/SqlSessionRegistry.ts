/**
 * The session registry in PostgreSQL, for as many processes as share the database.
 *
 * A process has a lease for all its sessions, by its own monotonic clock and counted from before the database was
 * asked. It is shorter than the lock by which a cluster places sessions, so that a frozen process knows that it may
 * have lost them before another one has them. A process that takes a session from one whose lease is valid waits until
 * that lease has expired, or was renewed, which tells the other one.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import { SessionLost, SessionRegistry, SessionRegistryError } from "../core/store/SessionRegistry.ts"
import { ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { isPg, plain } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"
import * as RunnerTables from "./RunnerTables.ts"
import * as Tables from "./SessionTables.ts"
import { SqlRunner } from "./SqlRunner.ts"

/** Who this process is, and how long its lease is. */
export interface Options {
  /** Its name, different in each life of a process. Default: a random one. */
  readonly name?: string | undefined
  /**
   * How long after its last sign of life other processes may take over its sessions. It gives one three times as often.
   * Shorter than the expiration of a cluster's shard locks. Default 9 seconds.
   */
  readonly lease?: Duration.Input | undefined
}

/** The defaults. */
export const defaults = { lease: "9 seconds" } as const satisfies Options

/** Layer of the registry in the database of a client; ends the lease with the scope. */
export const layer = (
  options?: Options
): Layer.Layer<
  SessionRegistry,
  ConfigurationError | Migrator.MigrationError | SqlError | SessionRegistryError,
  SqlClient.SqlClient
> => Layer.effect(SessionRegistry, make(options))

/** Creates the registry, registers the process and renews its lease for the rest of the scope. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<
  SessionRegistry["Service"],
  ConfigurationError | Migrator.MigrationError | SqlError | SessionRegistryError,
  SqlClient.SqlClient | Scope.Scope
> {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  if (!isPg(sql)) return yield* notPostgres
  const { leaseMillis } = yield* readOptions("SqlSessionRegistry", (read) => ({
    leaseMillis: read.millis("lease", options.lease ?? defaults.lease)
  }))
  const name = options.name ?? randomUUID()
  yield* Migrations.run(sql, Tables.schema)
  const runner = yield* registered(sql, { name, leaseMillis })
  const pruned = Effect.ignore(prune(sql, Duration.toMillis(unusedFor)), { log: "Warn" })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(pruned, "1 hour")))
  const { held } = runner

  const registry: SessionRegistry["Service"] = {
    runner,
    current: held.current,
    activate: (principal) =>
      failing(
        "activate",
        runner.settled(
          principal,
          Effect.gen(function*() {
            if (plain(principal) !== principal) return yield* unstorable
            held.end(principal)
            let before = yield* runner.renewed
            const { epoch, waitMillis } = yield* activated(sql, name, principal)
            // by the clock of the database: the one of this process may be fast. A renewal that was under way meanwhile
            // did not know of this epoch, and could not tell whether it was over
            for (let left = waitMillis; left > 0 || runner.renewals !== before;) {
              yield* Effect.sleep(left)
              before = yield* runner.renewed
              const asked = yield* own(sql)(Tables.waitOf(sql, { epoch, principal }))
              if (asked === undefined) return yield* new SessionLost({ principal })
              left = asked
            }
            return held.begin(principal, epoch)
          })
        )
      ),
    release: (epoch, left) =>
      failing(
        "release",
        runner.settled(
          epoch.principal,
          Effect.suspend(() => {
            if (held.current(epoch.principal) === epoch) held.end(epoch.principal)
            return Effect.map(
              own(sql)(Tables.release(sql, epoch, left)),
              (isWoken) => isWoken === undefined ? "Lost" : isWoken ? "Ready" : "Released"
            )
          })
        )
      ),
    heard: (epoch) =>
      failing(
        "heard",
        Effect.map(own(sql)(Tables.heard(sql, epoch)), (isOurs) => {
          if (!isOurs) epoch.lose()
          return isOurs
        })
      ),
    wake: (principal) => failing("wake", Effect.asVoid(own(sql)(Tables.wake(sql, principal)))),
    due: (limit) => failing("due", own(sql)(Tables.due(sql, limit)))
  }
  shared.add(registry)
  return registry
})

/**
 * Layer of a process that has all sessions of the database and no epochs. It fails where processes of a registry are
 * alive, and those do not start while it is.
 */
export const layerAlone: Layer.Layer<
  never,
  ConfigurationError | Migrator.MigrationError | SqlError | SessionRegistryError,
  SqlClient.SqlClient
> = Layer.effectDiscard(Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  yield* Migrations.run(sql, Tables.schema)
  yield* registered(sql, { name: randomUUID(), leaseMillis: aloneMillis, isAlone: true })
  // its lease may have expired unnoticed: it was frozen, or the database was away
  const looked = Effect.flatMap(
    own(sql)(RunnerTables.rivals(sql, true)),
    ({ count }) => count === 0 ? Effect.void : Effect.logError(startedBeside)
  )
  yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(looked), aloneMillis)))
}))

/** The registry of the context, if its sessions are in a database: only there do stores in SQL write in epochs. */
export const inThisDatabase: Effect.Effect<SessionRegistry["Service"] | undefined> = Effect.map(
  Effect.serviceOption(SessionRegistry),
  (it) => Option.getOrUndefined(Option.filter(it, (registry) => shared.has(registry)))
)

/**
 * Removes sessions that are free and were not used for some milliseconds, and processes that ended before; gives how
 * many sessions that were.
 */
export const prune = (sql: SqlClient.SqlClient, millis: number): Effect.Effect<number, SessionRegistryError> =>
  failing("prune", Tables.prune(sql, millis))

/** This process in the database of the context's registry. */
export const thisProcess: Effect.Effect<SqlRunner, ConfigurationError, SessionRegistry> = Effect.flatMap(
  SessionRegistry,
  ({ runner }) => runner instanceof SqlRunner ? Effect.succeed(runner) : Effect.fail(notShared)
)

// Utilities

/** Milliseconds for which a process that has all sessions counts as alive after its last sign of life. */
const aloneMillis = 15_000

const startedBeside =
  "Runners of a cluster have started on the database of this server, and both run the same sessions. Stop this server"

/** Registers a process for the rest of the scope and renews its lease; fails where it would share sessions with rivals. */
const registered = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  registration: RunnerTables.Registration
): Effect.fn.Return<SqlRunner, ConfigurationError | SessionRegistryError | SqlError, Scope.Scope> {
  const runner = new SqlRunner(sql, registration, yield* Clock.Clock)
  yield* Effect.acquireRelease(failing("register", runner.register), () => runner.close)
  const isAlone = registration.isAlone === true
  const { count, millis } = yield* own(sql)(RunnerTables.rivals(sql, isAlone))
  if (count > 0) return yield* rivalry(isAlone, Math.ceil(millis / 1_000))
  yield* Effect.forkScoped(runner.background)
  return runner
})

const rivalry = (isAlone: boolean, seconds: number): ConfigurationError =>
  new ConfigurationError({
    subject: "PostgreSQL",
    problems: [{
      path: "tool_executor_runners",
      problem: isAlone
        ? "runners of a cluster are up on this database, and a server without a cluster would run their sessions, too"
        : "a server without a cluster is up on this database, and would run the sessions of this runner, too",
      expected:
        `${isAlone ? "serve --cluster" : "that it is stopped first"}, or another database. Processes that were ` +
        `killed count as up for ${seconds} more second${seconds === 1 ? "" : "s"}`
    }]
  })

/** What nobody used for so long is removed. */
const unusedFor = "1 day"

const shared = new WeakSet<SessionRegistry["Service"]>()

const failing = <A, R>(
  operation: string,
  effect: Effect.Effect<A, SqlError | SessionLost | SessionRegistryError, R>
) =>
  Effect.mapError(
    effect,
    (cause) => cause._tag === "SessionRegistryError" ? cause : new SessionRegistryError({ operation, cause })
  )

/** A name that is kept as another one would be activated as another session. */
const unstorable = new SessionRegistryError({
  operation: "activate",
  cause: new Error("a principal of shared sessions has at most 500 characters, all of which PostgreSQL can store")
})

const notPostgres = new ConfigurationError({
  subject: "SqlSessionRegistry",
  problems: [{
    path: "SqlClient",
    problem: "it is not a client of PostgreSQL",
    expected: "PgClient.layer, or SessionRegistry.layerMemory for one process"
  }]
})

const notShared = new ConfigurationError({
  subject: "Cluster",
  problems: [{
    path: "SessionRegistry",
    problem: "it is not in a database, so two runners could hold the same session",
    expected: "SqlSessionRegistry.layer. One process alone uses Cluster.layerSingle"
  }]
})

/** Raises the epoch; again where somebody else made the session at this moment. */
const activated = (
  sql: SqlClient.SqlClient,
  name: string,
  principal: string
): Effect.Effect<{ readonly epoch: number; readonly waitMillis: number }, SqlError> =>
  Effect.flatMap(
    own(sql)(Tables.activate(sql, name, principal)),
    (it) => it === undefined ? activated(sql, name, principal) : Effect.succeed(it)
  )
