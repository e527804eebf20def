/**
 * The waves of all sessions: submitted once, run with or without a client, found again by name, and resumed after a
 * restart.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import type * as ToolEvent from "../../core/facts/ToolEvent.ts"
import * as Journal from "../../core/store/Journal.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../../core/vocabulary/ToolHandlers.ts"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import * as WireFormat from "../../wire/WireFormat.ts"
import type { Session, Submission, Wave, WaveInfo, WaveSse } from "../api/ApiModels.ts"
import type { Invalid, TooMany, Unavailable, WaveConflict, WaveUnreadable } from "../api/ApiProblems.ts"
import { LiveLog } from "../live/LiveLog.ts"
import { randomName } from "../sessions/SessionDirectory.ts"
import { Access } from "../users/Access.ts"
import { annotated, fromPrincipal, type Owner, toPrincipal } from "../users/Principals.ts"
import * as EndListener from "../work/EndListener.ts"
import type { Works } from "../work/Work.ts"
import { KnownWaves } from "./KnownWaves.ts"
import type { ServedWave } from "./ServedWave.ts"
import * as Turns from "./Turns.ts"
import * as WaveOptions from "./WaveOptions.ts"
import * as Refusals from "./WaveRefusals.ts"
import { logged, orUnavailable } from "./WaveRefusals.ts"
import type * as WaveRun from "./WaveRun.ts"
import { WaveRunner } from "./WaveRunner.ts"
import * as WaveStore from "./WaveStore.ts"

/** A known wave. */
export interface Handle {
  readonly info: Effect.Effect<WaveInfo>
  /** Its state, with results once it has ended. */
  readonly wave: Effect.Effect<Wave>
  /** Waits until it has ended or is suspended. */
  readonly ended: Effect.Effect<Wave>
  /**
   * Streams the events after a position, and then new ones until its end, with ids and a heartbeat every 15 seconds.
   * Lifecycle events come exactly once. Of tool events the latest are kept, and a `Gap` counts the others. An unknown
   * position gives a `Reset` and all recorded events.
   */
  readonly events: (after: string | undefined) => Stream.Stream<WaveSse>
  /** A page of the kept events after a position; `next` is where the next page begins. */
  readonly happened: (after: number) => Effect.Effect<Happened>
  /** Cancels the wave, or the calls of an id. */
  readonly cancel: (
    of: { readonly callId?: string | undefined; readonly reason: string }
  ) => Effect.Effect<void, Unavailable>
}

/** A page of the events of a wave. */
export interface Happened {
  readonly events: ReadonlyArray<ToolEvent.Wire>
  readonly next?: number
}

/** The waves. */
export class Waves extends Context.Service<Waves, {
  /** Runs the calls of a message as a wave, or returns the existing wave of that name. */
  readonly submit: (
    owner: Owner,
    message: Submission
  ) => Effect.Effect<Handle, Invalid | WaveConflict | WaveUnreadable | TooMany | Unavailable>
  /** The wave of a name. */
  readonly get: (owner: Owner, wave: string) => Effect.Effect<Option.Option<Handle>, Unavailable | WaveUnreadable>
  /** Ends a wave whose record cannot be read. */
  readonly discard: (owner: Owner, wave: string) => Effect.Effect<void, Unavailable>
  /** Running and recently ended waves, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<Handle & { readonly owner: Owner }>>
  /** The tools of a session, as a model sees them. */
  readonly tools: (owner: Owner) => Effect.Effect<ReadonlyArray<RegisteredTool>, TooMany | Unavailable>
  /** The sessions of a user that have an executor. */
  readonly sessions: (user: string) => Effect.Effect<ReadonlyArray<typeof Session.Type>>
  /** Ends a session and cancels its waves. `false` if it does not exist. */
  readonly endSession: (owner: Owner) => Effect.Effect<boolean, Unavailable>
  /** What it does for one session at a time; see `SessionHost`. */
  readonly hosting: Works
  /** Ends a turn, cancels its calls and deletes its counts. `false` if it does not exist. */
  readonly endTurn: (owner: Owner, turn: string) => Effect.Effect<boolean>
  readonly counts: Effect.Effect<{ readonly sessions: number; readonly waves: number }>
  /** How many waves could not continue, since the start. */
  readonly stuck: Effect.Effect<number>
  /**
   * Stops accepting work immediately, waits `within` for running calls, then stops them and suspends the rest.
   * `PendingApprovals.suspend` suspends calls that wait for approval.
   */
  readonly drain: (within: Duration.Input) => Effect.Effect<void>
}>()("effect-tool-executor/server/Waves") {}

/** Limits of the waves. */
export type Options = WaveOptions.Options

/** Default limits. */
export const defaults = WaveOptions.defaults

/**
 * Layer of the waves over the executors of all sessions.
 *
 * With a `Journal` and a persistent `WaveStore`, the next start resumes unfinished waves of users who may still run
 * them (`Access`). Without a journal their calls become `Unknown`; without a store the waves are forgotten. Fails if
 * the store cannot be read.
 */
export const layer = (
  options?: Options
): Layer.Layer<Waves, ConfigurationError | WaveStore.WaveStoreError, Access | ToolExecutors | LiveLog> =>
  Layer.effect(Waves, make(options))

