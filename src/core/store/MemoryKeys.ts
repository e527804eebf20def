/**
 * Dedupe keys in memory: a hash table in typed arrays.
 *
 * Most keys outlive their calls by minutes. As objects they would be copied by every collection of the young
 * generation, which costs more than all else a key needs. Here a key is about 110 bytes that the collector never
 * visits: a 128-bit digest instead of its text, and no separate object.
 */
import { TextDigest } from "../../internal/textDigest.ts"
import { type Counted, type Kept, type KeyClaim, type KeyTaken, type Settlement, withinOf } from "./Claims.ts"

/** Who takes a key. */
interface Taker {
  /** Id of the call. */
  readonly owner: string
  /** Number of its reservation. */
  readonly holder: number
  /** Names the call, after a crash as before it. */
  readonly call: string | undefined
}

/** The dedupe keys of one principal. A key is known by its slot, and a slot belongs to a reservation. */
export class Keys {
  /** Settled keys that are kept; the oldest is evicted first. */
  private readonly maxSettled: number
  /** Slots by digest, with linear probing; 0 is empty. */
  private table = new Int32Array(2 * initialSlots)
  /**
   * Per slot: digest, neighbors in the ring of settled keys, flags, and the mutations before it. Slot 0 begins and ends
   * the ring.
   */
  private ints = new Int32Array(initialSlots * intsOf)
  /** Per slot: when its call ended and when it expires, who has it, and its batch. */
  private doubles = new Float64Array(initialSlots * doublesOf)
  private owners: Array<string> = []
  /** The calls, by the names that they have after a crash, too. */
  private calls: Array<string | undefined> = []
  private processes: Array<string> = []
  private waves: Array<string> = []
  private values: Array<Kept | undefined> = []
  /** Slots in use or free; the next one after them has never been used. */
  private used = 1
  private readonly free: Array<number> = []
  private size = 0
  private settled = 0
  /** Starts and ends of mutating calls; a key is overtaken once there was another. */
  private mutations = 0
  /** When the last window ends. */
  private until = -Infinity

  constructor(maxSettled: number) {
    this.maxSettled = maxSettled
  }

  /** No call is running, and every window has ended. */
  isOver(now: number): boolean {
    return this.size === this.settled && now >= this.until
  }

  /** The slot of a key, dead or alive; 0 if the key is free. */
  find(claim: KeyClaim): number {
    digest(claim)
    const { first, fourth, second, third } = wanted
    const { ints, table } = this
    const mask = table.length - 1
    for (let at = first & mask;; at = (at + 1) & mask) {
      const slot = table[at]!
      if (slot === 0) return 0
      const int = slot * intsOf
      if (ints[int] === first && ints[int + 1] === second && ints[int + 2] === third && ints[int + 3] === fourth) {
        return slot
      }
    }
  }

  /** Whether a key counts against a claim of the same key; `resumed`: of this call, whose own key does not. */
  refuses(slot: number, claim: KeyClaim, batch: number, now: number, resumed?: string): boolean {
    if (!this.isLive(slot, batch, now) || (resumed !== undefined && this.calls[slot] === resumed)) return false
    const isUntold = this.is(slot, untold)
    if (!this.isSettled(slot)) return counts(claim.running, isUntold)
    return counts(claim.settled, isUntold) &&
      !(claim.ignoreOtherProcesses && this.processes[slot] !== claim.process) &&
      !(this.is(slot, endsWithWave) && this.waves[slot] !== claim.wave)
  }

  /** The call that has a key, as the answer to a claim. */
  taken(slot: number): KeyTaken {
    const { doubles } = this
    const double = slot * doublesOf
    const running = !this.isSettled(slot)
    return {
      _tag: "KeyTaken",
      owner: this.owners[slot]!,
      reservation: String(doubles[double + reservation]!),
      process: this.processes[slot]!,
      untold: this.is(slot, untold),
      running,
      endedAt: running ? undefined : doubles[double + endedAt]!,
      until: running ? undefined : doubles[double]!,
      isOvertaken: this.isOvertaken(slot),
      value: this.values[slot]
    }
  }

