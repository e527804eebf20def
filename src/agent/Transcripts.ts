/**
 * Where conversations are kept, so that they can be gone on with: a session is a list of messages that only grows.
 *
 * A message of a model with calls is kept before the first of them starts: after a crash the session says what was
 * asked for, and the journal what became of it.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** Error of a session that could not be read or written. */
export class TranscriptError extends Schema.TaggedError<TranscriptError>("effect-tool-executor/TranscriptError")(
  "TranscriptError",
  { session: Schema.String, operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    const why = this.cause instanceof Error ? `: ${this.cause.message}` : ""
    return `Transcripts.${this.operation} failed for session ${JSON.stringify(this.session)}${why}`
  }
}

/** A session. */
export interface Transcript {
  /** What was kept before. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Keeps more, behind all others: all of them, or it fails. */
  readonly append: (messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<void, TranscriptError>
}

/** A session among others. */
export interface Session {
  readonly name: string
  /** Whose it is. */
  readonly principal: string
  /** When it was written to last, in epoch milliseconds. */
  readonly at: number
  /** What was said first in it. */
  readonly words: string
}

/** The sessions. */
export class Transcripts extends Context.Service<Transcripts, {
  /**
   * Opens a session, a new one if nothing was kept for that principal under that name, as long as the scope is open.
   * What is kept for one principal is nobody else's.
   */
  readonly open: (session: string, principal: string) => Effect.Effect<Transcript, TranscriptError, Scope.Scope>
  /** The sessions that are kept, of all principals; what was written to last comes first. */
  readonly list: Effect.Effect<ReadonlyArray<Session>, TranscriptError>
}>()("effect-tool-executor/agent/Transcripts") {}