/** Creates the service for the rest of the scope. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<
  Waves["Service"],
  ConfigurationError | WaveStore.WaveStoreError,
  Access | ToolExecutors | LiveLog | Scope.Scope
> {
  const access = yield* Access
  const bounds = yield* WaveOptions.read(options)
  const executors = yield* ToolExecutors
  const live = yield* LiveLog
  const given = Option.getOrUndefined(yield* Effect.serviceOption(WaveStore.WaveStore))
  const store = given ?? Context.get(yield* Layer.build(WaveStore.layerMemory()), WaveStore.WaveStore)
  // a store in memory needs to keep only what is listed
  const retention = given === undefined ? bounds.listed : bounds.retention
  const listener = Option.getOrUndefined(yield* Effect.serviceOption(EndListener.EndListener))
  const journal = Option.getOrUndefined(yield* Effect.serviceOption(Journal.Journal))
  const around: WaveRun.Around = {
    store,
    turns: yield* Turns.make({ executors, store, idleTimeToLive: bounds.turnIdle, bounds }),
    hasJournal: journal !== undefined && journal !== Journal.noop,
    stuck: { count: 0 }
  }
  const known = new KnownWaves(bounds, (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36), live)
  const fibers = yield* FiberMap.make<ServedWave, void, never>()
  const runner = new WaveRunner({ access, bounds, executors, listener, around, known, fibers })
  yield* runner.continueAll
  yield* Effect.forkScoped(Effect.repeat(
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      known.evictOld(now)
      yield* logged(around.turns.forget(now - bounds.turnIdle))
      yield* logged(store.prune({ waves: now - retention, turns: now - bounds.turnIdle }))
    }),
    Schedule.spaced(Math.min(bounds.listed, 600_000))
  ))
  const handle = (wave: ServedWave): Handle & { readonly owner: Owner } => {
    const ended = Effect.map(wave.over, () => wave.wave)
    return {
      owner: { user: wave.submitted.user, session: wave.submitted.session },
      info: Effect.sync(() => wave.info),
      // a reader of its events may know of its end before its results are stored
      wave: Effect.suspend(() => wave.log.end === undefined ? Effect.succeed(wave.wave) : ended),
      ended,
      events: (after) => wave.log.stream(after),
      happened: (after) => Effect.sync(() => wave.log.happened(after)),
      cancel: ({ callId, reason }) =>
        callId === undefined ? runner.cancel(wave, reason) : wave.cancelCall(callId, reason)
    }
  }

  return {
    submit: Effect.fnUntraced(function*(owner, { format, message, said, turn, wave }) {
      const read = WireFormat.read(message, format)
      if (Result.isFailure(read)) return yield* Refusals.invalid(read.failure)
      const { calls } = read.success
      if (calls.length > bounds.maxCalls) return yield* Refusals.tooManyCalls(calls.length, bounds.maxCalls)
      const name = wave ?? (yield* randomName("wave"))
      const submitted: WaveStore.SubmittedWave = {
        ...owner,
        turn: turn ?? Turns.ownTurn(name),
        wave: name,
        format: read.success.format,
        message,
        ...(said === undefined ? {} : { said }),
        beganAt: yield* Clock.currentTimeMillis
      }
      const found = wave === undefined ? undefined : yield* runner.find(owner, name, { isPatient: false })
      const one = found ?? (yield* runner.start(submitted, calls))
      if (one.submitted !== submitted && !isSame(one.submitted, submitted)) return yield* Refusals.conflict
      yield* one.begun
      return handle(one)
    }),
    get: (owner, wave) =>
      Effect.map(
        runner.find(owner, wave, { isPatient: true }),
        (found) => Option.map(Option.fromUndefinedOr(found), handle)
      ),
    discard: Effect.fnUntraced(function*(owner, wave) {
      const at = yield* Clock.currentTimeMillis
      const turn = Turns.ownTurn(wave)
      const submitted = { ...owner, turn, wave, format: "native", message: null, beganAt: at } as const
      const ended = { at, messages: [], events: [] }
      const info: WaveInfo = { ...owner, turn, wave, status: "ended", calls: 0, tools: [], beganAt: at, endedAt: at }
      yield* annotated(owner, wave)(orUnavailable(store.end(submitted, { ended, info })))
    }),
    list: Effect.sync(() => known.all.map(handle)),
    hosting: runner,
    tools: Effect.fnUntraced(function*(owner) {
      yield* runner.unlessDraining
      yield* runner.admit(owner)
      const executor = yield* annotated(owner)(orUnavailable(executors.get(toPrincipal(owner))))
      return yield* executor.tools
    }, Effect.scoped),
    sessions: (user) =>
      Effect.map(
        executors.active,
        (active) =>
          active.map(fromPrincipal).filter((it) => it.user === user).map(({ session }) => ({
            session,
            waves: known.runningOf({ user, session }).length
          }))
      ),
    endSession: Effect.fnUntraced(function*(owner) {
      const principal = toPrincipal(owner)
      const waves = known.runningOf(owner)
      const isActive = waves.length > 0 || (yield* executors.active).includes(principal)
      yield* Effect.forEach(waves, (it) => it.cancel(sessionEnded), { discard: true })
      // outcomes so far are final; closing the executor would suspend the rest
      yield* Effect.forEach(waves, (it) => it.over, { discard: true })
      const hadTurns = yield* annotated(owner)(orUnavailable(around.turns.endAll(owner)))
      yield* executors.end(principal, sessionEnded)
      return isActive || hadTurns
    }),
    endTurn: (owner, turn) =>
      Effect.catch(
        around.turns.end(owner, turn),
        (error) => Effect.as(annotated(owner)(logged(Effect.fail(error))), true)
      ),
    counts: Effect.map(executors.size, (sessions) => ({ sessions, waves: known.running().length })),
    stuck: Effect.sync(() => around.stuck.count),
    drain: (within) => runner.drain(within)
  }
})

/** The same message, submitted again. */
const isSame = (one: WaveStore.SubmittedWave, other: WaveStore.SubmittedWave): boolean => {
  const said = ({ format, message, turn }: WaveStore.SubmittedWave) => canonicalJson([format, message, turn])
  return said(one) === said(other)
}

const sessionEnded = "the session has ended"
