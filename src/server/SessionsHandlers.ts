/** Handlers of sessions and waves. */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser, type User } from "./ApiAccess.ts"
import type * as Models from "./ApiModels.ts"
import { NotFound } from "./ApiProblems.ts"
import type * as Records from "./ApiRecords.ts"
import * as Limits from "./Limits.ts"
import * as Operations from "./Operations.ts"
import type { Owner } from "./Principals.ts"
import * as Rights from "./Rights.ts"
import * as Sse from "./Sse.ts"
import * as Undoing from "./Undoing.ts"
import * as Waves from "./Waves.ts"

/** Layer of the handlers. Without `Undoing` there are no checkpoints. */
export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "sessions">,
  never,
  Authorization | Checks | Limits.Limits | Operations.Operations | Waves.Waves
> = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* Limits.Limits
    const operations = yield* Operations.Operations
    const waves = yield* Waves.Waves
    const undoing = Option.getOrElse(yield* Effect.serviceOption(Undoing.Undoing), () => Undoing.none)
    const waveOf = (owner: Owner, wave: string) =>
      Effect.flatMap(
        waves.get(owner, wave),
        Option.match({
          onNone: () => Effect.fail(new NotFound({})),
          onSome: Effect.succeed
        })
      )
    /** Results are encoded one after the other. */
    const answering = ({ user }: Owner) => Effect.andThen(limits.answer(user), limits.turn(user))
    const orNotFound = <E, R>(ended: Effect.Effect<boolean, E, R>) =>
      Effect.flatMap(ended, (is) => is ? Effect.void : Effect.fail(new NotFound({})))

    return handlers.handleAll({
      me: () => Effect.map(CurrentUser, me),
      list: () => Effect.flatMap(Rights.runner, ({ name }) => waves.sessions(name)),
      tools: ({ params }) =>
        Rights.ownSession(params.session).pipe(
          Effect.flatMap((owner) => waves.tools(owner)),
          Effect.map((tools) => tools.map(toolOf))
        ),
      end: ({ params }) =>
        Effect.flatMap(
          Rights.ownSession(params.session),
          // operations first: they use the executor that ends with the waves
          (owner) =>
            orNotFound(
              Effect.zipWith(operations.endSession(owner), waves.endSession(owner), (one, other) => one || other)
            )
        ),
      submit: Effect.fnUntraced(function*({ headers, params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        const wave = yield* waves.submit(owner, payload)
        // the wave continues without the client
        if (Sse.prefersEvents(headers.accept)) {
          return yield* Sse.respond(wave.events(undefined), limits.turn(owner.user))
        }
        yield* wave.ended
        yield* answering(owner)
        return yield* wave.wave
      }),
      wave: Effect.fnUntraced(function*({ params }) {
        const owner = yield* Rights.ownSession(params.session)
        const { wave } = yield* waveOf(owner, params.wave)
        yield* answering(owner)
        return yield* wave
      }),
      events: Effect.fnUntraced(function*({ headers, params, query }) {
        const owner = yield* Rights.ownSession(params.session)
        const { events } = yield* waveOf(owner, params.wave)
        return yield* Sse.respond(events(Sse.placeOf({ headers, query })), limits.turn(owner.user))
      }),
      cancel: ({ params, payload }) =>
        Rights.ownSession(params.session).pipe(
          Effect.flatMap((owner) => waveOf(owner, params.wave)),
          Effect.flatMap((it) =>
            it.cancel({ callId: payload.callId, reason: payload.reason ?? "the user has cancelled it" })
          )
        ),
      endTurn: ({ params }) =>
        Effect.flatMap(Rights.ownSession(params.session), (owner) => orNotFound(waves.endTurn(owner, params.turn))),
      checkpoints: ({ params, query }) =>
        Effect.flatMap(Rights.undoneSession(params.session, query.user), (owner) => undoing.list(owner)),
      undoPlan: Effect.fnUntraced(function*({ params, query }) {
        const owner = yield* Rights.undoneSession(params.session, query.user)
        const { name } = yield* CurrentUser
        yield* limits.answer(name)
        return shared(yield* undoing.plan(owner, params.checkpoint), name !== owner.user)
      }),
      undo: Effect.fnUntraced(function*({ params, payload, query }) {
        const owner = yield* Rights.undoneSession(params.session, query.user)
        const { name } = yield* CurrentUser
        return shared(yield* undoing.restore(owner, params.checkpoint, payload.force === true), name !== owner.user)
      })
    })
  })
)

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

const toolOf = ({ annotations, description, jsonSchema, name }: RegisteredTool): typeof Models.Tool.Type => ({
  name,
  ...description === undefined ? {} : { description },
  parameters: jsonSchema as Schema.Json,
  readOnly: Context.get(annotations, Tool.Readonly)
})
