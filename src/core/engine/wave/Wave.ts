/**
 * A wave: its calls arrive, are split into runs, and run one run after another. It always ends with one outcome per
 * call.
 *
 * Its main loop runs in the caller's fiber.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { exitOf, isDone } from "../../../internal/exitOf.ts"
import * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import * as Agents from "../call/Agents.ts"
import { arrive } from "../call/Arrive.ts"
import * as ShadowLook from "../call/arrive/ShadowLook.ts"
import type { Agent, Call } from "../call/Call.ts"
import { phases } from "../call/Call.ts"
import { dispatch, type Dispatching, guard } from "../call/Dispatch.ts"
import { Driver } from "../call/Driver.ts"
import type { Engine } from "../call/Engine.ts"
import { revoked } from "../call/start/Recheck.ts"
import { type Watcher, WaveHost } from "../call/WaveHost.ts"
import type { WaveOptions } from "../call/WaveOptions.ts"
import * as WaveRuns from "../call/WaveRuns.ts"
import type { Restore } from "../call/WaveWaits.ts"
import { cancelled, tooLate } from "../data/CallEnd.ts"
import type { Received } from "../data/Received.ts"
import * as WaveRecords from "../resume/WaveRecords.ts"
import { batchOver, keep, type ProcessState, type UnderWay } from "../state/State.ts"
import * as UpfrontApprovals from "./UpfrontApprovals.ts"

/** How many calls are started before the loop yields to other fibers. */
const chunk = 1_000

const none: ReadonlyArray<Call> = []

type Next = Pick<Dispatching, "call" | "next">

/** A wave under way. */
export class Wave implements Watcher, UnderWay {
  private readonly wave: WaveHost
  private readonly driver: Driver
  private readonly restore: Restore
  /** Calls of the current run without an outcome. */
  private runPending = 0
  /** Place of the last call of the current run. Later calls may be settled, too, and do not count. */
  private runLast = -1
  private runDone: (() => void) | undefined
  private quiet: (() => void) | undefined
  /** Calls that are to end once they are on record. */
  private dropped: ReadonlyArray<Call> = none
  private deadlineFiber: Fiber.Fiber<void> | undefined

  private constructor(
    make: (watcher: Watcher) => WaveHost,
    agent: Agent,
    received: ReadonlyArray<Received>,
    restore: Restore
  ) {
    this.restore = restore
    this.wave = make(this)
    this.driver = new Driver(this.wave, agent, received)
  }

