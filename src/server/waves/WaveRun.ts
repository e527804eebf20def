/**
 * Runs a wave until it ends or the server stops, with or without readers.
 *
 * The name of the wave is the name of its process, so a later server finds its recorded calls and resumes them.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { ResumeError } from "../../core/contract/ResumeError.ts"
import type { TurnState } from "../../core/gates/TurnState.ts"
import { isLost } from "../../core/store/SessionRows.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import type { ToolOutcome, WaveResult } from "../../core/vocabulary/ToolOutcome.ts"
import * as Principals from "../users/Principals.ts"
import { retryMillis } from "../work/Work.ts"
import * as LostWave from "./LostWave.ts"
import * as Messages from "./Messages.ts"
import type { ServedWave } from "./ServedWave.ts"
import type { Turn, Turns } from "./Turns.ts"
import type { End, WaveStore, WaveStoreError } from "./WaveStore.ts"

/** What all waves share. */
export interface Around {
  readonly turns: Turns
  readonly store: WaveStore["Service"]
  /** Whether calls are recorded and can be resumed. */
  readonly hasJournal: boolean
  /** How many waves could not continue. */
  readonly stuck: { count: number }
}

/** Runs a submitted wave. If it cannot be stored or started, the submission fails and nothing has run. */
export const first = (around: Around, wave: ServedWave): Effect.Effect<void> =>
  toItsEnd(
    around,
    wave,
    Effect.gen(function*() {
      const turn = yield* around.turns.enter(wave.submitted, wave.submitted.turn)
      yield* around.store.begin(wave.submitted, wave.info)
      turn.began(wave.submitted.wave)
      wave.begin()
      const before = yield* turn.state
      const { after, result } = yield* inProcess(wave, turn, before, (process) => process.executeWave(wave.calls))
      yield* end(around, wave, turn, { before, after, result })
    }).pipe(Effect.scoped)
  )

/** Resumes a wave without an end. Retries while another process may still hold it, or the journal does not answer. */
export const again = (around: Around, wave: ServedWave): Effect.Effect<void> =>
  toItsEnd(
    around,
    wave,
    Effect.gen(function*() {
      wave.begin()
      const turn = yield* around.turns.enter(wave.submitted, wave.submitted.turn)
      turn.began(wave.submitted.wave)
      if (!around.hasJournal) return yield* lost(around, wave)
      const before = yield* turn.state
      const { after, result } = yield* inProcess(wave, turn, before, (process) => process.resume(wave.calls)).pipe(
        // a session that is left is resumed by whoever opens it next
        Effect.tapError((error) => isForNow(error) ? delayed(around, wave, error) : Effect.void),
        Effect.retry({
          while: (error) => isForNow(error) && wave.leaving === undefined,
          schedule: Schedule.spaced(pauseMillis)
        })
      )
      yield* end(around, wave, turn, { before, after, result })
    }).pipe(Effect.scoped)
  )

/** Ends all readers in any case, and suspends a wave without an end. */
const toItsEnd = (
  around: Around,
  wave: ServedWave,
  run: Effect.Effect<void, ConfigurationError | ResumeError | WaveStoreError>
): Effect.Effect<void> =>
  run.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : failed(around, wave, cause)),
    Effect.exit,
    Effect.asVoid,
    Effect.ensuring(Effect.map(Clock.currentTimeMillis, (now) => wave.close(now)))
  )

type Failure = Cause.Cause<ConfigurationError | ResumeError | WaveStoreError>

const failed = (around: Around, wave: ServedWave, cause: Failure): Effect.Effect<void> =>
  Effect.suspend(() => {
    // whoever holds its session now has the reason
    if (wave.isLost) return Effect.void
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    if (wave.leaving !== undefined && error?._tag === "ResumeError" && isForNow(error)) return Effect.void
    const problem = wave.phase._tag === "Arrived" ? undefined : problemOf(cause)
    if (problem !== undefined) {
      return wave.cancelled === undefined ? stuck(around, wave, problem, cause) : lost(around, wave)
    }
    wave.fail()
    return Effect.logError("A wave could not continue and is left for the next start", cause)
  }).pipe(Principals.annotated(wave.submitted, wave.submitted.wave))

/** Notes why a wave cannot continue for now. What lasts longer than a process may be taken for alive is logged. */
const delayed = Effect.fnUntraced(
  function*({ stuck }: Around, wave: ServedWave, error: ResumeError | ConfigurationError) {
    const now = yield* Clock.currentTimeMillis
    const { since = now, tries = 0 } = wave.stuck ?? {}
    wave.delay({ problem: error.message, since, tries: tries + 1, retryAt: now + pauseMillis })
    if (tries + 1 !== patientTries) return
    stuck.count++
    yield* Effect.logError(
      `A wave cannot continue for now. It is tried again every ${pauseMillis / 1_000} seconds`,
      error
    )
  }
)

