/**
 * A port to be reached on over HTTP, as a command that serves sees it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as HttpServer from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import type * as Layer from "effect/Layer"

/**
 * Gives the layer of an HTTP server on a host and port. By default there is none.
 *
 * @category references
 * @since 0.1.0
 */
export const HttpPort = Context.Reference<
  | ((at: { readonly host: string; readonly port: number }) => Layer.Layer<HttpServer.HttpServer, ServeError>)
  | undefined
>("effect-tool-executor/cli/HttpPort", { defaultValue: () => undefined })
