/** Handlers of health and metrics. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import type { Authorization } from "./ApiAccess.ts"
import * as Health from "./Health.ts"
import * as Metrics from "./Metrics.ts"
import * as Rights from "./Rights.ts"

export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "system">,
  never,
  Authorization | Health.Health | Metrics.Metrics
> = HttpApiBuilder.group(
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
