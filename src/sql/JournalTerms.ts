/**
 * The term in which a process writes to a journal in SQL. It lives as long as its lease is renewed, by the clock of the
 * database. A term that another process has ended is replaced by a new one: calls that arrive from then on are written
 * in that.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Epoch } from "../core/store/Epoch.ts"
import type * as Journal from "../core/store/Journal.ts"
import * as Tables from "./JournalTables.ts"
import { deadline, own } from "./OwnConnection.ts"

/** An append whose answer was lost: its number, lines, and the epochs that they need. */
interface Unsure {
  readonly number: number
  readonly lines: ReadonlySet<Journal.Line>
  readonly epochs: ReadonlySet<Epoch>
}

/** A term. It has no id until something is written in it. */
export class Term implements Journal.Term {
  private readonly terms: Terms
  id: number | undefined
  isOver = false
  /** When its lease was last renewed, in milliseconds of the monotonic clock. */
  since = Infinity
  /** Calls that were claimed in it and of which nothing is on record since. */
  readonly claimed = new Set<string>()
  /** The number of the last append, which names it in its term. */
  appends = 0
  /** The last append, if its answer was lost. */
  unsure: Unsure | undefined
  private readonly watchers = new Set<() => void>()

  constructor(terms: Terms) {
    this.terms = terms
  }

  get isHeld(): boolean {
    return !this.isOver && this.terms.now() < this.since + this.terms.leaseMillis
  }

  readonly renew: Effect.Effect<boolean | undefined> = Effect.suspend(() =>
    Effect.orElseSucceed(this.terms.renew(this), () => undefined)
  )

  onOver(run: () => void): () => void {
    if (this.isOver) run()
    this.watchers.add(run)
    return () => void this.watchers.delete(run)
  }

  /** It is known to be over. */
  end(): void {
    this.isOver = true
    for (const run of Array.from(this.watchers)) run()
    this.watchers.clear()
  }
}

/** The terms of one process, one after the other. */
export class Terms {
  private readonly sql: SqlClient.SqlClient
  private readonly clock: Clock.Clock
  readonly leaseMillis: number
  current: Term
  /** Lines that are on record, though the answer to their append was lost. */
  readonly landed = new WeakSet<Journal.Line>()

  constructor(sql: SqlClient.SqlClient, clock: Clock.Clock, leaseMillis: number) {
    this.sql = sql
    this.clock = clock
    this.leaseMillis = leaseMillis
    this.current = new Term(this)
  }

  /** Milliseconds of a monotonic clock. */
  now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  /** The current term, open. */
  readonly opened: Effect.Effect<Term & { readonly id: number }, SqlError> = Effect.suspend(() => {
    const term = this.current
    if (isOpen(term)) return Effect.succeed(term)
    const since = this.now()
    return Effect.map(own(this.sql)(Tables.openTerm(this.sql, this.leaseMillis)), (id) => {
      term.since = since
      return Object.assign(term, { id })
    })
  })

  /** Holds a term for longer, or opens it; false if it is over. */
  renew(term: Term): Effect.Effect<boolean, SqlError> {
    if (term.isOver) return Effect.succeed(false)
    if (!isOpen(term)) return Effect.as(this.opened, true)
    const since = this.now()
    const renewed = Tables.renewTerm(this.sql, term.id, this.leaseMillis)
    return Effect.flatMap(own(this.sql, Math.min(deadline, this.leaseMillis / 3))(renewed), (isRenewed) => {
      if (!isRenewed) return Effect.as(this.ended(term), false)
      this.extend(term, since)
      return Effect.succeed(true)
    })
  }

  /** Its lease is counted from then on. */
  extend(term: Term, since: number): void {
    term.since = Math.max(term.since, since)
  }

  /** Another process has ended a term: the next one is opened once it is needed. */
  ended(term: Term): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (term.isOver) return Effect.void
      this.current = new Term(this)
      term.end()
      return Effect.andThen(
        Metric.update(lost, 1),
        Effect.logWarning(
          "The journal's term is over: another process has taken over its calls. A new term is opened"
        )
      )
    })
  }

  /** Renews the current term, and opens it if it took the place of another. */
  readonly renewing: Effect.Effect<never> = Effect.gen({ self: this }, function*() {
    while (true) {
      const renewed = yield* Effect.exit(this.renew(this.current))
      // a database that could not be reached is asked again before the lease is over, more than once
      yield* Effect.sleep(this.leaseMillis / (renewed._tag === "Success" ? 3 : 10))
    }
  })

  /** Ends the current term; one that cannot be ended ends with its lease. */
  readonly close: Effect.Effect<void> = Effect.suspend(() => {
    const { current } = this
    return isOpen(current) ? Effect.ignore(own(this.sql)(Tables.endTerms(this.sql, [current.id]))) : Effect.void
  })
}

const lost = Metric.counter("tool_executor.journal.terms_lost", {
  description: "Terms of the journal that another process has ended",
  incremental: true
})

const isOpen = (term: Term): term is Term & { readonly id: number } => term.id !== undefined
