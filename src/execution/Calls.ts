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
import * as Detached from "../internal/detached.ts"
import type { OutputPolicy } from "../output/OutputPolicy.ts"
import * as Dedupe from "../policy/Dedupe.ts"
import type { WaveHistory } from "../policy/RuleHistory.ts"
import { type Answer, type Refused, type Reservation, StateStoreError } from "../store/StateStore.ts"
import type { ToolCall } from "../ToolCall.ts"
import { ToolContext } from "../ToolContext.ts"
import type { ToolEvent } from "../ToolEvent.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type * as ToolOutcome from "../ToolOutcome.ts"
import { Attempt, type AttemptedCall, type End, type Host } from "./Attempt.ts"
import { CallState, type Owner } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { EventHub } from "./EventHub.ts"
import { LiveContext } from "./LiveContext.ts"
import * as Stages from "./Stages.ts"

/**
 * What a caller may say of one wave.
 *
 * @category options
 * @since 0.1.0
 */
export interface Settings {
  /** Milliseconds that each call may run at most; the tool's own limit still holds. */
  readonly timeoutMillis: number
  /** The host needs whole outputs: nothing is cut or stored. */
  readonly wholeOutputs: boolean
  /** Who is told: the process's observers, and the wave's own reader if it has one. */
  readonly hub: EventHub
}

/**
 * Makes an effect as interruptible as the caller is.
 *
 * @category models
 * @since 0.1.0
 */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Who is told that a call has come to its end.
 *
 * @category models
 * @since 0.1.0
 */
export interface Watcher {
  /** A call has its outcome; its permits are still to be given back. */
  readonly settled: () => void
  /** Permits were given back, or a handler that outlived its outcome has ended. */
  readonly freed: () => void
}

