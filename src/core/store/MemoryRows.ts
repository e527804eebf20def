/** The memory driver of `SessionRows`: one process, which has all sessions. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Change, type Listed, RowExists, type Rows, SessionRows } from "./SessionRows.ts"

interface Kept {
  readonly value: string
  readonly listed?: Listed | undefined
}

/** Creates rows that end with the process. */
export const make = (): SessionRows["Service"] => {
  const sessions = new Map<string, Map<string, Kept>>()
  const ofKind = function*(kind: string, isOpen?: boolean) {
    for (const rows of sessions.values()) {
      for (const [key, it] of rows) {
        if (it.listed?.kind === kind && (isOpen ?? it.listed.isOpen) === it.listed.isOpen) yield { rows, key, ...it }
      }
    }
  }
  return {
    of: (principal): Rows => {
      const rows = () => sessions.get(principal) ?? new Map<string, Kept>()
      return {
        read: ({ head, keys = [], sequences = [] }) =>
          Effect.sync(() => {
            const all = rows()
            if (head !== undefined && !all.has(head)) return new Map()
            const wanted = [
              ...head === undefined ? keys : [head, ...keys],
              ...sequences.flatMap((base) => inSequence(all.keys(), base))
            ]
            return new Map(wanted.flatMap((key) => all.has(key) ? [[key, all.get(key)!.value]] : []))
          }),
        open: (kind) =>
          Effect.sync(() =>
            Array.from(rows()).flatMap(([key, { listed, value }]) =>
              listed?.kind === kind && listed.isOpen ? [{ key, value }] : []
            )
          ),
        write: (changes) =>
          Effect.suspend(() => {
            const all = rows()
            for (const it of changes) {
              const there = it._tag === "Put" && it.isNew === true ? all.get(it.key) : undefined
              if (there !== undefined) return Effect.fail(new RowExists({ key: it.key, value: there.value }))
            }
            for (const it of changes) change(all, it)
            if (all.size === 0) sessions.delete(principal)
            else sessions.set(principal, all)
            return Effect.void
          })
      }
    },
    found: (kind, which) =>
      Effect.sync(() =>
        Array.from(ofKind(kind, which === "all" ? undefined : true), ({ key, value }) => ({ key, value }))
      ),
    summaries: undefined,
    sequences: (kind) =>
      Effect.sync(() =>
        Array.from(ofKind(kind), ({ key, rows }) => {
          const all = inSequence(rows.keys(), key.slice(0, key.lastIndexOf(".")))
          return [...new Set([...all.slice(0, 1), ...all.slice(-2)])].map((it) => rows.get(it)!.value)
        })
      ),
    prune: ({ before, kind, parts }) =>
      Effect.sync(() => {
        for (const [principal, rows] of sessions) {
          const prefixes = new Set<string>()
          for (const [key, { listed }] of rows) {
            if (listed?.kind !== kind || listed.isOpen || listed.at >= before) continue
            rows.delete(key)
            if (parts !== undefined) prefixes.add(parts.prefix + restOf(key, parts.insteadOf))
          }
          const lengths = new Set(Array.from(prefixes, (it) => it.length))
          for (const key of prefixes.size === 0 ? [] : rows.keys()) {
            for (const length of lengths) if (prefixes.has(key.slice(0, length))) rows.delete(key)
          }
          if (rows.size === 0) sessions.delete(principal)
        }
      })
  }
}

/** Layer of rows that end with the process. */
export const layer: Layer.Layer<SessionRows> = Layer.sync(SessionRows, make)

/** What follows the beginning of a key. */
const restOf = (key: string, beginning: string | undefined): string =>
  beginning === undefined ? "" : key.slice(beginning.length)

const change = (rows: Map<string, Kept>, it: Change): void => {
  switch (it._tag) {
    case "Put": {
      const listed = it.listed ?? rows.get(it.key)?.listed
      rows.set(it.key, { value: it.value, listed })
      return
    }
    case "List": {
      const row = rows.get(it.key)
      if (row !== undefined) rows.set(it.key, { value: row.value, listed: it.listed })
      return
    }
    case "Remove":
      rows.delete(it.key)
      return
    case "RemoveSequence":
      for (const key of inSequence(rows.keys(), it.key)) rows.delete(key)
  }
}

/** The keys of a sequence, by their numbers. */
export const inSequence = (keys: Iterable<string>, base: string): ReadonlyArray<string> => {
  const numberOf = (key: string) => Number(key.slice(base.length + 1))
  return Array.from(keys)
    .filter((key) => key.startsWith(`${base}.`) && /^(?:0|[1-9]\d*)$/.test(key.slice(base.length + 1)))
    .sort((one, other) => numberOf(one) - numberOf(other))
}
