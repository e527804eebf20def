/**
 * Appends that come while one is being written are written together, by the next one: what a disk or a database takes
 * for one commit is paid once for all of them.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type { JournalError } from "./Journal.ts"
import type { Line } from "./JournalEntry.ts"

/** What is written next, and who waits for it. */
interface Group {
  readonly lines: Array<Line>
  durable: boolean
  readonly waiting: Array<(exit: Exit.Exit<void, JournalError>) => void>
}

/** The appends of a driver. */
export class GroupedAppends {
  private readonly write: (lines: ReadonlyArray<Line>, durable: boolean) => Effect.Effect<void, JournalError>
  private readonly context: Context.Context<never>
  private next: Group | undefined
  private isWriting = false

  /** Lines are written in the context that is given here: in no transaction of those who append. */
  constructor(
    context: Context.Context<never>,
    write: (lines: ReadonlyArray<Line>, durable: boolean) => Effect.Effect<void, JournalError>
  ) {
    this.context = context
    this.write = write
  }

  /** Interruption ends the wait alone: the lines are written even so. */
  append(lines: ReadonlyArray<Line>, durable: boolean): Effect.Effect<void, JournalError> {
    return Effect.callback((resume) => {
      const group = this.next ??= { lines: [], durable: false, waiting: [] }
      for (const line of lines) group.lines.push(line)
      group.durable ||= durable
      group.waiting.push(resume)
      this.begin()
    })
  }

  /** Ends once nothing is left to be written. */
  readonly idle: Effect.Effect<void> = Effect.suspend(() =>
    this.isWriting || this.next !== undefined ? Effect.ignore(this.append([], false)) : Effect.void
  )

  private begin(): void {
    if (this.isWriting || this.next === undefined) return
    const group = this.next
    this.next = undefined
    this.isWriting = true
    const fiber = Effect.runForkWith(this.context)(this.write(group.lines, group.durable))
    fiber.addObserver((exit) => {
      this.isWriting = false
      for (const resume of group.waiting) resume(exit)
      this.begin()
    })
  }
}
