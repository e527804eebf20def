/**
 * One execution of a handler: its time limit, its end, and the fence that blocks late writes.
 *
 * An attempt is `running`, then `ending` while a large output is stored, then `settled`; it settles exactly once. The
 * handler runs in one fiber. Its limit is a deadline outside that fiber, never an `Effect.timeout` around the handler,
 * because that waits for the interrupted handler. One sleeping fiber serves the deadlines of a whole wave.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import * as Detached from "../../../../internal/detached.ts"
import { exitOf } from "../../../../internal/exitOf.ts"
import type { HandlerContext } from "../../../../internal/toolkitAdapter.ts"
import * as Unseen from "../../../../internal/unseen.ts"
import { type OutputPolicy, type Room, textOf } from "../../../output/OutputPolicy.ts"
import * as ToolContent from "../../../vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../../../vocabulary/ToolHandlers.ts"
import type { End } from "../../data/CallEnd.ts"
import type { CallTrace } from "../../report/CallTrace.ts"
import * as UnseenText from "../arrive/UnseenText.ts"
import * as HandlerExit from "./HandlerExit.ts"
import { type Limit, TimeLimit, type Timer } from "./TimeLimit.ts"

/** What the attempts of a wave share. */
export interface Host extends Timer {
  readonly commitMillis: number
  /** What becomes of invisible text in results. */
  readonly invisible: UnseenText.Mode
  /** Milliseconds that the artifact store has. After that, the output is cut instead. */
  readonly storeMillis: (now: number) => number
  readonly output: OutputPolicy
  readonly owner: { readonly principal: string; readonly batch: string }
  /** Text that tells the model how to read more of a large output. */
  readonly readOn: string
  /** How much output the model may see, evaluated when the output exists. */
  readonly outputRoom: () => Room
  /** Reserves the output limit in the batch's budget and returns its size. */
  readonly hold: () => number
  /** Changes the number of handlers that run without waiting for approvers. */
  readonly executing: (more: number, now: number) => void
}

/** The call that an attempt executes. */
export interface Attempted extends HandlerExit.Ended {
  /** An attempt begins: the first, or an automatic retry. */
  readonly began: (number: number, limitMillis: number) => void
  /** An attempt failed, and another may follow. */
  readonly failed: (number: number) => void
  /** A write landed; `commits` counts the writes so far. */
  readonly committed: (commits: number) => void
  readonly trace: CallTrace | undefined
  /** Called exactly once; `fiber` is set if the handler is still running. */
  readonly ended: (end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined) => void
}

/** What a handler runs with: its `ToolContext` and its services. */
export interface Surroundings extends HandlerContext {
  readonly services: Context.Context<never>
}

/** The attempt whose commit the current fiber runs, if any. */
export const InCommit = Context.Reference<Attempt | undefined>("effect-tool-executor/execution/Attempt/InCommit", {
  defaultValue: () => undefined
})

/** One execution of a handler. */
export class Attempt {
  /** The phase of its call. */
  get _tag(): "Running" {
    return "Running"
  }

  /** How often the handler was started; more than 1 after automatic retries. */
  number = 0
  /** Commits that landed before the end. */
  commits = 0
  private phase: "running" | "ending" | "settled" = "running"
  /** An end that waits for open commits, or for the start to return. */
  private pending: End | undefined
  private fiber: Fiber.Fiber<unknown, unknown> | undefined
  private surroundings: Surroundings | undefined
  /** The encoded output, once there is one. */
  value: unknown
  /** The invisible text that its result holds or held. */
  unseen: Unseen.Unseen | undefined
  /** The handler returned: a later failure concerns its output. */
  private returned = false
  private readonly host: Host
  private readonly call: Attempted
  private readonly tool: RegisteredTool
  private readonly time: TimeLimit
  /** Its commits. */
  private fence: Fence = noFence
  /** State of a large output, or of one with files. */
  private large: Large = noLarge
  /** Listeners for its end. */
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

