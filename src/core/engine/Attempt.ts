/**
 * One execution of a handler: its limit, its end, and the fence that keeps late
 * writes out.
 *
 * An attempt is `running`, then `ending` while a large output is stored, then
 * `settled`; it settles exactly once. The handler runs in one fiber. Its limit is
 * a deadline beside that fiber and never an `Effect.timeout` round the handler,
 * because that waits for what it interrupts; one sleeping fiber serves the
 * deadlines of a whole wave.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import type { Deadline, Deadlines } from "../../internal/deadlines.ts"
import * as Detached from "../../internal/detached.ts"
import { exitOf } from "../../internal/exitOf.ts"
import type { HandlerContext } from "../../internal/toolkitAdapter.ts"
import { type OutputPolicy, type Room, textOf } from "../output/OutputPolicy.ts"
import * as ToolContent from "../vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { End } from "./End.ts"
import * as Ending from "./Ending.ts"
import type { CallTrace } from "./report/CallTrace.ts"

/**
 * What the attempts of a wave share.
 *
 * @category models
 * @since 0.1.0
 */
export interface Host {
  readonly clock: Clock.Clock
  /** The limits of all handlers that run: one timer serves them. */
  readonly deadlines: Deadlines
  readonly commitMillis: number
  /** Milliseconds that the artifact store has before the output is cut instead. */
  readonly storeMillis: (now: number) => number
  readonly output: OutputPolicy
  readonly owner: { readonly principal: string; readonly batch: string }
  /** Tells the model how to see more of a large output. */
  readonly readOn: string
  /** What the model may be shown, asked when the output is there. */
  readonly outputRoom: () => Room
  /** Takes the limit out of the batch's budget; gives how much that is. */
  readonly hold: () => number
  /** So many more handlers execute, and do not wait for people. */
  readonly executing: (more: number, now: number) => void
}

/**
 * The call that an attempt is of.
 *
 * @category models
 * @since 0.1.0
 */
export interface Attempted extends Ending.Ended {
  /** An attempt begins: the first, or an automatic retry. */
  readonly began: (number: number, limitMillis: number) => void
  /** An attempt failed, and another may follow. */
  readonly failed: (number: number) => void
  /** A write has landed; so many have by now. */
  readonly committed: (commits: number) => void
  readonly trace?: CallTrace
  /** Called exactly once; `fiber` is there if the handler still runs. */
  readonly ended: (end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined) => void
}

/**
 * What a handler runs in: its `ToolContext`, and all services that it finds.
 *
 * @category models
 * @since 0.1.0
 */
export interface Surroundings extends HandlerContext {
  readonly services: Context.Context<never>
}

/**
 * The attempt in whose commit a fiber is.
 *
 * @category references
 * @internal
 */
export const InCommit = Context.Reference<Attempt | undefined>("effect-tool-executor/execution/Attempt/InCommit", {
  defaultValue: () => undefined
})

/**
 * One execution of a handler.
 *
 * @category models
 * @since 0.1.0
 */
export class Attempt {
  /** The phase of its call. */
  get _tag(): "Running" {
    return "Running"
  }

  /** How often the handler was started: more than one with automatic retries. */
  number = 0
  /** Commits that landed before the end. */
  commits = 0
  private phase: "running" | "ending" | "settled" = "running"
  private openCommits = 0
  private lastReport: number
  /** Milliseconds that people took to answer. */
  declare private waited?: number
  /** Since when a person is asked. */
  declare private pausedAt?: number | undefined
  declare private pauses?: number
  /** An end that waits for commits under way, or for the start to return. */
  private pending: End | undefined
  private fiber: Fiber.Fiber<unknown, unknown> | undefined
  private surroundings: Surroundings | undefined
  /** Its limit, while it is watched. */
  declare private timer?: Deadline | undefined
  /** Ends the wait for commits. */
  declare private bound?: Fiber.Fiber<void>
  declare private controller?: AbortController
  declare private content?: ToolContent.ToolContent
  /** Characters of the batch's budget that are held while a large output is stored. */
  declare heldChars?: number
  /** Ends the attempt if its call, or what that has reserved, is this process's no more; absent: it always is. */
  declare lapses?: () => Effect.Effect<void> | undefined
  /** The encoded output, once there is one. */
  value: unknown
  /** The handler has returned: what fails after that is its output. */
  private returned = false
  declare private exit?: Exit.Exit<unknown, unknown> | undefined
  declare private ends?: Set<() => void> | undefined
  private readonly host: Host
  private readonly call: Attempted
  private readonly tool: RegisteredTool
  readonly startedAt: number
  private readonly limit: { readonly millis: number; readonly which: "tool" | "turn" }

