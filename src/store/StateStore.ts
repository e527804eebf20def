/**
 * State that outlives a call and is shared between calls: dedupe keys, call
 * counts, choices of exclusive groups, cooldown clocks, standing permissions.
 *
 * A call reserves everything it needs in one atomic step (`reserve`: all claims
 * or none) and settles it exactly once. The memory driver is here; it is atomic
 * because it does not yield.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Grant } from "./Grant.ts"
import * as MemoryStore from "./MemoryStore.ts"

/**
 * One thing that a call needs, as data.
 *
 * @category models
 * @since 0.1.0
 */
export type Claim = KeyClaim | CallsClaim | GroupClaim | CooldownClaim | BatchClaim

/**
 * The right to be the only call of this key inside its window.
 *
 * @category models
 * @since 0.1.0
 */
export interface KeyClaim {
  readonly _tag: "Key"
  readonly principal: string
  /** The batch with which the key ends, once it is settled; absent: it outlives batches. */
  readonly batch?: string | undefined
  readonly tool: string
  readonly key: string
  /** The key dies when a mutating call of the principal starts or ends after this one. */
  readonly readOnly: boolean
  readonly process: string
  /** No model is told of the outcome: such a call never takes the key of one whose outcome a model is told. */
  readonly untold?: boolean | undefined
  /** Which settled keys count against this claim; absent: all. */
  readonly settled?: Counted | undefined
  /** Which keys in flight count against this claim; absent: all. */
  readonly running?: Counted | undefined
  /** A settled key of another process does not count. */
  readonly ignoreOtherProcesses: boolean
}

/**
 * Which keys count against a claim: all, those of calls of whose outcome a model
 * is told, or none.
 *
 * @category models
 * @since 0.1.0
 */
export type Counted = "all" | "told" | "none"

/**
 * One of the `max` starts that a tool has in a batch.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallsClaim {
  readonly _tag: "Calls"
  readonly batch: string
  readonly tool: string
  readonly max: number
}

/**
 * The right to use a tool of a group of which one may be used in a batch.
 *
 * @category models
 * @since 0.1.0
 */
export interface GroupClaim {
  readonly _tag: "Group"
  readonly batch: string
  /** One text for the same group. */
  readonly group: string
  readonly tool: string
}

/**
 * The right to start a tool that rests between its calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface CooldownClaim {
  readonly _tag: "Cooldown"
  readonly principal: string
  readonly tool: string
  /** How long it rests, from the end of its last call. */
  readonly millis: number
}

/**
 * Keeps a batch in use until it is settled, and refuses nothing: a wave holds one
 * where a rule counts in batches, whatever its calls reserve themselves.
 *
 * @category models
 * @since 0.1.0
 */
export interface BatchClaim {
  readonly _tag: "Batch"
  readonly batch: string
}

/**
 * What a call has reserved. It is settled once, however often that is told.
 *
 * @category models
 * @since 0.1.0
 */
export interface Reservation {
  readonly id: number
  /** Id of the call that made it. */
  readonly owner: string
  readonly claims: ReadonlyArray<Claim>
}

/**
 * The first claim that could not be had, and why.
 *
 * @category models
 * @since 0.1.0
 */
export type Refused = KeyTaken | CallsUsedUp | GroupTaken | CoolingDown

/**
 * An equal call is running, or has ended inside the window.
 *
 * @category models
 * @since 0.1.0
 */
export interface KeyTaken {
  readonly _tag: "KeyTaken"
  /** The call that has the key. */
  readonly owner: string
  /** The reservation that has it. */
  readonly reservation: number
  /** The process of that call. */
  readonly process: string
  /** No model is told of its outcome. */
  readonly untold: boolean
  /** Whether that call is still running. */
  readonly running: boolean
  /** What was kept with the key (`Settlement.value`). */
  readonly value: unknown
}

/**
 * All starts of the tool in the batch are used.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallsUsedUp {
  readonly _tag: "CallsUsedUp"
}

/**
 * Another tool of the group is the one that is used.
 *
 * @category models
 * @since 0.1.0
 */
export interface GroupTaken {
  readonly _tag: "GroupTaken"
  readonly group: string
  /** The tool that was first. */
  readonly tool: string
}

