/**
 * Where the records of a scenario live: what is kept there outlasts the process that
 * made them, and is opened anew in each of its lives.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import * as Journal from "../core/store/Journal.ts"
import * as JournalText from "../core/store/JournalText.ts"
import * as StateStore from "../core/store/StateStore.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as VirtualTime from "./VirtualTime.ts"

/**
 * What is kept.
 *
 * @category models
 * @since 0.1.0
 */
export interface Kept {
  readonly journal: Journal.Journal["Service"]
  readonly state: StateStore.StateStore["Service"]
  readonly artifacts: ArtifactStore.ArtifactStore["Service"]
  /** What agents keep of their sessions. */
  readonly sessions: KeyValueStore.KeyValueStore
}

/**
 * A place.
 *
 * @category models
 * @since 0.1.0
 */
export interface Place {
  /** Opens it for one life. Once the scope is closed whoever had it is gone, and what it had begun is free. */
  readonly open: Effect.Effect<Kept, ConfigurationError, Scope.Scope>
}

/**
 * A place in memory, outside of the process that a scenario is about.
 *
 * @category places
 * @since 0.1.0
 */
export const memory: Effect.Effect<Place> = Effect.gen(function*() {
  const build = <I, S, E>(key: Context.Key<I, S>, layer: Layer.Layer<I, E>) =>
    Effect.map(Effect.orDie(Effect.scoped(Layer.build(Layer.fresh(layer)))), (it) => Context.get(it, key))
  const state = StateStore.makeMemory()
  const artifacts = yield* build(ArtifactStore.ArtifactStore, ArtifactStore.layerMemory())
  const sessions = yield* build(KeyValueStore.KeyValueStore, KeyValueStore.layerMemory)
  let journal: Journal.Journal["Service"] | undefined
  return {
    open: Effect.gen(function*() {
      // whoever wrote what is there already is gone
      const entries = journal === undefined ? [] : yield* Effect.orDie(Stream.runCollect(journal.read({})))
      const layer = Journal.layerMemory({ maxEntries, entries: entries.map(({ entry }) => copyOf(entry)) })
      journal = yield* build(Journal.Journal, layer)
      return { journal, state, artifacts, sessions }
    })
  }
})

/**
 * Has time stand still in a run in virtual time while any of it is used.
 *
 * @category conversions
 * @since 0.1.0
 */
export const inRealTime = ({ artifacts, journal, sessions, state }: Kept): Kept => {
  const { real } = VirtualTime
  return {
    journal: {
      ...journal,
      append: (lines, options) => real(journal.append(lines, options)),
      read: (query) => Stream.unwrap(Effect.map(real(Stream.runCollect(journal.read(query))), Stream.fromIterable)),
      claim: (keys) => real(journal.claim(keys))
    },
    state: {
      reserve: (requests, now) => real(state.reserve(requests, now)),
      check: (claims, now) => real(state.check(claims, now)),
      start: (reservations, now) => real(state.start(reservations, now)),
      renew: (reservations, now) => real(state.renew(reservations, now)),
      settle: (reservation, settlement, now) => real(state.settle(reservation, settlement, now)),
      release: (reservation, now) => real(state.release(reservation, now)),
      abandon: (session, now, started) => real(state.abandon(session, now, started)),
      grant: (grant) => real(state.grant(grant)),
      grants: (principal, now) => real(state.grants(principal, now)),
      allGrants: (now) => real(state.allGrants(now)),
      revoke: (principal, id) => real(state.revoke(principal, id)),
      mutated: (principal) => real(state.mutated(principal)),
      closeBatch: (batch) => real(state.closeBatch(batch)),
      pruneExpired: (now) => real(state.pruneExpired(now))
    },
    artifacts: {
      put: (owner, payload) => counted(artifacts.put(owner, payload)),
      read: (owner, id, range) => counted(artifacts.read(owner, id, range)),
      prune: counted(artifacts.prune)
    },
    sessions: KeyValueStore.make({
      get: (key) => real(sessions.get(key)),
      getUint8Array: (key) => real(sessions.getUint8Array(key)),
      set: (key, value) => real(sessions.set(key, value)),
      remove: (key) => real(sessions.remove(key)),
      clear: real(sessions.clear),
      size: real(sessions.size),
      keys: real(sessions.keys)
    })
  }
}

// Utilities

/** Done in real time by something that asks for the time of the run. */
const counted = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.Clock, (clock) => VirtualTime.real(Effect.provideService(effect, Clock.Clock, clock)))

/** None of it is lost: a scenario is as long as its file. */
const maxEntries = 1_000_000

/** As it would come back from anywhere else. */
const copyOf = (entry: Journal.JournalEntry): Journal.JournalEntry =>
  Result.getOrThrow(JournalText.decode(JournalText.encode(entry)))
