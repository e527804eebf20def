/**
 * Whether a session is placed in this process, for sure. A process that was frozen takes shards for its own that others
 * have by now, until it has renewed its lease.
 */
import * as EntityId from "effect/cluster/EntityId"
import { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Runner } from "../core/store/SessionRegistry.ts"

/**
 * Tells of a principal whether its session is placed here; waits for a renewal if the lease has expired. Without one it
 * is not: others may have it.
 */
export const make = Effect.fnUntraced(function*(
  runner: Pick<Runner, "isHeld" | "leaseMillis">,
  /** Whether the process has a shard, as far as the last renewal told. */
  has: (shard: string) => boolean
): Effect.fn.Return<(principal: string) => Effect.Effect<boolean>, never, Sharding> {
  const { getShardId, hasShardId } = yield* Sharding
  const held = Effect.repeat(Effect.sync(() => runner.isHeld), {
    until: (isHeld) => isHeld,
    schedule: Schedule.spaced("100 millis")
  }).pipe(Effect.timeoutOption(runner.leaseMillis), Effect.map(Option.isSome))
  return (principal) =>
    Effect.map(Effect.suspend(() => runner.isHeld ? Effect.succeed(true) : held), (isHeld) => {
      const shard = getShardId(EntityId.make(principal), "default")
      return isHeld && hasShardId(shard) && has(shard.toString())
    })
})
