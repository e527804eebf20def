/**
 * Gate 12, before people: who looks at the calls which need approval. It decides only where the policy lets it, about
 * one call at a time. Whatever it cannot decide, or not in time, goes to the approvers.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ReviewRequest } from "./ReviewRequest.ts"

export type { ReviewRequest } from "./ReviewRequest.ts"

/**
 * Schema of a verdict: the call may run, a person is to decide, or the call is denied. The reason is shown to approvers
 * and, if the call is denied, to the model.
 */
export const Verdict = Schema.Union([
  Schema.TaggedStruct("Allow", { reason: Schema.String }),
  Schema.TaggedStruct("Person", { reason: Schema.String }),
  Schema.TaggedStruct("Deny", { reason: Schema.String })
])

/** A verdict about one call. */
export type Verdict = typeof Verdict.Type

/** Sends the calls of a conversation to people once a reviewer keeps denying them. */
export interface Breaker {
  /** Returns why people decide everything in a conversation now; `undefined` if the reviewer is asked. */
  readonly openedBy: (conversation: string, now: number) => string | undefined
  /** Counts a verdict, unless people decide everything. */
  readonly count: (conversation: string, isDenial: boolean, now: number) => void
  /** A person approved a call in it. */
  readonly close: (conversation: string) => void
}

/** The limits of a reviewer in plain numbers. */
export interface Limits {
  readonly timeoutMillis: number
  /** How many reviews may run at once. */
  readonly concurrency: number
}

/** Looks at calls that need approval, before people do. */
export class Reviewer extends Context.Service<Reviewer, {
  /** The model that reviews, for the record. */
  readonly model: string
  /** Judges one call. A failure, a defect, a malformed verdict or none in time means that a person is asked. */
  readonly review: (request: ReviewRequest) => Effect.Effect<Verdict, unknown>
  readonly limits: Limits
  /** Creates the breakers of an executor's conversations. */
  readonly breaker: () => Breaker
}>()("effect-tool-executor/policy/Reviewer") {}
