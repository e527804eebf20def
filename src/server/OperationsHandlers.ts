/** Handlers of agents, operations and conversations. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ToolHandlers } from "../core/vocabulary/ToolHandlers.ts"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser, type User } from "./ApiAccess.ts"
import { NotFound } from "./ApiProblems.ts"
import * as History from "./History.ts"
import * as Limits from "./Limits.ts"
import * as Operations from "./Operations.ts"
import type { Owner } from "./Principals.ts"
import * as Rights from "./Rights.ts"
import * as Sse from "./Sse.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "operations">,
  never,
  Authorization | Checks | Limits.Limits | Operations.Operations
> = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const operations = yield* Operations.Operations
    const tools = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
    const redactorOf = (tool: string) => tools?.current().get(tool)?.redactor
    const found = <A, E>(effect: Effect.Effect<Option.Option<A>, E>) =>
      Effect.flatMap(effect, (it) => Option.isSome(it) ? Effect.succeed(it.value) : Effect.fail(new NotFound({})))
    const ownOperation = ({ operation, session }: { readonly operation: string; readonly session: string }) =>
      Effect.flatMap(Rights.ownSession(session), (owner) => found(operations.get(owner, operation)))
    /** A conversation that the user may see, and whether it belongs to another user. */
    const seen = Effect.fnUntraced(function*(owner: Owner) {
      const user = yield* CurrentUser
      if (!Rights.seesWavesOf(user, owner.user)) return yield* new NotFound({})
      return { user, conversation: yield* found(operations.conversation(owner)), isShared: isOther(user, owner) }
    })

    return handlers.handleAll({
      agents: () => Effect.andThen(Rights.runner, operations.agents),
      start: Effect.fnUntraced(function*({ headers, params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        const before = Option.getOrUndefined(yield* operations.running(owner))
        const cursor = before === undefined ? undefined : yield* before.cursor
        const operation = yield* operations.start(owner, payload)
        if (!Sse.prefersEvents(headers.accept)) return yield* operation.info
        // of an operation that ran before, only what the message adds
        const isJoined = before?.id === operation.id && payload.id !== operation.id
        return yield* Sse.respond(operation.events(isJoined ? cursor : undefined), limits.turn(owner.user))
      }),
      list: ({ params }) => Effect.flatMap(Rights.ownSession(params.session), (owner) => operations.list(owner)),
      operation: ({ params }) => Effect.flatMap(ownOperation(params), ({ info }) => info),
      events: Effect.fnUntraced(function*({ headers, params, query }) {
        const { events } = yield* ownOperation(params)
        const { name } = yield* CurrentUser
        return yield* Sse.respond(events(Sse.placeOf({ headers, query })), limits.turn(name))
      }),
      say: ({ params, payload: { settle, text } }) =>
        Effect.flatMap(ownOperation(params), ({ say }) => Effect.map(say(text, { settle }), (id) => ({ id }))),
      cancelOperation: ({ params, payload: { reason = "the user has cancelled it" } }) =>
        Effect.flatMap(ownOperation(params), ({ cancel }) => cancel(reason)),
      history: Effect.fnUntraced(function*({ params }) {
        const owner = yield* Rights.ownSession(params.session)
        yield* limits.answer(owner.user)
        const { content } = yield* operations.history(owner)
        return { messages: History.toWire(content, { redactorOf, isShared: false }) }
      }),
      conversations: Effect.fnUntraced(function*() {
        const user = yield* CurrentUser
        const all = yield* operations.conversations
        return all.filter((it) => Rights.seesWavesOf(user, it.user)).slice(0, mostConversations)
      }),
      conversation: Effect.fnUntraced(function*({ params }) {
        const { conversation, isShared, user } = yield* seen(params)
        yield* limits.answer(user.name)
        const { content } = yield* operations.history(params)
        const messages = History.toWire(content, { redactorOf, isShared })
        const begun = messages.findIndex((it) => it.operation !== undefined && it.operation === conversation.operation)
        const all = yield* operations.list(params)
        const secrets = isShared ? History.secretsIn(content, redactorOf) : []
        return {
          ...conversation,
          // the rest is in the events of the operation
          history: begun < 0 ? messages : messages.slice(0, begun),
          operations: isShared ? all.map((it) => Operations.shared(it, secrets)) : all
        }
      }),
      conversationEvents: Effect.fnUntraced(function*({ headers, params, query }) {
        const { isShared, user } = yield* seen(params)
        const events = yield* found(operations.events(params, Sse.placeOf({ headers, query }), isShared))
        return yield* Sse.respond(events, limits.turn(user.name))
      })
    })
  })
)

const isOther = (user: User, owner: Owner): boolean => user.name !== owner.user

/** Conversations of a list at most, the latest. */
const mostConversations = 500
