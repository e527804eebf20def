/** Where the records of a scenario are stored: they outlast a simulated process, and the next one opens them. */
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

/** The records of a process. */
export interface Records {
  readonly journal: Journal.Journal["Service"]
  readonly state: StateStore.StateStore["Service"]
  readonly artifacts: ArtifactStore.ArtifactStore["Service"]
  /** Transcripts of agent sessions. */
  readonly sessions: KeyValueStore.KeyValueStore
}

/** A store of records. */
export interface RecordStorage {
  /** Opens the records for one process, until the scope closes. */
  readonly open: Effect.Effect<Records, ConfigurationError, Scope.Scope>
}

/** In the memory of the runner. */
export const memory: Effect.Effect<RecordStorage> = Effect.gen(function*() {
  const build = <I, S, E>(key: Context.Key<I, S>, layer: Layer.Layer<I, E>) =>
    Effect.map(Effect.orDie(Effect.scoped(Layer.build(Layer.fresh(layer)))), (it) => Context.get(it, key))
  const state = StateStore.makeMemory()
  const artifacts = yield* build(ArtifactStore.ArtifactStore, ArtifactStore.layerMemory())
  const sessions = yield* build(KeyValueStore.KeyValueStore, KeyValueStore.layerMemory)
  let journal: Journal.Journal["Service"] | undefined
  return {
    open: Effect.gen(function*() {
      // the process that wrote these entries is gone
      const entries = journal === undefined ? [] : yield* Effect.orDie(Stream.runCollect(journal.read({})))
      const layer = Journal.layerMemory({ maxEntries, entries: entries.map(({ entry }) => copyOf(entry)) })
      journal = yield* build(Journal.Journal, layer)
      return { journal, state, artifacts, sessions }
    })
  }
})

/** Stops virtual time while records are used. */
export const inRealTime = ({ artifacts, journal, sessions, state }: Records): Records => {
  const { real } = VirtualTime
  return {
    journal: {
      ...journal,
      append: (lines, options) => real(journal.append(lines, options)),
      read: (query) => Stream.unwrap(Effect.map(real(Stream.runCollect(journal.read(query))), Stream.fromIterable)),
      claim: (keys, principal) => real(journal.claim(keys, principal))
    },
    state: {
      reserve: (requests, now, principal) => real(state.reserve(requests, now, principal)),
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
      recall: (of, now) => real(state.recall(of, now)),
      closeBatch: (batch, principal) => real(state.closeBatch(batch, principal)),
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

/** Runs in real time, but with the clock of the run. */
const counted = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.Clock, (clock) => VirtualTime.real(Effect.provideService(effect, Clock.Clock, clock)))

/** More than any scenario writes. */
const maxEntries = 1_000_000

/** The entry as a driver would decode it. */
const copyOf = (entry: Journal.JournalEntry): Journal.JournalEntry =>
  Result.getOrThrow(JournalText.decode(JournalText.encode(entry)))
