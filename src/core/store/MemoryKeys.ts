/**
 * Dedupe keys in memory: found by one look-up, and dropped oldest first.
 *
 * Settled keys stand in a ring in the order of their settlement, so the oldest is
 * dropped without a search.
 *
 * @since 0.1.0
 */
import type { Counted, Kept, KeyClaim, Reach, Settlement } from "./Claims.ts"

/**
 * A key and the call that has it.
 *
 * @category models
 * @since 0.1.0
 */
export class KeyEntry {
  readonly owner: string
  /** Id of the reservation. */
  readonly reservation: string
  readonly process: string
  readonly untold: boolean
  readonly key: string
  /** Where it is found; `undefined` once it was replaced or dropped. */
  shelf: Shelf | undefined
  /** Its batch as it was then: one that was forgotten and begun again is another. */
  readonly batch: object | undefined
  /** Of a ReadOnly call: how many starts and ends of mutating calls were before it. */
  readonly readAt: number | undefined
  /** Its call has its outcome. */
  isSettled = false
  /** Epoch milliseconds from which it is dead. */
  until = Infinity
  value: Kept | undefined = undefined
  /** Neighbours in the ring, once it is settled. */
  previous: KeyEntry = this
  next: KeyEntry = this

  constructor(
    owner: string,
    reservation: string,
    process: string,
    untold: boolean,
    key: string,
    shelf: Shelf | undefined,
    batch: object | undefined,
    readAt: number | undefined
  ) {
    this.owner = owner
    this.reservation = reservation
    this.process = process
    this.untold = untold
    this.key = key
    this.shelf = shelf
    this.batch = batch
    this.readAt = readAt
  }
}

/**
 * The dedupe keys of one principal.
 *
 * @category models
 * @since 0.1.0
 */
export class Keys {
  private readonly shelves = new Map<string, Shelf>()
  /** The shelf on which a tool's key was last put: most often the next one goes there as well. */
  private readonly lately = new Map<string, Shelf>()
  /** Begins and ends the ring; the oldest settled key is the next one. */
  private readonly ring = new KeyEntry("", "", "", false, "", undefined, undefined, undefined)
  /** Starts and ends of mutating calls; a ReadOnly key that is older than the last of them is dead. */
  private mutations = 0
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

  /** Whoever has the key, dead or alive. */
  find(claim: KeyClaim): KeyEntry | undefined {
    return this.shelfOf(claim)?.entries.get(claim.key)
  }

  /** Tells whether a key counts against a claim. */
  refuses(entry: KeyEntry, claim: KeyClaim, batch: object | undefined, now: number): boolean {
    if (!this.isLive(entry, batch, now)) return false
    if (!entry.isSettled) return counts(claim.running, entry)
    return counts(claim.settled, entry) && !(claim.ignoreOtherProcesses && entry.process !== claim.process)
  }

  /**
   * Takes the key from the call that was found to have it, unless a model is told of
   * that call and not of this one.
   */
  take(
    claim: KeyClaim,
    before: KeyEntry | undefined,
    batch: object | undefined,
    owner: string,
    reservation: string,
    now: number
  ): KeyEntry | undefined {
    if (before !== undefined) {
      if (claim.untold === true && !before.untold && this.isLive(before, batch, now)) return undefined
      this.forget(before)
    }
    const shelf = this.shelfOf(claim) ?? this.put(claim)
    const untold = claim.untold === true
    const readAt = claim.readOnly ? this.mutations : undefined
    const entry = new KeyEntry(owner, reservation, claim.process, untold, claim.key, shelf, batch, readAt)
    shelf.entries.set(claim.key, entry)
    this.size++
    return entry
  }

  settle(entry: KeyEntry, settlement: Settlement, now: number): void {
    // a later call may have taken the key of a read that a write made stale
    if (settlement.key === "running" || entry.shelf === undefined) return
    if (settlement.key === "release" || this.isStale(entry)) return this.forget(entry)
    entry.isSettled = true
    entry.value = settlement.value
    entry.until = now + settlement.windowMillis
    if (entry.until > this.until) this.until = entry.until
    this.settled++
    this.chars += entry.key.length
    const { ring } = this
    entry.previous = ring.previous
    entry.next = ring
    ring.previous = ring.previous.next = entry
    while (this.settled > this.bounds.maxKeys || this.chars > this.bounds.maxKeyChars) this.forget(ring.next)
  }

  forget(entry: KeyEntry): void {
    const { key, shelf } = entry
    if (shelf === undefined) return
    entry.shelf = undefined
    shelf.entries.delete(key)
    if (shelf.entries.size === 0) this.clear(shelf)
    this.size--
    if (!entry.isSettled) return
    this.settled--
    this.chars -= key.length
    entry.previous.next = entry.next
    entry.next.previous = entry.previous
  }

  /** A mutating call starts or has ended: what was read before is stale. */
  mutated(): void {
    this.mutations++
  }

  /** Drops what is dead; gives the number of entries. */
  prune(now: number): number {
    const before = this.settled
    for (let entry = this.ring.next; entry !== this.ring; entry = entry.next) {
      if (this.isStale(entry) || now >= entry.until) this.forget(entry)
    }
    return before - this.settled
  }

  private isLive(entry: KeyEntry, batch: object | undefined, now: number): boolean {
    return !this.isStale(entry) && (!entry.isSettled || (entry.batch === batch && now < entry.until))
  }

  private isStale(entry: KeyEntry): boolean {
    return entry.readAt !== undefined && entry.readAt !== this.mutations
  }

  private shelfOf(claim: KeyClaim): Shelf | undefined {
    const shelf = this.lately.get(claim.tool)
    if (
      shelf !== undefined && shelf.reach === claim.reach && shelf.within === withinOf(claim) &&
      shelf.agent === claim.agent
    ) return shelf
    const other = this.shelves.get(nameOf(claim))
    if (other !== undefined) this.lately.set(claim.tool, other)
    return other
  }

  private put(claim: KeyClaim): Shelf {
    const { agent, reach, tool } = claim
    const shelf: Shelf = { name: nameOf(claim), reach, within: withinOf(claim), agent, tool, entries: new Map() }
    this.shelves.set(shelf.name, shelf)
    this.lately.set(tool, shelf)
    return shelf
  }

  private clear(shelf: Shelf): void {
    this.shelves.delete(shelf.name)
    if (this.lately.get(shelf.tool) === shelf) this.lately.delete(shelf.tool)
  }
}

// Utilities

/** The keys of one tool that are within reach of each other. */
interface Shelf {
  /** No other shelf's. */
  readonly name: string
  readonly reach: Reach
  /** The process or the batch; empty: all that the principal does. */
  readonly within: string
  readonly agent: string | undefined
  readonly tool: string
  readonly entries: Map<string, KeyEntry>
}

const withinOf = ({ batch, process, reach }: KeyClaim): string =>
  reach === "batch" ? batch : reach === "process" ? process : ""

/** The lengths tell where one part ends and the next begins. */
const nameOf = (claim: KeyClaim): string => {
  const within = withinOf(claim)
  const { agent, reach, tool } = claim
  return `${reach} ${within.length} ${agent?.length ?? ""} ${within}${agent ?? ""}${tool}`
}

const counts = (which: Counted = "all", { untold }: KeyEntry): boolean =>
  which === "all" || (which === "told" && !untold)
