/** A wave on the server: its state, its log, and what clients may do with it. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ToolEvent from "../core/facts/ToolEvent.ts"
import type { ToolCall } from "../core/vocabulary/ToolCall.ts"
import type { Wave, WaveInfo } from "./ApiModels.ts"
import { Unavailable } from "./ApiProblems.ts"
import type { LiveLog } from "./LiveLog.ts"
import * as LostWave from "./LostWave.ts"
import { retryMillis, type Unfinished, type Work } from "./SessionPart.ts"
import type { Stirs } from "./Stirs.ts"
import type { WaveLog } from "./WaveLog.ts"
import type { Ended, SubmittedWave } from "./WaveStore.ts"
import { isLifecycle, type LifecycleEvent } from "./WaveText.ts"

export class ServedWave implements Work {
  readonly submitted: SubmittedWave
  readonly calls: ReadonlyArray<ToolCall>
  /** Completes once the wave is stored and about to run, or fails if it cannot be. */
  readonly begun = Deferred.makeUnsafe<void, Unavailable>()
  /** Completes once the wave has ended or is suspended. */
  readonly over = Deferred.makeUnsafe<void>()
  /** Characters of the submitted message, as JSON. */
  readonly messageChars: number
  readonly log: WaveLog
  private readonly live: LiveLog["Service"]
  private readonly stirs: Stirs
  /** Completes once its calls have been announced. */
  private readonly announced = Deferred.makeUnsafe<void>()
  private status: WaveInfo["status"] = "running"
  private endedAt: number | undefined
  private messages: Schema.Json | undefined
  private size = 0
  /** Lifecycle events that are not stored yet. */
  private lifecycle: Array<LifecycleEvent> = []
  private process: ToolProcess | undefined
  /** Pending approval requests. */
  private requests = 0
  /** Reason of a cancellation of the whole wave. */
  private cancelled: string | undefined
  /** Why it does not continue by itself: its session was closed or lost, or something failed. */
  left: "closed" | "stopped" | "lost" | undefined
  /** It could not continue. */
  hasFailed = false
  /** Why it could not continue, if another try is of no use for now. */
  stuck: WaveInfo["stuck"]

  constructor(
    submitted: SubmittedWave,
    calls: ReadonlyArray<ToolCall>,
    log: WaveLog,
    live: LiveLog["Service"],
    stirs: Stirs
  ) {
    this.stirs = stirs
    this.submitted = submitted
    this.stuck = submitted.stuck
    this.calls = calls
    this.messageChars = JSON.stringify(submitted.message).length
    this.log = log
    this.live = live
  }

  get isRunning(): boolean {
    return this.status === "running"
  }

  get hasEnded(): boolean {
    return this.status === "ended"
  }

  get isSuspended(): boolean {
    return this.status === "suspended"
  }

  /** Whether nothing of it runs: it has ended or is suspended. */
  get isOver(): boolean {
    return Deferred.isDoneUnsafe(this.over)
  }

  /** Why it was cancelled as a whole, if it was. */
  get cancellation(): string | undefined {
    return this.cancelled
  }

  /** Whether it is stored. */
  get hasBegun(): boolean {
    return Deferred.isDoneUnsafe(this.begun)
  }

  /** Characters of message, results and log, as JSON; 0 until it has ended. */
  get chars(): number {
    return this.size
  }

  /** Epoch milliseconds at which it ended or was suspended. */
  get overSince(): number | undefined {
    return this.isRunning ? undefined : this.endedAt
  }

  /** Whether it runs and waits for nothing but approvals. */
  get isWaiting(): boolean {
    return this.process !== undefined && this.process.waiting() > 0
  }

  /** Whether approval requests of its calls are pending. */
  get isAsking(): boolean {
    return this.requests > 0
  }

  get remains(): Unfinished {
    if (this.hasFailed) return "failed"
    if (this.hasEnded) return "nothing"
    return this.left === undefined ? "failed" : this.left === "stopped" ? "stopped" : "waiting"
  }

  retryAt(now: number): number {
    return this.hasFailed ? this.stuck?.retryAt ?? now + retryMillis : Infinity
  }

  /** Whether an executor runs its calls. */
  get isUnderWay(): boolean {
    return this.process !== undefined
  }

  get info(): WaveInfo {
    const { beganAt, session, turn, user, wave } = this.submitted
    return {
      user,
      session,
      turn,
      wave,
      status: this.status,
      calls: this.calls.length,
      tools: this.calls.slice(0, 100).map(({ name }) => name.slice(0, 200)),
      beganAt,
      ...this.endedAt === undefined ? {} : { endedAt: this.endedAt },
      ...this.stuck === undefined || !this.isSuspended ? {} : { stuck: this.stuck }
    }
  }

  get wave(): Wave {
    const { end } = this.log
    return {
      ...this.info,
      format: this.submitted.format,
      ...this.messages === undefined ? {} : { messages: this.messages },
      ...end === undefined ? {} : { end }
    }
  }

  /** Marks it as running, for the first time or again. */
  begin(): void {
    Deferred.doneUnsafe(this.begun, Effect.void)
    this.live.tell(this.submitted.user, { _tag: "WaveBegan", wave: this.info })
  }

  tell(event: ToolEvent.ToolEvent): void {
    // readers of a session that is closed or lost connect again: there is nothing to tell them
    if (this.left === "lost" || (this.left !== undefined && event._tag === "WaveSuspended")) return
    if (isLifecycle(event)) this.lifecycle.push(event)
    const wire = ToolEvent.toWire(event)
    const chars = JSON.stringify(wire).length
    const { session, user, wave } = this.submitted
    const shared = this.log.append(wire, chars)
    Deferred.doneUnsafe(this.announced, Effect.void)
    if (event._tag === "ToolApprovalRequested") this.requests++
    if (this.isAsking) this.stirs.stir(this.submitted)
    if (event._tag === "ToolApprovalResolved") this.requests--
    if (chars > mostLiveChars) this.live.tell(user, { _tag: "WaveEventLeftOut", user, session, wave })
    else {
      const item = {
        _tag: "WaveEvent",
        user,
        session,
        wave,
        get event() {
          return shared()
        }
      } as const
      this.live.tell(user, item, chars)
    }
  }

  /** The lifecycle events so far, which are removed: they are stored now. */
  takeLifecycle(): ReadonlyArray<LifecycleEvent> {
    return this.lifecycle.splice(0)
  }

  /** Attaches a process for the duration of an effect. */
  readonly under = (process: ToolProcess) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      this.process = process
      const { cancelled } = this
      return cancelled === undefined ? effect : Effect.andThen(process.cancel(cancelled), effect)
    }).pipe(Effect.ensuring(Effect.sync(() => {
      this.process = undefined
    })))

  /** Ends it: all calls have outcomes. */
  settle(at: number, messages: Schema.Json): void {
    this.status = "ended"
    this.endedAt = at
    this.messages = messages
    this.size = this.messageChars + JSON.stringify(messages).length + this.log.chars
  }

  /** Closes its log. Without an end it is suspended; if it has not begun, waiting clients get a failure. */
  close(at: number): void {
    const isNobodys = Deferred.doneUnsafe(
      this.begun,
      Effect.fail(new Unavailable({ detail: "The wave could not be started." }))
    )
    if (this.isRunning) {
      this.status = "suspended"
      this.endedAt = at
      if (!isNobodys && this.log.end === undefined) this.tell(LostWave.suspended(this, at))
    }
    this.lifecycle = []
    this.log.close()
    if (!isNobodys && this.left !== "lost") this.live.tell(this.submitted.user, { _tag: "WaveEnded", wave: this.info })
    Deferred.doneUnsafe(this.announced, Effect.void)
    Deferred.doneUnsafe(this.over, Effect.void)
    this.stirs.stir(this.submitted)
  }

  /** Restores a wave that is not tried again for now. */
  rest(at: number): void {
    this.hasFailed = true
    Deferred.doneUnsafe(this.begun, Effect.void)
    this.close(at)
  }

  /** Restores a wave that has ended. */
  recall({ at, events, messages }: Ended): void {
    for (const event of events) this.log.append(ToolEvent.toWire(event))
    this.log.close()
    this.settle(at, messages)
    Deferred.doneUnsafe(this.begun, Effect.void)
    Deferred.doneUnsafe(this.announced, Effect.void)
    Deferred.doneUnsafe(this.over, Effect.void)
  }

  /** Cancels the wave, now and when it is attached later. */
  cancel(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.cancelled ??= reason
      return this.process?.cancel(reason) ?? Effect.void
    })
  }

  /** Cancels the wave, for good once this returns: calls that are submitted again are on record by then. */
  cancelAll(reason: string): Effect.Effect<void, Unavailable> {
    return this.cancel(reason).pipe(
      Effect.andThen(Deferred.await(this.announced)),
      Effect.andThen(
        Effect.suspend(() =>
          this.isSuspended ? Effect.fail(new Unavailable({ detail: "The wave is suspended." })) : Effect.void
        )
      )
    )
  }

  /** Cancels the calls of an id, once they are announced. */
  cancelCall(id: string, reason: string): Effect.Effect<void> {
    return Effect.andThen(
      Deferred.await(this.announced),
      Effect.suspend(() => this.process?.cancelCall(id, reason) ?? Effect.void)
    )
  }
}

/** Larger events are not sent to the live stream; clients read them from the wave. */
const mostLiveChars = 32_000
