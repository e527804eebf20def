/**
 * Live items that processes tell one another: a bounded list, numbered without gaps. Each process adds its own items
 * and reads those of the others.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Error of a table that cannot be read or written. */
export class LiveTableError extends Schema.TaggedError<LiveTableError>("effect-tool-executor/LiveTableError")(
  "LiveTableError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `LiveTable.${this.operation} failed`
  }
}

/** An item of a user, as text that the driver does not read. */
export interface LiveRow {
  readonly user: string
  readonly item: string
}

/** The list. */
export class LiveTable extends Context.Service<LiveTable, {
  readonly append: (rows: ReadonlyArray<LiveRow>) => Effect.Effect<void, LiveTableError>
  /** The number of the latest item. */
  readonly end: Effect.Effect<number, LiveTableError>
  /**
   * Items of other processes after a number, oldest first. The next read is after `end`. `isComplete`: `false` if items
   * after that number are no longer kept.
   */
  readonly read: (after: number) => Effect.Effect<
    { readonly rows: ReadonlyArray<LiveRow>; readonly end: number; readonly isComplete: boolean },
    LiveTableError
  >
}>()("effect-tool-executor/store/LiveTable") {}
