/**
 * One execution of a handler: its limit, its end, and the fence that keeps late
 * writes out.
 *
 * An attempt is `running`, then `ending` while a large output is stored, then
 * `settled`; it settles exactly once. The handler runs in one fiber. Its limit is
 * a deadline beside that fiber and never an `Effect.timeout` round the handler,
 * because that waits for what it interrupts; one sleeping fiber serves the
 * deadlines of a whole wave.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import * as Detached from "../../internal/detached.ts"
import { exitOf } from "../../internal/exitOf.ts"
import type { HandlerContext } from "../../internal/toolkitAdapter.ts"
import { type OutputPolicy, type Room, textOf } from "../output/OutputPolicy.ts"
import * as ToolContent from "../vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { End } from "./CallEnd.ts"
import * as HandlerExit from "./HandlerExit.ts"
import type { CallTrace } from "./report/CallTrace.ts"
import { type Limit, TimeLimit, type Timer } from "./TimeLimit.ts"

/** What the attempts of a wave share. */
export interface Host extends Timer {
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

/** The call that an attempt is of. */
export interface Attempted extends HandlerExit.Ended {
  /** An attempt begins: the first, or an automatic retry. */
  readonly began: (number: number, limitMillis: number) => void
  /** An attempt failed, and another may follow. */
  readonly failed: (number: number) => void
  /** A write has landed; so many have by now. */
  readonly committed: (commits: number) => void
  readonly trace: CallTrace | undefined
  /** Called exactly once; `fiber` is there if the handler still runs. */
  readonly ended: (end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined) => void
}

/** What a handler runs in: its `ToolContext`, and all services that it finds. */
export interface Surroundings extends HandlerContext {
  readonly services: Context.Context<never>
}

/** The attempt in whose commit a fiber is. */
export const InCommit = Context.Reference<Attempt | undefined>("effect-tool-executor/execution/Attempt/InCommit", {
  defaultValue: () => undefined
})

/** One execution of a handler. */
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
  /** An end that waits for commits under way, or for the start to return. */
  private pending: End | undefined
  private fiber: Fiber.Fiber<unknown, unknown> | undefined
  private surroundings: Surroundings | undefined
  /** The encoded output, once there is one. */
  value: unknown
  /** The handler has returned: what fails after that is its output. */
  private returned = false
  private readonly host: Host
  private readonly call: Attempted
  private readonly tool: RegisteredTool
  private readonly time: TimeLimit
  /** Its commits, once it makes one. */
  private fence: Fence = noFence
  /** What is made of a large output, or of one with files. */
  private large: Large = noLarge
  /** Who hears of its end. */
  private ends: Ends = noEnds

  constructor(host: Host, call: Attempted, tool: RegisteredTool, startedAt: number, limit: Limit) {
    this.host = host
    this.call = call
    this.tool = tool
    this.time = new TimeLimit(host, tool, startedAt, limit)
  }

  get startedAt(): number {
    return this.time.startedAt
  }

  /** Characters of the batch's budget that are held while a large output is stored. */
  get heldChars(): number {
    return this.large.heldChars
  }

  /** Its call, or what that has reserved, may be another process's by now. */
  get isLost(): boolean {
    return this.fence.isLost
  }

  lose(): void {
    this.fence = { ...this.fence, isLost: true }
  }

  /** Looked at before each commit: ends the attempt if it may be lost. The one before is looked at first. */
  beforeCommits(lapses: () => Effect.Effect<void> | undefined): void {
    const { lapses: before } = this.fence
    this.fence = { ...this.fence, lapses: () => before?.() ?? lapses() }
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
    return this.time.deadline
  }

  /** Approvers are asked: the limits stand still. */
  get isPaused(): boolean {
    return this.time.isPaused
  }

  /** Approvers are asked: the limits stand still until each `pause` has its `resume`. */
  pause(): void {
    const since = this.isOver ? undefined : this.time.pause()
    if (since !== undefined) this.host.executing(-1, since)
  }

  /** The limits continue where they were. */
  resume(): void {
    const now = this.isOver ? undefined : this.time.resume()
    if (now === undefined) return
    this.host.executing(1, now)
    if (this.fiber !== undefined) this.watch()
  }

