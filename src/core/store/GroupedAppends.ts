/**
 * Appends that come while one is being written are written together, by the next one: what a disk or a database takes
 * for one commit is paid once for all of them.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { JournalError } from "./Journal.ts"
import type { Line } from "./JournalEntry.ts"

/** Writes lines; gives those that it left out for good because their term is over, if there are any. */
export type Write = (
  lines: ReadonlyArray<Line>,
  durable: boolean
) => Effect.Effect<ReadonlySet<Line> | void, JournalError>

/** What is written next, and who waits for it. */
interface Group {
  readonly lines: Array<Line>
  durable: boolean
  readonly waiting: Array<Waiter>
  /** Absent until it has ended. */
  isWritten?: boolean
}

/** Who waits for lines of a group. */
interface Waiter {
  readonly lines: ReadonlyArray<Line>
  readonly resume: (exit: Effect.Effect<void, JournalError>) => void
}

/** The appends of a driver. */
export class GroupedAppends {
  private readonly write: Write
  private readonly context: Context.Context<never>
  private next: Group | undefined
  private isWriting = false
  /** Lines that are being written, and for which nobody waits any more. */
  private readonly left = new Map<Line, Group>()
  /** Lines that were written after nobody had waited for them any more. */
  private readonly landed = new WeakSet<Line>()
  private hasLanded = false

  /** Lines are written in the context that is given here: in no transaction of those who append. */
  constructor(context: Context.Context<never>, write: Write) {
    this.context = context
    this.write = write
  }

  /**
   * Interruption ends the wait alone: the lines are written even so. Whoever appends the same lines again waits for that,
   * and they are written once.
   */
  append(lines: ReadonlyArray<Line>, durable: boolean): Effect.Effect<void, JournalError> {
    return Effect.suspend(() => {
      if (this.left.size === 0 && !this.hasLanded) return this.join(lines, durable)
      const groups = new Set(lines.flatMap((it) => this.left.get(it) ?? []))
      const isNew = (it: Line) => !this.left.has(it) && !this.landed.has(it)
      const fresh = lines.filter(isNew)
      const waits = Effect.forEach(
        groups,
        (group) => this.wait(group, lines.filter((it) => this.left.get(it) === group))
      )
      const rest = fresh.length === 0 && lines.length > 0 ? Effect.void : this.join(fresh, durable)
      return groups.size === 0 ? rest : Effect.andThen(waits, rest)
    })
  }

  private join(lines: ReadonlyArray<Line>, durable: boolean): Effect.Effect<void, JournalError> {
    return Effect.suspend(() => {
      const group = this.next ??= { lines: [], durable: false, waiting: [] }
      for (const line of lines) group.lines.push(line)
      group.durable ||= durable
      return this.wait(group, lines)
    })
  }

  private wait(group: Group, lines: ReadonlyArray<Line>): Effect.Effect<void, JournalError> {
    return Effect.callback((resume) => {
      group.waiting.push({ lines, resume })
      this.begin()
      return Effect.sync(() => {
        if (group.isWritten === undefined) { for (const line of lines) this.left.set(line, group) }
        else if (group.isWritten) this.land(lines)
      })
    })
  }

  /** Ends once nothing is left to be written. */
  readonly idle: Effect.Effect<void> = Effect.suspend(() =>
    this.isWriting || this.next !== undefined ? Effect.ignore(this.append([], false)) : Effect.void
  )

  /** What nobody waited for is written, or may be written again. */
  private ended({ lines }: Group, isWritten: boolean): void {
    const left = lines.filter((it) => this.left.delete(it))
    if (isWritten) this.land(left)
  }

  private land(lines: ReadonlyArray<Line>): void {
    for (const line of lines) this.landed.add(line)
    this.hasLanded = true
  }

  private begin(): void {
    if (this.isWriting || this.next === undefined) return
    const group = this.next
    this.next = undefined
    this.isWriting = true
    const fiber = Effect.runForkWith(this.context)(this.write(group.lines, group.durable))
    fiber.addObserver((exit) => {
      this.isWriting = false
      group.isWritten = exit._tag === "Success"
      if (this.left.size > 0) this.ended(group, group.isWritten)
      for (const { lines, resume } of group.waiting) resume(endOf(exit, lines))
      this.begin()
    })
  }
}

/** Each waiter ends by what became of its lines: one whose lines were all left out has failed. */
const endOf = (
  exit: Exit.Exit<ReadonlySet<Line> | void, JournalError>,
  lines: ReadonlyArray<Line>
): Effect.Effect<void, JournalError> => {
  if (exit._tag === "Failure") return exit
  const left = exit.value
  if (left === undefined || lines.length === 0 || lines.some((it) => !left.has(it))) return Effect.void
  return Effect.fail(new JournalError({ operation: "append", cause: new Error(over) }))
}

const over = "this process no longer holds the session of these calls"
