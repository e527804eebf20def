/**
 * How often something may happen, by key: each key has a bucket that fills evenly, and an event takes one out of
 * it. As many keys are kept as there is room for; one that is forgotten begins with a full bucket.
 */

/** So much at once, and so much per second in the long run. */
export interface Rate {
  readonly burst: number
  readonly perSecond: number
}

interface Bucket {
  level: number
  at: number
}

export class TokenBuckets {
  private readonly buckets = new Map<string, Bucket>()
  private readonly rate: Rate
  private readonly room: number

  constructor(rate: Rate, room = 10_000) {
    this.rate = rate
    this.room = room
  }

  /** Takes one. Gives 0, or, if there is none, the milliseconds until there is. */
  take(key: string, now: number): number {
    const { burst, perSecond } = this.rate
    const found = this.buckets.get(key)
    // the clock may have been set back
    const passed = found === undefined ? 0 : Math.max(0, now - found.at)
    const level = found === undefined ? burst : Math.min(burst, found.level + passed * perSecond / 1_000)
    const isThere = level >= 1
    // what was asked for last stands last
    this.buckets.delete(key)
    this.buckets.set(key, { level: isThere ? level - 1 : level, at: now })
    for (const oldest of this.buckets.keys()) {
      if (this.buckets.size <= this.room) break
      this.buckets.delete(oldest)
    }
    return isThere ? 0 : Math.ceil((1 - level) * 1_000 / perSecond)
  }

  /** Puts one back: it did not happen after all. */
  giveBack(key: string): void {
    const found = this.buckets.get(key)
    if (found !== undefined) found.level = Math.min(this.rate.burst, found.level + 1)
  }
}
