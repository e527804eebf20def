/** The process that a scenario simulates: its records end at the point where it crashes. */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isOfCall, type Journal, type JournalEntry } from "../core/store/Journal.ts"
import type { StateStore } from "../core/store/StateStore.ts"
import type { Records } from "./RecordStorage.ts"

/** When a process crashes: after an entry of a call is recorded, or after a number of entries (0: before the first). */
export type CrashPoint =
  | { readonly _tag: "Entry"; readonly callId: string; readonly entry: string }
  | { readonly _tag: "Entries"; readonly count: number }

/** Reads a crash point of a scenario: `"ID:ENTRY"`, or a number of entries. */
export const crashPointOf = (crash: string | number): CrashPoint => {
  if (typeof crash === "number") return { _tag: "Entries", count: crash }
  const end = crash.lastIndexOf(":")
  return { _tag: "Entry", callId: crash.slice(0, end), entry: crash.slice(end + 1) }
}

/** What a crashed process still holds, and until when. */
export interface DeadProcess {
  readonly sessions: ReadonlySet<string>
  /** Nothing of the wave that it died in is on record, so its calls can be resumed immediately. */
  readonly isUnrecorded: boolean
  readonly until: number
}

/** A process over recorded state. */
export class SimulatedProcess {
  isDead = false
  readonly journal: Journal["Service"]
  readonly state: StateStore["Service"]
  /** Sessions with reservations. */
  readonly sessions = new Set<string>()
  private readonly clock: Clock.Clock
  private crashPoint: CrashPoint | undefined
  private entries = 0
  private diedAt = 0

  /** `gone`: the processes before it, whose leases expire at their time. */
  constructor(records: Records, leaseMillis: number, clock: Clock.Clock, gone: Array<DeadProcess>) {
    this.clock = clock
    const { journal, state } = records
    this.journal = {
      ...journal,
      append: (lines, options) =>
        Effect.suspend(() => {
          if (this.isUnrecorded) return this.end
          const last = lines.findIndex(({ entry }) => this.isCrashPoint(entry))
          return last === -1
            ? journal.append(lines, options)
            : Effect.andThen(journal.append(lines.slice(0, last + 1), { durable: true }), this.end)
        })
    }
    this.state = {
      ...state,
      reserve: (requests, now, principal) => {
        for (const { session } of requests) this.sessions.add(session)
        const reserve = () =>
          Effect.map(
            state.reserve(requests, now, principal),
            (answers) => answers.map((it) => "epoch" in it ? { ...it, leaseMillis } : it)
          )
        const over = gone.filter(({ until }) => until <= now)
        // a resumed wave first reserves only its batch, and reports what had started
        if (over.length === 0 || requests.every(({ claims }) => claims.every((it) => it._tag === "Batch"))) {
          return reserve()
        }
        gone.splice(0, gone.length, ...gone.filter(({ until }) => until > now))
        const sessions = over.flatMap((it) => Array.from(it.sessions))
        return Effect.andThen(
          Effect.forEach(sessions, (it) => state.abandon(it, now, []), { discard: true }),
          Effect.suspend(reserve)
        )
      }
    }
  }

  /** Sets when it crashes, counted from now. */
  expect(crashPoint: CrashPoint): void {
    this.crashPoint = crashPoint
    this.entries = 0
  }

  /** Crashes now: nothing of it continues. */
  readonly end: Effect.Effect<never> = Effect.suspend(() => {
    this.diedAt = this.clock.currentTimeMillisUnsafe()
    this.isDead = true
    return Effect.never
  })

  /** When it ended, or now, in epoch milliseconds. */
  get until(): number {
    return this.isDead ? this.diedAt : this.clock.currentTimeMillisUnsafe()
  }

  /** Whether it crashes before the first entry is recorded. */
  get isUnrecorded(): boolean {
    return this.crashPoint?._tag === "Entries" && this.crashPoint.count === 0
  }

  private isCrashPoint(entry: JournalEntry): boolean {
    const { crashPoint } = this
    if (crashPoint === undefined) return false
    this.entries++
    return crashPoint._tag === "Entries"
      ? this.entries === crashPoint.count
      : isOfCall(entry) && entry.callId === crashPoint.callId && entry._tag === crashPoint.entry
  }
}
