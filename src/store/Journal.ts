/**
 * What is on record before it happens: that a call which may change things is about
 * to start.
 *
 * Everything else about a call follows from its events (`ToolEvent`). This does not:
 * a start without an end, found after a crash, says that the call may or may not
 * have happened; without a start on record the call would be run again. So a handler waits for
 * the journal, and does not begin if that cannot be written. No journal is the
 * default, and costs nothing.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/**
 * A call that is about to start.
 *
 * @category models
 * @since 0.1.0
 */
export const Started = Schema.Struct({
  /** Epoch milliseconds. The handler begins once the entry is written. */
  at: Schema.Finite,
  principal: Schema.String,
  /** Names of the sub-agents from the root down to the one that calls. */
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  /** Number of the wave in its process, from 1. */
  wave: Schema.Finite,
  /** Place of the call in its wave, from 0. */
  index: Schema.Finite,
  callId: Schema.String,
  tool: Schema.String,
  /** One text for tools that describe themselves in the same words and take the same arguments. */
  revision: Schema.String,
  /** What the handler finds as `ToolContext.idempotencyKey`. */
  idempotencyKey: Schema.String,
  /** The arguments as they were decoded: control arguments out, the host's own in. May hold secrets. */
  args: Schema.Unknown,
  /**
   * One text for equal arguments, whatever the order of keys. It knows a call again
   * that is handed over a second time; what is kept of it is best a hash with a key,
   * since it holds what `args` holds.
   */
  canonical: Schema.String
})

/**
 * A call that is about to start.
 *
 * @category models
 * @since 0.1.0
 */
export type Started = typeof Started.Type

/**
 * Error of a journal that could not be written.
 *
 * @category errors
 * @since 0.1.0
 */
export class JournalError extends Schema.TaggedError<JournalError>("effect-tool-executor/JournalError")(
  "JournalError",
  { cause: Schema.Defect() }
) {
  override get message(): string {
    return "The journal could not be written"
  }
}

/**
 * The journal.
 *
 * @category services
 * @since 0.1.0
 */
export class Journal extends Context.Service<Journal, {
  /**
   * Writes that calls are about to start: all of them, or it fails. Calls that start
   * together come together. They hold their permits, and wait outside of their own
   * limits; where this fails, dies or takes longer than five seconds, they are
   * refused (`StoreUnavailable`).
   *
   * An entry may be there of a call that did not start after all, because it was
   * cancelled or its turn was over meanwhile. Its end is told like any other, perhaps
   * before the entry is written: an end counts, whichever comes first.
   */
  readonly started: (entries: ReadonlyArray<Started>) => Effect.Effect<void, JournalError>
}>()("effect-tool-executor/store/Journal") {}

/**
 * Layer without a journal, as if none were provided: for a part of a program that
 * has one around it.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Journal> = Layer.sync(Journal, () => noop)

/**
 * A journal that keeps nothing.
 *
 * @category constructors
 * @internal
 */
export const noop: Journal["Service"] = { started: () => Effect.void }
