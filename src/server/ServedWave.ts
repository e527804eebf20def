/** One wave as the server has it: where it stands, what happened in it, and what clients may ask of it. */
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
import type { WaveLog } from "./WaveLog.ts"
import type { Ended, SubmittedWave } from "./WaveStore.ts"
import { isLifecycle, type LifecycleEvent } from "./WaveText.ts"

/** One wave as the server has it. */
export class ServedWave {
  readonly submitted: SubmittedWave
  readonly calls: ReadonlyArray<ToolCall>
  /** Done once it is kept and is about to run, or cannot be taken. */
  readonly begun = Deferred.makeUnsafe<void, Unavailable>()
  /** Done once it has ended or is suspended. */
  readonly over = Deferred.makeUnsafe<void>()
  /** Characters of what was handed over, as JSON. */
  readonly messageChars: number
  readonly log: WaveLog
  private readonly live: LiveLog["Service"]
  /** Done once its calls have been announced. */
  private readonly announced = Deferred.makeUnsafe<void>()
  private status: WaveInfo["status"] = "running"
  private endedAt: number | undefined
  private messages: Schema.Json | undefined
  private size = 0
  /** Until they are stored. */
  private lifecycle: Array<LifecycleEvent> = []
  private process: ToolProcess | undefined
  /** Why all of it was cancelled. */
  private cancelled: string | undefined

  constructor(
    submitted: SubmittedWave,
    calls: ReadonlyArray<ToolCall>,
    log: WaveLog,
    live: LiveLog["Service"]
  ) {
    this.submitted = submitted
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

  /** Characters of what it holds, as JSON; 0 until it has ended. */
  get chars(): number {
    return this.size
  }

  /** Epoch milliseconds at which it was over. */
  get overSince(): number | undefined {
    return this.isRunning ? undefined : this.endedAt
  }

  /** Its calls are an executor's. */
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
      beganAt,
      ...this.endedAt === undefined ? {} : { endedAt: this.endedAt }
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

  /** It runs from now on, whether or not for the first time. */
  begin(): void {
    Deferred.doneUnsafe(this.begun, Effect.void)
    this.live.tell(this.submitted.user, { _tag: "WaveBegan", wave: this.info })
  }

  tell(event: ToolEvent.ToolEvent): void {
    if (isLifecycle(event)) this.lifecycle.push(event)
    const wire = ToolEvent.toWire(event)
    const chars = JSON.stringify(wire).length
    const { session, user, wave } = this.submitted
    const shared = this.log.append(wire, chars)
    Deferred.doneUnsafe(this.announced, Effect.void)
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

  /** Gives the lifecycle events so far, once: they are stored now. */
  takeLifecycle(): ReadonlyArray<LifecycleEvent> {
    return this.lifecycle.splice(0)
  }

  /** Its calls are those of a process, as long as an effect runs. */
  readonly under = (process: ToolProcess) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      this.process = process
      const { cancelled } = this
      return cancelled === undefined ? effect : Effect.andThen(process.cancel(cancelled), effect)
    }).pipe(Effect.ensuring(Effect.sync(() => {
      this.process = undefined
    })))

  /** All of its calls have their outcomes. */
  settle(at: number, messages: Schema.Json): void {
    this.status = "ended"
    this.endedAt = at
    this.messages = messages
    this.size = this.messageChars + JSON.stringify(messages).length + this.log.chars
  }

  /** Nothing more happens in this life: what has no end is suspended, and what has not begun is nobody's. */
  close(at: number): void {
    const isNobodys = Deferred.doneUnsafe(
      this.begun,
      Effect.fail(new Unavailable({ detail: "The wave could not be begun." }))
    )
    if (this.isRunning) {
      this.status = "suspended"
      this.endedAt = at
      if (!isNobodys && this.log.end === undefined) this.tell(LostWave.suspended(this, at))
    }
    this.lifecycle = []
    this.log.close()
    if (!isNobodys) this.live.tell(this.submitted.user, { _tag: "WaveEnded", wave: this.info })
    Deferred.doneUnsafe(this.announced, Effect.void)
    Deferred.doneUnsafe(this.over, Effect.void)
  }

  /** It had ended before, in this life or an earlier one. */
  recall({ at, events, messages }: Ended): void {
    for (const event of events) this.log.append(ToolEvent.toWire(event))
    this.log.close()
    this.settle(at, messages)
    Deferred.doneUnsafe(this.begun, Effect.void)
    Deferred.doneUnsafe(this.announced, Effect.void)
    Deferred.doneUnsafe(this.over, Effect.void)
  }

  /** Cancels all of it, also what is to come. */
  cancel(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.cancelled ??= reason
      return this.process?.cancel(reason) ?? Effect.void
    })
  }

  /** Cancels the calls of an id, once there are any. */
  cancelCall(id: string, reason: string): Effect.Effect<void> {
    return Effect.andThen(
      Deferred.await(this.announced),
      Effect.suspend(() => this.process?.cancelCall(id, reason) ?? Effect.void)
    )
  }
}

// Utilities

/** Characters of an event that everybody is sent who may see it; a larger one is read by who wants it. */
const mostLiveChars = 32_000
