/**
 * The calls of one wave: what happens to each from its dispatch to its outcome.
 *
 * Calls are plain objects that move by call-backs; the only fibers are those of
 * handlers. Which calls run when is the wave's to say.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { clip } from "../internal/clip.ts"
import * as Detached from "../internal/detached.ts"
import { type OutputPolicy, type Room, unbounded } from "../output/OutputPolicy.ts"
import type { WaveHistory } from "../policy/RuleHistory.ts"
import type { Grant } from "../store/Grant.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import * as ToolContent from "../ToolContent.ts"
import * as ToolContext from "../ToolContext.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type * as ToolOutcome from "../ToolOutcome.ts"
import { Attempt, type AttemptedCall, type End, type Host } from "./Attempt.ts"
import { CallState, type Owner } from "./CallState.ts"
import * as ConfirmedWrites from "./ConfirmedWrites.ts"
import { Dispatching } from "./Dispatching.ts"
import { denied, tooLate } from "./Ends.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import * as Forks from "./Forks.ts"
import { Ledger } from "./Ledger.ts"
import { LiveContext } from "./LiveContext.ts"
import { linger } from "./Orphans.ts"
import * as Ports from "./Ports.ts"
import { Principal } from "./Principal.ts"
import { Questions } from "./Questions.ts"
import type { Received } from "./Received.ts"
import type { Settings } from "./Settings.ts"
import * as SharedOutcome from "./SharedOutcome.ts"
import * as Stages from "./Stages.ts"
import { type Stoppable, StopPlace } from "./StopPlace.ts"
import * as Targets from "./Targets.ts"
import { type Restore, Waits } from "./Waits.ts"
import { WaveEvents } from "./WaveEvents.ts"

/**
 * Who is told that a call has come to its end.
 *
 * @category models
 * @since 0.1.0
 */
export interface Watcher {
  /** A person is asked. */
  readonly asked: () => void
  /** A call has its outcome; its permits are still to be given back. */
  readonly settled: (call: CallState) => void
  /** Permits were given back, or a handler that outlived its outcome has ended. */
  readonly freed: () => void
}