/**
 * The calls of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Calls implements Owner, Host {
  readonly all: ReadonlyArray<CallState>
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
  /** As interruptible as the caller is, for where the wave waits. */
  private readonly restore: Restore
  private readonly contexts = new Map<RegisteredTool, Context.Context<never>>()
  /** What calls that do not run yet wait for. */
  private readonly waits = new Set<{ readonly calls: ReadonlyArray<CallState>; readonly stop: () => void }>()
  /** In stop mode: calls behind this place do not start. */
  private stopAt = Infinity
  private stoppedBy = ""

  constructor(
    engine: Engine,
    process: ProcessState,
    wave: ReadonlyArray<ToolCall>,
    settings: Settings,
    context: Context.Context<never>,
    restore: Restore,
    watcher: Watcher
  ) {
    this.engine = engine
    this.process = process
    this.settings = settings
    this.watcher = watcher
    this.context = context
    this.restore = restore
    this.clock = Context.get(context, Clock.Clock)
    const caller = Context.get(context, ToolContext)
    const parent = caller instanceof LiveContext && caller.call.outcome === undefined ? caller.call : undefined
    const now = this.now()
    this.history = process.history.begin()
    this.all = wave.map((call, index) => new CallState(this, index, call, now, parent, this.history))
    this.unsettled = this.all.length
    if (!settings.hub.isObserved) return
    for (const { call, index } of this.all) {
      const params = call.malformed?.text ?? call.params
      this.publish({ _tag: "ToolCallQueued", callId: call.id, tool: call.name, index, at: now, params })
    }
  }

  /** Dispatches a call, at once or by an effect where something has to be waited for; true if it goes on to its permits. */
  dispatch(call: CallState, now = this.now()): boolean | Effect.Effect<boolean> {
    const { engine, process } = this
    const claims = Stages.claims(engine, process, call, now)
    if ("_tag" in claims) return this.dispatched(call, { _tag: "Decided", end: claims })
    const answer = claims.length === 0 ? undefined : this.ask(() => engine.store.reserve(call.call.id, claims, now))
    const go = (reserved: Reservation | Refused | StateStoreError | undefined) =>
      this.dispatched(call, Stages.reserved(engine, process, call, reserved))
    if (!Effect.isEffect(answer)) return go(answer)
    const failed = (cause: unknown) => Effect.succeed(new StateStoreError({ operation: "reserve", cause }))
    return Effect.flatMap(Effect.catchCause(answer, failed), (it) => {
      const admitted = go(it)
      return typeof admitted === "boolean" ? Effect.succeed(admitted) : admitted
    })
  }

  /** What the store answers; a driver that throws has failed like one that says so. */
  private ask<A>(question: () => Answer<A>): Answer<A> {
    try {
      return question()
    } catch (cause) {
      return Effect.die(cause)
    }
  }

  private dispatched(call: CallState, it: Stages.Dispatched): boolean | Effect.Effect<boolean> {
    // it may have been cancelled while it was dispatched anew: then what it has reserved goes back
    if (call.outcome !== undefined) return this.giveBack(call)
    switch (it._tag) {
      case "Admitted": {
        const resources = Stages.resources(call)
        if (!Effect.isEffect(resources)) return this.admit(call, resources)
        return Effect.map(
          this.wait(
            [call],
            Effect.map(resources, (found) => {
              call.resources = found
            })
          ),
          () => this.admit(call, call.resources)
        )
      }
      case "Decided":
        this.settle(call, it.end)
        return false
      case "Joined":
        call.joined = it.leader
        ;(it.leader.followers ??= []).push(call)
        this.engine.pools.checkJoin(call)
        return false
    }
  }

  private admit(call: CallState, resources: ReadonlyArray<string>): boolean {
    call.resources = resources
    if (call.decided !== undefined) this.settle(call, call.decided)
    return call.outcome === undefined
  }

  /** Dispatches a call anew whose leader never started. */
  redispatch(call: CallState): void {
    call.joined = undefined
    const enter = (admitted: boolean) => {
      if (admitted) this.engine.pools.enter([call])
    }
    const admitted = this.dispatch(call)
    if (typeof admitted === "boolean") enter(admitted)
    else this.detach(Effect.uninterruptible(Effect.map(admitted, enter)))
  }

  deadlock(call: CallState, waitsFor: string): void {
    this.settle(call, { _tag: "Denied", reason: { _tag: "ReentryRefused", waitsFor } })
  }

  /** The call holds all its permits. */
  start(call: CallState): void {
    if (call.outcome !== undefined) return
    const now = this.now()
    const end = this.isBehindStop(call) ? this.skipped() : Stages.recheck(this.engine, this.process, call, now)
    if (end !== undefined) return this.settle(call, end)
    const { engine, settings } = this
    const tool = call.tool!
    call.startedAt = now
    if (tool.class !== "ReadOnly") this.record(() => engine.store.mutated(engine.principal))
    const limit = this.process.budget.limit(
      Math.min(tool.timeoutMillis ?? engine.executionMillis, settings.timeoutMillis),
      now
    )
    const attempt = new Attempt(this, call, tool, now, limit)
    call.attempt = attempt
    if (settings.hub.isObserved) {
      const { id: callId } = call.call
      const of = { callId, tool: tool.name, index: call.index, at: now }
      this.publish({ _tag: "ToolCallStart", ...of, attempt: 1, limitMillis: limit.millis })
    }
    const context = new LiveContext(call, attempt, engine, this.process, settings.hub, this.clock)
    attempt.start(call.gateCall!.params, context, Context.add(this.contextOf(tool), ToolContext, context))
  }

  ended(call: AttemptedCall, end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined): void {
    this.settle(call as CallState, end, fiber)
  }

  outputLimit(): number {
    return this.settings.wholeOutputs ? Infinity : this.engine.output.limit(this.process.batch.outputChars)
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
    const outcome = call.conclude(end, now)
    call.outcome = outcome
    // what later calls are judged by is there before a permit goes to one of them
    this.mark(call, outcome)
    const { reservation } = call
    if (reservation === undefined) return this.conclude(call, outcome, fiber)
    if (this.engine.leaders.size > 0) this.engine.leaders.delete(reservation.id)
    const settlement = Dedupe.settlement(this.engine.dedupe, outcome, fiber !== undefined)
    this.record(() => this.engine.store.settle(reservation, settlement, now), () => this.conclude(call, outcome, fiber))
  }

  private mark(call: CallState, outcome: ToolOutcome.ToolOutcome): void {
    if (outcome.startedAt === undefined && call.counted) this.process.budget.giveBack()
    if (outcome._tag === "Succeeded") {
      if (!this.settings.wholeOutputs) this.process.batch.outputChars += outcome.output.modelText.length
      this.remember(call, outcome.output)
    }
    if ((outcome._tag === "TimedOut" || outcome._tag === "Failed") && !outcome.retryable && !outcome.replayOf) {
      const what = outcome._tag === "TimedOut" ? "timed out" : "failed"
      this.process.blocked.set(outcome.tool, `call ${outcome.callId} ${what} and is not worth a retry in this turn`)
    }
    const isError = outcome._tag === "Denied" || outcome._tag === "TimedOut"
    if (isError && this.engine.onExecutionError === "stop" && call.index < this.stopAt) {
      this.stopAt = call.index
      this.stoppedBy = `call ${outcome.callId} (${outcome.tool}) ${
        outcome._tag === "Denied" ? "was refused" : "timed out"
      }`
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
    if (fiber !== undefined) this.lingers(call, fiber)
    if (this.settings.hub.isObserved) {
      const { callId, index, tool } = outcome
      const { dropped } = call
      this.publish({ _tag: "ToolCallComplete", callId, tool, index, at: this.now(), outcome, dropped })
    }
    for (const follower of call.followers ?? []) {
      if (follower.outcome !== undefined) continue
      if (outcome.startedAt === undefined) follower.owner.redispatch(follower)
      else follower.owner.settle(follower, CallState.join(outcome, follower.heartbeat))
    }
    this.unsettled--
    this.watcher.settled()
    // permits last: they start the next call, which must find everything above done
    if (fiber === undefined) this.engine.pools.leave(call)
    else this.engine.pools.releasePermits(call)
    call.forget()
    this.watcher.freed()
  }

  /** The handler still runs: its resource keys and its dedupe key stay until it ends. */
  private lingers(call: CallState, fiber: Fiber.Fiber<unknown, unknown>): void {
    this.lingering++
    const { reservation } = call
    const { id: callId, name: tool } = call.call
    // who waits for its keys waits for its clean-up, but not for ever
    const patience = call.resources.length === 0 ? undefined : this.detach(Effect.andThen(
      Effect.sleep(this.engine.graceMillis),
      Effect.sync(() =>
        this.engine.pools.block(call, `call ${callId} of "${tool}" was stopped but still runs, and both touch the same`)
      )
    ))
    this.engine.orphans.add(fiber, { callId, tool, since: this.now() }, () => {
      this.lingering--
      patience?.interruptUnsafe()
      this.engine.pools.leave(call)
      if (reservation !== undefined) this.record(() => this.engine.store.release(reservation, this.now()))
      this.watcher.freed()
    })
    this.detach(Effect.andThen(Effect.yieldNow, Effect.sync(() => this.engine.orphans.confirm(fiber))))
  }

  /** Ends those that have no outcome yet; one whose turn has not come is only marked. */
  cancel(calls: ReadonlyArray<CallState>, reason: string): void {
    const end: End = { _tag: "Cancelled", started: false, reason }
    // all are marked before the first is ended: what it frees must start none of the others
    for (const call of calls) if (call.attempt === undefined) call.decided ??= end
    for (const call of calls) {
      if (call.outcome !== undefined) continue
      if (call.attempt !== undefined) call.attempt.stop({ ...end, started: true })
      else if (call.state !== "new" || call.joined !== undefined) this.settle(call, call.decided ?? end)
    }
    for (const wait of this.waits) if (wait.calls.every((call) => call.decided !== undefined)) wait.stop()
  }

  /**
   * Waits for an effect on behalf of calls that do not run yet. Cancelling them
   * ends the wait, and nobody waits for an effect that is deaf.
   */
  wait(calls: ReadonlyArray<CallState>, effect: Effect.Effect<void>): Effect.Effect<void> {
    return this.restore(Effect.callback<void>((resume) => {
      const running: { wait?: Detached.Wait } = {}
      const entry = {
        calls,
        stop: () => {
          this.waits.delete(entry)
          running.wait?.stop()
          resume(Effect.void)
        }
      }
      this.waits.add(entry)
      // it may end, and thus be taken off the list, before it is noted
      running.wait = Detached.start(effect, this.context, Infinity, entry.stop)
      return Effect.sync(entry.stop)
    }))
  }

  private contextOf(tool: RegisteredTool): Context.Context<never> {
    let context = this.contexts.get(tool)
    if (context === undefined) this.contexts.set(tool, context = Context.merge(tool.context, this.context))
    return context
  }

  /** In stop mode: an earlier call has ended the wave. */
  isBehindStop(call: CallState): boolean {
    return call.index > this.stopAt
  }

  skipped(): End {
    return { _tag: "Skipped", because: this.stoppedBy }
  }

  private giveBack(call: CallState): false {
    const { reservation } = call
    if (reservation === undefined) return false
    this.engine.leaders.delete(reservation.id)
    const nothing = { started: false, key: "release", windowMillis: 0, value: undefined } as const
    this.record(() => this.engine.store.settle(reservation, nothing, this.now()))
    return false
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  publish(event: ToolEvent): void {
    this.settings.hub.publish(event)
  }

  /** Notes something in the store; `then` when it is noted, at once if the store answers at once. */
  private record(question: () => Answer<void>, then?: () => void): void {
    const answer = this.ask(question)
    if (!Effect.isEffect(answer)) return then?.()
    // the outcome stands: what the store could not note is for the operator to see
    const noted = Effect.catchCause(answer, (cause) => Effect.logWarning("StateStore failed", cause))
    this.detach(noted).addObserver(() => then?.())
  }

  /** Runs an effect beside the wave. */
  detach(effect: Effect.Effect<void>): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(effect)
  }
}
