/** The memory driver of `Journal`: a ring of lines whose entries are made when somebody reads them. */
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Stream from "effect/Stream"
import {
  type Claimed,
  isOfCall,
  type JournalEntry,
  type Keeps,
  type Line,
  matches,
  mostLookedAt,
  type Page,
  type PageBounds,
  type Query,
  type Recorded
} from "./JournalEntry.ts"
import * as JournalText from "./JournalText.ts"

/** Bounds of the journal in memory, and what it keeps. */
export interface Options extends Partial<Keeps> {
  /** So many entries are kept; the oldest goes first. Default 10,000. */
  readonly maxEntries?: number | undefined
  /** Existing entries; their writer has ended. */
  readonly entries?: ReadonlyArray<JournalEntry> | undefined
}

export const defaults = {
  maxEntries: 10_000,
  entries: [],
  arguments: "full",
  outputs: "full"
} as const satisfies Options

/** Creates a journal in memory. Its only term lasts as long as the journal: every writer to it is alive. */
export const make = (options: Required<{ readonly [K in keyof Options]: NonNullable<Options[K]> }>) => {
  const { arguments: args, entries, maxEntries, outputs } = options
  const keeps: Keeps = { arguments: args, outputs }
  const key = new TextEncoder().encode("memory")
  let lines: Array<Line> = entries.map((entry) => ({ entry }))
  /** Place of the first line. */
  let first = 0
  /** Calls that were taken over and have no end yet. */
  const claimed = new Set<string>()

  const drop = () => {
    // in pieces, so that it costs nothing per line
    if (lines.length < 2 * maxEntries) return
    first += lines.length - maxEntries
    lines = lines.slice(-maxEntries)
  }
  const append = (more: ReadonlyArray<Line>): void => {
    for (const line of more) lines.push(line)
    drop()
    if (claimed.size === 0) return
    for (const { entry } of more) {
      if (entry._tag === "Settled" || entry._tag === "Suspended") claimed.delete(entry.key)
    }
  }
  /** Of what there is when this is called. */
  const recorded = (query: Query): Iterable<Recorded> => {
    const from = Math.max(0, lines.length - maxEntries)
    return found(lines.slice(from), first + from + 1, query)
  }
  const claim = (keys: ReadonlyArray<string>): Claimed => {
    const last = new Map<string, "running" | "ended" | "free">()
    for (const { entry, place } of recorded({ keys })) {
      if (!isOfCall(entry)) continue
      if (entry._tag === "Arrived") last.set(entry.key, place > entries.length ? "running" : "free")
      else if (entry._tag === "Settled") last.set(entry.key, "ended")
      else if (entry._tag === "Suspended") last.set(entry.key, "free")
    }
    const busy = keys.filter((it) => claimed.has(it) || last.get(it) === "running")
    if (busy.length > 0) return { _tag: "Busy", keys: busy }
    const ended = keys.filter((it) => last.get(it) === "ended")
    for (const it of keys) if (last.get(it) !== "ended") claimed.add(it)
    return { _tag: "Claimed", ended }
  }

  return {
    keeps,
    digest: (text: string) => Hex.encode(hmac(sha256, key, new TextEncoder().encode(text))),
    append: (more: ReadonlyArray<Line>) => {
      append(more)
      return Effect.void
    },
    read: (query: Query) => Stream.suspend(() => Stream.fromIterable(recorded(query))),
    page: (query: Query, bounds: PageBounds) =>
      Effect.sync(() => pageOf(recorded({ order: query.order }), query, bounds)),
    claim: (keys: ReadonlyArray<string>) => Effect.sync(() => claim(keys))
  }
}

/** Takes a page from entries that are in the order of a query. */
export const pageOf = (recorded: Iterable<Recorded>, query: Query, { chars, entries }: PageBounds): Page => {
  const found: Array<Recorded> = []
  const { after = 0, before = Infinity } = query
  let [lookedAt, size] = [0, 0]
  for (const it of recorded) {
    if (it.place <= after || it.place >= before) continue
    if (matches(query, it)) {
      found.push(it)
      size += JournalText.encode(it.entry).length
    }
    if (found.length >= entries || size >= chars || ++lookedAt >= mostLookedAt) {
      return { entries: found, next: it.place }
    }
  }
  return { entries: found }
}

/** What a query asks for of lines whose first one has a place; no more entries are made than are taken. */
function* found(lines: ReadonlyArray<Line>, first: number, query: Query): Generator<Recorded> {
  for (let index = 0; index < lines.length; index++) {
    const at = query.order === "newest" ? lines.length - 1 - index : index
    const recorded = { place: first + at, entry: lines[at]!.entry }
    if (matches(query, recorded)) yield recorded
  }
}
