/**
 * The journal: an append-only record of what happened to every call, and what principals have granted and taken back.
 *
 * A call that may change things is on record before it starts: a start without an end, found after a crash, says that
 * the call may or may not have happened; without a start on record it would be run again. So its handler waits for the
 * journal, and does not begin if that cannot be written; a read runs even so. No journal is the default, and costs
 * nothing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { Claimed, Keeps, Line, Page, PageBounds, Query, Recorded, Term } from "./JournalEntry.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

export * from "./JournalEntry.ts"

/** Error of a journal that could not be written or read. */
export class JournalError extends Schema.TaggedError<JournalError>("effect-tool-executor/JournalError")(
  "JournalError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `Journal.${this.operation} failed`
  }
}

/**
 * The journal.
 *
 * Whoever builds a driver's layer opens a *term*: entries are written in it, and calls that arrived in it and have no
 * end are its own as long as it lives. Where several write to one journal, a term is alive as long as it renews its
 * lease (a database), or holds a lock (a file); one that was given up or lost cannot be written in any more: `append`
 * fails. A driver whose term others can end opens a new one for what comes later, and has both as `term`.
 */
export class Journal extends Context.Service<Journal, {
  readonly keeps: Keeps
  /** A hash with a key that only this journal has: equal texts are known again, and not found out. */
  readonly digest: (text: string) => string
  /**
   * The term in which calls of a principal that arrive now are written; absent: no other process can end it. With a
   * `SessionRegistry` it is the epoch of the principal's session, and is over where this process does not hold that.
   */
  readonly term?: ((principal: string) => Term) | undefined
  /**
   * Writes entries behind all others, in this order: all of them, or it fails. With `durable` they are safe from a
   * crash of the machine once this ends. Lines of a term that is known to be over are left out. It fails if all of its
   * lines turn out to be of such terms. After a failure the same lines may come again: where the answer was lost, a
   * driver knows them by identity and writes them once.
   */
  readonly append: (
    lines: ReadonlyArray<Line>,
    options: { readonly durable: boolean }
  ) => Effect.Effect<void, JournalError>
  /** Reads entries in the order of their places, or backwards, without those appended after the stream has begun. */
  readonly read: (query: Query) => Stream.Stream<Recorded, JournalError>
  /**
   * Reads a bounded part of the same: no more entries and characters than are wanted, and no more work than for
   * `mostLookedAt` entries, however rare what is asked for may be.
   */
  readonly page: (query: Query, bounds: PageBounds) => Effect.Effect<Page, JournalError>
  /**
   * Takes over calls of a principal that have no end and no running process, by their keys, in one atomic step; a call
   * that is not on record is taken, too. A call has an end once it is `Settled`; it is free again when it is
   * `Suspended`, or when its term is over. A term that held one of them cannot be written in afterwards. With a
   * `SessionRegistry`, who holds the session may claim its calls, and nobody else.
   */
  readonly claim: (keys: ReadonlyArray<string>, principal: string) => Effect.Effect<Claimed, JournalError>
}>()("effect-tool-executor/store/Journal") {}

/** Bounds of the journal in memory, and what it keeps. */
export type MemoryOptions = MemoryJournal.Options

export const memoryDefaults = MemoryJournal.defaults

/**
 * Layer of a journal in memory, bounded: the oldest entries go first. It is for tests and for looking at what happened;
 * it does not survive anything.
 */
export const layerMemory = (options?: MemoryOptions): Layer.Layer<Journal, ConfigurationError> =>
  Layer.effect(Journal, checked(options))

/** Layer without a journal, as if none were provided: for a part of a program that has one around it. */
export const layerNoop: Layer.Layer<Journal> = Layer.sync(Journal, () => noop)

/** A journal that keeps nothing. */
export const noop: Journal["Service"] = {
  keeps: { arguments: "none", outputs: "none" },
  digest: (text) => text,
  append: () => Effect.void,
  read: () => Stream.empty,
  page: () => Effect.succeed({ entries: [] }),
  claim: () => Effect.succeed({ _tag: "Claimed", ended: [] })
}

const checked = (options: MemoryOptions = {}): Effect.Effect<Journal["Service"], ConfigurationError> =>
  Effect.map(
    readOptions("Journal", (read) => ({
      entries: options.entries ?? memoryDefaults.entries,
      maxEntries: read.atLeast("maxEntries", options.maxEntries ?? memoryDefaults.maxEntries, 1),
      arguments: read.oneOf("arguments", options.arguments ?? memoryDefaults.arguments, amounts),
      outputs: read.oneOf("outputs", options.outputs ?? memoryDefaults.outputs, amounts)
    })),
    MemoryJournal.make
  )

const amounts = ["full", "hashes", "none"] as const
