/** Finds sessions that nobody looks after, wherever they were, and wakes them: one runner of the cluster does. */
import type { Sharding } from "effect/cluster/Sharding"
import * as Singleton from "effect/cluster/Singleton"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type { SessionRegistry } from "../core/store/SessionRegistry.ts"

/** Options of the sweeper. */
export interface Options {
  readonly registry: SessionRegistry["Service"]
  /** Has the runner that holds a session look what has changed, or some runner open it. */
  readonly poke: (principal: string) => Effect.Effect<void>
  /** Milliseconds between two looks. */
  readonly every: number
}

/** Sessions of one look. */
const limit = 200

/** Sessions that are woken at a time. */
const concurrency = 50

/** Layer that sweeps while this runner is the one that does. */
export const layer = (options: Options): Layer.Layer<never, never, Sharding> =>
  Singleton.make("tool-executor/sweeper", Effect.repeat(sweep(options), Schedule.spaced(options.every)))

/** A session whose runner does not answer for so long is left for a later look, so that others do not wait for it. */
const patience = "5 seconds"

/** Looks once. */
export const sweep = ({ poke, registry }: Options): Effect.Effect<void> =>
  registry.due(limit).pipe(
    Effect.tap((due) =>
      Effect.forEach(due, (it) => Effect.timeoutOption(poke(it), patience), { concurrency, discard: true })
    ),
    Effect.repeat({ while: (due) => due.length === limit }),
    Effect.catch((error) => Effect.logWarning("Forgotten sessions could not be looked for", error)),
    Effect.asVoid
  )
