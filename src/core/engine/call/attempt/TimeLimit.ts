/**
 * The time limits of one execution of a handler: its limit and its idle limit, both paused while approval requests are
 * pending.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Deadline, Deadlines } from "../../../../internal/deadlines.ts"
import type { RegisteredTool } from "../../../vocabulary/ToolHandlers.ts"
import type { End } from "../../data/CallEnd.ts"

/** The clock of a wave, and the timer shared by all its limits. */
export interface Timer {
  readonly clock: Clock.Clock
  readonly deadlines: Deadlines
}

/** How long a handler may run, and which limit that is. */
export interface Limit {
  readonly millis: number
  readonly which: "tool" | "turn"
}

/** The time of one execution of a handler. */
export class TimeLimit {
  private readonly host: Timer
  private readonly tool: RegisteredTool
  readonly startedAt: number
  readonly limit: Limit
  private lastReport: number
  private timer: Deadline | undefined = undefined
  /** The current pause: since when, how many are open, and the milliseconds of earlier pauses. */
  private pauses: { readonly since: number | undefined; readonly open: number; readonly waited: number } = none

  constructor(host: Timer, tool: RegisteredTool, startedAt: number, limit: Limit) {
    this.host = host
    this.tool = tool
    this.startedAt = startedAt
    this.limit = limit
    this.lastReport = startedAt
  }

  /** Epoch milliseconds at which the limit is reached. */
  get deadline(): number {
    const { since, waited } = this.pauses
    return this.startedAt + this.limit.millis + waited + (since === undefined ? 0 : this.now() - since)
  }

  get isPaused(): boolean {
    return this.pauses.since !== undefined
  }

  /** Stops the clock until each `pause` has its `resume`. Gives the time if the clock was running. */
  pause(): number | undefined {
    const { open, since, waited } = this.pauses
    const now = this.now()
    this.pauses = { since: since ?? now, open: open + 1, waited }
    if (open > 0) return undefined
    this.unwatch()
    return now
  }

  /** Ends one pause. Gives the time if the clock runs again. */
  resume(): number | undefined {
    const { open, since, waited } = this.pauses
    if (open > 1) {
      this.pauses = { since, open: open - 1, waited }
      return undefined
    }
    const now = this.now()
    const more = now - since!
    this.pauses = { since: undefined, open: 0, waited: waited + more }
    this.lastReport += more
    return now
  }

  /** Notes a report of the tool, which restarts the idle limit. */
  report(): void {
    this.lastReport = this.now()
  }

  /** Calls back when a limit is reached, unless the clock is paused or watched already. */
  watch(context: Context.Context<never>, onReached: () => void): void {
    if (this.isPaused || this.timer !== undefined) return
    this.timer = this.host.deadlines.add(this.due, () => {
      this.timer = undefined
      // a handler that ends exactly at its limit is in time
      Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, Effect.sync(onReached)))
    })
  }

  unwatch(): void {
    if (this.timer === undefined) return
    this.host.deadlines.delete(this.timer)
    this.timer = undefined
  }

  /** How the handler ends if a limit has been reached; `undefined` if not. */
  reached(): End | undefined {
    const { deadline, due, limit, tool } = this
    if (this.now() < due) return undefined
    const which = due < deadline ? "idle" : limit.which
    const limitMillis = which === "idle" ? tool.idleMillis! : limit.millis
    return { _tag: "TimedOut", limitMillis, which, retryable: tool.retryOnTimeout }
  }

  /** Whether a limit may be reached unnoticed: the clock runs, and nothing watches it. */
  get isUnwatched(): boolean {
    return !this.isPaused && this.timer === undefined
  }

  /** Epoch milliseconds at which the first limit is reached. */
  private get due(): number {
    const { deadline, tool: { idleMillis } } = this
    return idleMillis === undefined ? deadline : Math.min(deadline, this.lastReport + idleMillis)
  }

  private now(): number {
    return this.host.clock.currentTimeMillisUnsafe()
  }
}

const none = { since: undefined, open: 0, waited: 0 }
