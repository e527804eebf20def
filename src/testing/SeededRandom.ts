/** Random numbers from a seed: the same seed gives the same sequence. */

export interface SeededRandom {
  /** A whole number from 0 to `below`, exclusive. */
  readonly int: (below: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(items: ReadonlyArray<A>) => A
}

/** Creates a generator (mulberry32). */
export const randomFrom = (seed: number): SeededRandom => {
  let state = seed | 0
  const next = () => {
    state = state + 0x6d2b79f5 | 0
    let t = Math.imul(state ^ state >>> 15, 1 | state)
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t
    return ((t ^ t >>> 14) >>> 0) / 4294967296
  }
  const int = (below: number) => Math.floor(next() * below)
  return {
    int,
    chance: (probability) => next() < probability,
    pick: (items) => items[int(items.length)]!
  }
}
