/**
 * The time of one execution of a handler: its limit and its idle limit, which stand still while approvers are asked.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Deadline, Deadlines } from "../../internal/deadlines.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { End } from "./CallEnd.ts"

/** The clock of a wave, and the timer that serves all its limits. */
export interface Timer {
  readonly clock: Clock.Clock
  readonly deadlines: Deadlines
}

/** How long a handler may run, and which limit says so. */
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
  /** What stopped the clock: since when, how often, and for how many milliseconds before. */
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

  /** Stops the clock until each `pause` has its `resume`; gives the time if it ran until now. */
  pause(): number | undefined {
    const { open, since, waited } = this.pauses
    const now = this.now()
    this.pauses = { since: since ?? now, open: open + 1, waited }
    if (open > 0) return undefined
    this.unwatch()
    return now
  }

  /** Gives the time if the clock runs again. */
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

  /** The tool has reported something. */
  report(): void {
    this.lastReport = this.now()
  }

  /** Calls back when a limit is reached, unless the clock is stopped or watched already. */
  watch(context: Context.Context<never>, onReached: () => void): void {
    if (this.isPaused || this.timer !== undefined) return
    this.timer = this.host.deadlines.add(this.due, () => {
      this.timer = undefined
      // a handler that ends exactly at its limit has made it
      Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, Effect.sync(onReached)))
    })
  }

  unwatch(): void {
    if (this.timer === undefined) return
    this.host.deadlines.delete(this.timer)
    this.timer = undefined
  }

  /** How the handler ends if a limit is reached; `undefined` if none is, by now. */
  reached(): End | undefined {
    const { deadline, due, limit, tool } = this
    if (this.now() < due) return undefined
    const which = due < deadline ? "idle" : limit.which
    const limitMillis = which === "idle" ? tool.idleMillis! : limit.millis
    return { _tag: "TimedOut", limitMillis, which, retryable: tool.retryOnTimeout }
  }

  /** Whether a limit may have been reached: the clock runs, and nothing watches it. */
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

// Utilities

const none = { since: undefined, open: 0, waited: 0 }