  /** Another process may own the call or its reservation by now. */
  get isLost(): boolean {
    return this.fence.isLost
  }

  lose(): void {
    this.fence = { ...this.fence, isLost: true }
  }

  /** Adds a check that runs before each commit and ends the attempt if it may be lost. Earlier checks run first. */
  beforeCommits(lapses: () => Effect.Effect<void> | undefined): void {
    const { lapses: before } = this.fence
    this.fence = { ...this.fence, lapses: () => before?.() ?? lapses() }
  }

  /** Reports and writes are too late from now on. */
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

  /** A request is pending: the limits are paused. */
  get isPaused(): boolean {
    return this.time.isPaused
  }

  /** The handler waits for nothing but approvals of calls that it makes. */
  get rests(): boolean {
    return this.phase === "running" && this.pending === undefined && this.ends.isWaiting?.() === true
  }

  waits(isWaiting: () => boolean): void {
    this.ends = { ...this.ends, isWaiting }
  }

  /** Pauses the limits while a request is pending, until each `pause` has its `resume`. */
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

  /** Starts the handler, in its own fiber unless it finishes synchronously. The attempt may have ended on return. */
  start(params: unknown, surroundings: Surroundings): void {
    this.surroundings = surroundings
    const handled = this.tool.retry === undefined ? this.handle(params) : this.retried(params)
    // a handler that finished synchronously needs no fiber
    const done = exitOf(handled)
    if (done !== undefined) return this.onHandled(done)
    const fiber = Effect.runForkWith(this.context)(handled)
    this.fiber = fiber
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return this.onHandled(exit)
    fiber.addObserver((late) => this.onHandled(late))
    // a handler may cancel its own call before it first waits
    if (this.pending !== undefined) return this.stopNow(this.pending)
    this.watch()
  }

  /** Encodes what the handler returned: here if that needs no wait, so that the handler's fiber does nothing else. */
  private onHandled(exit: Exit.Exit<unknown, unknown>): void {
    if (Exit.isFailure(exit) || this.isOver) return this.onExit(exit)
    const encoding = this.encoded(exit.value)
    const known = exitOf(encoding)
    if (known !== undefined) return this.onExit(known)
    const fiber = Effect.runForkWith(this.context)(encoding)
    this.fiber = fiber
    const encoded = fiber.pollUnsafe()
    if (encoded !== undefined) return this.onExit(encoded)
    fiber.addObserver((late) => this.onExit(late))
    if (this.pending !== undefined) return this.stopNow(this.pending)
    this.watch()
  }

