/**
 * What calls wait for before they run: stores, decoders, look-ups of others.
 *
 * Cancelling the calls ends the wait, and nobody waits for an effect that is
 * deaf.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Detached from "../../internal/detached.ts"
import type { Call } from "./Call.ts"

/**
 * Makes an effect as interruptible as the caller is.
 *
 * @category models
 * @since 0.1.0
 */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * The waits of the calls of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Waits {
  private readonly open = new Set<{ readonly calls: ReadonlyArray<Call>; readonly stop: () => void }>()
  private readonly context: Context.Context<never>
  /** As interruptible as the caller is. */
  private readonly restore: Restore

  constructor(context: Context.Context<never>, restore: Restore) {
    this.context = context
    this.restore = restore
  }

  /** Waits for an effect on behalf of calls that do not run yet. */
  wait(calls: ReadonlyArray<Call>, effect: Effect.Effect<void>): Effect.Effect<void> {
    const ended = this.restore(Effect.callback<void>((resume) => {
      const running: { wait?: Detached.Wait } = {}
      const entry = {
        calls,
        stop: () => {
          this.open.delete(entry)
          running.wait?.stop()
          resume(Effect.void)
        }
      }
      this.open.add(entry)
      // it may end, and so leave the list, before it is noted here
      running.wait = Detached.start(effect, this.context, Infinity, entry.stop)
      return Effect.sync(entry.stop)
    }))
    // the wave goes on in a turn of its own, not inside whatever ended the wait, and loses nothing by it
    return Effect.andThen(ended, Effect.yieldNow)
  }

  /** Waits for an effect for each of some calls, side by side: as long as for the slowest. */
  waitAll(calls: ReadonlyArray<readonly [Call, Effect.Effect<void>]>): Effect.Effect<void> {
    const all = Effect.forEach(calls, ([call, effect]) => this.wait([call], effect), {
      concurrency: "unbounded",
      discard: true
    })
    return this.wait(calls.map(([call]) => call), all)
  }

  /** Ends the waits whose calls are all decided. */
  endDecided(): void {
    for (const wait of this.open) if (wait.calls.every((call) => call.decided !== undefined)) wait.stop()
  }
}
