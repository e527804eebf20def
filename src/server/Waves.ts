/**
 * The waves of all sessions: submitted once, run with or without a client, found again by name, and resumed after a
 * restart.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
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
import { ToolExecutors } from "../core/engine/ToolExecutors.ts"
import type * as ToolEvent from "../core/facts/ToolEvent.ts"
import * as Journal from "../core/store/Journal.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as WireFormat from "../wire/WireFormat.ts"
import { Access } from "./Access.ts"
import type { Session, Submission, Wave, WaveInfo, WaveSse } from "./ApiModels.ts"
import { Invalid, TooMany, Unavailable, WaveConflict, WaveUnreadable } from "./ApiProblems.ts"
import * as EndListener from "./EndListener.ts"
import { KnownWaves } from "./KnownWaves.ts"
import { LiveLog } from "./LiveLog.ts"
import { annotated, fromPrincipal, type Owner, toPrincipal } from "./Principals.ts"
import type { ServedWave } from "./ServedWave.ts"
import { randomName } from "./SessionDirectory.ts"
import type { SessionPart } from "./SessionPart.ts"
import * as Turns from "./Turns.ts"
import * as WaveOptions from "./WaveOptions.ts"
import * as WaveRun from "./WaveRun.ts"
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
  readonly hosting: SessionPart
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
  const running = yield* FiberMap.make<ServedWave, void, never>()
  let isDraining = false

  /** Registers a wave and runs it in the background, unless one of its name is there. Returns the one that is. */
  const launch = (wave: ServedWave, run: typeof WaveRun.first): Effect.Effect<ServedWave> =>
    Effect.suspend(() => {
      const here = known.get(wave.submitted, wave.submitted.wave)
      if (here !== undefined && !here.isSuspended) return Effect.succeed(here)
      known.add(wave)
      const ran = Effect.ensuring(run(around, wave), Effect.sync(() => known.evict()))
      const told = listener === undefined ?
        ran :
        Effect.andThen(
          ran,
          Effect.suspend(() =>
            wave.hasEnded && !wave.hasFailed
              ? EndListener.tell(listener, wave.submitted, "wave", wave.submitted.wave)
              : Effect.void
          )
        )
      return Effect.as(FiberMap.run(running, wave, told, { startImmediately: true }), wave)
    })
  /** Resumes a wave without an end, or restores its result. `isPatient`: one that cannot continue is not tried yet. */
  const recall = Effect.fnUntraced(function*(
    submitted: WaveStore.SubmittedWave,
    ended: WaveStore.Ended | undefined,
    { isPatient = true, mayRun = true } = {}
  ): Effect.fn.Return<ServedWave | undefined> {
    const read = WireFormat.read(submitted.message, submitted.format)
    if (Result.isFailure(read)) {
      yield* Effect.logError("A submitted wave can no longer be read", read.failure)
      return undefined
    }
    const wave = known.served(submitted, read.success.calls, ended !== undefined)
    if (ended !== undefined) {
      wave.recall(ended)
      known.add(wave)
      known.evict()
      return wave
    }
    const now = yield* Clock.currentTimeMillis
    if (isPatient && now < (submitted.stuck?.retryAt ?? 0)) {
      wave.rest(now)
      known.add(wave)
      return wave
    }
    if (!mayRun) yield* wave.cancel(userGone)
    return yield* launch(wave, WaveRun.again)
  })
  const find = Effect.fnUntraced(function*(
    owner: Owner,
    name: string,
    isPatient = true
  ): Effect.fn.Return<ServedWave | undefined, Unavailable | WaveUnreadable> {
    const here = known.get(owner, name)
    if (here !== undefined && (!here.isSuspended || isDraining)) return here
    const kept = yield* Effect.catchTag(store.get(owner, name), "WaveUnreadable", unreadable).pipe(
      orUnavailable,
      annotated(owner, name)
    )
    // another request may have been first
    const meanwhile = known.get(owner, name)
    if (meanwhile !== here && meanwhile !== undefined) return meanwhile
    if (kept === undefined) return here
    // the next start resumes it
    if (kept.ended === undefined && isDraining) return here ?? (yield* stopping)
    // an unreadable wave may have run, so it is not run again under its name
    return (yield* recall(kept.submitted, kept.ended, { isPatient })) ??
      (yield* unreadable(new WaveStore.WaveUnreadable({ wave: name, problem: "its message is not valid" })))
  })
  /** Refuses work above the limits. */
  const admit = Effect.fnUntraced(function*(owner: Owner, wave?: ServedWave): Effect.fn.Return<void, TooMany> {
    const mine = known.running(owner.user)
    const all = known.running()
    const sessions = new Set([...yield* executors.active, ...all.map((it) => toPrincipal(it.submitted))])
    const isNew = !sessions.has(toPrincipal(owner)) ? 1 : 0
    const ofUser = Array.from(sessions).filter((it) => fromPrincipal(it).user === owner.user).length
    const waves = wave === undefined ? 0 : 1
    const sum = (of: ReadonlyArray<ServedWave>, what: "messageChars" | "calls") =>
      [...of, ...wave === undefined ? [] : [wave]].reduce(
        (sum, it) => sum + (what === "calls" ? it.calls.length : it.messageChars),
        0
      )
    const checks = [
      ["of your waves", mine.length + waves, bounds.maxWavesPerUser, "Try again once one of them has ended."],
      ["waves", all.length + waves, bounds.maxWaves, "Try again once one of them has ended."],
      ...mine.length === 0 ? [] : [
        ["of your calls", sum(mine, "calls"), bounds.maxOpenCallsPerUser, "Try again once some of them have ended."],
        [
          "characters of your messages",
          sum(mine, "messageChars"),
          bounds.maxOpenCharsPerUser,
          "Try again once a wave has ended."
        ]
      ] as const,
      ...all.length === 0 ? [] : [
        ["characters", sum(all, "messageChars"), bounds.maxOpenChars, "Try again once a wave has ended."]
      ] as const,
      ["of your sessions", ofUser + isNew, bounds.maxSessionsPerUser, "End one of them first."],
      ["sessions", sessions.size + isNew, bounds.maxSessions, "Try again once one of them has ended."]
    ] as const
    for (const [what, count, most, next] of checks) {
      if (count > most) {
        return yield* new TooMany({ detail: `At most ${most} ${what} can be open. ${next}` })
      }
    }
  })
  const handle = (wave: ServedWave): Handle & { readonly owner: Owner } => {
    const ended = Effect.map(Deferred.await(wave.over), () => wave.wave)
    return {
      owner: { user: wave.submitted.user, session: wave.submitted.session },
      info: Effect.sync(() => wave.info),
      // a reader of its events may know of its end before its results are stored
      wave: Effect.suspend(() => wave.log.end === undefined ? Effect.succeed(wave.wave) : ended),
      ended,
      events: (after) => wave.log.stream(after),
      happened: (after) => Effect.sync(() => wave.log.happened(after)),
      cancel: ({ callId, reason }) => {
        if (callId !== undefined) return wave.cancelCall(callId, reason)
        if (!wave.isSuspended || wave.stuck === undefined) return wave.cancelAll(reason)
        const again = known.served(wave.submitted, wave.calls)
        return Effect.andThen(again.cancel(reason), launch(again, WaveRun.again))
      }
    }
  }

  /** Resumes those of these waves that do not run here. */
  const resume = Effect.fnUntraced(function*(wave: WaveStore.SubmittedWave, how: {
    readonly mayRun: boolean
    readonly isPatient: boolean
  }) {
    const here = known.get(wave, wave.wave)
    if (here === undefined || here.isSuspended) yield* recall(wave, undefined, how)
  })
  const interrupt = (wave: ServedWave) => FiberMap.remove(running, wave)
  const hosting: SessionPart = {
    open: (owner) =>
      Effect.gen(function*() {
        if (isDraining) return yield* stopping
        const waves = yield* store.openOf(owner)
        if (waves.length === 0) return
        const mayRun = yield* access.mayRun(owner.user)
        for (const wave of waves) yield* resume(wave, { mayRun, isPatient: true })
      }).pipe(orUnavailable, annotated(owner)),
    works: (owner) => known.of(owner),
    changed: (owner) => known.stirs.next(owner),
    interrupt,
    halt: (owner, waves: ReadonlyArray<ServedWave>) =>
      Effect.andThen(
        Effect.forEach(waves.filter((it) => !it.isUnderWay), interrupt, { discard: true }),
        waves.some((it) => it.isUnderWay)
          ? executors.end(toPrincipal(owner), "the session is being moved")
          : Effect.void
      ),
    drop: (owner) =>
      Effect.suspend(() => {
        for (const wave of known.of(owner)) known.remove(wave)
        known.stirs.stir(owner)
        return Effect.andThen(around.turns.leaveAll(owner), executors.invalidate(toPrincipal(owner)))
      })
  }
  const open = yield* store.open
  const runners = new Map<string, boolean>()
  for (const user of new Set(open.map((it) => it.user))) {
    const mayRun = yield* Effect.result(access.mayRun(user))
    if (Result.isSuccess(mayRun)) runners.set(user, mayRun.success)
    else {yield* Effect.logWarning(
        `${mayRun.failure.message}; the waves of ${user} are left for the next start`,
        mayRun.failure.cause
      )}
  }
  for (const wave of open) {
    const mayRun = runners.get(wave.user)
    // what kept a wave from continuing may have gone with the last start
    if (mayRun !== undefined) yield* resume(wave, { mayRun, isPatient: false })
  }
  yield* Effect.forkScoped(Effect.repeat(
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      known.evictOld(now)
      yield* logged(around.turns.forget(now - bounds.turnIdle))
      yield* logged(store.prune({ waves: now - retention, turns: now - bounds.turnIdle }))
    }),
    Schedule.spaced(Math.min(bounds.listed, 600_000))
  ))

  return {
    submit: Effect.fnUntraced(function*(owner, { format, message, said, turn, wave }) {
      const read = WireFormat.read(message, format)
      if (Result.isFailure(read)) return yield* invalid(read.failure)
      const { calls } = read.success
      if (calls.length > bounds.maxCalls) return yield* tooManyCalls(calls.length, bounds.maxCalls)
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
      const kept = wave === undefined ? undefined : yield* find(owner, name, false)
      const begun = known.served(submitted, calls)
      if (kept === undefined) yield* admit(owner, begun)
      // another request may have been first
      const found = kept ?? known.get(owner, name)
      if (found === undefined && isDraining) return yield* stopping
      const one = found ?? (yield* launch(begun, WaveRun.first))
      if (one !== begun) {
        if (!isSame(one.submitted, submitted)) return yield* conflict
        yield* Deferred.await(one.begun)
        return handle(one)
      }
      yield* Effect.tapError(Deferred.await(begun.begun), () => Effect.sync(() => known.remove(begun)))
      return handle(begun)
    }),
    get: (owner, wave) => Effect.map(find(owner, wave), (found) => Option.map(Option.fromUndefinedOr(found), handle)),
    discard: Effect.fnUntraced(function*(owner, wave) {
      const at = yield* Clock.currentTimeMillis
      const submitted = {
        ...owner,
        turn: Turns.ownTurn(wave),
        wave,
        format: "native",
        message: null,
        beganAt: at
      } as const
      const ended = { at, messages: [], events: [] }
      const { turn } = submitted
      const info: WaveInfo = { ...owner, turn, wave, status: "ended", calls: 0, tools: [], beganAt: at, endedAt: at }
      yield* annotated(owner, wave)(orUnavailable(store.end(submitted, { ended, info })))
    }),
    list: Effect.sync(() => known.all.map(handle)),
    hosting,
    tools: Effect.fnUntraced(function*(owner) {
      if (isDraining) return yield* stopping
      yield* admit(owner)
      const executor = yield* annotated(owner)(orUnavailable(executors.get(toPrincipal(owner))))
      return yield* executor.tools
    }, Effect.scoped),
    sessions: (user) =>
      Effect.map(
        executors.active,
        (active) =>
          active.map(fromPrincipal).filter((it) => it.user === user).map(({ session }) => ({
            session,
            waves: known.of({ user, session }).filter((it) => it.isRunning).length
          }))
      ),
    endSession: Effect.fnUntraced(function*(owner) {
      const principal = toPrincipal(owner)
      const waves = known.of(owner).filter((it) => it.isRunning)
      const isActive = waves.length > 0 || (yield* executors.active).includes(principal)
      yield* Effect.forEach(waves, (it) => it.cancel(sessionEnded), { discard: true })
      // outcomes so far are final; closing the executor would suspend the rest
      yield* Effect.forEach(waves, (it) => Deferred.await(it.over), { discard: true })
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
    drain: (within) =>
      Effect.suspend(() => {
        isDraining = true
        const empty = FiberMap.awaitEmpty(running)
        const stop = Effect.forEach(known.running(), (wave) =>
          wave.isUnderWay
            ? executors.end(toPrincipal(wave.submitted), "the server is stopping")
            : FiberMap.remove(running, wave), {
          concurrency: "unbounded",
          discard: true
        })
        return Effect.andThen(
          Effect.flatMap(
            Effect.timeoutOption(empty, within),
            (isOver) => Option.isSome(isOver) ? Effect.void : stop
          ),
          empty
        )
      })
  }
})

