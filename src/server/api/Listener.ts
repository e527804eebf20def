/** Listens only once the routes can answer. */
import * as Effect from "effect/Effect"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { isLink } from "../notify/LinkPath.ts"

export interface Options {
  readonly disableLogger?: boolean | undefined
  readonly disableListenLog?: boolean | undefined
}

/** Requirements of the routes, without the router and what each request provides. */
export type Requires<R> = Exclude<
  | HttpRouter.Request.Without<R>
  | Exclude<
    HttpRouter.Request.Only<"Requires", R> | HttpRouter.Request.Only<"GlobalRequires", R>,
    HttpRouter.GlobalProvided
  >,
  HttpRouter.HttpRouter
>

/** Requests whose path is a secret have no span: it would have the path. */
const withoutLinks = Layer.effect(
  HttpMiddleware.TracerDisabledWhen,
  Effect.map(
    HttpMiddleware.TracerDisabledWhen,
    (isOff) => (request: HttpServerRequest) => isLink(request.url) || isOff(request)
  )
)

/**
 * Builds the routes with their requirements, and then the server. No other fiber runs between listening and installing
 * the handler, so every request finds it.
 */
export const serveRoutes = <A, E, R, S, SE, SR>(
  routes: Layer.Layer<A, E, R>,
  server: Layer.Layer<S | HttpServer.HttpServer, SE, SR>,
  { disableListenLog, disableLogger }: Options = {}
): Layer.Layer<S | HttpServer.HttpServer, HttpRouter.Request.Without<E> | SE, Requires<R> | SR> =>
  Layer.unwrap(Effect.map(HttpRouter.toHttpEffect(routes), (handler) => {
    const handling = disableLogger === true
      ? HttpServer.serve(handler)
      : HttpServer.serve(handler, HttpMiddleware.logger)
    const serving = Layer.provideMerge(handling, server).pipe(Layer.provide(withoutLinks))
    return disableListenLog === true ? serving : HttpServer.withLogAddress(serving)
    // removes the request's own services from types that are not known here
  })) as unknown as Layer.Layer<
    S | HttpServer.HttpServer,
    HttpRouter.Request.Without<E> | SE,
    Requires<R> | SR
  >
