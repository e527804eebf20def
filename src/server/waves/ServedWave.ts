/** A wave on the server: its state, its log, and what clients may do with it. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ToolProcess } from "../../core/contract/ToolProcess.ts"
import * as ToolEvent from "../../core/facts/ToolEvent.ts"
import type { ToolCall } from "../../core/vocabulary/ToolCall.ts"
import type { Wave, WaveInfo } from "../api/ApiModels.ts"
import { Unavailable } from "../api/ApiProblems.ts"
import type { LiveLog } from "../live/LiveLog.ts"
import type { Owner } from "../users/Principals.ts"
import type { Stirs } from "../work/Stirs.ts"
import { type Phase, Work } from "../work/Work.ts"
import * as LostWave from "./LostWave.ts"
import type { WaveLog } from "./WaveLog.ts"
import type { Ended, SubmittedWave } from "./WaveStore.ts"
import { isLifecycle, type LifecycleEvent } from "./WaveText.ts"

/** The end of a wave in memory. */
export interface WaveEnd {
  readonly at: number
  readonly messages: Schema.Json
  /** Characters of message, results and log, as JSON. */
  readonly chars: number
}

export class ServedWave extends Work<ToolProcess, WaveEnd> {
  readonly submitted: SubmittedWave
  readonly calls: ReadonlyArray<ToolCall>
  /** Characters of the submitted message, as JSON. */
  readonly messageChars: number
  readonly log: WaveLog
  private readonly live: LiveLog["Service"]
  private readonly begins = Deferred.makeUnsafe<void, Unavailable>()
  /** Waits until it is stored and about to run; fails if it cannot be. */
  readonly begun: Effect.Effect<void, Unavailable> = Deferred.await(this.begins)
  /** Completes once its calls have been announced. */
  private readonly announced = Deferred.makeUnsafe<void>()
  /** Lifecycle events that are not stored yet. */
  private lifecycle: Array<LifecycleEvent> = []
  /** Pending approval requests. */
  private requests = 0

  constructor(
    submitted: SubmittedWave,
    calls: ReadonlyArray<ToolCall>,
    log: WaveLog,
    live: LiveLog["Service"],
    stirs: Stirs
  ) {
    super(stirs, { _tag: "Arrived", wanted: {} })
    this.submitted = submitted
    this.calls = calls
    this.messageChars = JSON.stringify(submitted.message).length
    this.log = log
    this.live = live
  }

  get owner(): Owner {
    return this.submitted
  }

  get isAsking(): boolean {
    return this.requests > 0
  }

  /** Its end, from when it is stored. */
  get end(): WaveEnd | undefined {
    return this.outcome?._tag === "Ended" ? this.outcome.end : undefined
  }

  get status(): WaveInfo["status"] {
    return this.end !== undefined ? "ended" : this.isOver ? "suspended" : "running"
  }

  /** Epoch milliseconds at which it ended or was suspended. */
  get overSince(): number | undefined {
    return this.end?.at ?? (this.phase._tag === "Over" ? this.phase.at : undefined)
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
      ...this.overSince === undefined ? {} : { endedAt: this.overSince },
      ...this.stuck === undefined || this.status === "ended" ? {} : { stuck: this.stuck }
    }
  }

  get wave(): Wave {
    const { end } = this.log
    return {
      ...this.info,
      format: this.submitted.format,
      ...this.end === undefined ? {} : { messages: this.end.messages },
      ...end === undefined ? {} : { end }
    }
  }

  /** Runs from now on, for the first time or again. */
  override begin(): void {
    super.begin()
    this.live.tell(this.submitted.user, { _tag: "WaveBegan", wave: this.info })
  }

  tell(event: ToolEvent.ToolEvent): void {
    // readers of a session that is closed or lost connect again: there is nothing to tell them
    if (this.isLost || (this.leaving !== undefined && event._tag === "WaveSuspended")) return
    this.delay(undefined)
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
    Effect.ensuring(Effect.andThen(this.attach(process), effect), Effect.sync(() => this.detach()))

  /** Ends it: all calls have outcomes. */
  settle(at: number, messages: Schema.Json, isStored: boolean): void {
    const chars = this.messageChars + JSON.stringify(messages).length + this.log.chars
    this.decide({ _tag: "Ended", end: { at, messages, chars }, isStored })
  }

  /** It could not continue, for this reason or the one of the last try. */
  fail(stuck = this.submitted.stuck): void {
    this.decide({ _tag: "Failed", stuck })
  }

  override close(at: number): void {
    if (this.phase._tag !== "Arrived" && this.log.end === undefined) this.tell(LostWave.suspended(this, at))
    super.close(at)
  }

  /** Restores a wave that is not tried again for now. */
  rest(at: number): void {
    this.tell(LostWave.suspended(this, at))
    this.restoreOver({ _tag: "Failed", stuck: this.submitted.stuck }, at)
    this.live.tell(this.submitted.user, { _tag: "WaveEnded", wave: this.info })
  }

  /** Restores a wave that has ended. */
  recall({ at, events, messages }: Ended): void {
    for (const event of events) this.log.append(ToolEvent.toWire(event))
    const chars = this.messageChars + JSON.stringify(messages).length + this.log.chars
    this.restoreOver({ _tag: "Ended", end: { at, messages, chars }, isStored: true }, at)
  }

  protected waits(process: ToolProcess): boolean {
    return process.waiting() > 0
  }

  protected override entered(phase: Phase<ToolProcess, WaveEnd>, from: Phase<ToolProcess, WaveEnd>): void {
    if (phase._tag === "Arrived") return
    const isRefused = phase._tag === "Over" && phase.outcome._tag === "Refused"
    Deferred.doneUnsafe(this.begins, isRefused ? Effect.fail(couldNotStart) : Effect.void)
    if (phase._tag !== "Over") return
    const isToBeTold = (from._tag === "Running" || from._tag === "Closing") && from.wanted.leaving !== "lost"
    if (isToBeTold) this.live.tell(this.submitted.user, { _tag: "WaveEnded", wave: this.info })
    this.lifecycle = []
    Deferred.doneUnsafe(this.announced, Effect.void)
  }

  /** Cancels the wave, for good once this returns: calls that are submitted again are on record by then. */
  cancelAll(reason: string): Effect.Effect<void, Unavailable> {
    return this.cancel(reason).pipe(
      Effect.andThen(Deferred.await(this.announced)),
      Effect.andThen(
        Effect.suspend(() =>
          this.status === "suspended" ? Effect.fail(new Unavailable({ detail: "The wave is suspended." })) : Effect.void
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

const couldNotStart = new Unavailable({ detail: "The wave could not be started." })