/** The same message, submitted again. */
const isSame = (one: WaveStore.SubmittedWave, other: WaveStore.SubmittedWave): boolean => {
  const said = ({ format, message, turn }: WaveStore.SubmittedWave) => canonicalJson([format, message, turn])
  return said(one) === said(other)
}

const stopping = Effect.fail(new Unavailable({ detail: "The server is about to stop." }))

const userGone = "its user may no longer run calls"

const sessionEnded = "the session has ended"

const conflict = Effect.fail(
  new WaveConflict({ detail: "Another message was submitted under this name. Choose another name." })
)

const invalid = ({ expected, path, problem }: WireFormat.WireFormatError) =>
  new Invalid({ errors: [{ path: pathIn(path), problem, expected }] })

const pathIn = (path: string): string => path === "" ? "message" : `message${path.startsWith("[") ? "" : "."}${path}`

const tooManyCalls = (count: number, most: number) =>
  new Invalid({ errors: [{ path: "message", problem: `has ${count} calls`, expected: `at most ${most}` }] })

const unreadable = (error: WaveStore.WaveUnreadable) =>
  Effect.andThen(
    Effect.logError(error.message),
    new WaveUnreadable({
      detail: `${error.message}. Its calls may have run and are not run again. ` +
        "To run them anyway, submit the message under another name."
    })
  )

/** The cause goes to the log. */
const orUnavailable = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, Unavailable | Extract<E, WaveUnreadable>, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, Unavailable | Extract<E, WaveUnreadable>> =>
      error instanceof WaveUnreadable
        ? Effect.fail(error as Extract<E, WaveUnreadable>)
        : Effect.andThen(Effect.logError("A request for a wave failed", error), new Unavailable({}))
  )

const logged = (effect: Effect.Effect<void, WaveStore.WaveStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => Effect.logWarning(error.message, error.cause))
