/**
 * Rows of sessions in a key-value store (`effect/persistence`), for one process at a time: it holds all sessions.
 *
 * Such a store has neither sessions nor times, and listing its keys is slow: they are listed when a process starts. A
 * `Layout` says what keys mean. Finished rows are numbered, so that old ones are found without listing.
 */
import * as Effect from "effect/Effect"
import type * as KeyValueStore from "effect/persistence/KeyValueStore"
import type * as Result from "effect/Result"
import { type Change, type Row, type Rows, type SessionRows, SessionRowsError } from "./SessionRows.ts"

/** What keys mean. */
export interface Layout {
  readonly kinds?: { readonly [kind: string]: Kind } | undefined
  /** Sequences by kind: matches their keys, with the key of the sequence and the number as groups. Lost rows show. */
  readonly sequences?: { readonly [kind: string]: RegExp } | undefined
}

/** Rows of one kind. */
export interface Kind {
  /** Matches their keys, with their id as a group. */
  readonly pattern: RegExp
  /** The key of the row that ends one. */
  readonly endOf?: ((id: string) => string) | undefined
  /** The principal of a row; without it, unfinished rows are not found by session. */
  readonly principalOf?: ((value: string) => string | undefined) | undefined
  /** The time of a row; without it, rows are not deleted by their time. `undefined`: it cannot be read. */
  readonly atOf?: ((value: string) => number | undefined) | undefined
  /** Finished rows are numbered in the order in which they end. */
  readonly numbers?: NumbersOfKind | undefined
}

/** The records of numbers. */
export interface NumbersOfKind {
  readonly keyOf: (id: string) => string
  /** The key of a number of one start of the process. */
  readonly numberOf: (life: string, number: number) => string
  /** Matches such keys, with the start and the number as groups. */
  readonly pattern: RegExp
  readonly encode: (finished: { readonly id: string; readonly at: number }) => string
  readonly decode: (text: string) => Result.Result<{ readonly id: string; readonly at: number }, Error>
}

