/**
 * Turns of sessions. A turn is one user request; its waves are one batch of the session's executor, which stays open
 * between them.
 *
 * What rules remember is stored at the end of each wave, so that it survives restarts. Counts are kept by the
 * `StateStore` under the id of the batch. A turn without a name has one wave and ends with it.
 *
 * The number of open turns is limited: idle ones are parked, and reopened by their next wave.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as RcMap from "effect/RcMap"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Batch } from "../../core/contract/Executor.ts"
import type { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import type { TurnState } from "../../core/gates/TurnState.ts"
import { isLost } from "../../core/store/SessionRows.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { annotated, type Owner, toPrincipal } from "../users/Principals.ts"
import type { End, WaveStore, WaveStoreError } from "./WaveStore.ts"

/** An open turn. */
export interface Turn {
  readonly batch: Batch
  /** The state after its last wave; the next wave starts from it. */
  readonly state: Effect.Effect<TurnState | undefined>
  /** Records that a wave has begun. Until its end is recorded, the turn is not evicted for being idle. */
  readonly began: (wave: string) => void
  /**
   * Records that a wave has ended, which began with one state and left another. `persist` completes before the next
   * wave may end; it gets what to store of the turn.
   */
  readonly ended: (
    wave: { readonly name: string; readonly before: TurnState | undefined; readonly after: TurnState },
    persist: (turn: Pick<End, "isTurnOpen" | "turn">) => Effect.Effect<void, WaveStoreError>
  ) => Effect.Effect<void, WaveStoreError>
}

/** The turns of all sessions. */
export interface Turns {
  /** Enters a turn for the rest of the scope, and opens it if necessary. */
  readonly enter: (owner: Owner, turn: string) => Effect.Effect<
    Turn,
    ConfigurationError | WaveStoreError,
    Scope.Scope
  >
  /** Ends a turn: cancels its calls and deletes its state. `false` if it does not exist. */
  readonly end: (owner: Owner, turn: string) => Effect.Effect<boolean, WaveStoreError>
  /** Ends all turns of a session. `false` if it has none. */
  readonly endAll: (owner: Owner) => Effect.Effect<boolean, WaveStoreError>
  /** Closes all turns of a session and keeps what is stored of them, for whoever opens the session next. */
  readonly leaveAll: (owner: Owner) => Effect.Effect<void>
  /** Ends parked turns that have been idle since a time. */
  readonly forget: (before: number) => Effect.Effect<void, WaveStoreError>
}

/** Limits of turns. */
export interface Bounds {
  /** Open turns. */
  readonly maxTurns: number
  readonly maxTurnsPerUser: number
  /** Parked turns; one more ends the oldest. */
  readonly maxTurnsAway: number
}

/** The name of the turn of a wave without a named turn. Clients cannot choose such names. */
export const ownTurn = (wave: string): string => `~${wave}`

