/** Readiness of a runner: one that is up and deaf gets no requests. */
import * as ShardId from "effect/cluster/ShardId"
import { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Runner } from "../core/store/SessionRegistry.ts"
import type * as Health from "../server/Health.ts"

/** What is asked. */
export interface Options {
  /** The health of its stores. */
  readonly health: Health.Health["Service"]
  /** Whether it leaves. */
  readonly isBegun: Effect.Effect<boolean>
  readonly runner: Runner
  readonly shards: number
}

const problemOfShards =
  "It has no shards, so no session can run in it. If it stays so, the other runners cannot reach it: compare host, port " +
  "and secret."

const patience = "2 seconds"

/** Creates the health of a runner: that of its stores, its lease, and that it has a part of the sessions. */
export const make = Effect.fnUntraced(function*(
  { health, isBegun, runner, shards }: Options
): Effect.fn.Return<Health.Health["Service"], never, Sharding> {
  const { hasShardId } = yield* Sharding
  const lease = Effect.map(Effect.timeoutOption(runner.renew, patience), (renewed) => ({
    name: "runner",
    ...Option.getOrElse(renewed, () => false)
      ? { isOk: true }
      : { isOk: false, problem: "Its lease could not be renewed, so it may hold no sessions." }
  }))
  const part = Effect.sync(() => ({
    name: "shards",
    ...hasAny(shards, hasShardId)
      ? { isOk: true }
      : { isOk: false, problem: problemOfShards }
  }))
  const own = yield* Effect.cachedWithTTL(Effect.all([lease, part]), "2 seconds")
  return {
    now: Effect.gen(function*() {
      const { checks, status } = yield* health.now
      if (yield* isBegun) return { status: "stopping" as const, checks }
      const all = [...checks, ...yield* own]
      return { status: status === "ready" && !all.every((it) => it.isOk) ? "failing" as const : status, checks: all }
    })
  }
})

const hasAny = (shards: number, has: (shard: ShardId.ShardId) => boolean): boolean => {
  for (let id = 1; id <= shards; id++) if (has(ShardId.make("default", id))) return true
  return false
}
