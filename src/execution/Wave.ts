/**
 * A wave on its way: arrives, is cut into runs, runs them one after the other,
 * and ends with one outcome per call, however it ends.
 *
 * Its main loop is the caller's fiber.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as ToolOutcome from "../ToolOutcome.ts"
import * as Arrival from "./Arrival.ts"
import { Calls, type Watcher } from "./Calls.ts"
import type { CallState } from "./CallState.ts"
import { tooLate } from "./Ends.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { Received } from "./Received.ts"
import type { Settings } from "./Settings.ts"
import * as Stages from "./Stages.ts"
import * as Upfront from "./Upfront.ts"
import type { Restore } from "./Waits.ts"
import * as Waves from "./Waves.ts"

/** So many calls are started before the loop lets others have a turn. */
const chunk = 1_000

/**
 * A wave on its way.
 *
 * @category models
 * @since 0.1.0
 */
export class Wave implements Watcher {
  private readonly engine: Engine
  private readonly process: ProcessState
  private readonly settings: Settings
  private readonly wave: ReadonlyArray<Received>
  /** There once the wave has begun. */
  private calls: Calls | undefined
  /** Calls of the present run without an outcome. */
  private runPending = 0
  /** Place of the last call of the present run: those behind it may have their outcome, too. */
  private runLast = -1
  private runDone: (() => void) | undefined
  private quiet: (() => void) | undefined
  private deadlineFiber: Fiber.Fiber<void> | undefined
  private leave: (() => void) | undefined
  /** The batch is in use, as far as rules count in it. */
  private letGo: (() => void) | undefined

  constructor(engine: Engine, process: ProcessState, wave: ReadonlyArray<Received>, settings: Settings) {
    this.engine = engine
    this.process = process
    this.wave = wave
    this.settings = settings
  }