/** Creates the turns for the rest of the scope. Closing it keeps them for the next start. */
export const make = Effect.fnUntraced(function*(options: {
  readonly executors: ToolExecutors["Service"]
  readonly store: WaveStore["Service"]
  readonly idleTimeToLive: Duration.Input
  readonly bounds: Bounds
}): Effect.fn.Return<Turns, never, Scope.Scope> {
  const { bounds, executors, store } = options
  let isClosing = false
  /** Open named turns, and parked ones with the time of parking, both in order of use. */
  const named = new Map<string, Opened>()
  const away = new Map<string, number>()
  /** All open turns. */
  const all = new Map<string, Opened>()
  const open = Effect.fnUntraced(function*(key: string) {
    const { owner, turn } = JSON.parse(key) as Key
    const executor = yield* executors.get(toPrincipal(owner))
    const batch = yield* executor.batch(turn, { keep: true })
    const complete = executor.completeBatch(turn)
    const isKept = !isOwn(turn)
    const kept = isKept ? yield* store.turn(owner, turn) : undefined
    const opened = new Opened(owner.user, batch, kept?.state, kept?.wave)
    all.set(key, opened)
    if (isKept) named.set(key, opened)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        if (all.get(key) === opened) all.delete(key)
        if (named.get(key) === opened) named.delete(key)
        if (isClosing || opened.isOver || opened.isAway || opened.open.size > 0) return Effect.void
        const forget = isKept ? annotated(owner)(logged(store.removeTurn(owner, turn))) : Effect.void
        return Effect.andThen(complete, forget)
      })
    )
    const ended: Turn["ended"] = ({ after, before, name }, persist) =>
      Effect.suspend(() => {
        // false for a resumed wave whose end the state already contains
        if (opened.wave !== name) opened.state = joined(opened.state, before, after)
        opened.wave = name
        const { state } = opened
        return opened.endings.withPermit(Effect.gen(function*() {
          const isStored = isKept && !opened.isOver && state !== undefined
          yield* persist(
            isStored
              ? { turn: { state, wave: name, at: yield* Clock.currentTimeMillis }, isTurnOpen: opened.open.size > 1 }
              : {}
          )
          opened.open.delete(name)
        }))
      })
    const began = (name: string) => void opened.open.add(name)
    const entered: Turn = { batch, state: Effect.sync(() => opened.state), began, ended }
    return { entered, complete, opened }
  })
  const turns = yield* RcMap.make({
    lookup: open,
    idleTimeToLive: (key) => isOwn((JSON.parse(key) as Key).turn) ? 0 : options.idleTimeToLive
  })
  // runs before the turns are closed
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosing = true
    })
  )
  /** Parks idle turns until a user can open one more. */
  const makeRoom = Effect.fnUntraced(function*(user: string) {
    let mine = 0
    for (const it of named.values()) if (it.user === user) mine++
    for (const [key, it] of Array.from(named)) {
      const isFull = named.size >= bounds.maxTurns
      if (!isFull && mine < bounds.maxTurnsPerUser) return
      if (it.entered > 0 || it.open.size > 0 || (!isFull && it.user !== user)) continue
      if (it.user === user) mine--
      it.isAway = true
      named.delete(key)
      away.set(key, yield* Clock.currentTimeMillis)
      yield* RcMap.invalidate(turns, key)
    }
  })
  const endOldest = Effect.suspend(() => {
    const oldest = Array.from(away.keys()).slice(0, Math.max(0, away.size - bounds.maxTurnsAway))
    return Effect.forEach(oldest, (key) => end(JSON.parse(key) as Key), { discard: true })
  })
  const end = Effect.fnUntraced(
    function*({ owner, turn }: Key): Effect.fn.Return<boolean, ConfigurationError | WaveStoreError, Scope.Scope> {
      const key = keyOf(owner, turn)
      away.delete(key)
      if (!(yield* RcMap.has(turns, key))) {
        // it may be left from an earlier start
        if ((yield* store.turn(owner, turn)) === undefined) return false
        yield* (yield* executors.get(toPrincipal(owner))).completeBatch(turn)
        yield* store.removeTurn(owner, turn)
        return true
      }
      const { complete, opened } = yield* RcMap.get(turns, key)
      opened.isOver = true
      // later waves open a new one
      yield* RcMap.invalidate(turns, key)
      yield* complete
      if (!isOwn(turn)) yield* store.removeTurn(owner, turn)
      return true
    },
    Effect.scoped,
    Effect.catchTag("ConfigurationError", () => Effect.succeed(false))
  )
  return {
    enter: Effect.fnUntraced(function*(owner, turn) {
      const key = keyOf(owner, turn)
      const here = named.get(key)
      if (here !== undefined) {
        // keeps the turns in order of use
        named.delete(key)
        named.set(key, here)
      } else if (!isOwn(turn)) {
        yield* makeRoom(owner.user)
        away.delete(key)
        yield* endOldest
      }
      const { entered, opened } = yield* Effect.tapError(RcMap.get(turns, key), () => RcMap.invalidate(turns, key))
      opened.entered++
      yield* Effect.addFinalizer(() => Effect.sync(() => void opened.entered--))
      return entered
    }),
    end: (owner, turn) => end({ owner, turn }),
    endAll: (owner) =>
      Effect.gen(function*() {
        // those in the store may be left from a time before the session was closed
        const stored = (yield* store.turns(owner)).map((turn) => keyOf(owner, turn))
        const keys = new Set([...all.keys(), ...away.keys(), ...stored].filter(isOf(owner)))
        yield* Effect.forEach(keys, (key) => end(JSON.parse(key) as Key), { discard: true })
        return keys.size > 0
      }),
    leaveAll: (owner) =>
      Effect.suspend(() => {
        const isOwn = isOf(owner)
        for (const key of Array.from(away.keys()).filter(isOwn)) away.delete(key)
        const keys = Array.from(all.keys()).filter(isOwn)
        for (const key of keys) all.get(key)!.isAway = true
        return Effect.forEach(keys, (key) => RcMap.invalidate(turns, key), { discard: true })
      }),
    forget: Effect.fnUntraced(function*(before) {
      for (const [key, since] of Array.from(away)) {
        if (since < before) yield* end(JSON.parse(key) as Key)
      }
    })
  }
})