  get signal(): AbortSignal {
    const { controller = new AbortController() } = this.ends
    this.ends = { ...this.ends, controller }
    if (this.isOver) controller.abort()
    return controller.signal
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
    this.call.began(number, this.time.limit.millis)
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
      while: (failure) => !this.isOver && HandlerExit.isRetryable(tool, failure)
    })
  }

  /** The output as it is told on. */
  private encoded(value: unknown): Effect.Effect<unknown, unknown> {
    const { tool } = this
    this.returned = true
    try {
      if (tool.modelContent !== undefined) this.large = { ...this.large, content: tool.modelContent(value) }
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
    if (this.fence.open === 0) return this.settle(end)
    this.ends.controller?.abort()
    this.fiber?.interruptUnsafe()
    const bound = this.after(this.host.commitMillis, () => {
      if (this.phase === "running") this.settle({ ...end, openCommits: this.fence.open } as End)
    })
    this.fence = { ...this.fence, bound }
  }

  /** Calls back when the attempt has its end, at once if it has; gives how to be left out again. */
  atEnd(run: () => void): () => void {
    if (this.phase === "settled") {
      run()
      return () => {}
    }
    const { waiting = new Set() } = this.ends
    this.ends = { ...this.ends, waiting: waiting.add(run) }
    return () => void waiting.delete(run)
  }

  /** Ends the attempt because its write cannot be made: nothing was written. */
  refuseWrite(error: unknown, why: string): void {
    this.stop(HandlerExit.failed(this.call, "handler", error, `"${this.tool.name}" failed: ${why}`))
  }

  /** Notes that the tool reported something; false once it is too late. */
  report(): boolean {
    if (this.isOver) return false
    this.time.report()
    return true
  }

  /** Runs a write under the fence; `onLate` is called for one that comes too late. */
  commit<A, E, R>(write: Effect.Effect<A, E, R>, onLate: () => void): Effect.Effect<A, E, R> {
    return Effect.uninterruptible(Effect.flatMap(InCommit, (outer) => {
      const lapsing = this.fence.lapses?.()
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
    this.fence = { ...this.fence, open: this.fence.open + 1 }
    return Effect.onExit(Effect.provideService(write, InCommit, this), (exit) =>
      Effect.sync(() => {
        const fence = this.fence = { ...this.fence, open: this.fence.open - 1 }
        if (this.isOver) return
        if (Exit.isSuccess(exit)) this.call.committed(++this.commits)
        if (fence.open > 0) return
        if (fence.exit !== undefined) this.onExit(fence.exit)
        // interrupted already: it ends now, unless it is deaf
        else if (this.pending !== undefined) this.after(0, () => this.isOver || this.settle(this.pending!))
      }))
  }

  private onExit(exit: Exit.Exit<unknown, unknown>): void {
    if (this.isOver) {
      HandlerExit.late(this.call, exit, this.context)
      this.surroundings = undefined
      return
    }
    // a commit in a fiber of the handler's own may outlive the handler; it is waited for like the handler
    if (this.fence.open > 0) {
      this.fence = { ...this.fence, exit }
      return
    }
    if (this.pending !== undefined) {
      HandlerExit.late(this.call, exit, this.context)
      return this.settle(this.pending)
    }
    if (Exit.isSuccess(exit)) return this.succeed(exit.value)
    const { context, host, returned: isResult } = this
    this.settle(HandlerExit.ofCause(this.call, exit.cause, { isResult, chars: host.outputRoom().chars, context }))
  }

  private succeed(value: unknown): void {
    const { call, host, large: { content } } = this
    this.value = value
    let text: string
    try {
      text = content === undefined ? textOf(value) : ToolContent.textOf(content)
    } catch {
      return this.settle(HandlerExit.wrongResult(call, "its output is not JSON"))
    }
    const applied = host.output.apply(value, text, host.outputRoom(), host, content)
    if ("_tag" in applied) return this.settle(HandlerExit.succeeded(call, applied))
    const [truncated, store] = applied
    if (this.tool.bounded) return this.settle(HandlerExit.succeeded(call, truncated))
    // the handler has made it: neither limit nor cancellation ends it any more
    this.phase = "ending"
    // so much of the budget may become its; others are not to count on it
    this.large = { ...this.large, heldChars: host.hold() }
    this.time.unwatch()
    Detached.start(store, this.context, host.storeMillis(host.clock.currentTimeMillisUnsafe()), (exit) => {
      this.settle(HandlerExit.succeeded(call, exit !== undefined && Exit.isSuccess(exit) ? exit.value : truncated))
    })
  }

  private settle(end: End): void {
    this.phase = "settled"
    this.time.unwatch()
    const { ends, fence, fiber } = this
    fence.bound?.interruptUnsafe()
    let running: typeof fiber
    if (fiber !== undefined && fiber.pollUnsafe() === undefined) {
      ends.controller?.abort()
      fiber.interruptUnsafe()
      // clean-up that does not wait is over by now
      if (fiber.pollUnsafe() === undefined) running = fiber
    }
    // a wave may be long: what is over holds on to nothing
    this.pending = this.fiber = undefined
    if (running === undefined) this.surroundings = undefined
    if (fence.exit !== undefined) this.fence = { ...fence, exit: undefined }
    this.call.ended(end, running)
    const { waiting } = this.ends
    if (waiting === undefined) return
    this.ends = { ...this.ends, waiting: undefined }
    for (const run of waiting) run()
  }

  private watch(): void {
    if (!this.isOver) this.time.watch(this.context, () => this.passed())
  }

  private passed(): void {
    if (this.isOver || !this.time.isUnwatched) return
    const end = this.time.reached()
    // it has reported something meanwhile
    if (end === undefined) this.watch()
    else this.stop(end)
  }

  private after(millis: number, run: () => void): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(Effect.andThen(Effect.sleep(millis), Effect.sync(run)))
  }
}

// Utilities

/** The commits of an attempt, and what keeps late ones out. */
interface Fence {
  /** Commits under way. */
  readonly open: number
  /** The handler's exit, which waits for them. */
  readonly exit?: Exit.Exit<unknown, unknown> | undefined
  /** Ends the wait for them. */
  readonly bound?: Fiber.Fiber<void>
  readonly lapses?: () => Effect.Effect<void> | undefined
  readonly isLost: boolean
}

interface Large {
  readonly content?: ToolContent.ToolContent
  readonly heldChars: number
}

interface Ends {
  readonly controller?: AbortController
  readonly waiting?: Set<() => void> | undefined
}

const noFence: Fence = { open: 0, isLost: false }
const noLarge: Large = { heldChars: 0 }
const noEnds: Ends = {}
