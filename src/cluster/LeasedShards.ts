/**
 * Which runners there are, and which shards each of them has: one row for each in the database, and one lease that says
 * whether a runner is alive. It is the lease of its sessions, so all runners see the same.
 */
import { PersistenceError } from "effect/cluster/ClusterError"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { Namesake } from "../sql/RunnerTables.ts"
import type { SqlRunner } from "../sql/SqlRunner.ts"

/** Layer of the storage of `effect/cluster`, for a process that is registered. */
export const layer = (runner: SqlRunner): Layer.Layer<RunnerStorage.RunnerStorage> =>
  Layer.sync(RunnerStorage.RunnerStorage, () =>
    RunnerStorage.makeEncoded({
      getRunners: refail(
        Effect.map(runner.members, (members) => members.map((it) => [it.place, it.isReachable] as const))
      ),
      register: (_address, place) =>
        Effect.flatMap(
          refail(runner.join(place)),
          (machine) => machine === undefined ? Effect.fail(expired) : Effect.succeed(machine)
        ),
      unregister: () => runner.leave,
      setRunnerHealth: (address, isReachable) => refail(runner.reach(address, isReachable)),
      acquire: (_address, ids) => refail(Effect.map(runner.shards.acquire(ids), Array.from<string>)),
      // what the last renewal told is true as long as the lease is valid
      refresh: (_address, used) =>
        Effect.flatMap(
          Effect.suspend(() => runner.isHeld ? Effect.succeed(true) : runner.renew),
          (isHeld) => isHeld ? Effect.sync(() => runner.shards.kept(used)) : Effect.fail(expired)
        ),
      release: (_address, id) => refail(runner.shards.release([id])),
      releaseAll: () => refail(runner.shards.releaseAll)
    }))

/**
 * Ends once no other process seems to be alive under an address: each renews its lease long before half of it is over.
 * One that was killed has its shards until the end of its lease. Who starts in its place is known to all by then, so that
 * the shards of the others stay where they are. One that renews its lease has the same address by mistake.
 */
export const ownAddress = Effect.fnUntraced(function*(
  runner: SqlRunner,
  address: string
): Effect.fn.Return<void, ConfigurationError | SqlError, Scope.Scope> {
  const first = yield* runner.namesakes(address)
  if (first.length === 0) return
  yield* Effect.logInfo(
    `A runner at ${address} was up until now. This one starts as soon as that one seems to have ended`
  )
  yield* over(runner, address, first, runner.leaseMillis / 2)
  yield* over(runner, address, first, 0).pipe(
    Effect.catch((error) => Effect.logError(error.message)),
    Effect.forkScoped
  )
})

/** Ends once the leases of others under an address are valid for no longer than that. */
const over = Effect.fnUntraced(function*(
  runner: SqlRunner,
  address: string,
  first: ReadonlyArray<Namesake>,
  millis: number
): Effect.fn.Return<void, ConfigurationError | SqlError> {
  while (true) {
    const left = (yield* runner.namesakes(address)).filter((it) => it.left > millis)
    if (left.some(({ name, until }) => first.some((it) => it.name === name && it.until < until))) {
      return yield* taken(address)
    }
    if (left.length === 0) return
    yield* Effect.sleep(Math.min(pause, ...left.map((it) => it.left - millis + 1)))
  }
})

const pause = 500

const taken = (address: string): ConfigurationError =>
  new ConfigurationError({
    subject: "Cluster",
    problems: [{
      path: "host",
      problem: `another runner is up at ${address}, so messages to this one would reach that one`,
      expected: "an address of its own that the other runners reach (TOOL_EXECUTOR_CLUSTER_HOST and _PORT)"
    }]
  })

const expired = new PersistenceError({
  cause: new Error("the lease of this runner has expired and could not be renewed")
})

const refail = <A>(effect: Effect.Effect<A, SqlError>): Effect.Effect<A, PersistenceError> =>
  PersistenceError.refail(effect)
