/**
 * Graceful shutdown: suspends calls that wait for approval, lets running calls finish and ends all streams before the
 * HTTP server closes.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import * as PendingApprovals from "../approvals/PendingApprovals.ts"
import * as LiveLog from "../live/LiveLog.ts"
import * as Operations from "../operations/Operations.ts"
import * as Waves from "../waves/Waves.ts"

/** Graceful shutdown. */
export class Draining extends Context.Service<Draining, {
  /** Whether shutdown has begun: no work is accepted any longer. */
  readonly isBegun: Effect.Effect<boolean>
  /** Shuts down once. Completes when all waves and streams have ended, for later callers, too. */
  readonly drain: Effect.Effect<void>
}>()("effect-tool-executor/server/Draining") {}

/** Options of the shutdown. */
export interface Options {
  /** Time that running calls have to finish. Default 20 seconds. */
  readonly within?: Duration.Input | undefined
}

/** Default options. */
export const defaults = { within: "20 seconds" } as const satisfies Options

/** Layer of the shutdown. Closing its scope does not shut down; `Server.serve` does. */
export const layer = (
  options: Options = {}
): Layer.Layer<
  Draining,
  ConfigurationError,
  LiveLog.LiveLog | Operations.Operations | PendingApprovals.PendingApprovals | Waves.Waves
> =>
  Layer.effect(
    Draining,
    Effect.gen(function*() {
      const { within } = yield* readOptions("Draining", (read) => ({
        within: read.millis("within", options.within ?? defaults.within)
      }))
      const live = yield* LiveLog.LiveLog
      const approvals = yield* PendingApprovals.PendingApprovals
      const operations = yield* Operations.Operations
      const waves = yield* Waves.Waves
      const ended = yield* Deferred.make<void>()
      let isBegun = false
      const stop = Effect.all([waves.drain(within), operations.drain(within), approvals.suspend("the server stops")], {
        concurrency: "unbounded",
        discard: true
        // streams end last: they still report the ends of waves and approval requests
      }).pipe(Effect.ensuring(live.stop))
      return Draining.of({
        isBegun: Effect.sync(() => isBegun),
        drain: Effect.suspend(() => {
          if (isBegun) return Deferred.await(ended)
          isBegun = true
          return Effect.ensuring(stop, Deferred.succeed(ended, undefined))
        })
      })
    })
  )
