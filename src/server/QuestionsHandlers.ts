/**
 * The handlers of questions and standing permissions: they ask whether the user may, and
 * translate.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Api } from "./Api.ts"
import type { Authorization, Checks } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as LiveLog from "./LiveLog.ts"
import * as Questions from "./Questions.ts"
import * as Records from "./Records.ts"
import * as Rights from "./Rights.ts"

/**
 * Layer of the handlers.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "questions">,
  never,
  Authorization | Checks | LiveLog.LiveLog | Questions.Questions | Records.Records
> = HttpApiBuilder.group(
  Api,
  "questions",
  Effect.fnUntraced(function*(handlers) {
    const live = yield* LiveLog.LiveLog
    const questions = yield* Questions.Questions
    const records = yield* Records.Records
    const orNotFound = <A>(it: Effect.Effect<Option.Option<A>>) =>
      Effect.flatMap(it, Option.match({ onNone: () => Effect.fail(new NotFound({})), onSome: Effect.succeed }))

    return handlers.handleAll({
      questions: Effect.fnUntraced(function*() {
        const user = yield* Rights.approver
        // taken first: what happens meanwhile comes twice and not never
        const cursor = yield* live.cursor
        return { ...yield* questions.list(user), cursor }
      }),
      question: ({ params }) => Effect.flatMap(Rights.approver, (user) => orNotFound(questions.get(user, params.id))),
      part: ({ params: { id, index, side }, query: { from = 0 } }) =>
        Effect.flatMap(Rights.approver, (user) => orNotFound(questions.part(user, { id, index, side, from }))),
      answer: ({ params, payload }) =>
        Effect.flatMap(Rights.approver, (user) => questions.answer(user, { id: params.id, ...payload })),
      answers: ({ payload }) => Effect.flatMap(Rights.approver, (user) => questions.answerAll(user, payload.answers)),
      grants: () => Effect.flatMap(Rights.grantKeeper, records.grants),
      revoke: ({ params }) => Effect.flatMap(Rights.grantKeeper, (user) => records.revoke(user, params.id))
    })
  })
)