/**
 * The state of a turn after a wave that began with `before` and left `after`, while other waves of the turn have left
 * `now`.
 *
 * If no other wave has ended meanwhile, it is `after`. For concurrent waves it combines both: tools that succeeded or
 * are blocked in either, and the sum of their calls.
 */
export const joined = (
  now: TurnState | undefined,
  before: TurnState | undefined,
  after: TurnState
): TurnState => {
  if (now === undefined || now === before) return after
  const last = after.rules.last ?? now.rules.last
  return {
    rules: {
      succeeded: union(now.rules.succeeded, after.rules.succeeded),
      succeededInBatch: union(now.rules.succeededInBatch, after.rules.succeededInBatch),
      ...last === undefined ? {} : { last },
      exitWanted: now.rules.exitWanted || after.rules.exitWanted,
      held: Math.max(now.rules.held, after.rules.held),
      letThrough: now.rules.letThrough || after.rules.letThrough
    },
    blocked: [
      ...now.blocked,
      ...after.blocked.filter(({ tool }) => now.blocked.every((it) => it.tool !== tool))
    ],
    calls: now.calls + after.calls - (before?.calls ?? 0)
  }
}

interface Key {
  readonly owner: Owner
  readonly turn: string
}

/** Mutable state of an open turn. */
class Opened {
  readonly user: string
  readonly batch: Batch
  readonly endings = Semaphore.makeUnsafe(1)
  state: TurnState | undefined
  wave: string | undefined
  /** Waves without a recorded end, which the next start resumes. */
  readonly open = new Set<string>()
  /** Number of running waves. */
  entered = 0
  isOver = false
  /** It was parked and can be reopened. */
  isAway = false

  constructor(user: string, batch: Batch, state: TurnState | undefined, wave: string | undefined) {
    this.user = user
    this.batch = batch
    this.state = state
    this.wave = wave
  }
}

const keyOf = ({ session, user }: Owner, turn: string): string => JSON.stringify({ owner: { user, session }, turn })

const isOf = ({ session, user }: Owner) => {
  const prefix = JSON.stringify({ owner: { user, session } }).slice(0, -1)
  return (key: string): boolean => key.startsWith(`${prefix},`)
}

const isOwn = (turn: string): boolean => turn.startsWith("~")

const union = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): ReadonlyArray<string> =>
  Array.from(new Set([...one, ...other]))

const logged = (effect: Effect.Effect<void, WaveStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => isLost(error) ? Effect.void : Effect.logWarning(error.message, error.cause))