  constructor(
    host: Host,
    call: Attempted,
    tool: RegisteredTool,
    startedAt: number,
    limit: { readonly millis: number; readonly which: "tool" | "turn" }
  ) {
    this.host = host
    this.call = call
    this.tool = tool
    this.startedAt = startedAt
    this.limit = limit
    this.lastReport = startedAt
  }

  /** What is reported or written now comes too late. */
  get isOver(): boolean {
    return this.phase !== "running"
  }

  get isSettled(): boolean {
    return this.phase === "settled"
  }

  /** Epoch milliseconds at which the attempt is stopped. */
  get deadline(): number {
    const since = this.pausedAt === undefined ? 0 : this.host.clock.currentTimeMillisUnsafe() - this.pausedAt
    return this.startedAt + this.limit.millis + (this.waited ?? 0) + since
  }

  /** A person is asked: the limits stand still. */
  get isPaused(): boolean {
    return this.pausedAt !== undefined
  }

  /** A person is asked: the limits stand still until each `pause` has its `resume`. */
  pause(): void {
    if (this.isOver) return
    this.pauses = (this.pauses ?? 0) + 1
    if (this.pauses > 1) return
    this.pausedAt = this.host.clock.currentTimeMillisUnsafe()
    this.host.executing(-1, this.pausedAt)
    this.unwatch()
  }

  /** The limits go on where they were. */
  resume(): void {
    if (this.isOver) return
    this.pauses = (this.pauses ?? 1) - 1
    if (this.pauses > 0) return
    const now = this.host.clock.currentTimeMillisUnsafe()
    this.host.executing(1, now)
    this.waited = (this.waited ?? 0) + now - this.pausedAt!
    this.lastReport += now - this.pausedAt!
    this.pausedAt = undefined
    if (this.fiber !== undefined) this.watch()
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    if (this.isOver) this.controller.abort()
    return this.controller.signal
  }

  /** Starts the handler, in a fiber of its own where it does not end at once; it may have ended when this returns. */
  start(params: unknown, surroundings: Surroundings): void {
    this.surroundings = surroundings
    const handled = this.tool.retry === undefined ? this.handle(params) : this.retried(params)
    // what has its value already needs no fiber
    const whole = Exit.isExit(handled)
      ? Exit.isSuccess(handled) ? this.encoded(handled.value) : handled
      : Effect.flatMap(handled, (value) => this.encoded(value))
    const known = exitOf(whole)
    if (known !== undefined) return this.onExit(known)
    const fiber = Effect.runForkWith(this.context)(whole)
    this.fiber = fiber
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return this.onExit(exit)
    fiber.addObserver((late) => this.onExit(late))
    // a handler may cancel its own call before it first waits
    if (this.pending !== undefined) return this.stopNow(this.pending)
    this.watch()
  }

