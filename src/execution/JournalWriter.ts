/**
 * The journal as an executor uses it: calls that start together are written together,
 * and what is written of one is not taken from the others when it is cancelled.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Journal, Started } from "../store/Journal.ts"

/** A call that waits until it is on record. */
interface Waiting {
  readonly entry: Started
  readonly written: (isWritten: boolean) => void
}

/**
 * The journal of an executor and its sub-agents; its driver answers in time.
 *
 * @category models
 * @since 0.1.0
 */
export class JournalWriter {
  private readonly driver: Journal["Service"]
  private readonly context: Context.Context<never>
  /** Those that are written next. */
  private next: Array<Waiting> | undefined

  constructor(driver: Journal["Service"], context: Context.Context<never>) {
    this.driver = driver
    this.context = context
  }

  /** Writes that a call is about to start; tells whether that is on record. */
  started(entry: Started): Effect.Effect<boolean> {
    return Effect.callback((resume) => {
      this.next ??= this.begin()
      this.next.push({ entry, written: (isWritten) => resume(Effect.succeed(isWritten)) })
    })
  }

  /** Collects who starts at this moment, and writes them; nobody who waits interrupts that. */
  private begin(): Array<Waiting> {
    const all: Array<Waiting> = []
    const end = (isWritten: boolean) => {
      for (const { written } of all) written(isWritten)
    }
    const write = Effect.suspend(() => {
      this.next = undefined
      return Effect.matchEffect(this.driver.started(all.map((it) => it.entry)), {
        onSuccess: () => Effect.sync(() => end(true)),
        onFailure: (error) => {
          end(false)
          return Effect.logWarning("Journal.started failed; its calls are refused", error.cause)
        }
      })
    })
    Effect.runForkWith(this.context)(Effect.andThen(Effect.yieldNow, write))
    return all
  }
}