  /**
   * Takes the key that was looked for last, from the call in `before` if there is one. Gives its slot, or 0 if the
   * model sees the outcome of that call and not of this one, which then has no key.
   */
  take(claim: KeyClaim, before: number, batch: number, { call, holder, owner }: Taker, now: number): number {
    const isUntold = claim.untold === true
    let slot = before
    if (slot === 0) slot = this.insert()
    else {
      if (isUntold && !this.is(slot, untold) && this.isLive(slot, batch, now)) return 0
      this.unlink(slot)
    }
    const double = slot * doublesOf
    this.doubles[double] = Infinity
    this.doubles[double + reservation] = holder
    this.doubles[double + batchOf] = batch
    this.ints[slot * intsOf + flags] = (isUntold ? untold : 0) | (claim.endsWithWave ? endsWithWave : 0) |
      (claim.endsWithChange ? endsWithChange : 0)
    this.ints[slot * intsOf + takenAt] = this.mutations
    this.owners[slot] = owner
    this.calls[slot] = call
    this.processes[slot] = claim.process
    this.waves[slot] = claim.wave
    this.values[slot] = undefined
    return slot
  }

  settle(slot: number, holder: number, settlement: Settlement, now: number): void {
    if (settlement.key === "running" || !this.has(slot, holder)) return
    if (settlement.key === "release" || this.isDead(slot)) return this.remove(slot)
    const until = now + settlement.windowMillis
    this.doubles[slot * doublesOf] = until
    this.doubles[slot * doublesOf + endedAt] = now
    if (until > this.until) this.until = until
    if (settlement.value !== undefined) this.values[slot] = settlement.value
    const { ints } = this
    const last = ints[previous]!
    ints[slot * intsOf + previous] = last
    ints[slot * intsOf + next] = 0
    ints[last * intsOf + next] = ints[previous] = slot
    this.settled++
    while (this.settled > this.maxSettled) this.remove(ints[next]!)
  }

  release(slot: number, holder: number): void {
    if (this.has(slot, holder)) this.remove(slot)
  }

  /** A mutating call starts or has ended: all keys are overtaken, but for its own. */
  mutated(slot: number, holder: number): void {
    const isOwn = this.has(slot, holder) && !this.isOvertaken(slot)
    this.mutations++
    if (isOwn) this.ints[slot * intsOf + takenAt] = this.mutations
  }

  /** Drops what is dead; gives the number of keys. */
  prune(now: number): number {
    const before = this.settled
    for (let slot = this.ints[next]!; slot !== 0;) {
      const after = this.ints[slot * intsOf + next]!
      if (this.isDead(slot) || now >= this.doubles[slot * doublesOf]!) this.remove(slot)
      slot = after
    }
    return before - this.settled
  }

  /** Whether a reservation still has the key in a slot. */
  private has(slot: number, holder: number): boolean {
    return slot !== 0 && this.doubles[slot * doublesOf + reservation] === holder
  }

  private isSettled(slot: number): boolean {
    return this.ints[slot * intsOf + previous] !== unlinked
  }

  private isLive(slot: number, batch: number, now: number): boolean {
    if (!this.isSettled(slot)) return true
    const double = slot * doublesOf
    return this.doubles[double + batchOf] === batch && now < this.doubles[double]! && !this.isDead(slot)
  }

  /** Once settled, it counts no longer. */
  private isDead(slot: number): boolean {
    return this.is(slot, endsWithChange) && this.isOvertaken(slot)
  }

  private isOvertaken(slot: number): boolean {
    return this.ints[slot * intsOf + takenAt] !== this.mutations
  }

  private is(slot: number, flag: number): boolean {
    return (this.ints[slot * intsOf + flags]! & flag) !== 0
  }