  private handle(params: unknown): Effect.Effect<unknown, unknown> {
    const number = ++this.number
    this.call.began(number, this.limit.millis)
    try {
      const handled = this.tool.handler(params, this.surroundings!)
      // a fiber has no exit at all where what it is given is none and cannot even be told
      if (!Effect.isEffect(handled)) return Effect.die(new TypeError("the handler gave no Effect"))
      return this.tool.retry === undefined ? handled : this.watched(handled, number)
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  /** An attempt that another may follow: it has a span of its own, and its failure is reported. */
  private watched(handled: Effect.Effect<unknown, unknown>, number: number): Effect.Effect<unknown, unknown> {
    const { trace } = this.call
    if (trace === undefined) return handled
    const failing = Effect.tapError(handled, () => Effect.sync(() => this.call.failed(number)))
    return trace.span === undefined ? failing : Effect.provideService(failing, Tracer.ParentSpan, trace.span)
  }

  private retried(params: unknown): Effect.Effect<unknown, unknown> {
    const { tool } = this
    return Effect.retry(Effect.suspend(() => this.handle(params)), {
      schedule: tool.retry!,
      while: (failure) => !this.isOver && Ending.isRetryable(tool, failure)
    })
  }

  /** The output as it is told on. */
  private encoded(value: unknown): Effect.Effect<unknown, unknown> {
    const { tool } = this
    this.returned = true
    try {
      if (tool.modelContent !== undefined) this.content = tool.modelContent(value)
      return tool.encode(value)
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  private get context(): Context.Context<never> {
    return this.surroundings === undefined ? Context.empty() : this.surroundings.services
  }

  /** Ends the attempt from outside; a commit under way is waited for, within its bound. */
  stop(end: End): void {
    if (this.isOver || this.pending !== undefined) return
    this.pending = end
    if (this.fiber !== undefined) this.stopNow(end)
  }

  private stopNow(end: End): void {
    if (this.openCommits === 0) return this.settle(end)
    this.controller?.abort()
    this.fiber?.interruptUnsafe()
    this.bound = this.after(this.host.commitMillis, () => {
      if (this.phase === "running") this.settle({ ...end, openCommits: this.openCommits } as End)
    })
  }

  /** Calls back when the attempt has its end, at once if it has; gives how to be left out again. */
  atEnd(run: () => void): () => void {
    if (this.phase === "settled") run()
    else (this.ends ??= new Set()).add(run)
    return () => void this.ends?.delete(run)
  }

  /** Ends the attempt because its write cannot be made: nothing was written. */
  refuseWrite(error: unknown, why: string): void {
    this.stop(Ending.failed(this.call, "handler", error, `"${this.tool.name}" failed: ${why}`))
  }

  /** Notes that the tool reported something; false once it is too late. */
  report(): boolean {
    if (this.isOver) return false
    this.lastReport = this.host.clock.currentTimeMillisUnsafe()
    return true
  }

  /** Runs a write under the fence; `onLate` is called for one that comes too late. */
  commit<A, E, R>(write: Effect.Effect<A, E, R>, onLate: () => void): Effect.Effect<A, E, R> {
    return Effect.uninterruptible(Effect.flatMap(InCommit, (outer) => {
      const lapsing = this.lapses?.()
      const landed = Effect.suspend(() => this.land(write, onLate, outer))
      return lapsing === undefined ? landed : Effect.andThen(lapsing, landed)
    }))
  }

  private land<A, E, R>(
    write: Effect.Effect<A, E, R>,
    onLate: () => void,
    outer: Attempt | undefined
  ): Effect.Effect<A, E, R> {
    // one inside another belongs to what is not to be cut in half
    if (this.isOver || (this.pending !== undefined && outer !== this)) {
      onLate()
      return Effect.interrupt
    }
    this.openCommits++
    return Effect.onExit(Effect.provideService(write, InCommit, this), (exit) =>
      Effect.sync(() => {
        this.openCommits--
        if (this.isOver) return
        if (Exit.isSuccess(exit)) this.call.committed(++this.commits)
        if (this.openCommits > 0) return
        if (this.exit !== undefined) this.onExit(this.exit)
        // interrupted already: it ends now, unless it is deaf
        else if (this.pending !== undefined) this.after(0, () => this.isOver || this.settle(this.pending!))
      }))
  }

  private onExit(exit: Exit.Exit<unknown, unknown>): void {
    if (this.isOver) {
      Ending.late(this.call, exit, this.context)
      this.surroundings = undefined
      return
    }
    // a commit in a fiber of the handler's own may outlive the handler; it is waited for like the handler
    if (this.openCommits > 0) {
      this.exit = exit
      return
    }
    if (this.pending !== undefined) {
      Ending.late(this.call, exit, this.context)
      return this.settle(this.pending)
    }
    if (Exit.isSuccess(exit)) return this.succeed(exit.value)
    const { context, host, returned: isResult } = this
    this.settle(Ending.ofCause(this.call, exit.cause, { isResult, chars: host.outputRoom().chars, context }))
  }

  private succeed(value: unknown): void {
    const { call, host } = this
    this.value = value
    let text: string
    try {
      text = this.content === undefined ? textOf(value) : ToolContent.textOf(this.content)
    } catch {
      return this.settle(Ending.wrongResult(call, "its output is not JSON"))
    }
    const applied = host.output.apply(value, text, host.outputRoom(), host, this.content)
    if ("_tag" in applied) return this.settle(Ending.succeeded(call, applied))
    const [truncated, store] = applied
    if (this.tool.bounded) return this.settle(Ending.succeeded(call, truncated))
    // the handler has made it: neither limit nor cancellation ends it any more
    this.phase = "ending"
    // so much of the budget may become its; others are not to count on it
    this.heldChars = host.hold()
    this.unwatch()
    Detached.start(store, this.context, host.storeMillis(host.clock.currentTimeMillisUnsafe()), (exit) => {
      this.settle(Ending.succeeded(call, exit !== undefined && Exit.isSuccess(exit) ? exit.value : truncated))
    })
  }

  private settle(end: End): void {
    this.phase = "settled"
    this.unwatch()
    this.bound?.interruptUnsafe()
    const { fiber } = this
    let running: typeof fiber
    if (fiber !== undefined && fiber.pollUnsafe() === undefined) {
      this.controller?.abort()
      fiber.interruptUnsafe()
      // clean-up that does not wait is over by now
      if (fiber.pollUnsafe() === undefined) running = fiber
    }
    // a wave may be long: what is over holds on to nothing
    this.pending = this.fiber = undefined
    if (running === undefined) this.surroundings = undefined
    if (this.exit !== undefined) this.exit = undefined
    this.call.ended(end, running)
    const { ends } = this
    if (ends !== undefined) this.ends = undefined
    for (const run of ends ?? []) run()
  }

  /** Epoch milliseconds at which the first of its limits passes. */
  private get due(): number {
    const { deadline, tool: { idleMillis } } = this
    return idleMillis === undefined ? deadline : Math.min(deadline, this.lastReport + idleMillis)
  }

  private watch(): void {
    if (this.isOver || this.isPaused || this.timer !== undefined) return
    this.timer = this.host.deadlines.add(this.due, () => {
      this.timer = undefined
      // a handler that ends exactly at its limit has made it
      Effect.runForkWith(this.context)(Effect.andThen(Effect.yieldNow, Effect.sync(() => this.passed())))
    })
  }

  private unwatch(): void {
    if (this.timer === undefined) return
    this.host.deadlines.delete(this.timer)
    this.timer = undefined
  }

  private passed(): void {
    if (this.isOver || this.isPaused || this.timer !== undefined) return
    const { due, limit, tool } = this
    // it has reported something meanwhile
    if (this.host.clock.currentTimeMillisUnsafe() < due) return this.watch()
    const which = due < this.deadline ? "idle" : limit.which
    const limitMillis = which === "idle" ? tool.idleMillis! : limit.millis
    this.stop({ _tag: "TimedOut", limitMillis, which, retryable: tool.retryOnTimeout })
  }

  private after(millis: number, run: () => void): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(Effect.andThen(Effect.sleep(millis), Effect.sync(run)))
  }
}