/**
 * The tool rests, or is running and will rest after that.
 *
 * @category models
 * @since 0.1.0
 */
export interface CoolingDown {
  readonly _tag: "CoolingDown"
  readonly running: boolean
  /** Milliseconds until it may start; of one that is running, at least. */
  readonly remainingMillis: number
}

/**
 * What becomes of a reservation.
 *
 * @category models
 * @since 0.1.0
 */
export interface Settlement {
  /** Whether the call started: then its slot is spent, its group is chosen, its tool rests. */
  readonly started: boolean
  /**
   * `keep` holds the key for `windowMillis` from now, `release` frees it,
   * `running` leaves it in flight until `release` is called, because a fiber
   * still runs: until then the tool may not start again, if it rests.
   */
  readonly key: "keep" | "release" | "running"
  readonly windowMillis: number
  /** Kept with the key, for replay. */
  readonly value: unknown
}

/**
 * Error of a store that could not do its work. The memory driver never fails.
 *
 * @category errors
 * @since 0.1.0
 */
export class StateStoreError extends Schema.TaggedError<StateStoreError>("effect-tool-executor/StateStoreError")(
  "StateStoreError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `StateStore.${this.operation} failed`
  }
}

/**
 * What a driver answers: the value, at once, or an effect that gives it. A
 * driver in memory has no reason to let a call wait, and an effect costs as
 * much as the rest of a gate.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer<A> = A | Effect.Effect<A, StateStoreError>

/**
 * State shared between calls. Times are epoch milliseconds of the executor's clock.
 *
 * @category services
 * @since 0.1.0
 */
export class StateStore extends Context.Service<StateStore, {
  /**
   * Takes all claims of a call or none, in one atomic step; the first that cannot
   * be had is told. They are all of one tool, batch and principal. What the call
   * has reserved before (`replaces`) is given back in the same step, whatever
   * comes of it: it neither refuses the call itself nor can others take it in
   * between.
   */
  readonly reserve: (
    owner: string,
    claims: ReadonlyArray<Claim>,
    now: number,
    replaces?: Reservation
  ) => Answer<Reservation | Refused>
  /** Tells which claim could not be had now; takes nothing. */
  readonly check: (claims: ReadonlyArray<Claim>, now: number) => Answer<Refused | undefined>
  /**
   * Settles a reservation: spends or gives back each of its claims. Where the
   * answer is lost it is told again, with the same times: the first counts.
   */
  readonly settle: (
    reservation: Reservation,
    settlement: Settlement,
    now: number
  ) => Answer<void>
  /**
   * The fiber of a reservation that was settled as `running` has ended: its key is
   * free, its tool rests from now. Told again like `settle`; the first counts.
   */
  readonly release: (reservation: Reservation, now: number) => Answer<void>
  /** Keeps a standing permission. */
  readonly grant: (grant: Grant) => Answer<void>
  /** Gives the standing permissions of a principal that have not expired. */
  readonly grants: (principal: string, now: number) => Answer<ReadonlyArray<Grant>>
  /** Takes a standing permission back; false if there is none of that id. */
  readonly revoke: (principal: string, id: string) => Answer<boolean>
  /** Lets every key of a ReadOnly call of the principal die: a mutating call starts or has ended. */
  readonly mutated: (principal: string) => Answer<void>
  /**
   * Forgets the counts, choices and settled keys of a batch. So does a driver with one in which
   * nothing has been reserved for its time and no reservation is open.
   */
  readonly closeBatch: (batch: string) => Answer<void>
  /** Forgets what is past its window; gives the number of entries dropped. */
  readonly pruneExpired: (now: number) => Answer<number>
}>()("effect-tool-executor/store/StateStore") {}

/**
 * Bounds of the memory driver.
 *
 * @category options
 * @since 0.1.0
 */
export type MemoryOptions = MemoryStore.Options

/**
 * Layer that keeps the state in memory.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory = (options?: MemoryOptions): Layer.Layer<StateStore> =>
  Layer.sync(StateStore, () => makeMemory(options))

/**
 * Creates a store that keeps the state in memory.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeMemory: (options?: MemoryOptions) => StateStore["Service"] = MemoryStore.make
