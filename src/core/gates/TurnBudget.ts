/**
 * Gate 2: limits the time and the calls of a turn.
 *
 * A turn is one process. Its clock starts with the process and includes model time. It pauses while approvals are
 * pending and no handler runs.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { Verdict } from "./Gate.ts"

export interface Options {
  /** Time of the whole turn. Default: no limit. */
  readonly timeout?: Duration.Input | undefined
  /** The least time a call gets once it starts, even if the turn has less left; 0 gives no extra. Default 5 seconds. */
  readonly minimumSlice?: Duration.Input | undefined
  /** How many calls the turn may start. Default: no limit. */
  readonly maxCalls?: number | undefined
  /** A counter that the turn shares with other turns. */
  readonly shared?: CallCounter | undefined
}

/**
 * Counts calls of several turns together, such as those of an agent and its sub-agents. A counter within another one is
 * full when either is.
 */
export class CallCounter {
  readonly max: number
  readonly within: CallCounter | undefined
  /** Calls that are counted now. */
  taken = 0

  constructor(max: number, within?: CallCounter) {
    this.max = max
    this.within = within
  }

  /** The first full counter, of this one and those around it. */
  get full(): CallCounter | undefined {
    return this.taken >= this.max ? this : this.within?.full
  }

  take(calls: number): void {
    this.taken += calls
    this.within?.take(calls)
  }
}

/** The limits of a turn in plain numbers; `Infinity` is no limit. */
export interface Limits {
  readonly limitMillis: number
  readonly minimumSliceMillis: number
  readonly maxCalls: number
  readonly shared?: CallCounter | undefined
}

/**
 * The time of the call that a sub-agent works for: the sub-agent's turn ends with it, and whatever is asked or executed
 * counts there as well.
 */
export interface ParentClock {
  /** Epoch milliseconds at which the call is stopped. */
  readonly deadline: number
  readonly ask: (more: number, now: number) => void
  readonly execute: (more: number, now: number) => void
}

/** What one turn has left. */
export interface Budget {
  /** Time of the whole turn; `Infinity` without a limit. */
  readonly limitMillis: number
  /** Refuses a call when the time is over or, with `counted` false, when no call is left. */
  readonly check: (now: number, counted: boolean) => Verdict
  /** Milliseconds that are left of the turn. */
  readonly left: (now: number) => number
  /** The clock is paused: approvals are pending and no handler runs. */
  readonly isPaused: boolean
  /** Changes the number of pending approval requests. */
  readonly ask: (more: number, now: number) => void
  /** Changes the number of running handlers. */
  readonly execute: (more: number, now: number) => void
  /** Calls that are counted now. */
  readonly calls: number
  /** Counts a call that was dispatched, or so many that an earlier process has counted. */
  readonly take: (calls?: number) => void
  /** Gives back a call that never started. */
  readonly giveBack: () => void
  /** The time that a call starting now has, and which limit that is. Equal limits: the turn's. */
  readonly limit: (toolMillis: number, now: number) => { readonly millis: number; readonly which: "tool" | "turn" }
  /** Called when the clock stood still and goes on. */
  onGoOn: (() => void) | undefined
}

/** Gives each process its budget. */
export class TurnBudget extends Context.Service<TurnBudget, {
  /**
   * Begins the turn of a process: settings of this turn win over those of all turns. `parent` is the time of the
   * call that it works for.
   */
  readonly begin: (limits: Partial<Limits>, now: number, parent?: ParentClock) => Budget
}>()("effect-tool-executor/policy/TurnBudget") {}

/** No limit of time, none of calls. */
export const unlimited: Limits = { limitMillis: Infinity, minimumSliceMillis: 5_000, maxCalls: Infinity }

/**
 * Reads the options of one turn; fails with everything that is wrong with them. Whatever they leave open has no limit.
 */
export const limits = (options: Options, subject: string): Effect.Effect<Limits, ConfigurationError> =>
  Effect.map(given(options, subject), (it) => ({ ...unlimited, ...it }))

