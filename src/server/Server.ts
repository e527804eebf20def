/**
 * The server: the routes of the API for any `HttpRouter`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import * as Authorizing from "./Authorizing.ts"
import * as Callers from "./Callers.ts"
import * as Draining from "./Draining.ts"
import * as LoginHandlers from "./LoginHandlers.ts"
import * as Logins from "./Logins.ts"
import * as QuestionsHandlers from "./QuestionsHandlers.ts"
import * as RecordsHandlers from "./RecordsHandlers.ts"
import * as SessionsHandlers from "./SessionsHandlers.ts"
import * as Status from "./Status.ts"
import * as SystemHandlers from "./SystemHandlers.ts"

/**
 * Layer of the routes: the API and its OpenAPI document (`/openapi.json`).
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = () =>
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide([
      LoginHandlers.layer,
      SessionsHandlers.layer,
      QuestionsHandlers.layer,
      RecordsHandlers.layer,
      SystemHandlers.layer
    ]),
    Layer.provide(Status.layer),
    Layer.provide(Authorizing.layer),
    Layer.provide(Logins.layer()),
    Layer.provide(Callers.layer())
  )

/**
 * Serves routes, as `HttpRouter.serve` does, and when that is to end, lets everything come to its
 * end in good order first: with a server that still answers.
 *
 * @category layers
 * @since 0.1.0
 */
export const serve = <A, E, R>(
  app: Layer.Layer<A, E, R>,
  options?: { readonly disableLogger?: boolean | undefined; readonly disableListenLog?: boolean }
) =>
  // what is built last ends first
  Layer.effectDiscard(Effect.flatMap(Draining.Draining, ({ drain }) => Effect.addFinalizer(() => drain))).pipe(
    Layer.provideMerge(HttpRouter.serve(app, options))
  )
