/** The handlers of what happens and happened: they ask whether the user may, and translate. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as Limits from "./Limits.ts"
import * as LiveLog from "./LiveLog.ts"
import * as Records from "./Records.ts"
import * as Rights from "./Rights.ts"
import * as Sse from "./Sse.ts"
import * as Status from "./Status.ts"
import * as Waves from "./Waves.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "records">,
  never,
  Authorization | Checks | Limits.Limits | LiveLog.LiveLog | Records.Records | Status.Status | Waves.Waves
> = HttpApiBuilder.group(
  Api,
  "records",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const live = yield* LiveLog.LiveLog
    const records = yield* Records.Records
    const status = yield* Status.Status
    const waves = yield* Waves.Waves

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
        const seen = (yield* waves.list).filter(({ owner }) => Rights.seesWavesOf(user, owner.user))
        return { waves: yield* Effect.forEach(seen.slice(-mostWaves), ({ info }) => info), cursor }
      }),
      happened: Effect.fnUntraced(function*({ params: { session, user: owner, wave: name }, query: { after = 0 } }) {
        const user = yield* CurrentUser
        const found = Rights.seesWavesOf(user, owner)
          ? yield* waves.known({ user: owner, session }, name)
          : Option.none()
        if (Option.isNone(found)) return yield* new NotFound({})
        yield* limits.answer(user.name)
        const { happened, info } = found.value
        return { wave: yield* info, ...yield* happened(after) }
      }),
      journal: Effect.fnUntraced(function*({ query }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* records.entries(user, query)
      }),
      journalCalls: Effect.fnUntraced(function*({ query }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* records.calls(user, query)
      }),
      journalCall: Effect.fnUntraced(function*({ params: { place } }) {
        const user = yield* Rights.reader
        yield* limits.answer(user.name)
        return yield* records.call(user, place)
      }),
      rules: () => records.rules,
      status: () => Effect.flatMap(CurrentUser, (user) => status.of(user))
    })
  })
)

/** Waves of a list at most, the newest: some hundred bytes each. */
const mostWaves = 500