/**
 * The calls of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Calls implements Owner, Host, Stoppable {
  readonly all: ReadonlyArray<CallState>
  /** The agent that makes them. */
  readonly agent: CallState["agent"]
  readonly clock: Clock.Clock
  /** What rules remember of the wave. */
  readonly history: WaveHistory
  unsettled: number
  /** Handlers that outlived their outcome. */
  lingering = 0
  private readonly engine: Engine
  private readonly process: ProcessState
  private readonly settings: Settings
  private readonly watcher: Watcher
  private readonly context: Context.Context<never>
  readonly ledger: Ledger
  readonly events: WaveEvents
  private readonly contexts = new Map<RegisteredTool, Context.Context<never>>()
  readonly waits: Waits
  readonly questions: Questions
  readonly dispatching: Dispatching
  /** The handler that makes the calls. */
  readonly caller: LiveContext | undefined
  /** In stop mode: where the wave ends, or the step that it belongs to. */
  readonly stop: StopPlace

  constructor(
    engine: Engine,
    process: ProcessState,
    wave: ReadonlyArray<Received>,
    settings: Settings,
    context: Context.Context<never>,
    restore: Restore,
    watcher: Watcher
  ) {
    this.engine = engine
    this.process = process
    this.settings = settings
    this.watcher = watcher
    const { principal } = engine
    this.context = Context.get(context, Principal) === principal ? context : Context.add(context, Principal, principal)
    this.ledger = new Ledger(engine.store, context, () => this.now(), () => Ports.patienceOf(process, this.now()))
    this.waits = new Waits(this.context, restore)
    this.questions = new Questions(engine, process, this.ledger, this.waits, this)
    this.dispatching = new Dispatching(engine, process, this)
    this.stop = settings.step?.stop ?? new StopPlace(engine.onExecutionError)
    this.stop.waves.add(this)
    this.clock = Context.get(context, Clock.Clock)
    const live = settings.caller instanceof LiveContext ? settings.caller : undefined
    const agent = this.agent = Forks.agentOf(engine, live?.engine)
    this.events = new WaveEvents(settings.hub, {
      agentPath: agent.agentPath,
      batch: process.batch.id,
      process: process.id,
      wave: ++process.lastWave
    })
    this.caller = live
    // what a handler does after its call has its outcome comes too late
    const late: End | undefined = live?.isOver === true
      ? { _tag: "Cancelled", started: false, reason: tooLate }
      : undefined
    const now = this.now()
    this.history = process.history.begin()
    this.all = wave.map((call, index) =>
      new CallState(
        this,
        index,
        call,
        now,
        late === undefined ? live?.call : undefined,
        agent,
        this.history,
        settings.told
      )
    )
    if (late !== undefined) { for (const call of this.all) call.decided = late }
    this.unsettled = this.all.length
    if (!this.events.isObserved) return
    for (const { call, index } of this.all) {
      const params = call.malformed?.text ?? call.params
      this.events.publish({ _tag: "ToolCallQueued", callId: call.id, tool: call.name, index, at: now, params })
    }
  }

  approved(call: CallState, edited: { readonly params: unknown } | undefined): void {
    this.dispatching.approved(call, edited)
  }

  redispatch(call: CallState): void {
    this.dispatching.redispatch(call)
  }

  deadlock(call: CallState, waitsFor: string): void {
    this.end(call, { _tag: "Denied", reason: { _tag: "ReentryRefused", waitsFor } })
  }

  end(call: CallState, end: End): void {
    if (call.attempt === undefined) this.settle(call, end)
    else call.attempt.stop(end)
  }

  /** The call holds all its permits. */
  start(call: CallState): void {
    if (call.outcome !== undefined) return
    const { grant } = call
    // it may have been taken back elsewhere; one that has expired since is there as of the time it was given
    const known = grant === undefined ? undefined : this.ledger.grants(this.engine.principal, grant.grantedAt)
    const found = Targets.findAgain(this.engine, this.process, call, this.now())
    if (found === undefined && (known === undefined || !("wait" in known))) return this.recheck(call, known)
    let grants: ReadonlyArray<Grant> | StateStoreError | undefined
    const told = known === undefined || !("wait" in known) ? Effect.succeed(known) : known.wait
    const looked = Effect.all([found ?? Effect.void, Effect.map(told, (it) => void (grants = it))], { concurrency: 2 })
    this.detach(Effect.uninterruptible(
      Effect.map(this.waits.wait([call], Effect.asVoid(looked)), () => this.recheck(call, grants))
    ))
  }

  private recheck(call: CallState, grants?: ReadonlyArray<Grant> | StateStoreError): void {
    if (call.outcome !== undefined) return
    const end = this.endAtStart(call, grants)
    if (end !== undefined) return this.settle(call, end)
    if (call.tool!.readOnly) return this.run(call, this.now())
    // what was read before is stale; a store that does not answer at once is waited for, and may have taken long
    let isLater = false
    this.ledger.mutated(this.engine.principal, () => {
      const end = isLater && call.outcome === undefined ? this.endAtStart(call, grants) : undefined
      if (end === undefined) this.runNoted(call, grants)
      else this.settle(call, end)
    })
    isLater = true
  }

  private endAtStart(call: CallState, grants: ReadonlyArray<Grant> | StateStoreError | undefined): End | undefined {
    return Stages.recheck(this.engine, this.process, call, grants, this.now())
  }

  /** What cannot be undone is noted before it happens. */
  private runNoted(call: CallState, grants: ReadonlyArray<Grant> | StateStoreError | undefined): void {
    if (call.outcome !== undefined) return
    const note = ConfirmedWrites.note(this.engine, this.process, call)
    if (note === undefined) return this.run(call, this.now())
    Detached.start(note, this.context, Ports.patienceOf(this.process, this.now()), () => {
      if (call.outcome !== undefined) return this.takeBack(call)
      const end = this.endAtStart(call, grants)
      if (end === undefined) this.run(call, this.now())
      else this.settle(call, end)
    })
  }

  /** Of a call that changed nothing unknown there is nothing to tell. */
  private takeBack(call: CallState): void {
    const unneeded = ConfirmedWrites.takeBack(this.engine, call)
    if (unneeded !== undefined) this.detach(unneeded)
  }

  answered(): void {
    this.dispatching.answered()
  }

  asked(): void {
    this.watcher.asked()
  }

  private run(call: CallState, now: number): void {
    if (call.outcome !== undefined) return
    const { engine, events } = this
    const tool = call.tool!
    call.startedAt = now
    const limit = this.process.budget.limit(this.limitOf(tool), now)
    const attempt = new Attempt(this, call, tool, now, limit)
    call.attempt = attempt
    this.process.budget.execute(1, now)
    if (events.isObserved) {
      const { id: callId } = call.call
      const of = { callId, tool: tool.name, index: call.index, at: now }
      events.publish({ _tag: "ToolCallStart", ...of, attempt: 1, limitMillis: limit.millis })
    }
    const context = new LiveContext(call, attempt, engine, this.process, this)
    attempt.start(call.gateCall!.params, context, Context.add(this.contextOf(tool), ToolContext.ToolContext, context))
  }

  ended(call: AttemptedCall, end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined): void {
    this.settle(call as CallState, end, fiber)
  }

  limitOf(tool: RegisteredTool): number {
    return Math.min(this.toolLimit(tool), this.settings.timeoutMillis)
  }

  outputRoom(): Room {
    return this.settings.wholeOutputs ? unbounded : this.engine.output.room(this.process.batch)
  }

  executing(more: number, now: number): void {
    this.process.budget.execute(more, now)
  }

  hold(): number {
    const limit = this.outputRoom().chars
    if (limit === Infinity) return 0
    this.process.batch.outputChars += limit
    return limit
  }

  storeMillis(now: number): number {
    return this.process.budget.limit(Ports.patience, now).millis
  }

  get commitMillis(): number {
    return this.engine.commitMillis
  }

  get output(): OutputPolicy {
    return this.engine.output
  }

  get owner() {
    return { principal: this.engine.principal, batch: this.process.batch.id }
  }

  get readOn(): string {
    return this.engine.handlers.current().has("read_artifact")
      ? "Read on with read_artifact."
      : "Ask for a smaller part to see more."
  }

  /** Gives the call its outcome, once: marks, records, gives back, tells. */
  settle(call: CallState, end: End, fiber?: Fiber.Fiber<unknown, unknown>): void {
    if (call.outcome !== undefined) return
    const now = this.now()
    const outcome = call.conclude(this.fitted(call, end), now)
    call.outcome = outcome
    if (call.attempt?.isPaused === false) this.process.budget.execute(-1, now)
    this.questions.withdraw(call)
    // what later calls are judged by is there before a permit goes to one of them
    this.mark(call, outcome)
    const behind = this.stopAt(outcome)
    const { reservation } = call
    if (reservation === undefined) this.conclude(call, outcome, fiber)
    else {
      if (this.engine.leaders.size > 0) this.engine.leaders.delete(reservation.id)
      const settlement = Stages.settlement(this.engine, call, outcome, fiber !== undefined)
      this.ledger.settle(reservation, settlement, now, () => this.conclude(call, outcome, fiber))
    }
    for (const [wave, calls] of behind) wave.skipBehind(calls)
  }

  /**
   * Where an outcome ends the wave, what is behind its place and has not started
   * is decided, whatever it waits for: what is freed now starts none of it.
   */
  private stopAt(
    outcome: ToolOutcome.ToolOutcome
  ): ReadonlyArray<readonly [wave: Stoppable, behind: ReadonlyArray<CallState>]> {
    const { index: before } = this.stop
    if (!this.stop.note(outcome, this.offset + outcome.index)) return none
    return Array.from(this.stop.waves, (wave) => [wave, wave.decideBehind(this.stop.index + 1, before)] as const)
  }

  /** Its place in the step, or that of the first call of the wave. */
  private get offset(): number {
    return this.settings.step?.index ?? 0
  }

  decideBehind(from: number, to: number): ReadonlyArray<CallState> {
    const behind = this.all.slice(Math.max(0, from - this.offset), Math.max(0, to - this.offset)).filter((call) =>
      call.outcome === undefined && call.attempt === undefined
    )
    for (const call of behind) call.decided = this.stop.skipped
    return behind
  }

  skipBehind(calls: ReadonlyArray<CallState>): void {
    for (const call of calls) this.settle(call, call.decided!)
    this.waits.endDecided()
  }

  /** An end that another call shares, with an output that fits this one. */
  private fitted(call: CallState, end: End): End {
    if (end._tag !== "Succeeded" || end.replayOf === undefined) return end
    const { attempt, gateCall } = call.joined instanceof CallState ? call.joined : call
    const isForeign = attempt !== undefined && gateCall !== undefined &&
      (!call.told || gateCall.batch !== this.process.batch.id)
    return { ...end, output: SharedOutcome.fit(end.output, this.outputRoom(), isForeign ? attempt : undefined) }
  }

  private mark(call: CallState, outcome: ToolOutcome.ToolOutcome): void {
    if (outcome.startedAt === undefined && call.counted) this.process.budget.giveBack()
    if (outcome._tag === "Succeeded") {
      if (!this.settings.wholeOutputs) {
        this.process.batch.outputChars += outcome.output.modelText.length - (call.attempt?.heldChars ?? 0)
        this.process.batch.fileChars += ToolContent.fileChars(outcome.output.content)
      }
      this.remember(call, outcome.output)
    }
    const ran = outcome.startedAt !== undefined
    if (call.note !== undefined) this.takeBack(call)
    if ((outcome._tag === "TimedOut" || outcome._tag === "Failed") && !outcome.retryable && ran) {
      const what = outcome._tag === "TimedOut" ? "timed out" : "failed"
      this.process.blocked.set(
        outcome.tool,
        `call ${clip(outcome.callId, 100)} ${what} and is not worth a retry in this turn`
      )
    }
  }

  /** Notes a success for the rules, with the whole output even where only a part of it was kept. */
  private remember(call: CallState, output: ToolOutcome.Output): void {
    const ran = call.attempt ?? (call.joined instanceof CallState ? call.joined.attempt : undefined)
    const value = ran !== undefined ? ran.value : output._tag === "Artifact" ? undefined : output.value
    this.process.history.record(this.engine.rules.current(), call.history, call.index, call.call.name, value)
  }

  private conclude(
    call: CallState,
    outcome: ToolOutcome.ToolOutcome,
    fiber: Fiber.Fiber<unknown, unknown> | undefined
  ): void {
    if (call.attempt !== undefined) this.written(call)
    if (fiber !== undefined) this.lingers(call, fiber)
    if (this.events.isObserved) {
      const { callId, index, tool } = outcome
      const { dropped } = call
      this.events.publish({ _tag: "ToolCallComplete", callId, tool, index, at: this.now(), outcome, dropped })
    }
    for (const follower of call.followers ?? none) {
      if (follower.outcome !== undefined) continue
      if (!this.isShared(call, outcome, follower)) follower.owner.redispatch(follower)
      else {
        const reason = Targets.changedBy(this.engine, follower, call, this.now())
        const end = denied(reason) ?? SharedOutcome.join(outcome, follower.heartbeat)
        follower.owner.settle(follower, end)
      }
    }
    this.unsettled--
    this.watcher.settled(call)
    // permits last: they start the next call, which must find everything above done
    if (fiber === undefined) this.engine.pools.leave(call)
    else this.engine.pools.releasePermits(call)
    const { afterwards } = call
    call.forget()
    this.watcher.freed()
    if (afterwards !== undefined) { for (const run of afterwards) run() }
  }

  /** Who joined shares an execution, not who or what stopped this call alone. */
  private isShared(call: CallState, outcome: ToolOutcome.ToolOutcome, follower: CallState): boolean {
    if (outcome.startedAt === undefined || outcome._tag === "Cancelled") return false
    if (outcome._tag !== "TimedOut" || follower.owner === this) return true
    switch (outcome.which) {
      case "turn":
        return follower.gateCall!.process === this.process.id
      case "tool":
        return outcome.limitMillis >= this.toolLimit(call.tool!)
      case "idle":
        return true
    }
  }

  /** Milliseconds that calls of the tool have, whoever makes them. */
  private toolLimit(tool: RegisteredTool): number {
    return tool.timeoutMillis ?? this.engine.executionMillis
  }

  /** What was read while a mutating call ran is stale, too. */
  private written(call: CallState): void {
    if (!call.tool!.readOnly) this.ledger.mutated(this.engine.principal)
  }

  /** The handler still runs: its resource keys and its dedupe key stay until it ends. */
  private lingers(call: CallState, fiber: Fiber.Fiber<unknown, unknown>): void {
    this.lingering++
    const { reservation } = call
    linger(this.engine, call, fiber, this, () => {
      this.lingering--
      this.engine.pools.leave(call)
      if (reservation !== undefined) this.ledger.release(reservation)
      this.written(call)
      this.watcher.freed()
    })
  }

  /** Ends those that have no outcome yet; one whose turn has not come is only marked. */
  cancel(calls: ReadonlyArray<CallState>, reason: string): void {
    const end: End = { _tag: "Cancelled", started: false, reason }
    // all are marked before the first is ended: what it frees must start none of the others
    for (const call of calls) if (call.attempt === undefined) call.decided ??= end
    for (const call of calls) {
      if (call.outcome !== undefined) continue
      if (call.attempt !== undefined) call.attempt.stop({ ...end, started: true })
      else if (
        call.state !== "new" || call.joined !== undefined || call.asking !== undefined || call.isDeferred === true
      ) {
        this.settle(call, call.decided ?? end)
      }
    }
    this.waits.endDecided()
  }

  private contextOf(tool: RegisteredTool): Context.Context<never> {
    let context = this.contexts.get(tool)
    if (context === undefined) this.contexts.set(tool, context = Context.merge(tool.context, this.context))
    return context
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Runs an effect beside the wave. */
  detach(effect: Effect.Effect<void>): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(effect)
  }
}

// Utilities

const none: ReadonlyArray<never> = []
