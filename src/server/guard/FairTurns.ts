/**
 * Shares the main thread fairly between users: parsing requests, encoding responses, writing streams. A user with a
 * thousand requests gets a thousand turns, and other users get theirs in between.
 *
 * Between turns the thread is free for connections, timers and running calls.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Milliseconds for which turns are given without a pause: most are much shorter. */
const slice = 4

export class FairTurns {
  private readonly clock: Clock.Clock
  private readonly run: (effect: Effect.Effect<void>) => void
  /** Users in the order of their next turn. */
  private readonly waiting = new Map<string, Set<() => void>>()
  /** Whether a turn was given since the thread was last free. */
  private isTaken = false

  constructor(clock: Clock.Clock, run: (effect: Effect.Effect<void>) => void) {
    this.clock = clock
    this.run = run
  }

  /** Waits for a turn of the user. It lasts until the fiber waits for something. */
  turn(user: string): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const go = () => resume(Effect.void)
      if (!this.isTaken) {
        this.isTaken = true
        this.run(this.giving)
        return go()
      }
      const line = this.waiting.get(user) ?? new Set()
      this.waiting.set(user, line)
      line.add(go)
      return Effect.sync(() => {
        line.delete(go)
        if (line.size === 0 && this.waiting.get(user) === line) this.waiting.delete(user)
      })
    })
  }

  private readonly giving: Effect.Effect<void> = Effect.gen({ self: this }, function*() {
    while (true) {
      // after ready fibers have run and network input has been read
      yield* Effect.yieldNow
      const until = this.now() + slice
      do {
        const go = this.next()
        if (go === undefined) {
          this.isTaken = false
          return
        }
        go()
      } while (this.now() < until)
    }
  })

  private next(): (() => void) | undefined {
    for (const [user, line] of this.waiting) {
      this.waiting.delete(user)
      for (const go of line) {
        line.delete(go)
        if (line.size > 0) this.waiting.set(user, line)
        return go
      }
    }
    return undefined
  }

  private now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1e6
  }
}
