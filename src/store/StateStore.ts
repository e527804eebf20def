/**
 * State that outlives a call and is shared between calls: dedupe keys and call
 * counts.
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

/**
 * One thing that a call needs, as data.
 *
 * @category models
 * @since 0.1.0
 */
export type Claim = KeyClaim | CallsClaim

/**
 * The right to be the only call of this key inside its window.
 *
 * @category models
 * @since 0.1.0
 */
export interface KeyClaim {
  readonly _tag: "Key"
  readonly principal: string
  readonly tool: string
  readonly key: string
  /** The key dies when a mutating call of the principal starts after this one. */
  readonly readOnly: boolean
  readonly process: string
  /** A settled key of another process does not count. */
  readonly ignoreOtherProcesses: boolean
}

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
 * What a call has reserved. It is to be settled exactly once.
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
export interface Refused {
  readonly _tag: "Refused"
  readonly claim: Claim
  /** For a key: the call that has it. */
  readonly owner: string
  /** For a key: the reservation that has it. */
  readonly reservation: number
  /** For a key: whether that call is still running. */
  readonly running: boolean
  /** For a key: what was kept with it (`Settlement.value`). */
  readonly value: unknown
}

/**
 * What becomes of a reservation.
 *
 * @category models
 * @since 0.1.0
 */
export interface Settlement {
  /** Whether the call started: then its slot is spent. */
  readonly started: boolean
  /**
   * `keep` holds the key for `windowMillis` from now, `release` frees it,
   * `running` leaves it in flight until `release` is called, because a fiber
   * still runs.
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
  /** Takes all claims or none, in one atomic step. */
  readonly reserve: (
    owner: string,
    claims: ReadonlyArray<Claim>,
    now: number
  ) => Answer<Reservation | Refused>
  /** Settles a reservation: spends or gives back each of its claims. */
  readonly settle: (
    reservation: Reservation,
    settlement: Settlement,
    now: number
  ) => Answer<void>
  /** Frees the key of a reservation that was settled as `running`. */
  readonly release: (reservation: Reservation) => Answer<void>
  /** Lets every key of a ReadOnly call of the principal die: a mutating call starts. */
  readonly mutated: (principal: string) => Answer<void>
  /** Forgets the counts of a batch. */
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
export interface MemoryOptions {
  /** Settled dedupe keys kept per principal; the oldest goes first. Default 2,000. */
  readonly maxKeys?: number | undefined
  /** Characters of settled dedupe keys kept per principal. Default 8,000,000. */
  readonly maxKeyChars?: number | undefined
  /** Milliseconds after which the counts of a batch nobody used are forgotten. Default 1 hour. */
  readonly batchTtlMillis?: number | undefined
}

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
export const makeMemory = (options?: MemoryOptions): StateStore["Service"] => {
  const bounds = {
    maxKeys: options?.maxKeys ?? 2_000,
    maxKeyChars: options?.maxKeyChars ?? 8_000_000
  }
  const batchTtl = options?.batchTtlMillis ?? 3_600_000
  const principals = new Map<string, Keys>()
  const batches = new Map<string, BatchCounts>()
  let lastId = 0

  const keysOf = (principal: string): Keys => {
    let keys = principals.get(principal)
    if (keys === undefined) principals.set(principal, keys = new Keys(bounds))
    return keys
  }
  const countOf = (claim: CallsClaim, now: number): Count => {
    let batch = batches.get(claim.batch)
    // a batch that was idle past its time counts anew, whether pruned or not
    if (batch === undefined || now - batch.usedAt >= batchTtl) {
      batches.set(claim.batch, batch = { usedAt: now, calls: new Map() })
    }
    batch.usedAt = now
    let count = batch.calls.get(claim.tool)
    if (count === undefined) batch.calls.set(claim.tool, count = { used: 0 })
    return count
  }

  return StateStore.of({
    reserve: (owner, claims, now) => {
      let count: Count | undefined
      for (const claim of claims) {
        if (claim._tag === "Key") {
          const entry = keysOf(claim.principal).find(claim, now)
          if (entry !== undefined) return refusedBy(claim, entry)
        } else {
          count = countOf(claim, now)
          if (count.used >= claim.max) return refusedBy(claim, undefined)
        }
      }
      const reservation: Held = { id: ++lastId, owner, claims, entry: undefined, count }
      if (count !== undefined) count.used++
      for (const claim of claims) {
        if (claim._tag === "Key") reservation.entry = keysOf(claim.principal).take(claim, reservation)
      }
      return reservation
    },
    settle: (reservation: Held, settlement, now) => {
      if (!settlement.started && reservation.count !== undefined) reservation.count.used--
      reservation.entry?.keys.settle(reservation.entry, settlement, now)
    },
    release: (reservation: Held) => reservation.entry?.keys.forget(reservation.entry),
    mutated: (principal) => {
      keysOf(principal).epoch++
    },
    closeBatch: (batch) => {
      batches.delete(batch)
    },
    pruneExpired: (now) => {
      let dropped = 0
      for (const [id, batch] of batches) {
        if (now - batch.usedAt >= batchTtl && batches.delete(id)) dropped++
      }
      for (const keys of principals.values()) dropped += keys.prune(now)
      return dropped
    }
  })
}

// Utilities

interface Count {
  used: number
}

interface BatchCounts {
  usedAt: number
  readonly calls: Map<string, Count>
}

/** A reservation that knows what it holds, so that settling looks nothing up. */
interface Held extends Reservation {
  entry?: KeyEntry | undefined
  readonly count?: Count | undefined
}

interface KeyEntry {
  readonly keys: Keys
  readonly byKey: Map<string, KeyEntry>
  readonly key: string
  readonly reservation: number
  readonly owner: string
  readonly process: string
  readonly readOnly: boolean
  readonly epoch: number
  settledAt: number | undefined
  windowMillis: number
  value: unknown
  /** Neighbours in order of settlement. */
  previous: KeyEntry | undefined
  next: KeyEntry | undefined
  /** Replaced or dropped: no longer in `byKey`. */
  gone: boolean
}

const refusedBy = (claim: Claim, entry: KeyEntry | undefined): Refused => ({
  _tag: "Refused",
  claim,
  owner: entry?.owner ?? "",
  reservation: entry?.reservation ?? 0,
  running: entry !== undefined && entry.settledAt === undefined,
  value: entry?.value
})

/** The dedupe keys of one principal. */
class Keys {
  /** Counts the mutating starts; a ReadOnly key of an earlier epoch is dead. */
  epoch = 0
  private readonly byTool = new Map<string, Map<string, KeyEntry>>()
  /** The settled entries in order of settlement, so that the oldest can be dropped. */
  private oldest: KeyEntry | undefined
  private newest: KeyEntry | undefined
  private settled = 0
  private chars = 0
  private readonly bounds: { readonly maxKeys: number; readonly maxKeyChars: number }

