/**
 * One life of the process that a scenario is about: what it does is on record until the
 * moment at which it dies, and nothing after it.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isOfCall, type Journal, type JournalEntry } from "../core/store/Journal.ts"
import type { StateStore } from "../core/store/StateStore.ts"
import type { Kept } from "./Place.ts"

/**
 * A moment at which a process dies: once that entry of that call is on record, or so
 * many entries are.
 *
 * @category models
 * @since 0.1.0
 */
export type Moment =
  | { readonly _tag: "Entry"; readonly callId: string; readonly entry: string }
  | { readonly _tag: "Entries"; readonly count: number }

/**
 * Reads a moment as a scenario has it: `"ID:ENTRY"`, or a number.
 *
 * @category constructors
 * @since 0.1.0
 */
export const momentOf = (crash: string | number): Moment => {
  if (typeof crash === "number") return { _tag: "Entries", count: crash }
  const end = crash.lastIndexOf(":")
  return { _tag: "Entry", callId: crash.slice(0, end), entry: crash.slice(end + 1) }
}

/**
 * What those hold who are gone, and until when.
 *
 * @category models
 * @since 0.1.0
 */
export interface Gone {
  readonly sessions: ReadonlySet<string>
  readonly until: number
}

/**
 * A life over what is kept.
 *
 * @category models
 * @since 0.1.0
 */
export class Life {
  isDead = false
  readonly journal: Journal["Service"]
  readonly state: StateStore["Service"]
  /** Sessions that have reserved something. */
  readonly sessions = new Set<string>()
  private readonly clock: Clock.Clock
  private moment: Moment | undefined
  private entries = 0
  private diedAt = 0

  /** `gone` are those before it: what they hold is free once its time is over and somebody asks for something. */
  constructor(kept: Kept, leaseMillis: number, clock: Clock.Clock, gone: Array<Gone>) {
    this.clock = clock
    const { journal, state } = kept
    this.journal = {
      ...journal,
      append: (lines, options) =>
        Effect.suspend(() => {
          const last = lines.findIndex(({ entry }) => this.isMoment(entry))
          return last === -1
            ? journal.append(lines, options)
            : Effect.andThen(journal.append(lines.slice(0, last + 1), { durable: true }), this.end)
        })
    }
    this.state = {
      ...state,
      // what is held is held for a time, whatever holds it
      reserve: (requests, now) => {
        for (const { session } of requests) this.sessions.add(session)
        // a driver may do it as soon as it is asked
        const reserve = () =>
          Effect.map(
            state.reserve(requests, now),
            (answers) => answers.map((it) => "epoch" in it ? { ...it, leaseMillis } : it)
          )
        const over = gone.filter(({ until }) => until <= now)
        // whoever resumes has said by then what had started
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

  /** It is to die then, as counted from now. */
  expect(moment: Moment): void {
    this.moment = moment
    this.entries = 0
  }

  /** It dies now: nothing of it does anything any more. */
  readonly end: Effect.Effect<never> = Effect.suspend(() => {
    this.diedAt = this.clock.currentTimeMillisUnsafe()
    this.isDead = true
    return Effect.never
  })

  /** Epoch milliseconds at which it ended, or now. */
  get until(): number {
    return this.isDead ? this.diedAt : this.clock.currentTimeMillisUnsafe()
  }

  private isMoment(entry: JournalEntry): boolean {
    const { moment } = this
    if (moment === undefined) return false
    this.entries++
    return moment._tag === "Entries"
      ? this.entries === moment.count
      : isOfCall(entry) && entry.callId === moment.callId && entry._tag === moment.entry
  }
}
