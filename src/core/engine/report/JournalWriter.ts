/**
 * The journal as an executor uses it. Lines noted together are written together, in order, and callers never wait
 * forever for a write.
 *
 * If the journal cannot be written, calls that wait for it are refused. Other lines are kept, up to a limit, and
 * written later.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as CallLog from "../../../internal/callLog.ts"
import * as Detached from "../../../internal/detached.ts"
import type { Outages } from "../../../internal/outages.ts"
import type { Journal, JournalError, Line } from "../../store/Journal.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"

/** Lines that are written next, and the callers that wait for them. */
interface Batch {
  readonly lines: Array<Line>
  /** Lines to drop if the write fails: they must not be written later, because their calls are refused. */
  readonly refused: Set<Line>
  readonly waiting: Array<(isWritten: boolean) => void>
  /** When the first of them was noted. */
  readonly since: number
}

/** How many lines are kept while the journal cannot be written; the oldest are dropped. */
const maxKept = 10_000

const unwritten = "The journal cannot be written; calls that may change things are refused until it can"

/** Milliseconds until a retry, unless a caller waits. */
const pause = 1_000

/** The journal of an executor and its sub-agents; its driver answers in time. */
export class JournalWriter {
  readonly driver: Journal["Service"]
  /** Session of the executor that writes. */
  readonly session: string
  private readonly principal: string
  private readonly outages: Outages
  private readonly context: Context.Context<never>
  private readonly now: () => number
  private next: Batch | undefined
  /** Lines that could not be written. */
  private kept: Array<Line> = []
  private lost = 0
  /** Time of the last successful write; calls that arrived later are not on record. */
  writtenAt = -Infinity
  private hasFailed = false
  private isOver = false
  private fiber: Fiber.Fiber<void> | undefined
  /** Waits for the next retry. */
  private retry: Fiber.Fiber<void> | undefined

  constructor(
    driver: Journal["Service"],
    context: Context.Context<never>,
    options: {
      readonly session: string
      readonly principal: string
      readonly outages: Outages
      readonly now: () => number
    }
  ) {
    this.driver = driver
    this.context = context
    this.session = options.session
    this.principal = options.principal
    this.outages = options.outages
    this.now = options.now
  }

  /** Notes a line that is written soon; no caller waits for it. */
  note(line: Line): void {
    this.coming().lines.push(line)
  }

  /** Writes a line; gives whether it is on record. If not, it will never be. */
  write(line: Line): Effect.Effect<boolean> {
    return Effect.callback((resume) => {
      const batch = this.coming()
      batch.lines.push(line)
      batch.refused.add(line)
      batch.waiting.push((isWritten) => resume(Effect.succeed(isWritten && line.term?.isOver !== true)))
    })
  }

  /** Ends once all noted lines are written, or the write has failed; gives which. */
  readonly flush: Effect.Effect<boolean> = Effect.callback((resume) => {
    this.coming().waiting.push((isWritten) => resume(Effect.succeed(isWritten)))
  })

  /** Ends the writer with its executor: tries to write the remaining lines, with a timeout. */
  readonly close: Effect.Effect<void> = Effect.suspend(() => {
    this.isOver = true
    if (this.next === undefined && this.fiber === undefined && this.kept.length === 0) return Effect.void
    const written = Effect.andThen(
      this.flush,
      Effect.whileLoop({
        while: () => this.kept.length > 0,
        body: () => Effect.andThen(Effect.sleep(pause), this.flush),
        step: () => {}
      })
    )
    return Effect.andThen(
      Detached.within(written, 2 * TimedPorts.timeoutMillis),
      Effect.suspend(() => {
        const { length } = this.kept
        return length === 0
          ? Effect.void
          : Effect.logWarning(`The journal lacks ${length} entries: it could not be written`)
      })
    )
  })

  /** The next batch. Writing runs in a separate fiber, so that callers cannot interrupt it. */
  private coming(): Batch {
    if (this.next !== undefined) return this.next
    this.next = { lines: [], refused: new Set(), waiting: [], since: this.now() }
    this.retry?.interruptUnsafe()
    this.retry = undefined
    if (this.fiber === undefined) this.begin()
    return this.next
  }

  private begin(): void {
    const fiber = this.fiber = Effect.runForkWith(this.context)(this.writing())
    fiber.addObserver(() => {
      this.fiber = undefined
      if (this.next !== undefined) this.begin()
    })
  }

  private readonly writing = Effect.fnUntraced(function*(this: JournalWriter) {
    // lines that are noted at this moment are written together
    yield* Effect.yieldNow
    for (let batch = this.next; batch !== undefined; batch = this.next) {
      this.next = undefined
      const error = yield* this.append(batch)
      if (error === undefined) {
        for (const written of batch.waiting) written(true)
        yield* this.succeeded
      } else {
        yield* this.failed(error.cause)
        this.giveUp(batch)
        // callers that have waited for a full timeout meanwhile do not wait for a second failure
        const behind = this.next as Batch | undefined
        if (behind !== undefined && this.now() - behind.since >= TimedPorts.timeoutMillis) {
          this.next = undefined
          this.giveUp(behind)
        }
        if (this.next === undefined) this.tryLater()
      }
    }
  })

  private append({ lines, waiting }: Batch): Effect.Effect<JournalError | undefined> {
    const all = this.lost === 0 && this.kept.length === 0 ? lines : [...this.gap(), ...this.kept, ...lines]
    if (all.length === 0) return Effect.undefined
    return Effect.match(this.driver.append(all, { durable: waiting.length > 0 }), {
      onFailure: (error) => error,
      onSuccess: () => {
        this.lost = 0
        this.kept = []
        this.writtenAt = this.now()
        return undefined
      }
    })
  }

  /** An entry for the lines that were dropped. */
  private gap(): ReadonlyArray<Line> {
    if (this.lost === 0) return []
    const { lost, principal, session } = this
    const entry = { _tag: "Gap" as const, at: this.now(), principal, session, lost }
    return [{ entry }]
  }

  /** Keeps the lines for later, up to the limit, and reports the failure to the waiting callers. */
  private giveUp({ lines, refused, waiting }: Batch): void {
    for (const line of lines) if (!refused.has(line) && line.term?.isOver !== true) this.kept.push(line)
    const surplus = Math.max(0, this.kept.length - maxKept)
    this.lost += surplus
    this.kept.splice(0, surplus)
    for (const written of waiting) written(false)
  }

  private tryLater(): void {
    if (this.isOver) return
    this.retry = Effect.runForkWith(this.context)(Effect.andThen(
      Effect.sleep(pause),
      Effect.sync(() => {
        this.retry = undefined
        this.coming()
      })
    ))
  }

  private readonly succeeded: Effect.Effect<void> = Effect.suspend(() => {
    if (!this.hasFailed) return Effect.void
    this.hasFailed = false
    const left = this.outages.over(unwritten)
    // another executor over the same journal may have logged it
    if (left === undefined) return Effect.void
    const others = left === 0 ? "" : `; ${left} more warnings were suppressed`
    return Effect.logInfo(`The journal can be written again${others}`)
  })

  private failed(cause: unknown): Effect.Effect<void> {
    if (this.hasFailed) return Effect.void
    this.hasFailed = true
    const what = this.outages.failed(unwritten, this.now())
    return what === undefined
      ? Effect.void
      : CallLog.log("Warn", what, Cause.die(cause), { principal: this.principal })
  }
}
