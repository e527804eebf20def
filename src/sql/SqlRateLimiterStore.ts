/**
 * What rate limits have counted, in a database, PostgreSQL or SQLite: the processes that share it together start no
 * more calls than a limit allows.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type * as Migrator from "effect/sql/Migrator"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import * as KeyedStates from "./KeyedStates.ts"
import * as Steps from "./rateSteps.ts"

/** Opens a store over a client, and makes its table if it is not there. */
export const make: Effect.Effect<
  RateLimiter.RateLimiterStore["Service"],
  Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> = Effect.gen(function*() {
  const { states } = yield* KeyedStates.open(table)
  const windows = states("window", Steps.Window)
  const buckets = states("bucket", Steps.Bucket)
  const learned = states("learned", Steps.Adaptive)
  return RateLimiter.RateLimiterStore.of({
    fixedWindow: (options) => told(taken(windows, options, Steps.fixedWindow(options))),
    tokenBucket: (options) => told(taken(buckets, options, Steps.tokenBucket(options))),
    adaptiveConsume: (options) => told(learned.modify(options.key, Steps.adaptiveConsume(options))),
    adaptiveFeedback: (options) =>
      options.status !== 429 || options.retryAfter === undefined
        ? Effect.void
        : told(learned.modify(options.key, Steps.adaptiveFeedback(options, options.retryAfter)))
  })
})

/** Layer of the store, for `RateLimits` or another limiter. */
export const layer: Layer.Layer<
  RateLimiter.RateLimiterStore,
  Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> = Layer.effect(RateLimiter.RateLimiterStore, make)

/**
 * Deletes what no limit depends on any more; gives how many entries those were. The store in use does so every ten
 * minutes.
 */
export const prune: Effect.Effect<number, SqlError.SqlError, SqlClient.SqlClient> = Effect.suspend(() =>
  KeyedStates.prune(table)
)

const table = "tool_executor_rates"

/** Taking no tokens is a read without a lock. */
const taken = <A, S>(
  states: KeyedStates.KeyedStates<S>,
  { key, tokens }: { readonly key: string; readonly tokens: number },
  step: (state: S | undefined, now: number) => KeyedStates.Step<A, S>
): Effect.Effect<A, KeyedStates.Trouble> =>
  tokens === 0 ? states.read(key, (state, now) => step(state, now).answer) : states.modify(key, step)

const told = <A>(effect: Effect.Effect<A, KeyedStates.Trouble>): Effect.Effect<A, RateLimiter.RateLimiterError> =>
  Effect.mapError(effect, (cause) =>
    new RateLimiter.RateLimiterError({
      reason: new RateLimiter.RateLimitStoreError({ message: "The database could not count a call", cause })
    }))
