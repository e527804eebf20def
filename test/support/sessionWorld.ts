/**
 * A world of several processes over one PostgreSQL in which time is what a test says: the clock of the database, and a
 * clock for each process that may be slow or fast. A process can be frozen: it does nothing, its clock goes on, and its
 * statements wait, before they reach the database or with their answers.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as SqlClient from "effect/sql/SqlClient"
import type * as Journal from "../../src/core/store/Journal.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import { losing, through } from "./throughClient.ts"

/** The clock of a process. */
export class LocalClock implements Clock.Clock {
  private millis = 0
  private readonly rate: number
  private readonly sleepers = new Set<{ readonly at: number; readonly wake: () => void }>()
  isFrozen = false

  /** `rate`: milliseconds of this clock per millisecond. */
  constructor(rate = 1) {
    this.rate = rate
  }

  currentTimeMillisUnsafe(): number {
    return this.millis
  }
  readonly currentTimeMillis = Effect.sync(() => this.currentTimeMillisUnsafe())
  currentTimeNanosUnsafe(): bigint {
    return BigInt(Math.round(this.millis * 1e6))
  }
  readonly currentTimeNanos = Effect.sync(() => this.currentTimeNanosUnsafe())
  monotonicTimeNanosUnsafe(): bigint {
    return this.currentTimeNanosUnsafe()
  }
  readonly monotonicTimeNanos = this.currentTimeNanos
  sleep(duration: Duration.Duration): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const sleeper = { at: this.millis + Duration.toMillis(duration), wake: () => resume(Effect.void) }
      this.sleepers.add(sleeper)
      this.wake()
      return Effect.sync(() => void this.sleepers.delete(sleeper))
    })
  }

  advance(millis: number): void {
    this.millis += millis * this.rate
    this.wake()
  }

  /** Wakes who has slept long enough; nobody in a frozen process. */
  wake(): void {
    if (this.isFrozen) return
    const due = Array.from(this.sleepers).filter(({ at }) => at <= this.millis).sort((a, b) => a.at - b.at)
    for (const it of due) {
      this.sleepers.delete(it)
      it.wake()
    }
  }
}

/** The clock of the database: what `clock_timestamp()` is for those who connect later. */
export const virtualTime = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
  yield* sql`CREATE SCHEMA virtual`
  yield* sql`CREATE TABLE virtual.clock (at TIMESTAMPTZ NOT NULL)`
  yield* sql`INSERT INTO virtual.clock VALUES ('2030-01-01')`
  yield* sql.unsafe(`CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT at FROM virtual.clock'`)
  yield* sql`ALTER DATABASE ${sql(row!.name)} SET search_path = public, virtual, pg_catalog`
})

/** Lets time pass in the database. */
export const pass = (sql: SqlClient.SqlClient, millis: number) =>
  sql.unsafe("UPDATE virtual.clock SET at = at + $1::float8 * INTERVAL '1 millisecond'", [millis])

/** What becomes of the next statement that has a text in it. */
export interface Loss {
  readonly text: string
  readonly what: "statement" | "answer"
}

export class Process {
  readonly clock: LocalClock
  readonly sql: SqlClient.SqlClient
  /** Closed while it is frozen. */
  readonly gate = Latch.makeUnsafe(true)
  /** Statements that are under way, and those of them that wait for the gate. */
  open = 0
  held = 0
  loss: Loss | undefined

  constructor(sql: SqlClient.SqlClient, rate: number) {
    this.clock = new LocalClock(rate)
    this.sql = through(sql, (statement, asked) => this.execute(statement, asked))
  }

  /** Runs something in the process. */
  readonly run = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(effect, Clock.Clock, this.clock)

  /** Its stores, for the rest of the scope. */
  readonly stores = Effect.suspend(() =>
    this.run(Effect.provideService(
      Effect.gen(function*() {
        const registry = yield* SqlSessionRegistry.make({ lease: leaseMillis })
        const journal = yield* Effect.provideService(SqlJournal.make(), SessionRegistry, registry)
        return { registry, journal }
      }),
      SqlClient.SqlClient,
      this.sql
    ))
  )

  freeze(): void {
    this.clock.isFrozen = true
    this.gate.closeUnsafe()
  }

  thaw(): void {
    this.clock.isFrozen = false
    this.gate.openUnsafe()
    this.clock.wake()
  }

  /** Whether nothing of it is under way, but for what waits until it is thawed. */
  get isQuiet(): boolean {
    return this.open === this.held
  }

  private readonly passed = Effect.suspend(() => {
    this.held++
    return Effect.ensuring(this.gate.await, Effect.sync(() => this.held--))
  })

  private execute(statement: string, asked: Effect.Effect<unknown, unknown>): Effect.Effect<unknown, unknown> {
    return Effect.suspend(() => {
      this.open++
      const { loss } = this
      const isLost = loss !== undefined && statement.includes(loss.text)
      if (isLost) this.loss = undefined
      const answer = losing(asked, isLost ? loss.what : undefined)
      return Effect.ensuring(
        Effect.andThen(this.passed, Effect.onExit(answer, () => this.passed)),
        Effect.sync(() => this.open--)
      )
    })
  }
}

/** The lease of each process, in milliseconds. */
export const leaseMillis = 3_000

/** A line of a call, in the term in which it arrived. */
export const lineOf = (journal: Journal.Journal["Service"], principal: string, callId: string, epoch: number) => ({
  entry: {
    _tag: "OrphanEnded" as const,
    at: 0,
    principal,
    session: "s",
    agentPath: [],
    batch: "b",
    process: "p",
    wave: epoch,
    index: 0,
    callId,
    tool: "t",
    key: callId
  },
  term: journal.term!(principal)
})
