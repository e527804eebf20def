/**
 * Limits rates by key: each key has a bucket that refills evenly, and each event takes a token. The number of keys is
 * bounded; an evicted key starts with a full bucket.
 */

/** Burst, and rate per second. */
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

  /** Takes a token. Returns 0, or the milliseconds until the next one. */
  take(key: string, now: number): number {
    const { burst, perSecond } = this.rate
    const found = this.buckets.get(key)
    // the clock may have been set back
    const passed = found === undefined ? 0 : Math.max(0, now - found.at)
    const level = found === undefined ? burst : Math.min(burst, found.level + passed * perSecond / 1_000)
    const isThere = level >= 1
    // keeps the keys in order of use
    this.buckets.delete(key)
    this.buckets.set(key, { level: isThere ? level - 1 : level, at: now })
    for (const oldest of this.buckets.keys()) {
      if (this.buckets.size <= this.room) break
      this.buckets.delete(oldest)
    }
    return isThere ? 0 : Math.ceil((1 - level) * 1_000 / perSecond)
  }

  /** Returns a token: the event did not happen. */
  giveBack(key: string): void {
    const found = this.buckets.get(key)
    if (found !== undefined) found.level = Math.min(this.rate.burst, found.level + 1)
  }
}
