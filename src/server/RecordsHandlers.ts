/** The handlers of what happens and happened: they ask whether the user may, and translate. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as Limits from "./Limits.ts"
import * as LiveLog from "./LiveLog.ts"
import * as Records from "./Records.ts"
import * as Rights from "./Rights.ts"
import { SessionDirectory } from "./SessionDirectory.ts"
import * as Sse from "./Sse.ts"
import * as Status from "./Status.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "records">,
  never,
  Authorization | Checks | Limits.Limits | LiveLog.LiveLog | Records.Records | SessionDirectory | Status.Status
> = HttpApiBuilder.group(
  Api,
  "records",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const live = yield* LiveLog.LiveLog
    const directory = yield* SessionDirectory
    const { acceptRule, rules, suggestions } = yield* Records.Records
    const status = yield* Status.Status

    return handlers.handleAll({
      live: ({ headers, query }) =>
        Effect.flatMap(
          CurrentUser,
          (user) => Sse.respond(live.stream(Sse.placeOf({ headers, query }), Rights.sees(user)), limits.turn(user.name))
        ),
      waves: Effect.fnUntraced(function*() {
        const user = yield* CurrentUser
        // taken first: what happens meanwhile comes twice and not never
        const cursor = yield* live.cursor
        return { waves: yield* directory.waves(user), cursor }
      }),
      happened: Effect.fnUntraced(function*({ params: { session, user: owner, wave }, query: { after = 0 } }) {
        const user = yield* CurrentUser
        if (!Rights.seesWavesOf(user, owner)) return yield* new NotFound({})
        yield* limits.answer(user.name)
        return yield* directory.happened({ user: owner, session }, wave, after)
      }),
      journal: Effect.fnUntraced(function*({ query }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* directory.journal(user, query)
      }),
      journalCalls: Effect.fnUntraced(function*({ query }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* directory.journalCalls(user, query)
      }),
      journalCall: Effect.fnUntraced(function*({ params: { place } }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* directory.journalCall(user, place)
      }),
      rules: () => rules,
      suggestions: Effect.fnUntraced(function*() {
        const user = yield* Rights.operator
        yield* limits.answer(user.name)
        return yield* suggestions(user)
      }),
      acceptSuggestion: Effect.fnUntraced(function*({ payload: { rule } }) {
        const user = yield* Rights.operator
        yield* limits.answer(user.name)
        return yield* acceptRule(user, rule)
      }),
      status: () => Effect.flatMap(CurrentUser, (user) => status.of(user))
    })
  })
)
