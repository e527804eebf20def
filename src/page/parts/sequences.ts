/**
 * Two sequences compared: which stretches are the same, and what stands in whose place. What it
 * may cost is bounded, however long and however different they are: past that the answer is
 * coarser (a longer stretch in the place of another), never wrong. Pure.
 */
import { diffArrays } from "diff"

/** So many of both are the same, or so many of one stand in the place of so many of the other. */
export type Stretch =
  | { readonly kind: "same"; readonly count: number }
  | { readonly kind: "replaced"; readonly removed: number; readonly added: number }

/** What differs; `isCoarse`: some stretches may be the same in part. */
export interface Compared {
  readonly stretches: ReadonlyArray<Stretch>
  readonly isCoarse: boolean
}

/** Gives equal items equal numbers, in both sequences. */
export const numbered = <A>(before: ReadonlyArray<A>, after: ReadonlyArray<A>): readonly [Numbers, Numbers] => {
  const known = new Map<A, number>()
  const numberOf = (item: A): number => {
    const number = known.get(item) ?? known.size
    if (number === known.size) known.set(item, number)
    return number
  }
  return [Int32Array.from(before, numberOf), Int32Array.from(after, numberOf)]
}

/** Compares two sequences of numbers. */
export const compare = (before: Numbers, after: Numbers): Compared => {
  const work = new Work(before, after)
  work.compare({ from: 0, to: before.length, start: 0, end: after.length }, 0)
  return { stretches: work.stretches, isCoarse: work.isCoarse }
}

// Utilities

type Numbers = Int32Array

/** A part of both: `from` and `to` of the one before, `start` and `end` of the one after. */
interface Gap {
  readonly from: number
  readonly to: number
  readonly start: number
  readonly end: number
}

/** So many steps may all of it take, about: some tenths of a second. */
const maxSteps = 2_000_000

/** So many differences are looked for item by item in one gap: what this costs grows with their square. */
const maxDifferences = 150

/** A gap that is longer is first cut where it is the same for certain. */
const longGap = 2_000

/** So many in a row that are the same are no accident. */
const longSame = 16

/** So far from each other are two places looked for that are the same. */
const maxNear = 100

const maxDepth = 40

class Work {
  readonly stretches: Array<Stretch> = []
  isCoarse = false
  private left = maxSteps
  private readonly before: Numbers
  private readonly after: Numbers

  constructor(before: Numbers, after: Numbers) {
    this.before = before
    this.after = after
  }

  compare(whole: Gap, depth: number): void {
    const { after, before } = this
    let { end, from, start, to } = whole
    while (from < to && start < end && before[from] === after[start]) {
      from++
      start++
    }
    while (from < to && start < end && before[to - 1] === after[end - 1]) {
      to--
      end--
    }
    this.same(from - whole.from)
    this.compareTrimmed({ from, to, start, end }, depth)
    this.same(whole.to - to)
  }

  private compareTrimmed(gap: Gap, depth: number): void {
    const removed = gap.to - gap.from
    const added = gap.end - gap.start
    if (removed === 0 || added === 0) return this.replaced(removed, added)
    if (removed + added <= longGap && this.compareEach(gap)) return
    if (depth < maxDepth && this.left > 0) {
      const next = this.nextSame(gap)
      if (next !== undefined) {
        this.compare({ from: gap.from, to: next[0], start: gap.start, end: next[1] }, depth + 1)
        return this.compareOn({ from: next[0], to: gap.to, start: next[1], end: gap.end }, depth)
      }
      const anchors = this.anchors(gap)
      if (anchors.length > 0) return this.compareBetween(gap, anchors, depth)
    }
    this.isCoarse = true
    this.replaced(removed, added)
  }

  /** Goes on from where both are the same: edits far from each other are found one by one, however many there are. */
  private compareOn(gap: Gap, depth: number): void {
    const { after, before } = this
    let { from, start } = gap
    while (true) {
      const same = from
      while (from < gap.to && start < gap.end && before[from] === after[start]) {
        from++
        start++
      }
      this.same(from - same)
      const rest = { from, to: gap.to, start, end: gap.end }
      const next = this.left > 0 && gap.to - from + gap.end - start > longGap ? this.nextSame(rest) : undefined
      if (next === undefined) return this.compare(rest, depth + 1)
      this.compare({ from, to: next[0], start, end: next[1] }, depth + 1)
      ;[from, start] = next
    }
  }

  private compareBetween(gap: Gap, anchors: ReadonlyArray<readonly [number, number]>, depth: number): void {
    let { from, start } = gap
    for (const [at, there] of anchors) {
      this.compare({ from, to: at, start, end: there }, depth + 1)
      this.same(1)
      from = at + 1
      start = there + 1
    }
    this.compare({ from, to: gap.to, start, end: gap.end }, depth + 1)
  }

