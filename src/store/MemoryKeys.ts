/**
 * Dedupe keys in memory: found by tool and key, dropped oldest first.
 *
 * @since 0.1.0
 */
import type { Counted, KeyClaim, Reservation, Settlement } from "./StateStore.ts"

/**
 * A key and the call that has it.
 *
 * @category models
 * @since 0.1.0
 */
export interface KeyEntry {
  readonly keys: Keys
  readonly byKey: Map<string, KeyEntry>
  readonly key: string
  readonly reservation: number
  readonly owner: string
  readonly process: string
  readonly untold: boolean
  readonly readOnly: boolean
  /** Its batch as it was then: one that was forgotten and begun again is another. */
  readonly batch: object | undefined
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

/**
 * The dedupe keys of one principal.
 *
 * @category models
 * @since 0.1.0
 */
export class Keys {
  /** Counts the starts and ends of mutating calls; a ReadOnly key of an earlier epoch is dead. */
  epoch = 0
  private readonly byTool = new Map<string, Map<string, KeyEntry>>()
  /** The settled entries in order of settlement, so that the oldest can be dropped. */
  private oldest: KeyEntry | undefined
  private newest: KeyEntry | undefined
  private settled = 0
  private size = 0
  /** When the last of the windows is over. */
  private until = -Infinity
  private chars = 0
  private readonly bounds: { readonly maxKeys: number; readonly maxKeyChars: number }

  constructor(bounds: { readonly maxKeys: number; readonly maxKeyChars: number }) {
    this.bounds = bounds
  }

  /** No call is running, and every window is over. */
  isOver(now: number): boolean {
    return this.size === this.settled && now >= this.until
  }

  find(claim: KeyClaim, batch: object | undefined, now: number): KeyEntry | undefined {
    const entry = this.byTool.get(claim.tool)?.get(claim.key)
    if (entry === undefined || !this.isLive(entry, batch, now)) return undefined
    if (entry.settledAt === undefined) return counts(claim.running, entry) ? entry : undefined
    if (claim.ignoreOtherProcesses && entry.process !== claim.process) return undefined
    return counts(claim.settled, entry) ? entry : undefined
  }

  /** Takes the key, unless a model is told of the call that has it and of this one none. */
  take(claim: KeyClaim, batch: object | undefined, reservation: Reservation, now: number): KeyEntry | undefined {
    let byKey = this.byTool.get(claim.tool)
    if (byKey === undefined) this.byTool.set(claim.tool, byKey = new Map())
    const before = byKey.get(claim.key)
    if (before !== undefined) {
      if (!before.untold && claim.untold === true && this.isLive(before, batch, now)) return undefined
      this.forget(before)
    }
    const entry: KeyEntry = {
      keys: this,
      byKey,
      key: claim.key,
      reservation: reservation.id,
      owner: reservation.owner,
      process: claim.process,
      untold: claim.untold === true,
      batch,
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
    this.size++
    return entry
  }

  settle(entry: KeyEntry, settlement: Settlement, now: number): void {
    // a later call may have taken the key of a read that a write made stale
    if (settlement.key === "running" || entry.gone) return
    if (settlement.key === "release" || this.isStale(entry)) return this.forget(entry)
    entry.settledAt = now
    entry.windowMillis = settlement.windowMillis
    entry.value = settlement.value
    this.until = Math.max(this.until, now + settlement.windowMillis)
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
    this.size--
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

  private isLive(entry: KeyEntry, batch: object | undefined, now: number): boolean {
    if (this.isStale(entry)) return false
    return entry.settledAt === undefined || (entry.batch === batch && now - entry.settledAt < entry.windowMillis)
  }

  private isStale(entry: KeyEntry): boolean {
    return entry.readOnly && entry.epoch !== this.epoch
  }
}

// Utilities

const counts = (which: Counted = "all", { untold }: KeyEntry): boolean =>
  which === "all" || (which === "told" && !untold)
