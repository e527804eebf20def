/**
 * The journal as an executor uses it: what is noted together is written together and in order, and what waits for a
 * line to be written does not wait for ever.
 *
 * Where the journal cannot be written, calls that wait for it are refused; what was only noted is kept and written once
 * it can be, as far as there is room.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as CallLog from "../../../internal/callLog.ts"
import * as Detached from "../../../internal/detached.ts"
import type { Outages } from "../../../internal/outages.ts"
import type { Journal, JournalError, Line } from "../../store/Journal.ts"
import * as TimedPorts from "../TimedPorts.ts"

/** Lines that are written next, and who waits for them. */
interface Batch {
  readonly lines: Array<Line>
  /** What is refused where the lines are not written: they are not written later either. */
  readonly refused: Set<Line>
  readonly waiting: Array<(isWritten: boolean) => void>
  /** When the first of them came. */
  readonly since: number
}

/** So many lines are kept while the journal cannot be written; older ones are lost. */
const maxKept = 10_000

const unwritten = "The journal cannot be written; calls that may change things are refused until it can"

/** Milliseconds until the next try, where nobody waits for one. */
const pause = 1_000

/** The journal of an executor and its sub-agents; its driver answers in time. */
export class JournalWriter {
  readonly driver: Journal["Service"]
  /** The executor that writes. */
  readonly session: string
  private readonly principal: string
  private readonly outages: Outages
  private readonly context: Context.Context<never>
  private readonly now: () => number
  private next: Batch | undefined
  /** Lines that could not be written. */
  private kept: Array<Line> = []
  private lost = 0
  /** When something was put on record last; what arrived later is not on record. */
  writtenAt = -Infinity
  private hasFailed = false
  private isOver = false
  private fiber: Fiber.Fiber<void> | undefined
  /** It waits for its next try. */
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

  /** Notes something that is written soon, and that nobody waits for. */
  note(line: Line): void {
    this.coming().lines.push(line)
  }

  /** Writes a line; tells whether it is on record. Where it is not, it never will be. */
  write(line: Line): Effect.Effect<boolean> {
    return Effect.callback((resume) => {
      const batch = this.coming()
      batch.lines.push(line)
      batch.refused.add(line)
      batch.waiting.push((isWritten) => resume(Effect.succeed(isWritten && line.term?.isOver !== true)))
    })
  }

  /** Ends once all that was noted is on record, or cannot be written now; tells which. */
  readonly flush: Effect.Effect<boolean> = Effect.callback((resume) => {
    this.coming().waiting.push((isWritten) => resume(Effect.succeed(isWritten)))
  })

  /** The executor is over: what was noted is written, if that can be done in time. */
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

  /** What is written next; nobody who waits interrupts the writing. */
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
    // whoever starts at this moment is written together
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
        // who came meanwhile and has waited for as long as one waits does not wait for a second failure
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

  /** Says that lines are missing. */
  private gap(): ReadonlyArray<Line> {
    if (this.lost === 0) return []
    const { lost, principal, session } = this
    const entry = { _tag: "Gap" as const, at: this.now(), principal, session, lost }
    return [{ entry }]
  }

  /** Keeps what was noted for later, as far as there is room; who waits is told. */
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
    // another executor over it may have said so
    if (left === undefined) return Effect.void
    const others = left === 0 ? "" : `; ${left} more warnings of it were left out`
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
