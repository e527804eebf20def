/** A port to be reached on over HTTP, as a command that serves sees it. */
import * as Context from "effect/Context"
import type * as Etag from "effect/http/Etag"
import type * as HttpPlatform from "effect/http/HttpPlatform"
import type * as HttpServer from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import type * as Layer from "effect/Layer"

/** Where to be reached; with a certificate and its key, as PEM texts, over HTTPS. */
export interface At {
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
  readonly tls?: { readonly cert: string; readonly key: string } | undefined
}

/** The HTTP server, which listens once built, and the platform services of routes. */
export interface Http {
  readonly server: (at: At) => Layer.Layer<HttpServer.HttpServer, ServeError>
  readonly services: Layer.Layer<HttpPlatform.HttpPlatform | Etag.Generator>
}

/** HTTP of the platform. Default: undefined. */
export const HttpPort = Context.Reference<Http | undefined>(
  "effect-tool-executor/cli/HttpPort",
  { defaultValue: () => undefined }
)
