/**
 * The turns of sessions: a turn is one user request, and its waves one batch of the session's
 * executor, which is held open between them for a while.
 *
 * What rules remember of a turn goes on from wave to wave, also behind a restart: it is
 * kept as each wave ends. What it is counted by is the `StateStore`'s, under the batch's id: a
 * server that stops forgets neither. A turn that a client did not name is of one wave and ends
 * with it.
 *
 * So many are open at once and no more: those in which nothing happened for longest are put away, as if the server had
 * stopped, and opened again when a wave of theirs comes.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as RcMap from "effect/RcMap"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Batch } from "../core/contract/Executor.ts"
import type { ToolExecutors } from "../core/engine/ToolExecutors.ts"
import type { TurnState } from "../core/gates/TurnState.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { annotated, type Owner, toPrincipal } from "./Principals.ts"
import type { WaveStore, WaveStoreError } from "./WaveStore.ts"

/** An open turn. */
export interface Turn {
  readonly batch: Batch
  /** What its waves have left so far; the next one goes on from it. */
  readonly state: Effect.Effect<TurnState | undefined>
  /** A wave is on record as begun: until its end is, too, the turn is not forgotten for being idle. */
  readonly began: (wave: string) => void
  /** A wave has ended that began with one state and left another. `persisted` is done before the next one may end. */
  readonly ended: (
    wave: { readonly name: string; readonly before: TurnState | undefined; readonly after: TurnState },
    persisted: Effect.Effect<void, WaveStoreError>
  ) => Effect.Effect<void, WaveStoreError>
}

/** The turns of all sessions. */
export interface Turns {
  /** Enters a turn for the rest of the scope; it is begun if it is not open. */
  readonly enter: (owner: Owner, turn: string) => Effect.Effect<
    Turn,
    ConfigurationError | WaveStoreError,
    Scope.Scope
  >
  /** Ends a turn: what runs of it is cancelled, what it remembers forgotten. `false`: there is none. */
  readonly end: (owner: Owner, turn: string) => Effect.Effect<boolean, WaveStoreError>
  /** Ends those of a session. */
  readonly endAll: (owner: Owner) => Effect.Effect<void, WaveStoreError>
  /** Ends those that are put away and that nothing happened in since a time. */
  readonly forget: (before: number) => Effect.Effect<void, WaveStoreError>
}

/** How many turns there are at once. */
export interface Bounds {
  /** Open ones. */
  readonly maxTurns: number
  readonly maxTurnsPerUser: number
  /** Those that are put away: of more, the oldest are ended. */
  readonly maxTurnsAway: number
}

/** The name of the turn of a wave that a client has not named one for: none that a client can choose. */
export const ownTurn = (wave: string): string => `~${wave}`

/**
 * Creates the turns, for the rest of the scope. With its end they are left as they are: the
 * next start goes on with them.
 */
export const make = Effect.fnUntraced(function*(options: {
  readonly executors: ToolExecutors["Service"]
  readonly store: WaveStore["Service"]
  readonly idleTimeToLive: Duration.Input
  readonly bounds: Bounds
}): Effect.fn.Return<Turns, never, Scope.Scope> {
  const { bounds, executors, store } = options
  let isClosing = false
  /** Named turns that are open, and since when others are put away, by their keys: that in which something happened last stands last. */
  const named = new Map<string, Opened>()
  const away = new Map<string, number>()
  const open = Effect.fnUntraced(function*(key: string) {
    const { owner, turn } = JSON.parse(key) as Key
    const executor = yield* executors.get(toPrincipal(owner))
    const batch = yield* executor.batch(turn, { keep: true })
    const complete = executor.completeBatch(turn)
    const isKept = !isOwn(turn)
    const kept = isKept ? yield* store.turn(owner, turn) : undefined
    const opened = new Opened(owner.user, batch, kept?.state, kept?.wave)
    if (isKept) named.set(key, opened)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        if (named.get(key) === opened) named.delete(key)
        if (isClosing || opened.isOver || opened.isAway || opened.open.size > 0) return Effect.void
        const forget = isKept ? annotated(owner)(logged(store.keepTurn(owner, turn, undefined))) : Effect.void
        return Effect.andThen(complete, forget)
      })
    )
    const ended: Turn["ended"] = ({ after, before, name }, persisted) =>
      Effect.suspend(() => {
        // a wave that was resumed although its end was in the state already
        if (opened.wave !== name) opened.state = joined(opened.state, before, after)
        opened.wave = name
        const { state } = opened
        return opened.endings.withPermit(Effect.gen(function*() {
          if (isKept && !opened.isOver && state !== undefined) {
            yield* store.keepTurn(owner, turn, { state, wave: name, at: yield* Clock.currentTimeMillis })
          }
          yield* persisted
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
  // before they are closed
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosing = true
    })
  )
  /** Puts away what nothing happens in, until there is room for one more of a user. */
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
        // it may be of an earlier start, and no wave of it came since
        if ((yield* store.turn(owner, turn)) === undefined) return false
        yield* (yield* executors.get(toPrincipal(owner))).completeBatch(turn)
        yield* store.keepTurn(owner, turn, undefined)
        return true
      }
      const { complete, opened } = yield* RcMap.get(turns, key)
      opened.isOver = true
      // whoever comes now begins it anew
      yield* RcMap.invalidate(turns, key)
      yield* complete
      if (!isOwn(turn)) yield* store.keepTurn(owner, turn, undefined)
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
        // something happens in it: it stands last
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
    endAll: Effect.fnUntraced(function*(owner) {
      const all = Array.from([...yield* RcMap.keys(turns), ...away.keys()], (key) => JSON.parse(key) as Key)
      yield* Effect.forEach(all.filter((it) => isOf(owner, it)), end, { discard: true })
    }),
    forget: Effect.fnUntraced(function*(before) {
      for (const [key, since] of Array.from(away)) {
        if (since < before) yield* end(JSON.parse(key) as Key)
      }
    })
  }
})

/**
 * What a turn remembers once a wave has ended that began with `before` and left `after`,
 * while others of the turn have left `now`.
 *
 * **Details**
 *
 * Where no other wave has ended in the meantime it is what the wave has left. Of waves side
 * by side it is what all of them have seen: what succeeded in one has succeeded, what one has
 * blocked is blocked, and their calls are counted together.
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

// Utilities

interface Key {
  readonly owner: Owner
  readonly turn: string
}

/** What changes of an open turn. */
class Opened {
  readonly user: string
  readonly batch: Batch
  readonly endings = Semaphore.makeUnsafe(1)
  state: TurnState | undefined
  wave: string | undefined
  /** Waves that have no end on record: the next start goes on with them. */
  readonly open = new Set<string>()
  /** Waves that run in it. */
  entered = 0
  isOver = false
  /** It goes on when it is opened again. */
  isAway = false

  constructor(user: string, batch: Batch, state: TurnState | undefined, wave: string | undefined) {
    this.user = user
    this.batch = batch
    this.state = state
    this.wave = wave
  }
}

const keyOf = ({ session, user }: Owner, turn: string): string => JSON.stringify({ owner: { user, session }, turn })

const isOf = (one: Owner, { owner }: Key): boolean => owner.user === one.user && owner.session === one.session

const isOwn = (turn: string): boolean => turn.startsWith("~")

const union = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): ReadonlyArray<string> =>
  Array.from(new Set([...one, ...other]))

const logged = (effect: Effect.Effect<void, WaveStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => Effect.logWarning(error.message, error.cause))
