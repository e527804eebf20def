/**
 * Stopping in good order: what waits for a person is suspended, what runs comes to its end,
 * and every stream to its own, before the HTTP server goes.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import * as LiveLog from "./LiveLog.ts"
import * as PendingApprovals from "./PendingApprovals.ts"
import * as Waves from "./Waves.ts"

/**
 * Stopping.
 *
 * @category services
 * @since 0.1.0
 */
export class Draining extends Context.Service<Draining, {
  /** Whether it has begun: nothing is taken any more. */
  readonly isBegun: Effect.Effect<boolean>
  /** Stops, once; done when all waves and streams have come to their ends, for whoever asks for it later, too. */
  readonly drain: Effect.Effect<void>
}>()("effect-tool-executor/server/Draining") {}

/**
 * Options of stopping.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long calls that run have to come to their ends. Default 20 seconds. */
  readonly within?: Duration.Input | undefined
}

/**
 * The defaults.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = { within: "20 seconds" } as const satisfies Options

/**
 * Layer of stopping. Its end does not stop anything: `Server.serve` does.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options = {}
): Layer.Layer<Draining, ConfigurationError, LiveLog.LiveLog | PendingApprovals.PendingApprovals | Waves.Waves> =>
  Layer.effect(
    Draining,
    Effect.gen(function*() {
      const { within } = yield* readOptions("Draining", (read) => ({
        within: read.millis("within", options.within ?? defaults.within)
      }))
      const live = yield* LiveLog.LiveLog
      const approvals = yield* PendingApprovals.PendingApprovals
      const waves = yield* Waves.Waves
      const ended = yield* Deferred.make<void>()
      let isBegun = false
      const stop = Effect.all([waves.drain(within), approvals.suspend("the server stops")], {
        concurrency: "unbounded",
        discard: true
        // last: what becomes of waves and approval requests is still told
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
