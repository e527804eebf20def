/**
 * Turns of users at the work that only this thread can do: reading what was sent, answering, writing streams. Whoever sends a
 * thousand requests at once has a thousand turns one after the other, and everybody else has theirs in between.
 *
 * Between turns the thread is free for whatever else there is: connections, timers, calls that run. So no more than
 * one turn, or a few short ones, stands between a request and its answer, whatever others do.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** For so long turns are given one right after the other, in milliseconds: most are much shorter. */
const slice = 4

/** The turns. */
export class FairTurns {
  private readonly clock: Clock.Clock
  private readonly run: (effect: Effect.Effect<void>) => void
  /** Who comes first stands first; whoever had a turn goes behind all others. */
  private readonly waiting = new Map<string, Set<() => void>>()
  /** Somebody had a turn since the thread was free last. */
  private isTaken = false

  constructor(clock: Clock.Clock, run: (effect: Effect.Effect<void>) => void) {
    this.clock = clock
    this.run = run
  }

  /** Waits until it is the user's turn, which lasts until the fiber waits for something. */
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
      // once what is ready has run and what has come over the network is there
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
