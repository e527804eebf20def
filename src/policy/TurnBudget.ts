/**
 * Gate 2: how much time and how many calls a turn has left.
 *
 * The turn is one process. Its clock begins when the process does and counts
 * model time too; it stands still while people are asked and nothing executes.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type { Verdict } from "./Gate.ts"

/**
 * Options of a turn.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Time of the whole turn. Default: no limit. */
  readonly timeout?: Duration.Input | undefined
  /** What a call gets at least once it starts, even if less is left of the turn; 0: no more than is left. Default 5 seconds. */
  readonly minimumSlice?: Duration.Input | undefined
  /** How many calls the turn may start. Default: no limit. */
  readonly maxCalls?: number | undefined
}

/**
 * The budget of each turn, read when a process begins.
 *
 * @category references
 * @since 0.1.0
 */
export const Turn = Context.Reference<Options>("effect-tool-executor/policy/TurnBudget/Turn", {
  defaultValue: () => ({})
})

/**
 * The time of the call that a sub-agent works for: its turn ends with it, and
 * what is asked or executed counts there, too.
 *
 * @category models
 * @since 0.1.0
 */
export interface ParentClock {
  /** Epoch milliseconds at which the call is stopped. */
  readonly deadline: number
  readonly ask: (more: number, now: number) => void
  readonly execute: (more: number, now: number) => void
}

/**
 * What one turn has left.
 *
 * @category models
 * @since 0.1.0
 */
export class TurnBudget {
  /** Epoch milliseconds at which the turn is over, pauses up to now included; `Infinity` without a limit. */
  deadline: number
  readonly limitMillis: number
  readonly minimumSliceMillis: number
  readonly maxCalls: number
  /** Called when the clock stood still and goes on. */
  onGoOn: (() => void) | undefined
  private readonly parent: ParentClock | undefined
  private calls = 0
  private asking = 0
  private executing = 0
  /** Since when people are asked and nothing executes. */
  private pausedAt: number | undefined

  constructor(options: Options, now: number, parent?: ParentClock) {
    this.parent = parent
    this.limitMillis = options.timeout === undefined
      ? Infinity
      : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))
    this.deadline = now + this.limitMillis
    this.minimumSliceMillis = Duration.toMillis(Duration.fromInputUnsafe(options.minimumSlice ?? "5 seconds"))
    this.maxCalls = options.maxCalls ?? Infinity
  }

  /** Says no when the time is over or, with `counted` false, when all calls are used. */
  check(now: number, counted: boolean): Verdict {
    if (this.left(now) <= 0) return { _tag: "DeadlineExceeded", limitMillis: this.limitMillis }
    if (!counted && this.calls >= this.maxCalls) return { _tag: "CallBudgetExhausted", max: this.maxCalls }
    return undefined
  }

  /** Milliseconds that are left of the turn. */
  left(now: number): number {
    const left = this.deadline - (this.pausedAt ?? now)
    return this.parent === undefined ? left : Math.min(left, this.parent.deadline - now)
  }

  /** The clock stands still: people are asked and nothing executes. */
  get isPaused(): boolean {
    return this.pausedAt !== undefined
  }

  /** So many more questions are open. */
  ask(more: number, now: number): void {
    this.asking += more
    this.parent?.ask(more, now)
    this.tick(now)
  }

  /** So many more handlers execute. */
  execute(more: number, now: number): void {
    this.executing += more
    this.parent?.execute(more, now)
    if (this.asking > 0) this.tick(now)
  }

  private tick(now: number): void {
    const pauses = this.asking > 0 && this.executing === 0
    if (pauses) this.pausedAt ??= now
    else if (this.pausedAt !== undefined) {
      this.deadline += now - this.pausedAt
      this.pausedAt = undefined
      this.onGoOn?.()
    }
  }

  /** Counts a call that was dispatched. */
  take(): void {
    this.calls++
  }

  /** Gives back a call that never started. */
  giveBack(): void {
    this.calls--
  }

  /** The time that a call starting now has, and which limit that is. Equal limits: the turn's. */
  limit(toolMillis: number, now: number): { readonly millis: number; readonly which: "tool" | "turn" } {
    const slice = Math.max(this.left(now), this.minimumSliceMillis)
    const left = this.parent === undefined ? slice : Math.min(slice, this.parent.deadline - now)
    return left <= toolMillis ? { millis: left, which: "turn" } : { millis: toolMillis, which: "tool" }
  }
}