  constructor(bounds: { readonly maxKeys: number; readonly maxKeyChars: number }) {
    this.bounds = bounds
  }

  find(claim: KeyClaim, now: number): KeyEntry | undefined {
    const entry = this.byTool.get(claim.tool)?.get(claim.key)
    if (entry === undefined || this.isStale(entry)) return undefined
    if (entry.settledAt === undefined) return entry
    if (now - entry.settledAt >= entry.windowMillis) return undefined
    return claim.ignoreOtherProcesses && entry.process !== claim.process ? undefined : entry
  }

  take(claim: KeyClaim, reservation: Reservation): KeyEntry {
    let byKey = this.byTool.get(claim.tool)
    if (byKey === undefined) this.byTool.set(claim.tool, byKey = new Map())
    const before = byKey.get(claim.key)
    if (before !== undefined) this.forget(before)
    const entry: KeyEntry = {
      keys: this,
      byKey,
      key: claim.key,
      reservation: reservation.id,
      owner: reservation.owner,
      process: claim.process,
      readOnly: claim.readOnly,
      epoch: this.epoch,
      settledAt: undefined,
      windowMillis: 0,
      value: undefined,
      previous: undefined,
      next: undefined,
      gone: false
    }
    byKey.set(claim.key, entry)
    return entry
  }

  settle(entry: KeyEntry, settlement: Settlement, now: number): void {
    // a later call may have taken the key of a read that a write made stale
    if (settlement.key === "running" || entry.gone) return
    if (settlement.key === "release" || this.isStale(entry)) return this.forget(entry)
    entry.settledAt = now
    entry.windowMillis = settlement.windowMillis
    entry.value = settlement.value
    this.settled++
    this.chars += entry.key.length
    entry.previous = this.newest
    if (this.newest === undefined) this.oldest = entry
    else this.newest.next = entry
    this.newest = entry
    while (this.settled > this.bounds.maxKeys || this.chars > this.bounds.maxKeyChars) this.forget(this.oldest!)
  }

  forget(entry: KeyEntry): void {
    if (entry.gone) return
    entry.gone = true
    entry.byKey.delete(entry.key)
    if (entry.settledAt === undefined) return
    this.settled--
    this.chars -= entry.key.length
    const { next, previous } = entry
    if (previous === undefined) this.oldest = next
    else previous.next = next
    if (next === undefined) this.newest = previous
    else next.previous = previous
    entry.previous = entry.next = undefined
  }

  /** Drops what is dead; gives the number of entries. */
  prune(now: number): number {
    const before = this.settled
    let entry = this.oldest
    while (entry !== undefined) {
      const { next } = entry
      if (this.isStale(entry) || now - entry.settledAt! >= entry.windowMillis) this.forget(entry)
      entry = next
    }
    return before - this.settled
  }

  private isStale(entry: KeyEntry): boolean {
    return entry.readOnly && entry.epoch !== this.epoch
  }
}
