/** The handlers of approval requests and grants: they ask whether the user may, and translate. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Api } from "./Api.ts"
import type { Authorization, Checks } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as LiveLog from "./LiveLog.ts"
import * as PendingApprovals from "./PendingApprovals.ts"
import * as Records from "./Records.ts"
import * as Rights from "./Rights.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "approvals">,
  never,
  Authorization | Checks | LiveLog.LiveLog | PendingApprovals.PendingApprovals | Records.Records
> = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function*(handlers) {
    const live = yield* LiveLog.LiveLog
    const approvals = yield* PendingApprovals.PendingApprovals
    const records = yield* Records.Records
    const orNotFound = <A>(it: Effect.Effect<Option.Option<A>>) =>
      Effect.flatMap(it, Option.match({ onNone: () => Effect.fail(new NotFound({})), onSome: Effect.succeed }))

    return handlers.handleAll({
      list: Effect.fnUntraced(function*() {
        const user = yield* Rights.approver
        // taken first: what happens meanwhile comes twice and not never
        const cursor = yield* live.cursor
        return { ...yield* approvals.list(user), cursor }
      }),
      get: ({ params }) => Effect.flatMap(Rights.approver, (user) => orNotFound(approvals.get(user, params.id))),
      part: ({ params: { id, index, side }, query: { from = 0 } }) =>
        Effect.flatMap(Rights.approver, (user) => orNotFound(approvals.part(user, { id, index, side, from }))),
      answer: ({ params, payload }) =>
        Effect.flatMap(Rights.approver, (user) => approvals.answer(user, { id: params.id, ...payload })),
      answerAll: ({ payload }) => Effect.flatMap(Rights.approver, (user) => approvals.answerAll(user, payload.answers)),
      grants: () => Effect.flatMap(Rights.grantKeeper, records.grants),
      revoke: ({ params }) => Effect.flatMap(Rights.grantKeeper, (user) => records.revoke(user, params.id))
    })
  })
)
