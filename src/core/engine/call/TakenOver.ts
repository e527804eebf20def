/**
 * Calls that another process may have taken over, because this process was frozen or could not reach its journal for
 * longer than the lease of its term. The journal confirms the owner before such a call gets an outcome here.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Detached from "../../../internal/detached.ts"
import type { Term } from "../../store/Journal.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import { cancelled, type End } from "../data/CallEnd.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"
import type { Attempt } from "./attempt/Attempt.ts"
import type { Call } from "./Call.ts"
import type { WaveHost } from "./WaveHost.ts"

/**
 * Gives the end of a call: `end` if the call still belongs to this process, else what the journal says, else `Unknown`.
 * A call that has not begun and is being suspended has no end here, whoever it belongs to.
 */
export const endOf = (wave: WaveHost, call: Call, end: End): Effect.Effect<End> => {
  const { record } = call
  const journal = wave.engine.journal
  const term = record?.term
  if (record === undefined || journal === undefined || term === undefined) return Effect.succeed(end)
  return Effect.flatMap(isOwned(wave, call, term), (isOurs) => {
    if (isOurs === true) return Effect.succeed(end)
    call.attempt?.lose()
    const known = isOurs === undefined ? nothing : recorded(journal, record.key)
    return Effect.map(known, (outcome) => outcome ?? (isLeft(wave, call) ? left(end) : unknown(wave, call)))
  })
}

/**
 * Whether a call still belongs to this process; `undefined`: the journal does not say in time. A call that may wait is
 * asked for again as long as its turn lasts and its session stays.
 */
const isOwned = (wave: WaveHost, call: Call, term: Term): Effect.Effect<boolean | undefined> => {
  const asked = Effect.repeat(term.renew, { until: (it) => it !== undefined, schedule: again })
  const inTime = Effect.map(
    Detached.within(asked, TimedPorts.timeoutMillis),
    (exit) => exit?._tag === "Success" ? exit.value : undefined
  )
  return Effect.repeat(inTime, {
    until: (it) =>
      it !== undefined || !mayWait(call) || isLeft(wave, call) || wave.process.budget.left(wave.now()) <= 0,
    schedule: again
  })
}

/**
 * Stops an attempt when its call belongs to another process. Checks again before each write if the term is in doubt.
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

const mayWait = ({ phase }: Call): boolean => phase._tag === "Doubted" && phase.mayWait

/** How often to retry a journal that cannot be reached, until the timeout. */
const again = Schedule.spaced("250 millis")

const nothing: Effect.Effect<undefined> = Effect.undefined

const unknown = (wave: WaveHost, call: Call): End =>
  (call.attempt === undefined
    ? call.unless ?? { _tag: "Unknown", startedAt: wave.now() }
    : { _tag: "Unknown" }) as End

const isLeft = (wave: WaveHost, call: Call): boolean =>
  call.attempt === undefined && (call.consent.isSuspended === true || wave.isSuspended(call))

/** Whatever was decided here is not on record: whoever resumes the call decides again. */
const left = (end: End): End => end._tag === "Cancelled" ? end : cancelled("the journal could not be reached")

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