  /**
   * Finds the nearest place from which on `longSame` items are the same, by Myers' furthest reaching
   * paths (An O(ND) Difference Algorithm, 1986).
   */
  private nextSame({ end, from, start, to }: Gap): readonly [number, number] | undefined {
    const { after, before } = this
    const reached = new Int32Array(2 * maxNear + 3)
    for (let differences = 1; differences <= maxNear; differences++) {
      for (let diagonal = -differences; diagonal <= differences; diagonal += 2) {
        const at = diagonal + maxNear + 1
        const down = diagonal === -differences ||
          (diagonal !== differences && reached[at - 1]! < reached[at + 1]!)
        let x = down ? reached[at + 1]! : reached[at - 1]! + 1
        const begun = x
        while (
          x - begun < longSame && from + x < to && start + x - diagonal < end &&
          before[from + x] === after[start + x - diagonal]
        ) x++
        this.left -= x - begun + 1
        if (x - begun === longSame) return [from + begun, start + begun - diagonal]
        reached[at] = x
      }
    }
    return undefined
  }

  /** Looks at each item, unless there is too much that differs. */
  private compareEach({ end, from, start, to }: Gap): boolean {
    const size = to - from + end - start
    const most = Math.min(maxDifferences, Math.floor(Math.sqrt(Math.max(0, this.left))))
    const found = diffArrays([...this.before.subarray(from, to)], [...this.after.subarray(start, end)], {
      maxEditLength: most
    })
    this.left -= size
    if (found === undefined) {
      this.left -= 8 * most * most
      return false
    }
    let removed = 0
    let added = 0
    let differences = 0
    for (const { added: isAdded, count, removed: isRemoved } of found) {
      if (isRemoved) removed += count
      if (isAdded) added += count
      if (isRemoved || isAdded) {
        differences += count
        continue
      }
      this.replaced(removed, added)
      this.same(count)
      removed = added = 0
    }
    this.replaced(removed, added)
    this.left -= differences * differences
    return true
  }

  private anchors(gap: Gap): ReadonlyArray<readonly [number, number]> {
    const { after, before } = this
    const ones = (of: Numbers) => (at: number) => of[at]!
    const single = anchorsIn(gap, ones(before), ones(after), 1)
    this.left -= gap.to - gap.from + gap.end - gap.start
    if (single.length > 0) return single
    const known = new Map<number, number>()
    const pairOf = (x: number, y: number): number => {
      const key = x * 2 ** 26 + y
      const number = known.get(key) ?? known.size
      if (number === known.size) known.set(key, number)
      return number
    }
    const pairs = (of: Numbers, from: number, to: number) => {
      const two = Int32Array.from(
        { length: Math.max(0, to - from - 1) },
        (_, at) => pairOf(of[from + at]!, of[from + at + 1]!)
      )
      return (at: number) => (two[at - from]! * 2 ** 26) + two[at - from + 2]!
    }
    this.left -= 4 * (gap.to - gap.from + gap.end - gap.start)
    return anchorsIn(gap, pairs(before, gap.from, gap.to), pairs(after, gap.start, gap.end), 4)
  }

  private same(count: number): void {
    if (count === 0) return
    const last = this.stretches.at(-1)
    if (last?.kind === "same") this.stretches[this.stretches.length - 1] = { kind: "same", count: last.count + count }
    else this.stretches.push({ kind: "same", count })
  }

  private replaced(removed: number, added: number): void {
    if (removed + added === 0) return
    const last = this.stretches.at(-1)
    if (last?.kind !== "replaced") return void this.stretches.push({ kind: "replaced", removed, added })
    this.stretches[this.stretches.length - 1] = {
      kind: "replaced",
      removed: last.removed + removed,
      added: last.added + added
    }
  }
}

/** Finds what is there once on both sides, the most of it that is in the same order on both. */
const anchorsIn = (
  { end, from, start, to }: Gap,
  before: (at: number) => number,
  after: (at: number) => number,
  length: number
): ReadonlyArray<readonly [number, number]> => {
  const there = once(after, start, end - length + 1)
  const here = once(before, from, to - length + 1)
  const pairs: Array<readonly [number, number]> = []
  for (const [item, at] of here) {
    const other = there.get(item)
    if (at !== -1 && other !== undefined && other !== -1) pairs.push([at, other])
  }
  return increasing(pairs.sort(([a], [b]) => a - b))
}

const once = (item: (at: number) => number, from: number, to: number): ReadonlyMap<number, number> => {
  const places = new Map<number, number>()
  for (let at = from; at < to; at++) {
    const it = item(at)
    places.set(it, places.has(it) ? -1 : at)
  }
  return places
}

/** The longest part of the pairs in which the second grows, too. */
const increasing = (pairs: ReadonlyArray<readonly [number, number]>): ReadonlyArray<readonly [number, number]> => {
  // `ends[n]`: the pair with the smallest second at which a part of n + 1 ends
  const ends: Array<number> = []
  const above = new Int32Array(pairs.length)
  pairs.forEach(([, second], index) => {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (pairs[ends[middle]!]![1] < second) low = middle + 1
      else high = middle
    }
    above[index] = low === 0 ? -1 : ends[low - 1]!
    ends[low] = index
  })
  const found: Array<readonly [number, number]> = []
  for (let index = ends.at(-1) ?? -1; index !== -1; index = above[index]!) found.push(pairs[index]!)
  return found.reverse()
}