  /** A slot for the key that was looked for last. */
  private insert(): number {
    const slot = this.free.pop() ?? this.used++
    if (slot * intsOf === this.ints.length) this.grow()
    const int = slot * intsOf
    const { ints } = this
    ints[int] = wanted.first
    ints[int + 1] = wanted.second
    ints[int + 2] = wanted.third
    ints[int + 3] = wanted.fourth
    ints[int + previous] = unlinked
    this.enter(slot)
    this.size++
    return slot
  }

  private enter(slot: number): void {
    const { table } = this
    const mask = table.length - 1
    let at = this.ints[slot * intsOf]! & mask
    while (table[at] !== 0) at = (at + 1) & mask
    table[at] = slot
  }

  private grow(): void {
    const { doubles, ints } = this
    this.ints = new Int32Array(2 * ints.length)
    this.ints.set(ints)
    this.doubles = new Float64Array(2 * doubles.length)
    this.doubles.set(doubles)
    const before = this.table
    this.table = new Int32Array(2 * before.length)
    for (const slot of before) if (slot !== 0) this.enter(slot)
  }

  /** Takes a settled key out of the ring. */
  private unlink(slot: number): void {
    if (!this.isSettled(slot)) return
    const { ints } = this
    const int = slot * intsOf
    const before = ints[int + previous]!
    const after = ints[int + next]!
    ints[before * intsOf + next] = after
    ints[after * intsOf + previous] = before
    ints[int + previous] = unlinked
    this.settled--
  }

  private remove(slot: number): void {
    this.unlink(slot)
    this.close(slot)
    this.size--
    this.doubles[slot * doublesOf + reservation] = 0
    this.owners[slot] = ""
    this.calls[slot] = undefined
    this.processes[slot] = ""
    this.waves[slot] = ""
    this.values[slot] = undefined
    this.free.push(slot)
  }

  /** Empties the place of a slot in the table, and moves those that come after it closer to where they belong. */
  private close(slot: number): void {
    const { ints, table } = this
    const mask = table.length - 1
    let gap = ints[slot * intsOf]! & mask
    while (table[gap] !== slot) gap = (gap + 1) & mask
    for (let at = (gap + 1) & mask; table[at] !== 0; at = (at + 1) & mask) {
      const home = ints[table[at]! * intsOf]! & mask
      if (((at - home) & mask) < ((at - gap) & mask)) continue
      table[gap] = table[at]!
      gap = at
    }
    table[gap] = 0
  }
}

/** So few that a principal with one call needs no buffers outside of the heap; they double from there. */
const initialSlots = 2

const intsOf = 8
const previous = 4
const next = 5
const flags = 6
const takenAt = 7

const untold = 1
const endsWithWave = 2
const endsWithChange = 4

/** In place of a neighbor: the key is not settled. */
const unlinked = -1

const doublesOf = 4
const reservation = 1
const batchOf = 2
const endedAt = 3

const counts = (which: Counted = "all", isUntold: boolean): boolean =>
  which === "all" || (which === "told" && !isUntold)

/** The digest of the key that was looked for last: one object for all calls. */
const wanted = new TextDigest()

/** What keys of one tool have in common. */
interface Common extends Pick<KeyClaim, "agent" | "scope" | "session" | "tool"> {
  readonly within: string
}

/** The digest of what keys have in common: made once for all that follow one another. */
class Beginning {
  private readonly digest = new TextDigest()
  private of: Common | undefined

  digestOf(claim: KeyClaim): TextDigest {
    const { agent, scope, session, tool } = claim
    const { digest, of } = this
    const within = withinOf(claim)
    if (
      of !== undefined && of.within === within && of.tool === tool && of.scope === scope && of.agent === agent &&
      of.session === session
    ) return digest
    digest.begin()
    digest.add(within)
    digest.add(scope)
    if (agent !== undefined) digest.add(agent)
    if (session !== undefined) digest.add(session)
    digest.add(tool)
    this.of = { within, scope, agent, session, tool }
    return digest
  }
}

const beginning = new Beginning()

const digest = (claim: KeyClaim): void => {
  wanted.continue(beginning.digestOf(claim))
  wanted.add(claim.key)
  wanted.end()
}
