/**
 * The questions of all sessions, for people: those that wait, and those that ended lately,
 * how and by whom.
 *
 * It stands around `Approvals`: executors ask through what it gives them, and what they ask is
 * on record here. Only what is on this record can be answered, once, by somebody who may: a hash is
 * no authority, it says what was seen.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Approvals from "../policy/Approvals.ts"
import type { User } from "./ApiAccess.ts"
import type { AlreadyEnded, NotAnswered, NotFound } from "./ApiProblems.ts"
import type { EndedQuestion, Part, Question, QuestionSummary } from "./ApiQuestions.ts"

/**
 * An answer to a question, as a person gives it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Given {
  readonly id: string
  readonly hash: string
  readonly answer: Approvals.Answer
}

/**
 * The questions. What `user` may not see is not there for them.
 *
 * @category services
 * @since 0.1.0
 */
export class Questions extends Context.Service<Questions, {
  /** Those that wait, oldest first, and those that ended lately, newest first. */
  readonly list: (user: User) => Effect.Effect<{
    readonly open: ReadonlyArray<QuestionSummary>
    readonly ended: ReadonlyArray<EndedQuestion>
  }>
  /** One of them, whole, whether it waits or is over. */
  readonly get: (user: User, id: string) => Effect.Effect<Option.Option<Question | EndedQuestion>>
  /** A part of what a file holds before or after the call, from a character on. */
  readonly part: (
    user: User,
    at: { readonly id: string; readonly index: number; readonly side: "before" | "after"; readonly from: number }
  ) => Effect.Effect<Option.Option<typeof Part.Type>>
  /** Answers one. */
  readonly answer: (user: User, given: Given) => Effect.Effect<EndedQuestion, NotFound | AlreadyEnded | NotAnswered>
  /** Answers several: all of them, or none where one is stale or wrong. */
  readonly answerAll: (
    user: User,
    given: ReadonlyArray<Given>
  ) => Effect.Effect<ReadonlyArray<EndedQuestion>, NotFound | NotAnswered>
  /** How many wait. */
  readonly count: Effect.Effect<number>
  /** Ends the wait for all answers: what is asked now or later is suspended, and asked again when it is resumed. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/Questions") {}
