/** Handlers of logins. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { orUnavailable } from "./Access.ts"
import { Api } from "./Api.ts"
import type { Checks } from "./ApiAccess.ts"
import { Logins } from "./Logins.ts"
import { me } from "./SessionsHandlers.ts"

export const layer: Layer.Layer<HttpApiGroup.Service<"tool-executor", "login">, never, Checks | Logins> = HttpApiBuilder
  .group(
    Api,
    "login",
    Effect.fnUntraced(function*(handlers) {
      const logins = yield* Logins
      return handlers.handleAll({
        login: ({ payload }) => Effect.map(orUnavailable(logins.login(Redacted.make(payload.token))), me),
        logout: () => orUnavailable(logins.logout)
      })
    })
  )
