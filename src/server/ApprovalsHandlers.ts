/** The handlers of approval requests and grants: they ask whether the user may, and translate. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import type { Authorization, Checks } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as LiveLog from "./LiveLog.ts"
import * as Rights from "./Rights.ts"
import { SessionDirectory } from "./SessionDirectory.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "approvals">,
  never,
  Authorization | Checks | LiveLog.LiveLog | SessionDirectory
> = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function*(handlers) {
    const live = yield* LiveLog.LiveLog
    const directory = yield* SessionDirectory

    return handlers.handleAll({
      list: Effect.fnUntraced(function*() {
        const user = yield* Rights.approver
        // taken first: what happens meanwhile comes twice and not never
        const cursor = yield* live.cursor
        return { ...yield* directory.approvals(user), cursor }
      }),
      get: ({ params }) => Effect.flatMap(Rights.approver, (user) => directory.approval(user, params.id)),
      part: ({ params: { id, index, side }, query: { from = 0 } }) =>
        Effect.flatMap(Rights.approver, (user) => directory.approvalPart(user, { id, index, side, from })),
      answer: ({ params, payload }) =>
        Effect.flatMap(Rights.approver, (user) => directory.answer(user, { id: params.id, ...payload })),
      answerAll: ({ payload }) => Effect.flatMap(Rights.approver, (user) => directory.answerAll(user, payload.answers)),
      grants: () => Effect.flatMap(Rights.grantKeeper, directory.grants),
      revoke: Effect.fnUntraced(function*({ params }) {
        const grants = yield* directory.grants(yield* Rights.grantKeeper)
        const grant = grants.find((it) => it.id === params.id)
        return yield* grant === undefined ? new NotFound({}) : directory.revoke(grant, params.id)
      })
    })
  })
)
