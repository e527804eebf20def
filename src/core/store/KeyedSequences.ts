/** Sequences of rows in a key-value store, such as a folder with a file for each row, for one process at a time. */
import * as Effect from "effect/Effect"
import type * as KeyValueStore from "effect/persistence/KeyValueStore"
import { inSequence } from "./MemoryRows.ts"
import { type Change, type Rows, type SessionRows, SessionRowsError } from "./SessionRows.ts"

/** Creates rows that are in sequences, and nothing else. `pattern` matches their keys, with that of the sequence as a group. */
export const make = (store: KeyValueStore.KeyValueStore, pattern: RegExp): SessionRows["Service"] => {
  const values = (keys: ReadonlyArray<string>) =>
    Effect.map(
      Effect.forEach(keys, (key) => Effect.map(store.get(key), (value) => [key, value] as const)),
      (all) => new Map(all.flatMap(([key, value]) => value === undefined ? [] : [[key, value] as const]))
    )
  const sequence = (base: string) => Effect.map(store.keys, (keys) => inSequence(keys, base))
  const write = (it: Change): Effect.Effect<void, KeyValueStore.KeyValueStoreError> => {
    switch (it._tag) {
      case "Put":
        return store.set(it.key, it.value)
      case "List":
        return Effect.void
      case "Remove":
        return store.remove(it.key)
      case "RemoveSequence":
        return Effect.flatMap(sequence(it.key), (keys) => Effect.forEach(keys, store.remove, { discard: true }))
    }
  }
  const of: Rows = {
    read: ({ keys = [], sequences = [] }) =>
      failing("read", Effect.flatMap(Effect.forEach(sequences, sequence), (all) => values([...keys, ...all.flat()]))),
    open: () => Effect.succeed([]),
    write: (changes) => failing("write", Effect.forEach(changes, write, { discard: true }))
  }
  return {
    of: () => of,
    found: () => Effect.succeed([]),
    summaries: undefined,
    sequences: () =>
      failing(
        "sequences",
        Effect.flatMap(store.keys, (keys) => {
          const bases = new Set(keys.flatMap((key) => pattern.exec(key)?.[1] ?? []))
          return Effect.forEach(bases, (base) => {
            const all = inSequence(keys, base)
            return Effect.map(
              values(Array.from(new Set([...all.slice(0, 1), ...all.slice(-2)]))),
              (found) => Array.from(found.values())
            )
          })
        })
      ),
    prune: () => Effect.void
  }
}

const failing = <A>(
  operation: string,
  effect: Effect.Effect<A, KeyValueStore.KeyValueStoreError>
): Effect.Effect<A, SessionRowsError> => Effect.mapError(effect, (cause) => new SessionRowsError({ operation, cause }))
