/** The status of the server, for users. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { User } from "../api/ApiAccess.ts"
import type * as Api from "../api/ApiRecords.ts"
import * as PendingApprovals from "../approvals/PendingApprovals.ts"
import * as Limits from "../guard/Limits.ts"
import * as Operations from "../operations/Operations.ts"
import * as Waves from "../waves/Waves.ts"
import * as Health from "./Health.ts"
import { RunnerStatus } from "./RunnerStatus.ts"

export class Status extends Context.Service<Status, {
  /** Counts are for operators only. */
  readonly of: (user: User) => Effect.Effect<Api.Status>
}>()("effect-tool-executor/server/Status") {}

export const layer: Layer.Layer<
  Status,
  never,
  Health.Health | Limits.Limits | Operations.Operations | PendingApprovals.PendingApprovals | Waves.Waves
> = Layer.effect(
  Status,
  Effect.gen(function*() {
    const { now } = yield* Health.Health
    const limits = yield* Limits.Limits
    const approvals = yield* PendingApprovals.PendingApprovals
    const waves = yield* Waves.Waves
    const operations = yield* Operations.Operations
    const runner = Option.getOrUndefined(yield* Effect.serviceOption(RunnerStatus))
    const counts = Effect.gen(function*() {
      const { streams } = yield* limits.counts
      const { operations: running } = yield* operations.counts
      return { ...(yield* waves.counts), operations: running, approvals: yield* approvals.count, streams }
    })
    return Status.of({
      of: (user) =>
        Effect.gen(function*() {
          return {
            ...yield* now,
            counts: user.operate ? yield* counts : null,
            ...user.operate && runner !== undefined ? { runner: yield* runner.now } : {},
            limits: operations.limits
          }
        })
    })
  })
)