const pauseMillis = 2_000

/** These take longer than a minute. */
const patientTries = 32

/** Stores why a wave cannot continue, and leaves it for a later time. */
const stuck = Effect.fnUntraced(function*(
  { store, stuck }: Around,
  wave: ServedWave,
  problem: string,
  cause: Failure
) {
  const now = yield* Clock.currentTimeMillis
  const { since = now, tries = 0 } = wave.submitted.stuck ?? {}
  const pause = Math.min(retryMillis * 2 ** tries, mostRetryMillis)
  const reason = { problem, since, tries: tries + 1, retryAt: now + pause }
  wave.fail(reason)
  if (tries === 0) {
    stuck.count++
    yield* Effect.logError(
      "A wave cannot continue. It is tried again after growing pauses, until it is cancelled",
      cause
    )
  }
  const info = { ...wave.info, status: "suspended", stuck: reason } as const
  yield* Effect.catch(
    store.stick({ ...wave.submitted, stuck: reason }, info),
    (error) =>
      isLost(error)
        ? Effect.sync(() => wave.leave("lost"))
        : Effect.logWarning("It could not be stored that a wave cannot continue", error)
  )
})

/** What keeps a wave from continuing, however often it is tried; `undefined`: a store that is away. */
const problemOf = (cause: Failure): string | undefined => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error?._tag === "WaveStoreError") return undefined
  return error?._tag === "ResumeError" ? error.message : "The cause is in the log of the server."
}

/** The longest pause between two tries. */
const mostRetryMillis = 86_400_000

const isForNow = (error: ConfigurationError | ResumeError): boolean =>
  error._tag === "ResumeError" && error.reason !== "Changed"

const inProcess = Effect.fnUntraced(function*<E>(
  wave: ServedWave,
  { batch }: Turn,
  before: TurnState | undefined,
  run: (process: Effect.Success<ReturnType<Turn["batch"]["process"]>>) => Effect.Effect<WaveResult, E>
) {
  const { said: heard, session, wave: id } = wave.submitted
  const process = yield* batch.process({ id, session: session === "" ? undefined : session, state: before, heard })
  yield* process.listen((event) => {
    wave.tell(event)
    return true
  })
  const result = yield* wave.under(process)(run(process))
  return { result, after: yield* process.state }
}, Effect.scoped)

/** Stores the result before anybody sees that the wave has ended. */
const end = (
  { store }: Around,
  wave: ServedWave,
  turn: Turn,
  { after, before, result }: {
    readonly before: TurnState | undefined
    readonly after: TurnState
    readonly result: WaveResult
  }
): Effect.Effect<void> =>
  result.suspended !== undefined || wave.isLost ? Effect.void : Effect.uninterruptible(Effect.gen(function*() {
    const ended = yield* endOf(wave, result.outcomes)
    const persist = (turn: Pick<End, "isTurnOpen" | "turn">) => store.end(wave.submitted, { ...turn, ...ended })
    yield* settled(wave, ended, turn.ended({ name: wave.submitted.wave, before, after }, persist))
  }))

/** Without a journal, the outcomes are unknown. */
const lost = Effect.fnUntraced(function*({ store }: Around, wave: ServedWave) {
  const outcomes = LostWave.outcomes(wave)
  const now = yield* Clock.currentTimeMillis
  for (const event of LostWave.events(wave, outcomes, now)) wave.tell(event)
  const ended = yield* endOf(wave, outcomes)
  yield* settled(wave, ended, store.end(wave.submitted, ended))
})

const endOf = (wave: ServedWave, outcomes: ReadonlyArray<ToolOutcome>): Effect.Effect<End> =>
  Effect.map(Clock.currentTimeMillis, (at) => ({
    ended: { at, messages: Messages.of(wave.submitted.format, outcomes), events: wave.takeLifecycle() },
    info: { ...wave.info, status: "ended", endedAt: at }
  }))

/**
 * Ends a wave once that is stored. If storing fails, the next start finds the end in the journal; if another process
 * has the session, that one finds it.
 */
const settled = (wave: ServedWave, { ended }: End, stored: Effect.Effect<void, WaveStoreError>): Effect.Effect<void> =>
  stored.pipe(
    Effect.as(true),
    Effect.catch((error) =>
      isLost(error)
        ? Effect.sync(() => (wave.leave("lost"), false))
        : Effect.as(Effect.logWarning("The end of a wave could not be stored", error), false)
    ),
    Effect.map((isStored) => {
      if (!wave.isLost) wave.settle(ended.at, ended.messages, isStored)
    }),
    Principals.annotated(wave.submitted, wave.submitted.wave)
  )
