/**
 * What rules remember of a batch or a session, which several processes share: which tools succeeded, and which success
 * was the last in input order. Nothing in it grows with the number of calls. Pure.
 */
import type * as RuleSet from "./RuleSet.ts"

/** Where a wave stands among all waves of a batch or a session, in whatever OS process they run. */
export interface Place {
  /** Epoch milliseconds at which it began. */
  readonly at: number
  /** Its number in its executor. */
  readonly serial: number
  /** Its executor. */
  readonly by: string
}

/** A success and where it stands. */
export interface Mark extends RuleSet.Success {
  readonly place: Place
  readonly index: number
}

/** What a store keeps of a batch or a session for rules of order. */
export interface KeptPast {
  readonly succeeded: ReadonlyArray<string>
  readonly last?: Mark | undefined
}

/**
 * What rules remember of a batch or a session: the successes of its processes in this executor, and what the store
 * knows of others.
 */
export class SharedPast implements RuleSet.Past {
  readonly succeeded = new Set<string>()
  /** Epoch milliseconds at which the store was read last. */
  readAt = -Infinity
  /** In order; only what a call may still look back at. */
  private marks: ReadonlyArray<Mark> = []
  /** Waves under way here. */
  private readonly live = new Set<Place>()

  get last(): RuleSet.Success | undefined {
    return this.marks.at(-1)
  }

  /** What a call at that place sees. */
  before(place: Place, index: number): RuleSet.Past {
    return { succeeded: this.succeeded, last: this.marks.findLast((it) => isBefore(it, { place, index })) }
  }

  begin(place: Place): void {
    this.live.add(place)
  }

  end(place: Place): void {
    this.live.delete(place)
    this.prune()
  }

  /** Notes a success. */
  note(mark: Mark): void {
    this.succeeded.add(mark.tool)
    if (this.marks.some((it) => it.index === mark.index && order(it.place, mark.place) === 0)) return
    const at = this.marks.findLastIndex((it) => isBefore(it, mark)) + 1
    this.marks = this.marks.toSpliced(at, 0, mark)
  }

  /** Notes what the store keeps. */
  merge({ last, succeeded }: KeptPast, now: number): void {
    this.readAt = now
    for (const tool of succeeded) this.succeeded.add(tool)
    if (last === undefined) return
    this.note(last)
    this.prune()
  }

  private prune(): void {
    const { live, marks } = this
    if (marks.length < 2) return
    this.marks = marks.filter(({ place }, index) => {
      const next = marks[index + 1]?.place
      return next === undefined || live.has(place) ||
        Array.from(live).some((it) => order(place, it) <= 0 && order(it, next) <= 0)
    })
  }
}

/** Adds a success to what a store keeps. */
export const keep = (kept: KeptPast | undefined, mark: Mark): KeptPast => {
  const { last, succeeded } = kept ?? { succeeded: [] }
  return {
    succeeded: succeeded.includes(mark.tool) ? succeeded : [...succeeded, mark.tool],
    last: last === undefined || !isBefore(mark, last) ? mark : last
  }
}

type Spot = Pick<Mark, "place" | "index">

const isBefore = (one: Spot, other: Spot): boolean => {
  const waves = order(one.place, other.place)
  return waves === 0 ? one.index < other.index : waves < 0
}

/** In one executor waves have numbers, whatever its clock says. */
const order = (one: Place, other: Place): number =>
  one.by === other.by
    ? one.serial - other.serial
    : one.at - other.at || one.serial - other.serial || (one.by < other.by ? -1 : 1)