/** Creates the service. `life` is a name of this start of the process, for the numbers of finished rows. */
export const make = (
  store: KeyValueStore.KeyValueStore,
  { kinds = {}, sequences = {} }: Layout,
  life = ""
): SessionRows["Service"] => {
  const patterns = Object.values(sequences)
  const numbers = new Map(
    Object.entries(kinds).flatMap(([kind, it]) =>
      it.numbers === undefined ? [] : [[kind, new Numbers(store, it, it.numbers, life)] as const]
    )
  )
  /** Keys of rows of earlier starts that are deleted by their time, by kind. */
  const left = new Map<string, Set<string>>()
  /** Keys of unfinished rows, by kind and principal. */
  const open = new Map<string, Set<string>>()
  /** Rows of each sequence, as far as this process knows. */
  let counts: Map<string, number> | undefined

  const setOpen = (kind: string, principal: string, key: string, isOpen: boolean) => {
    if (kinds[kind]?.principalOf === undefined) return
    const of = openKey(kind, principal)
    const keys = open.get(of)
    if (!isOpen) {
      if (keys?.delete(key) === true && keys.size === 0) open.delete(of)
    } else if (keys === undefined) open.set(of, new Set([key]))
    else keys.add(key)
  }
  const counted = Effect.suspend(() =>
    counts !== undefined ? Effect.succeed(counts) : Effect.map(store.keys, (keys) => counts = countsOf(keys, patterns))
  )
  const sequence = Effect.fnUntraced(function*(base: string, rows: Map<string, string>) {
    const count = patterns.some((it) => it.test(`${base}.0`)) ? (yield* counted).get(base) ?? 0 : 0
    // another process may have written more
    for (let number = 0;; number++) {
      const key = `${base}.${number}`
      const value = yield* store.get(key)
      if (value !== undefined) rows.set(key, value)
      else if (number >= count) return
    }
  })
  const change = Effect.fnUntraced(function*(principal: string, it: Change) {
    switch (it._tag) {
      case "Put": {
        yield* store.set(it.key, it.value)
        if (it.listed !== undefined) setOpen(it.listed.kind, principal, it.key, it.listed.isOpen)
        if (counts !== undefined) count(counts, patterns, it.key)
        return
      }
      case "List": {
        const { isOpen, kind } = it.listed
        const isThere = !isOpen || kinds[kind]?.principalOf === undefined || (yield* store.has(it.key))
        return setOpen(kind, principal, it.key, isOpen && isThere)
      }
      case "Remove":
        for (const kind of Object.keys(kinds)) setOpen(kind, principal, it.key, false)
        return yield* store.remove(it.key)
      case "RemoveSequence":
        for (let number = 0; yield* store.has(`${it.key}.${number}`); number++) {
          yield* store.remove(`${it.key}.${number}`)
        }
    }
  })
  const rowsOf = (principal: string): Rows => ({
    read: ({ head, keys = [], sequences = [] }) =>
      failing(
        "read",
        Effect.gen(function*() {
          const rows = new Map<string, string>()
          for (const key of head === undefined ? keys : [head, ...keys]) {
            const value = yield* store.get(key)
            if (value !== undefined) rows.set(key, value)
            else if (key === head) return rows
          }
          for (const base of sequences) yield* sequence(base, rows)
          return rows
        })
      ),
    open: (kind) =>
      failing("open", Effect.suspend(() => existing(Array.from(open.get(openKey(kind, principal)) ?? [])))),
    write: (changes) =>
      failing(
        "write",
        Effect.suspend(() => {
          const written = Effect.forEach(changes, (it) => change(principal, it), { discard: true })
          return changes.reduceRight((after, it) => {
            const listed = it._tag === "List" ? it.listed : undefined
            const of = listed === undefined || listed.isOpen ? undefined : numbers.get(listed.kind)
            return of === undefined || listed === undefined ? after : of.around(it.key, listed.at, after)
          }, written)
        })
      )
  })
  const existing = Effect.fnUntraced(function*(keys: Iterable<string>) {
    const rows: Array<Row> = []
    for (const key of keys) {
      const value = yield* store.get(key)
      if (value !== undefined) rows.push({ key, value })
    }
    return rows
  })
  return {
    of: rowsOf,
    found: (kind) =>
      failing(
        "found",
        Effect.gen(function*() {
          const all = new Set(yield* store.keys)
          for (const [name, { atOf, pattern }] of Object.entries(kinds)) {
            if (atOf !== undefined) left.set(name, new Set(Array.from(all).filter((it) => pattern.test(it))))
            numbers.get(name)?.found(all)
          }
          const of = kinds[kind]
          if (of === undefined) return []
          const unfinished = Array.from(all).filter((key) => {
            const [, id] = of.pattern.exec(key) ?? []
            return id !== undefined && (of.endOf === undefined || !all.has(of.endOf(id)))
          })
          const rows = yield* existing(unfinished)
          for (const { key, value } of rows) {
            const principal = of.principalOf?.(value)
            if (principal !== undefined) setOpen(kind, principal, key, true)
          }
          return rows
        })
      ),
    summaries: undefined,
    sequences: (kind) =>
      failing(
        "sequences",
        Effect.gen(function*() {
          const pattern = sequences[kind]
          const found: Array<ReadonlyArray<string>> = []
          if (pattern === undefined) return found
          for (const [base, count] of countsOf(yield* store.keys, [pattern])) {
            const ends = new Set([0, count - 2, count - 1].filter((it) => it >= 0))
            found.push((yield* existing(Array.from(ends, (it) => `${base}.${it}`))).map(({ value }) => value))
          }
          return found
        })
      ),
    prune: ({ before, kind }) =>
      failing(
        "prune",
        Effect.gen(function*() {
          yield* numbers.get(kind)?.prune(before) ?? Effect.void
          const [keys, atOf] = [left.get(kind), kinds[kind]?.atOf]
          for (const key of keys ?? []) {
            const value = yield* store.get(key)
            const at = value === undefined ? undefined : atOf?.(value)
            if (at !== undefined && at >= before) continue
            yield* store.remove(key)
            keys?.delete(key)
          }
        })
      )
  }
}