  /** Runs a wave. Interruption ends every call first, within a time limit. */
  static run(
    engine: Engine,
    process: ProcessState,
    received: ReadonlyArray<Received>,
    options: WaveOptions
  ): Effect.Effect<ToolOutcome.WaveResult> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.contextWith((context) => {
        const caller = Agents.callerIn(context, options.handle)
        const agent = Agents.agentOf(engine, caller?.engine)
        return new Wave(
          (watcher) => new WaveHost(engine, process, options, watcher, caller, agent.agentPath, context, restore),
          agent,
          received,
          restore
        ).run()
      })
    )
  }

  private run(): Effect.Effect<ToolOutcome.WaveResult> {
    const { caller, engine, process } = this.wave
    process.waves.add(this)
    if (process.waves.size === 1) keep(process)
    // a wave that a handler started and did not wait for ends with the handler's call
    const leave = caller?.atEnd(() => this.cancel(tooLate))
    const body = Wave.begin(this)
    const isOver = exitOf(body)?._tag === "Success"
    // keeps the batch in use while rules count in it, unless a reservation already did
    const isHeld = engine.rules.current().countsInBatches && !(isOver && this.wave.tally.hasReserved)
    const letGo = isHeld ? engine.store.hold(process.batch.key) : undefined
    const end = (): ToolOutcome.WaveResult => {
      leave?.()
      if (letGo !== undefined) this.wave.detach(letGo)
      return this.end()
    }
    if (isOver) return Effect.succeed(end())
    return Effect.matchCauseEffect(body, {
      onSuccess: () => Effect.sync(end),
      onFailure: (cause) =>
        Effect.andThen(
          this.abort(),
          Effect.suspend(() => {
            end()
            return Effect.failCause(cause)
          })
        )
    })
  }

  /** Ends every call that has no outcome yet; the wave then ends normally. */
  cancel(reason: string): void {
    this.driver.cancel(this.wave.calls, reason)
  }

  /** Ends every call immediately, even those whose turn has not come. */
  close(reason: string): void {
    const { driver, wave } = this
    driver.cancel(wave.calls, reason)
    for (const call of wave.calls) {
      // a call with a recorded end keeps that end
      const end = call.past === undefined ? undefined : call.decided
      if (call.phase._tag === "Arrived") driver.settle(call, end ?? cancelled(reason))
    }
  }

  /** Ends calls by their ids. Those on record end before their turn: a host that stops until then must not resume them. */
  drop(reason: string, isOf: (id: string) => boolean): void {
    const calls = this.wave.calls.filter((call) => isOf(call.call.id))
    this.driver.cancel(calls, reason)
    this.endDropped([...this.dropped, ...calls])
  }

  /** Ends those that are on record; the others once they are. */
  private endDropped(calls: ReadonlyArray<Call>): void {
    const open = calls.filter((call) => call.phase._tag === "Arrived" && call.past === undefined)
    this.dropped = open.filter((call) => call.record === undefined)
    for (const call of open) if (call.record !== undefined) this.driver.settle(call, call.decided!)
  }

  /** Whether a call that this grant let through has no outcome yet. */
  holds(grant: string): boolean {
    return this.wave.calls.some((call) => call.outcome === undefined && call.consent.grant?.id === grant)
  }

  /** Refuses calls that this grant let through and that have not started. */
  revoke(grant: string): void {
    const calls = this.wave.calls.filter((call) => call.consent.grant?.id === grant)
    if (calls.length > 0) this.driver.refuse(calls, (call) => revoked(call, call.consent.grant!))
  }

  /** Looks at every call, so that calls that need no approval pay nothing for it. */
  rests(): boolean {
    const { calls, tally, waits } = this.wave
    if (tally.lingering > 0) return false
    if (waits.isUpfront) return waits.isAsking
    // between two runs it does something itself
    if (this.runDone === undefined) return false
    const open = calls.filter((call) => !call.isSettled)
    // a call that has its outcome may still be stored
    return open.length === tally.unsettled && this.runPending > 0 && open.every((call) => this.driver.rests(call))
  }

  /** The turn's clock, which paused for approval requests, runs again. */
  resumed(): void {
    this.watchDeadline()
  }

  settled({ index }: Call): void {
    if (index <= this.runLast) this.runPending--
  }

  asked(): void {
    this.watchDeadline()
  }

  freed(): void {
    if (this.runPending === 0) this.runDone?.()
    this.quiet?.()
  }

  /** Most waves wait for nothing before their runs. */
  private static begin(it: Wave): Effect.Effect<void> {
    const { wave } = it
    const isPlain = wave.stop.index === Infinity && wave.options.resume === undefined &&
      wave.gates.arrive.length === 0 && wave.gates.guard.length === 0 && wave.engine.journal === undefined &&
      wave.early === undefined && wave.options.step === undefined &&
      !(wave.process.approval === "upfront" && wave.process.people !== undefined)
    if (!isPlain) return Wave.slowly(it)
    if (wave.tally.unsettled === 0) return Effect.void
    try {
      const arrived = arrive(wave)
      return isDone(arrived) ? it.runs(it.cut(), 0) : Effect.flatMap(arrived, () => it.runs(it.cut(), 0))
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  private static readonly slowly = Effect.fnUntracedEager((wave: Wave) => wave.body())

  // interruptible only where it waits for others, so that reservations are never lost
  private *body(): Effect.fn.Return<void> {
    const { driver, wave } = this
    // submitted after the place where its step ended
    if (wave.stop.index !== Infinity) driver.skipBehind(driver.decideBehind(wave.stop.index + 1, Infinity))
    if (wave.tally.unsettled === 0 && wave.options.resume === undefined) return
    // the host's gates may take time, and the turn's deadline holds meanwhile
    if (wave.gates.arrive.length > 0 || wave.gates.guard.length > 0) this.watchDeadline()
    const { journal } = wave.engine
    if (wave.options.resume !== undefined) yield* WaveRecords.goOn(wave, journal!)
    yield* arrive(wave)
    if (journal !== undefined) {
      yield* WaveRecords.begin(wave, journal)
      if (this.dropped.length > 0) this.endDropped(this.dropped)
    }
    if (wave.early !== undefined) ShadowLook.recorded(wave)
    if (wave.process.approval === "upfront" && wave.process.people !== undefined) {
      yield* UpfrontApprovals.ask(wave, this.cut())
    }
    const { step } = wave.options
    if (step !== undefined) yield* wave.waits.wait(wave.calls, step.turn(itemOf(wave.calls[0]!)))
    yield* this.runs(this.cut(), 0)
    // results go on record before they are reported
    if (wave.tally.isWritten) yield* this.restore(wave.engine.journal!.flush)
  }

  /** Executes the runs from a place on, one after another. */
  private runs(all: ReadonlyArray<ReadonlyArray<Call>>, from: number): Effect.Effect<void> {
    for (let at = from; at < all.length; at++) {
      const run = all[at]!
      if (this.wave.tally.hasSuspended) this.suspend(run)
      else {
        const executed = this.execute(run)
        const exit = exitOf(executed)
        if (exit === undefined) return Effect.flatMap(executed, () => this.runs(all, at + 1))
        if (exit._tag === "Failure") return exit
      }
    }
    return Effect.void
  }

  private cut(): ReadonlyArray<ReadonlyArray<Call>> {
    const { calls, mode } = this.wave
    if (calls.length === 1) return [calls]
    return WaveRuns.cut(calls.map(itemOf), mode).map((run) => run.map((index) => calls[index]!))
  }

  /** A later run must see what the suspended calls do, so it is suspended with them. */
  private suspend(run: ReadonlyArray<Call>): void {
    for (const call of run) {
      if (call.isSettled) continue
      call.consent = { ...call.consent, isSuspended: true }
      this.driver.settle(call, call.decided ?? cancelled("an earlier call is suspended"))
    }
  }

  private execute(run: ReadonlyArray<Call>): Effect.Effect<void> {
    const { wave } = this
    // the others have their outcome: cancelled during upfront approval, or behind the place where the wave ends
    const live = run.some(isSettled) ? run.filter((call) => !call.isSettled) : run
    if (live.length === 0) return Effect.void
    this.runLast = live.at(-1)!.index
    this.runPending = live.length
    if (wave.gates.guard.length === 0) return this.dispatched(live)
    const place = live.findIndex((call) => wave.stop.isAt(call))
    const asked = place === -1 ? live : live.slice(0, place)
    return Effect.flatMap(wave.waits.wait(asked, guard(wave, asked)), () => this.dispatched(live))
  }

  private dispatched(live: ReadonlyArray<Call>): Effect.Effect<void> {
    const dispatched = this.dispatch(live)
    const known = exitOf(dispatched)
    return known?._tag === "Success" ? this.go(known.value) : Effect.flatMap(dispatched, (it) => this.go(it))
  }

  private go(dispatched: ReadonlyArray<Next>): Effect.Effect<void> {
    const { driver, wave } = this
    // first the calls that end, or that request approval: the others must not act before them
    for (const { call, next } of dispatched) {
      if (next._tag !== "Admitted" && next._tag !== "Recalled") driver.go(call, next)
    }
    // calls from an earlier life ended before any of these starts
    if (wave.options.resume !== undefined) {
      for (const { call, next } of inTime(dispatched.filter(({ next }) => next._tag === "Recalled"))) {
        driver.go(call, next)
      }
    }
    return this.start(dispatched, 0)
  }

  /** Starts the admitted calls from a place on, a chunk at a time; then waits until the run is over. */
  private start(dispatched: ReadonlyArray<Next>, from: number): Effect.Effect<void> {
    const end = Math.min(dispatched.length, from + chunk)
    for (let at = from; at < end; at++) {
      const { call, next } = dispatched[at]!
      if (next._tag === "Admitted") this.driver.go(call, next)
    }
    if (end < dispatched.length) {
      return Effect.flatMap(this.restore(Effect.yieldNow), () => this.start(dispatched, end))
    }
    if (this.runPending === 0) return Effect.void
    this.watchDeadline()
    return Effect.map(
      this.restore(Effect.callback<void>((resume) => {
        // the caller continues in a later step, not inside the settlement of its last call
        this.runDone = () => resume(Effect.yieldNow)
        if (this.runPending === 0) this.runDone()
      })),
      () => {
        this.runDone = undefined
      }
    )
  }

  /** Dispatches a run. Calls that are cancelled while a slow store is awaited end immediately. */
  private dispatch(live: ReadonlyArray<Call>): Effect.Effect<ReadonlyArray<Next>> {
    const { wave } = this
    const dispatching = dispatch(wave, live)
    if (exitOf(dispatching) !== undefined) return dispatching
    for (const call of live) if (call.decided === undefined) call.phase = phases.queued
    let dispatched: ReadonlyArray<Dispatching> | undefined
    const noted = Effect.map(dispatching, (it) => {
      dispatched = it
    })
    return Effect.map(
      wave.waits.wait(live, noted),
      () => dispatched ?? live.map((call) => ({ call, next: { _tag: "Ends", end: call.decided! } }))
    )
  }

  /**
   * Ends the wave after its caller was interrupted: nothing new starts, and handlers get the grace period to clean up.
   */
  private abort(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { wave } = this
      const reason = "the caller was interrupted"
      wave.tally.isAborted = true
      this.close(reason)
      const quiet = (settledOnly: boolean) =>
        Effect.callback<void>((resume) => {
          this.quiet = () => {
            if (wave.tally.unsettled === 0 && (settledOnly || wave.tally.lingering === 0)) resume(Effect.yieldNow)
          }
          this.quiet()
        })
      const ended = Effect.andThen(Effect.timeoutOption(quiet(false), wave.engine.graceMillis), quiet(true))
      return wave.tally.isWritten ? Effect.andThen(ended, wave.engine.journal!.flush) : ended
    })
  }

  private end(): ToolOutcome.WaveResult {
    const { calls, engine, history: ended, process, reporter, stop } = this.wave
    process.waves.delete(this)
    process.remembers = true
    // V8 discards compiled code for a kind of object when no such object survives garbage collection; without this a
    // single call takes 1.6 times as long (`npm run bench -- --only single`)
    engine.last.wave = this
    if (stop.isOn) stop.waves.delete(this.driver)
    this.deadlineFiber?.interruptUnsafe()
    const outcomes = calls.map((call) => call.outcome!)
    const toolMessages = outcomes.map(ToolOutcome.toMessage)
    const suspended = this.wave.tally.hasSuspended
      ? calls.filter((it) => it.consent.isSuspended === true).map((it) => it.call.id)
      : undefined
    // a wave that could not be resumed reports nothing
    if (this.wave.options.resume?.problem === undefined) reporter.release()
    this.wave.facts?.reportWave({
      _tag: "WaveEnded",
      at: this.wave.now(),
      toolMessages,
      executionResults: outcomes,
      suspended
    })
    this.wave.calls = calls.slice(0, 1)
    if (batchOver(process.open) !== undefined && process.waves.size === 0) process.hub.end()
    if (process.waves.size === 0) keep(process)
    const { history } = process
    history.end(ended)
    const set = engine.rules.current()
    const { exitAttempts: attempts, heartbeats } = engine
    const asked = calls.some(asksAgain)
    // without heartbeats a model sees the results of every wave
    const isShown = !heartbeats && outcomes.length > 0
    const needsContinuation = process.cancelled === undefined &&
      history.conclude(set, { asked: asked || isShown, heartbeats, attempts })
    const shouldExit = history.shouldExit(set)
    return suspended === undefined
      ? { outcomes, needsContinuation, shouldExit, toolMessages }
      // there is nothing to send to a model yet
      : { outcomes, needsContinuation: false, shouldExit, toolMessages, suspended }
  }

  /** Starts one fiber that ends the waiting calls of the wave when the turn's time is up. */
  private watchDeadline(): void {
    const { wave } = this
    const { budget } = wave.process
    const left = budget.left(wave.now())
    if (left === Infinity || this.deadlineFiber !== undefined || budget.isPaused) return
    this.deadlineFiber = wave.detach(Effect.andThen(
      Effect.sleep(Math.max(0, left)),
      Effect.sync(() => {
        this.deadlineFiber = undefined
        // the clock was paused meanwhile
        if (budget.left(wave.now()) > 0) this.watchDeadline()
        else this.driver.endTurn(budget.limitMillis)
      })
    ))
  }
}

const isSettled = (call: Call): boolean => call.isSettled

/** Sorts calls by their end; calls whose end is unknown come last. */
const inTime = <A extends { readonly call: Call }>(calls: ReadonlyArray<A>): ReadonlyArray<A> => {
  const endOf = ({ call: { past, record } }: A) => record === undefined ? past!.endedAt : Infinity
  return calls.toSorted((one, other) => endOf(one) === endOf(other) ? 0 : endOf(one) - endOf(other))
}

const itemOf = ({ decided, past, rules, tool }: Call): WaveRuns.Item => ({
  class: past?.class ?? (decided === undefined ? tool!.class : "ShortCircuit"),
  closesRun: rules?.closesRun ?? false
})

/** Whether the model requested to be called again, or a rule requires it. */
const asksAgain = (call: Call): boolean => {
  const outcome = call.outcome!
  return (call.heartbeat && outcome._tag !== "Cancelled" && outcome._tag !== "Skipped") ||
    ("hasContinueRule" in outcome && outcome.hasContinueRule)
}
