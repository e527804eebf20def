/**
 * Stores conversations so that they can be continued. A session is an append-only list of messages.
 *
 * A model message is stored before its calls start. After a crash the session has the calls and the journal their
 * outcomes.
 */
import * as Prompt from "effect/ai/Prompt"
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

/** The call that a sub-agent works for. Its id is unique in its process. */
export const Place = Schema.Struct({ process: Schema.String, call: Schema.String })

/** The call that a sub-agent works for. */
export type Place = typeof Place.Type

/** Schema of how a sub-agent ended: the tag of its `EndReason`, an explanation, its last text and its calls. */
export const End = Schema.Struct({
  ended: Schema.String,
  message: Schema.String,
  text: Schema.String,
  /** Calls started, including those of its sub-agents. */
  calls: Schema.Int
})

/** How a sub-agent ended. */
export type End = typeof End.Type

/** Schema of a part of a sub-agent's conversation. */
export const Below = Schema.Struct({
  /** The calls from the root's down to the one it works for. */
  of: Schema.Array(Place),
  messages: Schema.Array(Prompt.Message),
  /** Messages that its caller sent it, and that it may not have read. */
  received: Schema.optionalKey(Schema.Array(Schema.Struct({ id: Schema.String, text: Schema.String }))),
  /** It is the first part, and replaces a conversation of the same call. */
  isNew: Schema.optionalKey(Schema.Boolean),
  /** It is the last part. */
  end: Schema.optionalKey(End)
})

/** A part of a sub-agent's conversation. */
export type Below = typeof Below.Type

/** An open session. */
export interface Transcript {
  /** The messages stored before. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Appends messages: all of them, or it fails. */
  readonly append: (messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<void, TranscriptError>
  /** What was stored of its sub-agents, in the order in which it was appended. */
  readonly below: ReadonlyArray<Below>
  /** Appends a part of a sub-agent's conversation. */
  readonly appendBelow: (part: Below) => Effect.Effect<void, TranscriptError>
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
