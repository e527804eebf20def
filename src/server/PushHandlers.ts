/** Handlers of the notifications of devices. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { PushTableError } from "../core/store/PushTable.ts"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser } from "./ApiAccess.ts"
import { Invalid, NotFound, Unavailable } from "./ApiProblems.ts"
import * as Rights from "./Rights.ts"
import { WebPush } from "./WebPush.ts"

/** Layer of the handlers. */
export const layer: Layer.Layer<HttpApiGroup.Service<"tool-executor", "push">, never, Authorization | Checks> =
  HttpApiBuilder.group(
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

const unavailable = (error: PushTableError): Effect.Effect<never, Unavailable> =>
  Effect.andThen(Effect.logWarning(error.message, error.cause), Effect.fail(new Unavailable({})))
