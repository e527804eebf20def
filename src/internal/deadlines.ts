/**
 * Many deadlines, one timer: a fiber that sleeps until the first of them, however many there are. To add one or to take
 * it back costs the logarithm of their number.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** A deadline that has not passed and was not taken back. */
export interface Deadline {
  readonly at: number
  readonly onPassed: () => void
  /** Its place in the heap; -1 if it is no longer in there. */
  place: number
  /** Of deadlines at one time the older passes first. */
  readonly serial: number
}

/** Deadlines that pass in their order, each in the timer's own fiber and never while it is added. */
export class Deadlines {
  private readonly clock: Clock.Clock
  private readonly run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  private readonly heap: Array<Deadline> = []
  private serial = 0
  private wakesAt = Infinity
  private timer: Fiber.Fiber<void> | undefined

  constructor(clock: Clock.Clock, run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>) {
    this.clock = clock
    this.run = run
  }

  /** Calls back once, at that time (epoch milliseconds), unless it is taken back before. */
  add(at: number, onPassed: () => void): Deadline {
    // no time at all has passed, and must not confuse the order of the others
    const deadline = { at: Number.isNaN(at) ? -Infinity : at, onPassed, place: this.heap.length, serial: this.serial++ }
    this.heap.push(deadline)
    this.rise(deadline)
    this.wake()
    return deadline
  }

  /** Takes a deadline back; one that has passed stays so. */
  delete(deadline: Deadline): void {
    const { place } = deadline
    if (place < 0) return
    deadline.place = -1
    const last = this.heap.pop()!
    if (last !== deadline) {
      this.put(last, place)
      this.rise(last)
      this.sink(last)
    }
    // a timer with nothing to wait for would keep the program alive
    if (this.heap.length === 0) this.stop()
  }

  private stop(): void {
    this.timer?.interruptUnsafe()
    this.timer = undefined
    this.wakesAt = Infinity
  }

  /** Sees to it that the timer wakes for the first deadline. */
  private wake(): void {
    const at = this.heap[0]?.at ?? Infinity
    if (at >= this.wakesAt) return
    this.stop()
    this.wakesAt = at
    const sleep = Effect.suspend(() => Effect.sleep(Math.max(0, at - this.clock.currentTimeMillisUnsafe())))
    this.timer = this.run(Effect.andThen(Effect.yieldNow, Effect.andThen(sleep, Effect.sync(() => this.pass()))))
  }

  private pass(): void {
    this.timer = undefined
    this.wakesAt = Infinity
    const now = this.clock.currentTimeMillisUnsafe()
    for (let first = this.heap[0]; first !== undefined && first.at <= now; first = this.heap[0]) {
      this.delete(first)
      first.onPassed()
    }
    this.wake()
  }

  private put(deadline: Deadline, place: number): void {
    this.heap[place] = deadline
    deadline.place = place
  }

  private rise(deadline: Deadline): void {
    while (deadline.place > 0) {
      const { place } = deadline
      const above = this.heap[(place - 1) >> 1]!
      if (isBefore(above, deadline)) return
      this.put(deadline, above.place)
      this.put(above, place)
    }
  }

  private sink(deadline: Deadline): void {
    while (true) {
      const { place } = deadline
      const [left, right] = [this.heap[2 * place + 1], this.heap[2 * place + 2]]
      const below = right === undefined || (left !== undefined && isBefore(left, right)) ? left : right
      if (below === undefined || isBefore(deadline, below)) return
      this.put(deadline, below.place)
      this.put(below, place)
    }
  }
}

const isBefore = (one: Deadline, other: Deadline): boolean =>
  one.at === other.at ? one.serial < other.serial : one.at < other.at
