/**
 * Readiness of a runner. One that is up and deaf gets no requests, lets those that it has wait no longer, and says why
 * in its log, once.
 */
import * as ShardId from "effect/cluster/ShardId"
import { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { Runner } from "../core/store/SessionRegistry.ts"
import type * as Health from "../server/live/Health.ts"

/** What is asked. */
export interface Options {
  /** The health of its stores. */
  readonly health: Health.Health["Service"]
  /** Whether it leaves. */
  readonly isBegun: Effect.Effect<boolean>
  readonly runner: Runner
  readonly shards: number
}

/** The health of a runner. */
export interface RunnerHealth {
  readonly health: Health.Health["Service"]
  /** Ends once the runner has not been ready for a while. */
  readonly unready: Effect.Effect<void>
}

const problemOfLease =
  "Its lease has expired, so other runners may have its sessions. The database does not answer it in time, or this " +
  "process was stopped or had no processor."

const problemOfShards =
  "It has no shards, so no session can run in it. If it stays so, the other runners cannot reach it: compare host, port " +
  "and secret."

/** Milliseconds between two looks. */
const every = 500

/** So many looks find a problem before it is one: a lease is renewed at once by a process that was only slow. */
const patience = 4

/** Creates the health of a runner: that of its stores, its lease, and that it has a part of the sessions. */
export const make = Effect.fnUntraced(function*(
  { health, isBegun, runner, shards }: Options
): Effect.fn.Return<RunnerHealth, never, Scope.Scope | Sharding> {
  const { hasShardId } = yield* Sharding
  const checks = () => [
    runner.isHeld ? { name: "runner", isOk: true } : { name: "runner", isOk: false, problem: problemOfLease },
    hasAny(shards, hasShardId)
      ? { name: "shards", isOk: true }
      : { name: "shards", isOk: false, problem: problemOfShards }
  ]
  const unready = Latch.makeUnsafe(false)
  let found = 0
  // one that has just started gets its shards when those who have them give them up
  let most = Math.max(patience, runner.leaseMillis / every)
  /** What is wrong now, if anything is. */
  const problem = Effect.gen(function*() {
    const problem = (yield* isBegun) ? undefined : checks().find(({ isOk }) => !isOk)?.problem
    if (problem === undefined) {
      found = 0
      most = patience
      if (unready.closeUnsafe()) yield* Effect.logInfo("This runner is ready again.")
    }
    return problem
  })
  const look = Effect.gen(function*() {
    const what = yield* problem
    if (what !== undefined && ++found >= most && unready.openUnsafe()) {
      yield* Effect.logWarning(`This runner is not ready. ${what}`)
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(look, every)))
  return {
    // it may have become ready since the last look
    unready: Effect.asVoid(Effect.repeat(Effect.andThen(unready.await, problem), { until: (it) => it !== undefined })),
    health: {
      now: Effect.gen(function*() {
        const { checks: stores, status } = yield* health.now
        if (yield* isBegun) return { status: "stopping" as const, checks: stores }
        const all = [...stores, ...checks()]
        return { status: status === "ready" && !all.every((it) => it.isOk) ? "failing" as const : status, checks: all }
      })
    }
  }
})

const hasAny = (shards: number, has: (shard: ShardId.ShardId) => boolean): boolean => {
  for (let id = 1; id <= shards; id++) if (has(ShardId.make("default", id))) return true
  return false
}
