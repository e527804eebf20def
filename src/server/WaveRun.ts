/**
 * Runs a wave to its end, or until the server stops, whether or not anybody reads.
 *
 * Its name is that of its process: calls that are on record are found again under it, so a
 * wave that was begun by a server that is gone goes on where that stood.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import type { TurnState } from "../core/gates/TurnState.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { ToolOutcome, WaveResult } from "../core/vocabulary/ToolOutcome.ts"
import * as LostWave from "./LostWave.ts"
import * as Messages from "./Messages.ts"
import * as Principals from "./Principals.ts"
import type { ServedWave } from "./ServedWave.ts"
import type { Turn, Turns } from "./Turns.ts"
import type { WaveStore, WaveStoreError } from "./WaveStore.ts"

/** What waves run in. */
export interface Around {
  readonly turns: Turns
  readonly store: WaveStore["Service"]
  /** What calls have done is on record, so that they can be resumed. */
  readonly hasJournal: boolean
}

/**
 * Runs a wave that was just handed over. Where it cannot be kept or run at all, whoever hands
 * it over is told so, and nothing has begun.
 */
export const first = (around: Around, wave: ServedWave): Effect.Effect<void> =>
  toItsEnd(
    wave,
    Effect.gen(function*() {
      const turn = yield* around.turns.enter(wave.submitted, wave.submitted.turn)
      yield* around.store.begin(wave.submitted)
      turn.began(wave.submitted.wave)
      wave.begin()
      const before = yield* turn.state
      const { after, result } = yield* inProcess(wave, turn, before, (process) => process.executeWave(wave.calls))
      yield* end(around, wave, turn, { before, after, result })
    }).pipe(Effect.scoped)
  )

/**
 * Goes on with a wave that has no end. As long as whoever worked on it may be alive, or the
 * journal cannot be asked, it is tried again and again.
 */
export const again = (around: Around, wave: ServedWave): Effect.Effect<void> =>
  toItsEnd(
    wave,
    Effect.gen(function*() {
      wave.begin()
      const turn = yield* around.turns.enter(wave.submitted, wave.submitted.turn)
      turn.began(wave.submitted.wave)
      if (!around.hasJournal) return yield* lost(around, wave)
      const before = yield* turn.state
      const { after, result } = yield* inProcess(wave, turn, before, (process) => process.resume(wave.calls)).pipe(
        Effect.retry({ while: isForNow, schedule: Schedule.spaced("2 seconds") })
      )
      yield* end(around, wave, turn, { before, after, result })
    }).pipe(Effect.scoped)
  )

// Utilities

/** However it ends, readers come to an end, and what has none is suspended. */
const toItsEnd = (
  wave: ServedWave,
  run: Effect.Effect<void, ConfigurationError | ResumeError | WaveStoreError>
): Effect.Effect<void> =>
  run.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : failed(wave, cause)),
    Effect.exit,
    Effect.asVoid,
    Effect.ensuring(Effect.map(Clock.currentTimeMillis, (now) => wave.close(now)))
  )

const failed = ({ submitted: { session, user, wave } }: ServedWave, cause: Cause.Cause<unknown>) =>
  Principals.annotated({ user, session }, wave)(
    Effect.logError("a wave could not continue, and is left for the next start", cause)
  )

const isForNow = (error: ConfigurationError | ResumeError): boolean =>
  error._tag === "ResumeError" && error.reason !== "Changed"

const inProcess = Effect.fnUntraced(function*<E>(
  wave: ServedWave,
  { batch }: Turn,
  before: TurnState | undefined,
  run: (process: Effect.Success<ReturnType<Turn["batch"]["process"]>>) => Effect.Effect<WaveResult, E>
) {
  const process = yield* batch.process({ id: wave.submitted.wave, state: before })
  yield* process.listen((event) => {
    wave.tell(event)
    return true
  })
  const result = yield* wave.under(process)(run(process))
  return { result, after: yield* process.state }
}, Effect.scoped)

/** What it has come to is kept before anybody hears that it is over. */
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
  result.suspended !== undefined ? Effect.void : Effect.uninterruptible(Effect.gen(function*() {
    const kept = yield* settled(wave, result.outcomes)
    const persisted = store.end(wave.submitted, kept)
    yield* logged(wave, turn.ended({ name: wave.submitted.wave, before, after }, persisted))
  }))

/** Without a journal nobody knows what has happened. */
const lost = Effect.fnUntraced(function*({ store }: Around, wave: ServedWave) {
  const outcomes = LostWave.outcomes(wave)
  const now = yield* Clock.currentTimeMillis
  for (const event of LostWave.events(wave, outcomes, now)) wave.tell(event)
  yield* logged(wave, store.end(wave.submitted, yield* settled(wave, outcomes)))
})

const settled = (wave: ServedWave, outcomes: ReadonlyArray<ToolOutcome>) =>
  Effect.map(Clock.currentTimeMillis, (at) => {
    const messages = Messages.of(wave.submitted.format, outcomes)
    wave.settle(at, messages)
    return { at, messages, events: wave.takeLifecycle() }
  })

/** What could not be kept has its end in the journal: the next start finds it there. */
const logged = ({ submitted }: ServedWave, effect: Effect.Effect<void, WaveStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => Effect.logWarning("the end of a wave could not be kept", error)).pipe(
    Principals.annotated(submitted, submitted.wave)
  )
