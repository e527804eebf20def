/**
 * Rows of sessions: submitted waves, turns, operations, conversations, transcripts. A session is named by its principal.
 *
 * A write of several rows is one step: all or nothing. Where several processes share the rows, only the process that
 * holds the session writes them (`SessionRegistry`), and reads need no ownership. `MemoryRows` has the driver in memory;
 * `KeyedSequences` has one for sequences alone, over a key-value store.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SessionLost } from "./SessionRegistry.ts"

/** Rows could not be read or written. Another try may succeed. */
export class SessionRowsError extends Schema.TaggedError<SessionRowsError>("effect-tool-executor/SessionRowsError")(
  "SessionRowsError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `SessionRows.${this.operation} failed${this.cause instanceof Error ? `: ${this.cause.message}` : ""}`
  }
}

/** A row that was to be new is there already. Nothing was written. */
export class RowExists extends Schema.TaggedError<RowExists>("effect-tool-executor/RowExists")("RowExists", {
  key: Schema.String,
  /** What is there. */
  value: Schema.String
}) {
  override get message(): string {
    return `Row ${JSON.stringify(this.key)} exists already. Nothing was written`
  }
}

/** How a row is found. */
export interface Listed {
  /** What it is, such as `wave`. */
  readonly kind: string
  /** It is unfinished: retention leaves it, and whoever takes over the session continues it. */
  readonly isOpen: boolean
  /** Epoch milliseconds of this change. */
  readonly at: number
  /** What lists show of it, as JSON. Unchanged if absent. */
  readonly summary?: (() => string) | undefined
}

/** A change of one row. */
export type Change =
  | {
    readonly _tag: "Put"
    readonly key: string
    readonly value: string
    /** There is no such row yet; otherwise the write fails. A driver for one process may rely on it. */
    readonly isNew?: boolean | undefined
    /** Unchanged if absent. */
    readonly listed?: Listed | undefined
  }
  /** Changes how a row is found, and not its value. Does nothing where there is no such row. */
  | { readonly _tag: "List"; readonly key: string; readonly listed: Listed }
  | { readonly _tag: "Remove"; readonly key: string }
  /** Removes the rows `key.0`, `key.1`, and so on. */
  | { readonly _tag: "RemoveSequence"; readonly key: string }

/** A row. */
export interface Row {
  readonly key: string
  readonly value: string
}

/** Rows of one session, in the epoch in which this process held it when they were asked for. */
export interface Rows {
  /**
   * Reads rows by their keys, then the rows `key.0`, `key.1` and so on of each sequence, in this order. What is not there
   * is left out. If there is no row `head`, the result is empty.
   */
  readonly read: (
    of: {
      readonly head?: string | undefined
      readonly keys?: ReadonlyArray<string> | undefined
      readonly sequences?: ReadonlyArray<string> | undefined
    }
  ) => Effect.Effect<ReadonlyMap<string, string>, SessionRowsError>
  /** Reads the unfinished rows of a kind. */
  readonly open: (kind: string) => Effect.Effect<ReadonlyArray<Row>, SessionRowsError>
  /**
   * Writes all changes or none. Of several changes of a key the last one counts; rows of a sequence that is removed do
   * not change otherwise.
   */
  readonly write: (
    changes: ReadonlyArray<Change>
  ) => Effect.Effect<void, RowExists | SessionLost | SessionRowsError>
}

/** A row in a list. */
export interface Summary {
  readonly key: string
  readonly isOpen: boolean
  /** Epoch milliseconds of the last change. */
  readonly at: number
  readonly summary: string
}

/** What to list. */
export interface Listing {
  readonly kind: string
  /** Sessions of these users; absent: of all. */
  readonly users?: ReadonlyArray<string> | undefined
  /** One session. */
  readonly principal?: string | undefined
  readonly limit: number
}

/** What retention deletes. */
export interface Pruning {
  readonly kind: string
  /** Rows that have not changed since this time, in epoch milliseconds. */
  readonly before: number
  /** Rows of the same session that go with a row: those whose keys begin so. */
  readonly parts?:
    | {
      readonly prefix: string
      /** The beginning of the row's own key: what follows it follows the prefix, too. */
      readonly insteadOf?: string | undefined
    }
    | undefined
}

/** The rows of all sessions. */
export class SessionRows extends Context.Service<SessionRows, {
  /** The rows of a session. */
  readonly of: (principal: string) => Rows
  /**
   * Rows of a kind that a process continues when it starts: unfinished ones, or all. Only a process that has all sessions
   * has any: where sessions are held one by one, each is continued by who holds it.
   */
  readonly found: (kind: string, which?: "all" | "open") => Effect.Effect<ReadonlyArray<Row>, SessionRowsError>
  /**
   * Lists rows that have a summary, unfinished ones before others, the latest change first. Absent where one process has
   * all sessions: it lists what it has in memory.
   */
  readonly summaries: ((of: Listing) => Effect.Effect<ReadonlyArray<Summary>, SessionRowsError>) | undefined
  /** The first row of each sequence of a kind, and its last two, in this order: as many as there are. */
  readonly sequences: (kind: string) => Effect.Effect<ReadonlyArray<ReadonlyArray<string>>, SessionRowsError>
  /** Deletes finished rows of a kind, with their parts. */
  readonly prune: (of: Pruning) => Effect.Effect<void, SessionRowsError>
}>()("effect-tool-executor/store/SessionRows") {}

/** Tells whether an error of a store means that another process holds the session: no other try can succeed. */
export const isLost = (error: unknown): boolean => {
  for (let it = error; it instanceof Error; it = it.cause) if (it instanceof SessionLost) return true
  return false
}
