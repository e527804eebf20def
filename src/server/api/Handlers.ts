/** The handlers of the API: they ask whether the user may, and translate. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { PushTableError } from "../../core/store/PushTable.ts"
import * as Limits from "../guard/Limits.ts"
import * as Health from "../live/Health.ts"
import * as LiveLog from "../live/LiveLog.ts"
import * as Metrics from "../live/Metrics.ts"
import * as Status from "../live/Status.ts"
import { WebPush } from "../notify/WebPush.ts"
import * as Records from "../records/Records.ts"
import { SessionDirectory } from "../sessions/SessionDirectory.ts"
import * as Access from "../users/Access.ts"
import { Logins } from "../users/Logins.ts"
import type { Owner } from "../users/Principals.ts"
import * as Rights from "../users/Rights.ts"
import { Api } from "./Api.ts"
import { CurrentUser, type User } from "./ApiAccess.ts"
import type * as Models from "./ApiModels.ts"
import { Invalid, NotFound, Unavailable } from "./ApiProblems.ts"
import type { UndoPlan } from "./ApiRecords.ts"
import * as FormatsHandlers from "./FormatsHandlers.ts"
import * as Sse from "./Sse.ts"

const login = HttpApiBuilder.group(
  Api,
  "login",
  Effect.fnUntraced(function*(handlers) {
    const logins = yield* Logins
    return handlers.handleAll({
      login: ({ payload }) => Effect.map(Access.orUnavailable(logins.login(Redacted.make(payload.token))), me),
      logout: () => Access.orUnavailable(logins.logout)
    })
  })
)

const sessions = HttpApiBuilder.group(
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
      cancel: ({ params, payload: { callId, reason = "the user has cancelled it" }, query }) =>
        Effect.flatMap(
          Rights.operatedSession(params.session, query.user),
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

const operations = HttpApiBuilder.group(
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
        return yield* Sse.respond(yield* directory.watchConversation(params, isShared, after), limits.turn(name))
      })
    })
  })
)

const approvals = HttpApiBuilder.group(
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

const push = HttpApiBuilder.group(
  Api,
  "push",
  Effect.fnUntraced(function*(handlers) {
    const found = yield* Effect.serviceOption(WebPush)
    const push = Effect.suspend(() =>
      Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(new NotFound({}))
    )
    return handlers.handleAll({
      key: Effect.fnUntraced(function*() {
        yield* Rights.approver
        return { publicKey: (yield* push).publicKey }
      }),
      subscribe: Effect.fnUntraced(function*({ payload }) {
        const { name } = yield* Rights.approver
        yield* Effect.catch(
          (yield* push).subscribe(name, payload),
          (problem): Effect.Effect<never, Invalid | Unavailable> =>
            problem instanceof PushTableError ? unavailable(problem) : Effect.fail(new Invalid({ errors: problem }))
        )
      }),
      // those who may no longer approve can still end it
      unsubscribe: Effect.fnUntraced(function*({ payload }) {
        const { name } = yield* CurrentUser
        yield* Effect.catch((yield* push).unsubscribe(name, payload.endpoint), unavailable)
      })
    })
  })
)

const records = HttpApiBuilder.group(
  Api,
  "records",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const live = yield* LiveLog.LiveLog
    const directory = yield* SessionDirectory
    const { acceptRule, rules, suggestions } = yield* Records.Records
    const status = yield* Status.Status
    const answering = ({ name }: User) => limits.answer(name)
    const reader = Effect.tap(Rights.reader, answering)
    const operator = Effect.tap(Rights.operator, answering)

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
      journal: ({ query }) => Effect.flatMap(reader, (user) => directory.journal(user, query)),
      journalCalls: ({ query }) => Effect.flatMap(reader, (user) => directory.journalCalls(user, query)),
      journalCall: ({ params: { place } }) => Effect.flatMap(reader, (user) => directory.journalCall(user, place)),
      rules: () => rules,
      suggestions: () => Effect.flatMap(operator, suggestions),
      acceptSuggestion: ({ payload: { rule } }) => Effect.flatMap(operator, (user) => acceptRule(user, rule)),
      status: () => Effect.flatMap(CurrentUser, (user) => status.of(user))
    })
  })
)

const system = HttpApiBuilder.group(
  Api,
  "system",
  Effect.fnUntraced(function*(handlers) {
    const { now } = yield* Health.Health
    const { text } = yield* Metrics.Metrics
    return handlers.handleAll({
      health: () => Effect.succeed({ status: "ok" as const }),
      ready: () => Effect.map(now, ({ status }) => ({ status })),
      metrics: () => Effect.andThen(Rights.operator, text)
    })
  })
)

export const layer = Layer.mergeAll(
  login,
  sessions,
  operations,
  FormatsHandlers.layer,
  approvals,
  push,
  records,
  system
)

/** What was submitted a moment ago exists, unless its store has lost it. */
const orUnavailable = <A, E, R>(effect: Effect.Effect<A, E | NotFound, R>) =>
  Effect.catchTag(effect, "NotFound", () => new Unavailable({}))

/** Files of another user may hold what was redacted in their calls: an approver sees which ones, and not what is in them. */
const shared = (plan: typeof UndoPlan.Type, isShared: boolean): typeof UndoPlan.Type =>
  isShared ? { ...plan, diff: "" } : plan

/** The user and their rights. */
const me = ({ approve, expiresAt, name, operate, records, run }: User): Models.Me => ({
  name,
  run,
  approve,
  records,
  operate,
  ...expiresAt === undefined ? {} : { expiresAt }
})

const unavailable = (error: PushTableError): Effect.Effect<never, Unavailable> =>
  Effect.andThen(Effect.logWarning(error.message, error.cause), Effect.fail(new Unavailable({})))
