/**
 * The memory driver of `StateStore`. It is atomic because it does not yield,
 * and its cost does not grow with what it holds.
 *
 * @since 0.1.0
 */
import type { CallsClaim, Claim, KeyClaim, Refused, Reservation, Settlement, StateStore } from "./StateStore.ts"

/**
 * Bounds of the memory driver.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Settled dedupe keys kept per principal; the oldest goes first. Default 2,000. */
  readonly maxKeys?: number | undefined
  /** Characters of settled dedupe keys kept per principal. Default 8,000,000. */
  readonly maxKeyChars?: number | undefined
  /** Milliseconds after which the counts of a batch nobody used are forgotten. Default 1 hour. */
  readonly batchTtlMillis?: number | undefined
}

/**
 * Creates a store that keeps the state in memory.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options?: Options): StateStore["Service"] => {
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

  return {
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
  }
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
