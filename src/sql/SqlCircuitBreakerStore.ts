/**
 * The circuits of tools in a database, PostgreSQL or SQLite: the processes that share it agree on which tools are not
 * to be called.
 *
 * The place of the one call that tries a paused tool is held by a lease, which is renewed as long as that call runs: a
 * process that dies gives it back.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type * as Migrator from "effect/sql/Migrator"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import * as Steps from "./circuitSteps.ts"
import * as KeyedStates from "./KeyedStates.ts"

/** How long what is held and kept stays without anybody who renews it. */
export interface Options {
  /** How long the place of the call that tries stays taken when its process is gone. Default 10 seconds. */
  readonly probeLease?: Duration.Input | undefined
  /** An unused circuit is forgotten after this time; an open one, this time after it closes. Default 1 hour. */
  readonly idleTimeToLive?: Duration.Input | undefined
}

/** The defaults. */
export const defaults = { probeLease: "10 seconds", idleTimeToLive: "1 hour" } as const satisfies Options

/** Opens a store over a client, and makes its table if it is not there. */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<
  CircuitBreaker.CircuitBreakerStore["Service"],
  ConfigurationError | Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> {
  const times = yield* readOptions("SqlCircuitBreakerStore", (read) => ({
    leaseMillis: read.millis("probeLease", options.probeLease ?? defaults.probeLease),
    idleMillis: read.millis("idleTimeToLive", options.idleTimeToLive ?? defaults.idleTimeToLive)
  }))
  const circuits = (yield* KeyedStates.open(table)).states("circuit", Steps.Circuit)

  /** Ends once the place is lost: it cannot be had back. */
  const hold = Effect.fnUntraced(function*(key: string, generation: number) {
    do {
      yield* Effect.sleep(times.leaseMillis / 3)
      // while the database is away the lease may still hold
    } while (yield* Effect.orElseSucceed(circuits.modify(key, Steps.renew(generation, times)), () => true))
  })

  return CircuitBreaker.CircuitBreakerStore.of({
    admit: Effect.fnUntraced(function*(key) {
      const answer = yield* Effect.mapError(circuits.modify(key, Steps.admit(key, times)), inTrouble("let a call in"))
      if ("reason" in answer) return yield* answer
      if (answer.probe) yield* Effect.forkScoped(Effect.interruptible(hold(key, answer.generation)))
      return answer
    }),
    record: (options) =>
      Effect.mapError(circuits.modify(options.key, Steps.record(options, times)), inTrouble("record an outcome")),
    state: (key) => Effect.mapError(circuits.read(key, Steps.stateOf(key)), inTrouble("read a circuit"))
  })
})

/** Layer of the store, for `CircuitBreakers` or another breaker. */
export const layer = (options?: Options): Layer.Layer<
  CircuitBreaker.CircuitBreakerStore,
  ConfigurationError | Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> => Layer.effect(CircuitBreaker.CircuitBreakerStore, make(options))

/**
 * Deletes the circuits that were unused for their time; gives how many those were. A store in use does so every ten
 * minutes.
 */
export const prune: Effect.Effect<number, SqlError.SqlError, SqlClient.SqlClient> = Effect.suspend(() =>
  KeyedStates.prune(table)
)

const table = "tool_executor_circuits"

const inTrouble = (what: string) => (cause: KeyedStates.Trouble): CircuitBreaker.CircuitBreakerError =>
  new CircuitBreaker.CircuitBreakerError({
    reason: new CircuitBreaker.CircuitBreakerStoreError({ message: `The database could not ${what}`, cause })
  })