  /** Runs the wave. Interruption ends every call first, within bounds. */
  get run(): Effect.Effect<ToolOutcome.WaveResult> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.context<never>(), (context) => {
        const calls = this.calls = new Calls(
          this.engine,
          this.process,
          this.wave,
          this.settings,
          context,
          restore,
          this
        )
        this.process.waves.add(this)
        // what a handler began and did not wait for ends with its call
        this.leave = calls.caller?.atEnd(() => this.cancel(tooLate))
        this.letGo = this.engine.rules.current().countsInBatches ? calls.ledger.hold(this.process.batch.key) : undefined
        return Effect.matchCauseEffect(this.body(calls, restore), {
          onSuccess: () => Effect.sync(() => this.end(calls)),
          onFailure: (cause) =>
            Effect.andThen(
              this.abort(calls),
              Effect.suspend(() => {
                this.end(calls)
                return Effect.failCause(cause)
              })
            )
        })
      })
    )
  }

  /** Ends every call that has no outcome yet; the wave goes on to its end. */
  cancel(reason: string): void {
    this.calls?.cancel(this.calls.all, reason)
  }

  /** Ends the calls of an id. */
  cancelId(id: string, reason: string): void {
    this.calls?.cancel(this.calls.all.filter((call) => call.call.id === id), reason)
  }

  settled({ index }: CallState): void {
    if (index <= this.runLast) this.runPending--
  }

  asked(): void {
    if (this.calls !== undefined) this.watchDeadline(this.calls)
  }

  freed(): void {
    if (this.runPending === 0) this.runDone?.()
    this.quiet?.()
  }

  // not interruptible but where it waits for others, so that what is reserved is never lost
  private readonly body = Effect.fnUntraced(function*(this: Wave, calls: Calls, restore: Restore) {
    // handed over behind the place where its step has ended
    calls.skipBehind(calls.decideBehind(calls.stop.index + 1, Infinity))
    if (calls.unsettled === 0) return
    const registry = this.engine.handlers.current()
    const available = Arrival.namesSeen(registry, calls.agent)
    const now = calls.now()
    const slow: Array<readonly [CallState, Effect.Effect<void>]> = []
    for (const call of calls.all) {
      const waits = Arrival.arrive(this.engine, this.process, registry, available, call, now)
      if (waits !== undefined) slow.push([call, waits])
    }
    if (slow.length > 0) yield* calls.waits.waitAll(slow)
    if (this.engine.approval === "upfront") {
      yield* Upfront.ask(this.engine, this.process, calls, this.cut(calls))
    }
    const { step } = this.settings
    if (step !== undefined) yield* calls.waits.wait(calls.all, step.turn(itemOf(calls.all[0]!)))
    for (const run of this.cut(calls)) yield* this.execute(calls, run, restore)
  })

  private cut({ all }: Calls): ReadonlyArray<ReadonlyArray<CallState>> {
    return Waves.cut(all.map(itemOf), this.engine.mode).map((run) => run.map((index) => all[index]!))
  }

  private readonly execute = Effect.fnUntraced(function*(
    this: Wave,
    calls: Calls,
    run: ReadonlyArray<CallState>,
    restore: Restore
  ) {
    // others have their outcome: cancelled while people were asked up front, or behind the place where the wave ends
    const live = run.filter((call) => call.outcome === undefined)
    if (live.length === 0) return
    this.runLast = live.at(-1)!.index
    this.runPending = live.length
    if (this.engine.guards.length > 0) {
      const place = live.findIndex((call) => calls.stop.isAt(call))
      const asked = place === -1 ? live : live.slice(0, place)
      yield* calls.waits.wait(asked, Stages.guard(this.engine, this.process, asked, calls.now()))
    }
    const admitted: Array<CallState> = []
    let now = calls.now()
    for (const call of live) {
      if (call.outcome !== undefined) continue
      const dispatched = calls.dispatching.dispatch(call, now)
      if (typeof dispatched === "boolean") {
        if (dispatched) admitted.push(call)
      } else {
        if (yield* dispatched) admitted.push(call)
        now = calls.now()
      }
    }
    for (let i = 0; i < admitted.length; i += chunk) {
      if (i > 0) yield* restore(Effect.yieldNow)
      const entered = calls.dispatching.enter(admitted.slice(i, i + chunk).filter((call) => call.outcome === undefined))
      if (entered === undefined) continue
      this.watchDeadline(calls)
      yield* entered
    }
    if (this.runPending === 0) return
    this.watchDeadline(calls)
    yield* restore(Effect.callback<void>((resume) => {
      // the caller goes on in a turn of its own, not inside the settlement of its last call
      this.runDone = () => resume(Effect.yieldNow)
      if (this.runPending === 0) this.runDone()
    }))
    this.runDone = undefined
  })

  /** The caller was interrupted: nothing goes on, and clean-up has its grace. */
  private abort(calls: Calls): Effect.Effect<void> {
    return Effect.suspend(() => {
      const reason = "the caller was interrupted"
      calls.cancel(calls.all, reason)
      for (const call of calls.all) {
        if (call.attempt === undefined) calls.settle(call, { _tag: "Cancelled", started: false, reason })
      }
      const quiet = (settledOnly: boolean) =>
        Effect.callback<void>((resume) => {
          this.quiet = () => {
            if (calls.unsettled === 0 && (settledOnly || calls.lingering === 0)) resume(Effect.yieldNow)
          }
          this.quiet()
        })
      return Effect.andThen(Effect.timeoutOption(quiet(false), this.engine.graceMillis), quiet(true))
    })
  }

  private end(calls: Calls): ToolOutcome.WaveResult {
    this.process.waves.delete(this)
    this.leave?.()
    this.letGo?.()
    calls.stop.waves.delete(calls)
    this.deadlineFiber?.interruptUnsafe()
    const outcomes = calls.all.map((call) => call.outcome!)
    const toolMessages = outcomes.map(ToolOutcome.toMessage)
    if (calls.events.isObserved) {
      calls.events.publish({ _tag: "ToolsEnd", at: calls.now(), toolMessages, executionResults: outcomes })
    }
    const asked = calls.all.some(({ heartbeat, outcome }) =>
      (heartbeat && outcome!._tag !== "Cancelled" && outcome!._tag !== "Skipped") ||
      ("hasContinueRule" in outcome! && outcome.hasContinueRule)
    )
    if (this.process.closed && this.process.waves.size === 0) this.process.hub.end()
    const { history } = this.process
    history.end(calls.history)
    const set = this.engine.rules.current()
    const { exitAttempts: attempts, heartbeats } = this.engine
    // without heartbeats a model sees the results of every wave
    const isShown = !heartbeats && outcomes.length > 0
    const needsContinuation = this.process.cancelled === undefined
      ? history.conclude(set, { asked: asked || isShown, heartbeats, attempts })
      : asked
    return { outcomes, needsContinuation, shouldExit: history.shouldExit(set), toolMessages }
  }

  /** The turn's clock, which stood still while people were asked, may go on. */
  resumed(): void {
    if (this.calls !== undefined) this.watchDeadline(this.calls)
  }

  /** One fiber serves all calls that wait for permits or people when the turn's time is over. */
  private watchDeadline(calls: Calls): void {
    const { budget } = this.process
    if (budget.left(calls.now()) === Infinity || this.deadlineFiber !== undefined || budget.isPaused) return
    this.deadlineFiber = calls.detach(Effect.andThen(
      Effect.sleep(Math.max(0, budget.left(calls.now()))),
      Effect.sync(() => {
        this.deadlineFiber = undefined
        // it stood still meanwhile
        if (budget.left(calls.now()) > 0) return this.watchDeadline(calls)
        const { limitMillis } = budget
        for (const call of calls.all) {
          const isWaiting = call.state === "waiting" || call.joined !== undefined || call.asking !== undefined ||
            call.isDeferred === true
          if (!isWaiting) continue
          const { attempt } = call
          if (attempt === undefined) {
            calls.settle(call, { _tag: "Denied", reason: { _tag: "DeadlineExceeded", limitMillis } })
          } else {
            // it runs, and its own time stands still while a person looks at its write
            attempt.stop({ _tag: "TimedOut", limitMillis, which: "turn", retryable: call.tool!.retryOnTimeout })
          }
        }
      })
    ))
  }
}

// Utilities

const itemOf = ({ decided, rules, tool }: CallState): Waves.Item => ({
  class: decided === undefined ? tool!.class : "ShortCircuit",
  closesRun: rules?.closesRun ?? false
})
