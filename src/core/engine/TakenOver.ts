/**
 * Calls that another process may have taken over: this one stood still, or could not reach its journal, for longer than
 * the lease of its term. Such a call is given no outcome of this process before the journal was asked whose it is.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Detached from "../../internal/detached.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { Attempt } from "./Attempt.ts"
import type { Call } from "./Call.ts"
import type { End } from "./CallEnd.ts"
import type { JournalWriter } from "./report/JournalWriter.ts"
import * as TimedPorts from "./TimedPorts.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * How a call ends for which this process has an end: so, if the call is its own, and else as the journal says;
 * `Unknown` if that says nothing.
 */
export const endOf = (wave: WaveState, call: Call, end: End): Effect.Effect<End> => {
  const { record } = call
  const journal = wave.engine.journal
  const term = record?.term
  if (record === undefined || journal === undefined || term === undefined) return Effect.succeed(end)
  const asked = Effect.repeat(term.renew, { until: (it) => it !== undefined, schedule: again })
  const owned = Effect.map(
    Detached.within(asked, TimedPorts.timeoutMillis),
    (exit) => exit?._tag === "Success" ? exit.value : undefined
  )
  return Effect.flatMap(owned, (isOurs) => {
    if (isOurs === true) return Effect.succeed(end)
    call.attempt?.lose()
    const known = isOurs === undefined ? nothing : recorded(journal, record.key)
    return Effect.map(known, (outcome) => outcome ?? unknown(wave, call))
  })
}

/**
 * Ends an attempt as soon as its call is known to be another process's, and before it writes where that cannot be ruled
 * out.
 */
export const watch = (call: Call, attempt: Attempt): void => {
  const term = call.record?.term
  if (term === undefined) return
  const stop = (): void => {
    attempt.lose()
    attempt.stop({ _tag: "Unknown" })
  }
  attempt.atEnd(term.onOver(stop))
  attempt.beforeCommits(() =>
    term.isHeld ? undefined : Effect.map(Detached.within(term.renew, TimedPorts.timeoutMillis), (exit) => {
      if (exit?._tag !== "Success" || exit.value !== true) stop()
    })
  )
}

// Utilities

/** How often a journal that could not be reached is asked within its patience. */
const again = Schedule.spaced("250 millis")

const nothing: Effect.Effect<undefined> = Effect.undefined

const unknown = (wave: WaveState, call: Call): End =>
  (call.attempt === undefined
    ? call.resumed?.unless ?? { _tag: "Unknown", startedAt: wave.now() }
    : { _tag: "Unknown" }) as End

/** The outcome that another process has recorded. */
const recorded = (journal: JournalWriter, key: string): Effect.Effect<End | undefined> =>
  Effect.map(
    Detached.within(Stream.runCollect(journal.driver.read({ keys: [key] })), TimedPorts.timeoutMillis),
    (exit) => {
      if (exit?._tag !== "Success") return undefined
      let outcome: ToolOutcome | undefined
      for (const { entry } of exit.value) {
        if (entry.session === journal.session) continue
        if (entry._tag === "Settled") outcome = entry.outcome
        else if (entry._tag === "Arrived" && entry.isResumed !== true) outcome = undefined
      }
      if (outcome === undefined) return undefined
      const { callId: _c, index: _i, queuedAt: _q, tool: _t, ...end } = outcome
      return end as unknown as End
    }
  )
