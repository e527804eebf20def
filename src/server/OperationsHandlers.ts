/** Handlers of agents, operations and conversations. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser } from "./ApiAccess.ts"
import { NotFound, Unavailable } from "./ApiProblems.ts"
import * as Limits from "./Limits.ts"
import type { Owner } from "./Principals.ts"
import * as Rights from "./Rights.ts"
import { SessionDirectory } from "./SessionDirectory.ts"
import * as Sse from "./Sse.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "operations">,
  never,
  Authorization | Checks | Limits.Limits | SessionDirectory
> = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const directory = yield* SessionDirectory
    /** The reader of a conversation that the user may see, and whether it belongs to another user. */
    const readerOf = Effect.fnUntraced(function*(owner: Owner) {
      const user = yield* CurrentUser
      if (!Rights.seesWavesOf(user, owner.user)) return yield* new NotFound({})
      return { name: user.name, isShared: user.name !== owner.user }
    })

    return handlers.handleAll({
      agents: () => Effect.andThen(Rights.runner, directory.agents),
      start: Effect.fnUntraced(function*({ headers, params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        const { after, operation } = yield* directory.start(owner, payload)
        if (!Sse.prefersEvents(headers.accept)) return operation
        // of an operation that ran before, only what the message adds
        const events = yield* directory.watchOperation(owner, operation.id, after).pipe(
          Effect.catchTag("NotFound", () => new Unavailable({}))
        )
        return yield* Sse.respond(events, limits.turn(owner.user))
      }),
      list: ({ params }) => Effect.flatMap(Rights.ownSession(params.session), directory.operations),
      operation: ({ params }) =>
        Effect.flatMap(Rights.ownSession(params.session), (owner) => directory.operation(owner, params.operation)),
      events: Effect.fnUntraced(function*({ headers, params, query }) {
        const owner = yield* Rights.ownSession(params.session)
        const events = yield* directory.watchOperation(owner, params.operation, Sse.placeOf({ headers, query }))
        return yield* Sse.respond(events, limits.turn(owner.user))
      }),
      say: Effect.fnUntraced(function*({ params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        return { id: yield* directory.say(owner, params.operation, payload) }
      }),
      cancelOperation: ({ params, payload: { reason = "the user has cancelled it" } }) =>
        Effect.flatMap(
          Rights.ownSession(params.session),
          (owner) => directory.cancelOperation(owner, params.operation, reason)
        ),
      history: Effect.fnUntraced(function*({ params }) {
        const owner = yield* Rights.ownSession(params.session)
        yield* limits.answer(owner.user)
        return { messages: yield* directory.history(owner) }
      }),
      conversations: () => Effect.flatMap(CurrentUser, directory.conversations),
      conversation: Effect.fnUntraced(function*({ params }) {
        const { isShared, name } = yield* readerOf(params)
        yield* limits.answer(name)
        return yield* directory.conversationDetail(params, isShared)
      }),
      conversationEvents: Effect.fnUntraced(function*({ headers, params, query }) {
        const { isShared, name } = yield* readerOf(params)
        const after = Sse.placeOf({ headers, query })
        return yield* Sse.respond(yield* directory.watchConversation(params, { after, isShared }), limits.turn(name))
      })
    })
  })
)
