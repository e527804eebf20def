/** Handlers of sessions and waves. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser, type User } from "./ApiAccess.ts"
import type * as Models from "./ApiModels.ts"
import { type NotFound, Unavailable } from "./ApiProblems.ts"
import type * as Records from "./ApiRecords.ts"
import * as Limits from "./Limits.ts"
import type { Owner } from "./Principals.ts"
import * as Rights from "./Rights.ts"
import { SessionDirectory } from "./SessionDirectory.ts"
import * as Sse from "./Sse.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "sessions">,
  never,
  Authorization | Checks | Limits.Limits | SessionDirectory
> = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const directory = yield* SessionDirectory
    /** Results are encoded one after the other. */
    const answering = ({ user }: Owner) => Effect.andThen(limits.answer(user), limits.turn(user))

    return handlers.handleAll({
      me: () => Effect.map(CurrentUser, me),
      list: () => Effect.flatMap(Rights.runner, ({ name }) => directory.sessions(name)),
      tools: ({ params }) => Effect.flatMap(Rights.ownSession(params.session), directory.tools),
      end: ({ params }) => Effect.flatMap(Rights.ownSession(params.session), directory.endSession),
      submit: Effect.fnUntraced(function*({ headers, params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        const { wave } = yield* directory.submit(owner, payload)
        // the wave continues without the client
        if (Sse.prefersEvents(headers.accept)) {
          return yield* Sse.respond(yield* orUnavailable(directory.watch(owner, wave)), limits.turn(owner.user))
        }
        const read = Sse.prefersAsync(headers.prefer) ? directory.wave : directory.result
        return yield* Effect.tap(orUnavailable(read(owner, wave)), answering(owner))
      }),
      wave: Effect.fnUntraced(function*({ params }) {
        const owner = yield* Rights.ownSession(params.session)
        return yield* Effect.tap(directory.wave(owner, params.wave), answering(owner))
      }),
      events: Effect.fnUntraced(function*({ headers, params, query }) {
        const owner = yield* Rights.ownSession(params.session)
        const events = yield* directory.watch(owner, params.wave, Sse.placeOf({ headers, query }))
        return yield* Sse.respond(events, limits.turn(owner.user))
      }),
      cancel: ({ params, payload: { callId, reason = "the user has cancelled it" } }) =>
        Effect.flatMap(
          Rights.ownSession(params.session),
          (owner) => directory.cancel(owner, params.wave, { callId, reason })
        ),
      endTurn: ({ params }) =>
        Effect.flatMap(Rights.ownSession(params.session), (owner) => directory.endTurn(owner, params.turn)),
      checkpoints: ({ params, query }) =>
        Effect.flatMap(Rights.undoneSession(params.session, query.user), directory.checkpoints),
      undoPlan: Effect.fnUntraced(function*({ params, query }) {
        const owner = yield* Rights.undoneSession(params.session, query.user)
        const { name } = yield* CurrentUser
        yield* limits.answer(name)
        return shared(yield* directory.undoPlan(owner, params.checkpoint), name !== owner.user)
      }),
      undo: Effect.fnUntraced(function*({ params, payload, query }) {
        const owner = yield* Rights.undoneSession(params.session, query.user)
        const { name } = yield* CurrentUser
        return shared(yield* directory.undo(owner, params.checkpoint, payload.force === true), name !== owner.user)
      })
    })
  })
)

/** What was submitted a moment ago exists, unless its store has lost it. */
const orUnavailable = <A, E, R>(effect: Effect.Effect<A, E | NotFound, R>) =>
  Effect.catchTag(effect, "NotFound", () => new Unavailable({}))

/** Files of another user may hold what was redacted in their calls: an approver sees which ones, and not what is in them. */
const shared = (plan: typeof Records.UndoPlan.Type, isShared: boolean): typeof Records.UndoPlan.Type =>
  isShared ? { ...plan, diff: "" } : plan

/** The user and their rights. */
export const me = ({ approve, expiresAt, name, operate, records, run }: User): Models.Me => ({
  name,
  run,
  approve,
  records,
  operate,
  ...expiresAt === undefined ? {} : { expiresAt }
})
