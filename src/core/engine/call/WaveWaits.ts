/**
 * What calls wait for before they run: stores, decoders, look-ups.
 *
 * Cancelling the calls ends the wait, even if the effect ignores interruption.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Deadlines } from "../../../internal/deadlines.ts"
import * as Detached from "../../../internal/detached.ts"
import type { Call } from "./Call.ts"

/** Makes an effect as interruptible as the caller is. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** The waits of one wave's calls. */
export class Waits {
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  /** As interruptible as the caller is. */
  private readonly restore: Restore
  private open: Set<{ readonly calls: ReadonlyArray<Call>; readonly stop: () => void }> | undefined = undefined
  private limits: Deadlines | undefined = undefined
  private waitingForQuiet: Array<{ readonly index: number; readonly resume: () => void }> | undefined = undefined
  /** Approval requests without an answer. */
  requests = 0
  /** The calls whose requests approvers can see. */
  private pending: Set<Call> | undefined = undefined
  /** Whether approval is requested up front: nothing else of the wave happens meanwhile. */
  isUpfront = false
  /** Admitted calls, starting with the first one whose resources are not known yet. */
  readonly line: Array<{ readonly isKnown: boolean; readonly go: () => void }> = []

  constructor(context: Context.Context<never>, clock: Clock.Clock, restore: Restore) {
    this.context = context
    this.clock = clock
    this.restore = restore
  }

  /** The limits of the handlers that run. */
  get deadlines(): Deadlines {
    return this.limits ??= new Deadlines(this.clock, (timer) => Effect.runForkWith(this.context)(timer))
  }

  /** Waits until no approval request of the wave is open; calls continue in input order. */
  quiet(index: number): Effect.Effect<void> {
    return Effect.suspend(() =>
      this.requests === 0 ? Effect.void : Effect.callback<void>((resume) => {
        const waiting = { index, resume: () => resume(Effect.void) }
        const all = this.waitingForQuiet ??= []
        all.push(waiting)
        return Effect.sync(() => {
          const at = all.indexOf(waiting)
          if (at !== -1) all.splice(at, 1)
        })
      })
    )
  }

  /** Whether a request of this call is pending. */
  isPending(call: Call): boolean {
    return this.pending?.has(call) === true
  }

  /** Whether all requests of the wave are pending, and there are some. */
  get isAsking(): boolean {
    return this.requests > 0 && this.pending?.size === this.requests
  }

  /** Notes that the request of a call is pending, or no longer is. */
  shown(call: Call, isPending: boolean): void {
    this.pending ??= new Set()
    if (isPending) this.pending.add(call)
    else this.pending.delete(call)
  }

  /** Notes that an approval request has ended. */
  answered(): void {
    if (--this.requests > 0) return
    const waiting = this.waitingForQuiet?.splice(0).sort((a, b) => a.index - b.index)
    for (const { resume } of waiting ?? []) resume()
  }

  /** Waits for an effect on behalf of calls that do not run yet. */
  wait(calls: ReadonlyArray<Call>, effect: Effect.Effect<void>): Effect.Effect<void> {
    const ended = this.restore(Effect.callback<void>((resume) => {
      const running: { wait?: Detached.Wait } = {}
      const entry = {
        calls,
        stop: () => {
          this.open?.delete(entry)
          running.wait?.stop()
          resume(Effect.void)
        }
      }
      ;(this.open ??= new Set()).add(entry)
      // the effect may end immediately, which removes the entry before this is assigned
      running.wait = Detached.start(effect, this.context, Infinity, entry.stop)
      return Effect.sync(entry.stop)
    }))
    // the wave continues in a later step, not inside the code that ended the wait
    return Effect.andThen(ended, Effect.yieldNow)
  }

  /** Waits for one effect per call, concurrently. */
  waitAll(calls: ReadonlyArray<readonly [Call, Effect.Effect<void>]>): Effect.Effect<void> {
    const all = Effect.forEach(calls, ([call, effect]) => this.wait([call], effect), {
      concurrency: "unbounded",
      discard: true
    })
    return this.wait(calls.map(([call]) => call), all)
  }

  /** Ends the waits whose calls are all decided. */
  endDecided(): void {
    for (const wait of this.open ?? []) if (wait.calls.every((call) => call.decided !== undefined)) wait.stop()
  }
}
