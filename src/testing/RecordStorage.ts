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
import { around } from "../internal/around.ts"
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
    state: around(state, StateStore.operations, (run) => real(Effect.suspend(run))),
    // in real time, but with the clock of the run
    artifacts: around(
      artifacts,
      ["put", "read", "prune"],
      (run) =>
        Effect.flatMap(Clock.Clock, (clock) => real(Effect.provideService(Effect.suspend(run), Clock.Clock, clock)))
    ),
    sessions: KeyValueStore.make(
      around(
        sessions,
        ["get", "getUint8Array", "set", "remove", "clear", "size", "keys"],
        (run) => real(Effect.suspend(run))
      )
    )
  }
}

/** More than any scenario writes. */
const maxEntries = 1_000_000

/** The entry as a driver would decode it. */
const copyOf = (entry: Journal.JournalEntry): Journal.JournalEntry =>
  Result.getOrThrow(JournalText.decode(JournalText.encode(entry)))