/** The finished rows of a kind. */
class Numbers {
  private readonly store: KeyValueStore.KeyValueStore
  private readonly kind: Kind
  private readonly of: NumbersOfKind
  private readonly own: Numbered
  private readonly all: Map<string, Numbered>
  /** Numbers of rows whose end is being written. */
  private readonly pending = new Set<number>()

  constructor(store: KeyValueStore.KeyValueStore, kind: Kind, of: NumbersOfKind, life: string) {
    this.store = store
    this.kind = kind
    this.of = of
    this.own = { life, from: 0, to: 0 }
    this.all = new Map([[life, this.own]])
  }

  /** Learns the numbers of earlier starts. */
  found(keys: ReadonlySet<string>): void {
    for (const key of keys) {
      const [, life, number] = this.of.pattern.exec(key) ?? []
      if (life === undefined || life === this.own.life) continue
      const of = this.all.get(life) ?? { life, from: Number(number), to: 0 }
      this.all.set(life, { life, from: Math.min(of.from, Number(number)), to: Math.max(of.to, Number(number) + 1) })
    }
  }

  /** Numbers a row that a write finishes. The number is written first: only numbered rows are deleted later. */
  around<A, E>(
    key: string,
    at: number,
    written: Effect.Effect<A, E>
  ): Effect.Effect<A, E | KeyValueStore.KeyValueStoreError> {
    const [, id] = this.kind.pattern.exec(key) ?? []
    if (id === undefined) return written
    return Effect.suspend(() => {
      const number = this.own.to++
      this.pending.add(number)
      return this.store.set(this.of.numberOf(this.own.life, number), this.of.encode({ at, id })).pipe(
        Effect.andThen(written),
        Effect.ensuring(Effect.sync(() => this.pending.delete(number)))
      )
    })
  }

  /** Deletes rows that were finished before a time. */
  prune(before: number): Effect.Effect<void, KeyValueStore.KeyValueStoreError> {
    return Effect.forEach(Array.from(this.all.values()), (it) => this.pruneOf(it, before), { discard: true })
  }

  private pruneOf(of: Numbered, before: number): Effect.Effect<void, KeyValueStore.KeyValueStoreError> {
    const { all, own, pending, store } = this
    const { decode, keyOf, numberOf } = this.of
    const { endOf } = this.kind
    return Effect.gen(function*() {
      const to = of === own ? Math.min(own.to, ...pending) : of.to
      for (; of.from < to; of.from++) {
        const key = numberOf(of.life, of.from)
        const text = yield* store.get(key)
        const finished = text === undefined ? undefined : decode(text)
        // an unreadable record must not affect others
        if (finished?._tag === "Failure") yield* Effect.logError(`${key} cannot be read`, finished.failure)
        if (finished?._tag === "Success") {
          const { at, id } = finished.success
          if (at >= before) return
          // a row whose end could not be stored is kept, and continued
          if (endOf !== undefined && (yield* store.get(endOf(id))) !== undefined) {
            yield* Effect.andThen(store.remove(keyOf(id)), store.remove(endOf(id)))
          }
        }
        yield* store.remove(key)
      }
      if (of !== own && of.from === of.to) all.delete(of.life)
    })
  }
}

/** The numbers that one start of the process has given and not deleted. */
interface Numbered {
  readonly life: string
  from: number
  to: number
}

const openKey = (kind: string, principal: string): string => `${kind} ${principal}`

/** Rows of each sequence, from the highest number. */
const countsOf = (keys: Iterable<string>, patterns: ReadonlyArray<RegExp>): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys) count(counts, patterns, key)
  return counts
}

const count = (counts: Map<string, number>, patterns: ReadonlyArray<RegExp>, key: string): void => {
  for (const pattern of patterns) {
    const [, base, number] = pattern.exec(key) ?? []
    if (base !== undefined) counts.set(base, Math.max(counts.get(base) ?? 0, Number(number) + 1))
  }
}

const failing = <A, R>(
  operation: string,
  effect: Effect.Effect<A, KeyValueStore.KeyValueStoreError, R>
): Effect.Effect<A, SessionRowsError, R> =>
  Effect.mapError(effect, (cause) => new SessionRowsError({ operation, cause }))
