/**
 * Which runners answer, as this one finds out. `effect/cluster` has one runner check all others, and if that one dies,
 * nobody notices until its heartbeat has expired. So each runner looks by itself, and places no sessions on a runner
 * that does not answer it. What such a runner still holds stays locked, so a wrong guess takes nothing from it.
 */
import type * as RunnerAddress from "effect/cluster/RunnerAddress"
import { RunnerHealth } from "effect/cluster/RunnerHealth"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import { ShardingConfig } from "effect/cluster/ShardingConfig"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"

/** Layer of a storage that takes runners that do not answer for unhealthy. */
export const layer: Layer.Layer<
  RunnerStorage.RunnerStorage,
  never,
  RunnerHealth | RunnerStorage.RunnerStorage | ShardingConfig
> = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.gen(function*() {
    const { isAlive } = yield* RunnerHealth
    const { runnerAddress, runnerHealthCheckInterval } = yield* ShardingConfig
    const storage = yield* RunnerStorage.RunnerStorage
    let others: ReadonlyArray<RunnerAddress.RunnerAddress> = []
    const silent = new Set<string>()
    const check = (address: RunnerAddress.RunnerAddress) =>
      Effect.map(isAlive(address), (answers) => {
        if (answers) silent.delete(String(address))
        else silent.add(String(address))
      })
    const checkAll = Effect.suspend(() => Effect.forEach(others, check, { concurrency: 10, discard: true }))
    yield* Effect.forkScoped(Effect.repeat(checkAll, Schedule.spaced(runnerHealthCheckInterval)))
    return {
      ...storage,
      getRunners: Effect.map(storage.getRunners, (all) => {
        others = all.map(([{ address }]) => address).filter((it) => !Equal.equals(Option.some(it), runnerAddress))
        return all.map(([runner, isHealthy]) => [runner, isHealthy && !silent.has(String(runner.address))] as const)
      })
    }
  })
)
