/**
 * State that outlives a call and is shared between calls: dedupe keys, call counts, choices of exclusive groups,
 * cooldown clocks, grants.
 *
 * A call reserves everything it needs in one atomic step (`reserve`: all claims or none) and settles it exactly once.
 * `Claims` has the claims and their answers, `MemoryStore` the driver in memory.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { KeptPast } from "../rules/SharedPast.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { Grant } from "../vocabulary/Grant.ts"
import type { BatchClaim, Claim, Refused, Request, Reservation, Settlement } from "./Claims.ts"
import * as MemoryStore from "./MemoryStore.ts"

export * from "./Claims.ts"

/** Error of a store that could not do its work. The memory driver never fails. */
export class StateStoreError extends Schema.TaggedError<StateStoreError>("effect-tool-executor/StateStoreError")(
  "StateStoreError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `StateStore.${this.operation} failed`
  }
}

/**
 * State shared between calls. Times are epoch milliseconds of the executor's clock.
 *
 * A driver that has its answer immediately returns it as `Effect.succeed`: an effect that is an `Exit` already needs no
 * fiber. Such a driver does its work when it is called, so callers run the returned effect exactly once.
 *
 * A driver that leases has to see earlier messages when it answers later ones: an executor does not wait for the
 * settlement of a read.
 */
export class StateStore extends Context.Service<StateStore, {
  /**
   * Takes for each request all of its claims or none, one request after the other and all of them in one atomic step;
   * where a claim cannot be had, the first such claim is the answer to its request, and the other requests are not
   * affected. `principal` is whose calls they are: where processes share sessions (`SessionRegistry`), a process that
   * does not hold its session takes nothing.
   */
  readonly reserve: (
    requests: ReadonlyArray<Request>,
    now: number,
    principal?: string
  ) => Effect.Effect<ReadonlyArray<Reservation | Refused>, StateStoreError>
  /** Tells which claim could not be had now; takes nothing. */
  readonly check: (claims: ReadonlyArray<Claim>, now: number) => Effect.Effect<Refused | undefined, StateStoreError>
  /**
   * Calls are about to start: from now on what they have reserved stays spent where it is never settled, because its
   * lease is lost or its session has ended. Gives those that are still held; the others may not start. Only asked of
   * reservations that are leased.
   */
  readonly start: (
    reservations: ReadonlyArray<Reservation>,
    now: number
  ) => Effect.Effect<ReadonlyArray<Reservation>, StateStoreError>
  /** Holds leases for another `leaseMillis` from now; gives those that are still held. */
  readonly renew: (
    reservations: ReadonlyArray<Reservation>,
    now: number
  ) => Effect.Effect<ReadonlyArray<Reservation>, StateStoreError>
  /**
   * Settles a reservation: spends or gives back each of its claims. False where it is no longer held, because it was
   * settled before or its lease was lost: then nothing changes. If the answer gets lost, the same message is sent again
   * with the same times, and only the first time counts.
   */
  readonly settle: (
    reservation: Reservation,
    settlement: Settlement,
    now: number
  ) => Effect.Effect<boolean, StateStoreError>
  /**
   * The fiber of a reservation that was settled as `running` has ended: its key is free, its tool rests from now. False
   * as with `settle`, and told again like it.
   */
  readonly release: (reservation: Reservation, now: number) => Effect.Effect<boolean, StateStoreError>
  /**
   * The owner of a session has ended. What did not start is free immediately, what started stays spent, and nothing
   * that is said later of what the session has reserved until now counts. `started` are reservations of the session
   * that are known to have started, or to have been about to: they are spent, if they are still held.
   */
  readonly abandon: (
    session: string,
    now: number,
    started: ReadonlyArray<Reservation>
  ) => Effect.Effect<void, StateStoreError>
  /** Keeps a grant. A process that lost the session of its principal keeps none: who holds the session gets the answer. */
  readonly grant: (grant: Grant) => Effect.Effect<void, StateStoreError>
  /** Gives the grants of a principal that have not expired. */
  readonly grants: (principal: string, now: number) => Effect.Effect<ReadonlyArray<Grant>, StateStoreError>
  /** Gives those of all principals, for an operator. */
  readonly allGrants: (now: number) => Effect.Effect<ReadonlyArray<Grant>, StateStoreError>
  /** Revokes a grant; false if the id is unknown. */
  readonly revoke: (principal: string, id: string) => Effect.Effect<boolean, StateStoreError>
  /**
   * A mutating call of the principal starts or has ended: all of its keys are overtaken, but for that of `by`, the
   * reservation of that call. Settled keys that end with a change (`endsWithChange`) are dead.
   */
  readonly mutated: (principal: string, by?: Reservation) => Effect.Effect<void, StateStoreError>
  /** Gives what is remembered of batches and sessions (`Settlement.succeeded`), in the order of the question. */
  readonly recall: (
    of: ReadonlyArray<BatchClaim>,
    now: number
  ) => Effect.Effect<ReadonlyArray<KeptPast | undefined>, StateStoreError>
  /**
   * Forgets the counts, choices, successes and settled keys of a batch, or what is kept of a session. A driver does so
   * on its own for a batch that has no open reservation and has been idle for its time. `principal` as with `reserve`.
   */
  readonly closeBatch: (batch: string, principal?: string) => Effect.Effect<void, StateStoreError>
  /** Forgets what is past its window; gives the number of entries dropped. */
  readonly pruneExpired: (now: number) => Effect.Effect<number, StateStoreError>
}>()("effect-tool-executor/store/StateStore") {}

/** Its operations, for what stands around a driver. */
export const operations = [
  "reserve",
  "check",
  "start",
  "renew",
  "settle",
  "release",
  "abandon",
  "grant",
  "grants",
  "allGrants",
  "revoke",
  "mutated",
  "recall",
  "closeBatch",
  "pruneExpired"
] as const satisfies ReadonlyArray<keyof StateStore["Service"]>

/** Bounds of the memory driver. */
export type MemoryOptions = MemoryStore.Options

/** Layer that keeps the state in memory. */
export const layerMemory = (options?: MemoryOptions): Layer.Layer<StateStore, ConfigurationError> =>
  Layer.effect(StateStore, checked(options))

/** The default bounds of the memory driver. */
export const memoryDefaults = MemoryStore.defaults

/** Creates a store that keeps the state in memory. */
export const makeMemory: (options?: MemoryOptions) => StateStore["Service"] = MemoryStore.make

const checked = (options: MemoryOptions = {}): Effect.Effect<StateStore["Service"], ConfigurationError> => {
  const { batchTimeToLive, maxKeys, sessionTimeToLive } = options
  return Effect.map(
    readOptions("StateStore", (read) => ({
      maxKeys: read.atLeast("maxKeys", maxKeys ?? memoryDefaults.maxKeys, 0),
      batchTimeToLive: read.millis("batchTimeToLive", batchTimeToLive ?? memoryDefaults.batchTimeToLive),
      sessionTimeToLive: read.millis("sessionTimeToLive", sessionTimeToLive ?? memoryDefaults.sessionTimeToLive)
    })),
    makeMemory
  )
}
