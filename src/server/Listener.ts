/** Routes on a server that begins to listen once they can answer, and not before. */
import * as Effect from "effect/Effect"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"

export interface Options {
  readonly disableLogger?: boolean | undefined
  readonly disableListenLog?: boolean | undefined
}

/** What the whole of it requires: all that the routes do, but for the router and what each request has. */
export type Requires<R> = Exclude<
  | HttpRouter.Request.Without<R>
  | Exclude<
    HttpRouter.Request.Only<"Requires", R> | HttpRouter.Request.Only<"GlobalRequires", R>,
    HttpRouter.GlobalProvided
  >,
  HttpRouter.HttpRouter
>

/**
 * Builds the routes with all they need, and then the server. It listens as it is built: between that and the first
 * handler nothing is waited for and nobody else gets a turn, so that no request comes to a server without one.
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
    const serving = Layer.provideMerge(handling, server)
    return disableListenLog === true ? serving : HttpServer.withLogAddress(serving)
    // what requests have themselves is taken out of types that are not known here
  })) as unknown as Layer.Layer<
    S | HttpServer.HttpServer,
    HttpRouter.Request.Without<E> | SE,
    Requires<R> | SR
  >