/** Creates budgets. What the options leave open is as a `TurnBudget` in the context has it, if there is one. */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<TurnBudget["Service"], ConfigurationError> {
  const own = yield* given(options, "TurnBudget")
  const around = Option.getOrElse(yield* Effect.serviceOption(TurnBudget), () => plain)
  return { begin: (limits, now, parent) => around.begin({ ...own, ...limits }, now, parent) }
})

/** Layer of budgets. Options that are left out come from a surrounding layer. A process may set its own limits. */
export const layer = (options?: Options): Layer.Layer<TurnBudget, ConfigurationError> =>
  Layer.effect(TurnBudget, make(options))

/** Layer without limits, but for those that a process is given. */
export const layerNoop: Layer.Layer<TurnBudget> = Layer.sync(TurnBudget, () => plain)

/** Budgets without limits, but for those that a process is given. */
export const plain: TurnBudget["Service"] = {
  begin: (limits, now, parent) => new Turn({ ...unlimited, ...limits }, now, parent)
}

const given = (options: Options, subject: string): Effect.Effect<Partial<Limits>, ConfigurationError> =>
  readOptions(subject, (read) => ({
    ...options.timeout === undefined ? {} : { limitMillis: read.millis("turn.timeout", options.timeout) },
    ...options.minimumSlice === undefined
      ? {}
      : { minimumSliceMillis: read.millis("turn.minimumSlice", options.minimumSlice, true) },
    ...options.maxCalls === undefined ? {} : { maxCalls: read.atLeast("turn.maxCalls", options.maxCalls, 1) },
    ...options.shared === undefined ? {} : { shared: options.shared }
  }))

class Turn implements Budget {
  /** Epoch milliseconds at which the turn is over, pauses up to now included; `Infinity` without a limit. */
  private deadline: number
  readonly limitMillis: number
  private readonly minimumSliceMillis: number
  private readonly maxCalls: number
  private readonly shared: CallCounter | undefined
  onGoOn: (() => void) | undefined
  private readonly parent: ParentClock | undefined
  calls = 0
  private asking = 0
  private executing = 0
  /** Since when people are asked and nothing executes. */
  private pausedAt: number | undefined

  constructor(
    { limitMillis, maxCalls, minimumSliceMillis, shared }: Limits,
    now: number,
    parent: ParentClock | undefined
  ) {
    this.parent = parent
    // reported to the model: the smaller of both limits
    this.limitMillis = parent === undefined ? limitMillis : Math.min(limitMillis, Math.max(0, parent.deadline - now))
    this.deadline = now + limitMillis
    this.minimumSliceMillis = minimumSliceMillis
    this.maxCalls = maxCalls
    this.shared = shared
  }

  check(now: number, counted: boolean): Verdict {
    if (this.left(now) <= 0) return { _tag: "DeadlineExceeded", limitMillis: this.limitMillis }
    if (counted) return undefined
    const max = this.calls >= this.maxCalls ? this.maxCalls : this.shared?.full?.max
    return max === undefined ? undefined : { _tag: "CallBudgetExhausted", max }
  }

  left(now: number): number {
    const left = this.deadline - (this.pausedAt ?? now)
    return this.parent === undefined ? left : Math.min(left, this.parent.deadline - now)
  }

  get isPaused(): boolean {
    return this.pausedAt !== undefined
  }

  ask(more: number, now: number): void {
    this.asking += more
    this.parent?.ask(more, now)
    this.tick(now)
  }

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

  take(calls = 1): void {
    this.calls += calls
    this.shared?.take(calls)
  }

  giveBack(): void {
    this.calls--
    this.shared?.take(-1)
  }

  limit(toolMillis: number, now: number): { readonly millis: number; readonly which: "tool" | "turn" } {
    const slice = Math.max(this.left(now), this.minimumSliceMillis)
    const left = this.parent === undefined ? slice : Math.min(slice, this.parent.deadline - now)
    return left <= toolMillis ? { millis: left, which: "turn" } : { millis: toolMillis, which: "tool" }
  }
}