  private handle(params: unknown): Effect.Effect<unknown, unknown> {
    const number = ++this.number
    this.call.began(number, this.time.limit.millis)
    try {
      const handled = this.tool.handler(params, this.surroundings!)
      // a fiber that is given something else than an Effect never exits, and nothing reports it
      if (!isEffect(handled)) return Effect.die(new TypeError("the handler gave no Effect"))
      return this.tool.retry === undefined ? handled : this.watched(handled, number)
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  /** Wraps an attempt that may be retried: reports its failure, and nests its spans under the attempt's own. */
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

  /** Encodes the output, and notes the tool's own content for the model. */
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

  /** Ends the attempt from outside. Waits for open commits, at most `commitMillis`. */
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

  /**
   * Runs the callback when the attempt ends, or immediately if it has ended. Returns a function that unregisters it.
   */
  atEnd(run: () => void): () => void {
    if (this.phase === "settled") {
      run()
      return () => {}
    }
    const { waiting = new Set() } = this.ends
    this.ends = { ...this.ends, waiting: waiting.add(run) }
    return () => void waiting.delete(run)
  }

  /** Ends the attempt because its write is refused. Nothing was written. */
  refuseWrite(error: unknown, why: string): void {
    this.stop(HandlerExit.failed(this.call, "handler", error, `"${this.tool.name}" failed: ${why}`))
  }

  /** Notes a report of the tool; returns false if it is too late. */
  report(): boolean {
    if (this.isOver) return false
    this.time.report()
    return true
  }

  /** Runs a write inside the fence; calls `onLate` instead if it is too late. */
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
    // a commit inside another one is part of it and must not be cut in half
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
        // interrupted already: it should end now; settle it if it ignores the interruption
        else if (this.pending !== undefined) this.after(0, () => this.isOver || this.settle(this.pending!))
      }))
  }

  private onExit(exit: Exit.Exit<unknown, unknown>): void {
    if (this.isOver) {
      HandlerExit.late(this.call, exit, this.context)
      this.surroundings = undefined
      return
    }
    // a commit in a fiber that the handler forked may outlive the handler: wait for it, too
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
    const end = HandlerExit.ofCause(this.call, exit.cause, { isResult, chars: host.outputRoom().chars, context })
    const seen = UnseenText.ofEnd(end, this.tool.name, this.tool.invisible ?? host.invisible)
    this.unseen = seen?.unseen
    this.settle(seen?.end ?? end)
  }

  private succeed(given: unknown): void {
    const { call, host } = this
    this.value = given
    let { large: { content } } = this
    let text: string
    try {
      text = content === undefined ? textOf(given) : ToolContent.textOf(content)
    } catch {
      return this.settle(HandlerExit.wrongResult(call, "its output is not JSON"))
    }
    const mode = this.tool.invisible ?? host.invisible
    this.unseen = UnseenText.inResult(given, text, content)
    if (this.unseen !== undefined && mode === "refuse") {
      return this.settle(HandlerExit.failed(call, "result", ...UnseenText.withheld(this.tool.name, this.unseen)))
    }
    if (this.unseen !== undefined && mode === "remove") {
      this.value = Unseen.withoutIn(given)
      text = Unseen.without(text)
      content = content && UnseenText.withoutInContent(content)
    }
    const { value } = this
    const applied = host.output.apply(value, text, host.outputRoom(), host, content)
    if ("_tag" in applied) return this.settle(HandlerExit.succeeded(call, applied))
    const [truncated, store] = applied
    if (this.tool.bounded) return this.settle(HandlerExit.succeeded(call, truncated))
    // the handler finished: neither a limit nor a cancellation ends the attempt any more
    this.phase = "ending"
    // hold this part of the budget so that other calls do not count on it
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
      // synchronous clean-up has finished by now
      if (fiber.pollUnsafe() === undefined) running = fiber
    }
    // waves may be long: release what is no longer needed
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
    // a report moved the deadline
    if (end === undefined) this.watch()
    else this.stop(end)
  }

  private after(millis: number, run: () => void): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(Effect.andThen(Effect.sleep(millis), Effect.sync(run)))
  }
}

/** Open commits of an attempt, and what blocks late ones. */
interface Fence {
  /** Number of open commits. */
  readonly open: number
  /** The handler's exit, held until open commits finish. */
  readonly exit?: Exit.Exit<unknown, unknown> | undefined
  /** Ends the wait for open commits. */
  readonly bound?: Fiber.Fiber<void>
  readonly lapses?: () => Effect.Effect<void> | undefined
  readonly isLost: boolean
}

/** As `Effect.isEffect`, which looks the property up in all kinds of objects at one place, and is slow for that. */
const isEffect = (it: unknown): boolean =>
  typeof it === "object" && it !== null && Effect.TypeId in it || Effect.isEffect(it)

interface Large {
  readonly content?: ToolContent.ToolContent
  readonly heldChars: number
}

interface Ends {
  readonly controller?: AbortController
  /** Whether the handler waits for nothing but approvals. */
  readonly isWaiting?: () => boolean
  readonly waiting?: Set<() => void> | undefined
}

const noFence: Fence = { open: 0, isLost: false }
const noLarge: Large = { heldChars: 0 }
const noEnds: Ends = {}
