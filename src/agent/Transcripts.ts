/**
 * Stores conversations so that they can be continued. A session is an append-only list of messages.
 *
 * A model message is stored before its calls start. After a crash the session has the calls and the journal their
 * outcomes.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** A session could not be read or written. */
export class TranscriptError extends Schema.TaggedError<TranscriptError>("effect-tool-executor/TranscriptError")(
  "TranscriptError",
  { session: Schema.String, operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    const why = this.cause instanceof Error ? `: ${this.cause.message}` : ""
    return `Transcripts.${this.operation} failed for session ${JSON.stringify(this.session)}${why}`
  }
}

/** An open session. */
export interface Transcript {
  /** The messages stored before. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Appends messages: all of them, or it fails. */
  readonly append: (messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<void, TranscriptError>
}

/** A session in a list. */
export interface Session {
  readonly name: string
  readonly principal: string
  /** Last write, in epoch milliseconds. */
  readonly at: number
  /** Its first words. */
  readonly words: string
}

export class Transcripts extends Context.Service<Transcripts, {
  /** Opens or creates a principal's session for the rest of the scope. Principals cannot open each other's sessions. */
  readonly open: (session: string, principal: string) => Effect.Effect<Transcript, TranscriptError, Scope.Scope>
  /** Sessions of all principals, most recently written first. */
  readonly list: Effect.Effect<ReadonlyArray<Session>, TranscriptError>
}>()("effect-tool-executor/agent/Transcripts") {}
