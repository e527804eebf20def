/**
 * Guards all routes: checks the host and origin of requests, counts them, adds security headers and turns failures into
 * problems without internals.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerError } from "effect/http/HttpServerError"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Record from "effect/Record"
import type * as Types from "effect/Types"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { shown } from "../../internal/OptionReader.ts"
import { type Authorization, type Checks, cookieName } from "../api/ApiAccess.ts"
import * as Problems from "../api/ApiProblems.ts"
import * as RequestBody from "../api/RequestBody.ts"
import * as Routes from "../api/Routes.ts"
import { isLink } from "../notify/LinkPath.ts"
import type { Access } from "../users/Access.ts"
import * as Logins from "../users/Logins.ts"
import * as Authentication from "./Authentication.ts"
import * as ClientAddress from "./ClientAddress.ts"
import * as Limits from "./Limits.ts"
import { layer as requestCountsLayer, RequestCounts } from "./RequestCounts.ts"

/** Options for how clients reach the server, authentication and limits. */
export interface Options extends ClientAddress.Options, RequestBody.Options, Authentication.Options {
  /**
   * Allowed hosts besides that of `publicUrl` and the local ones (`localhost`, `127.0.0.1`, `[::1]`, at any port):
   * `HOST` at any port, or `HOST:PORT`. Other hosts are refused. Otherwise, a page of another site could reach the
   * server through a DNS name that points to it.
   */
  readonly hosts?: ReadonlyArray<string> | undefined
  readonly logins?: Logins.Options | undefined
  readonly limits?: Limits.Options | undefined
}

/** Layer of the guard with everything that the endpoints of the API require from it. */
export const layer = (
  options?: Options
): Layer.Layer<
  Authorization | Checks | ClientAddress.ClientAddress | Limits.Limits | Logins.Logins | RequestCounts,
  ConfigurationError,
  Access | HttpRouter.HttpRouter
> =>
  Layer.mergeAll(Authentication.layer(options), RequestBody.layer(options), layerRouter(options)).pipe(
    Layer.provideMerge(Logins.layer(options?.logins)),
    Layer.provideMerge(Layer.mergeAll(ClientAddress.layer(options), Limits.layer(options?.limits), requestCountsLayer))
  )

/** Layer of the guard alone. */
export const layerRouter = (
  options?: Pick<Options, "publicUrl" | "hosts">
): Layer.Layer<
  never,
  ConfigurationError,
  HttpRouter.HttpRouter | ClientAddress.ClientAddress | Limits.Limits | RequestCounts
> =>
  Layer.effectDiscard(
    Effect.gen(function*() {
      const isOurs = yield* hostsOf(options)
      const callers = yield* ClientAddress.ClientAddress
      const limits = yield* Limits.Limits
      const traffic = yield* RequestCounts
      const router = yield* HttpRouter.HttpRouter
      yield* router.addGlobalMiddleware((httpEffect): Effect.Effect<
        HttpServerResponse.HttpServerResponse,
        Types.unhandled,
        HttpRouter.GlobalProvided
      > =>
        Effect.gen(function*() {
          const request = yield* HttpServerRequest.HttpServerRequest
          const caller = callers.of(request)
          const path = pathOf(request.url)
          if (isLink(path)) yield* HttpMiddleware.withLoggerDisabled(Effect.void)
          yield* HttpEffect.appendPreResponseHandler((_, response) => Effect.succeed(dressed(response)))
          const response = yield* Effect.gen(function*() {
            yield* limits.arrive(caller.address)
            const problem = problemOf(request, path, isProbe(path) || isOurs(caller.host), caller)
            return problem === undefined ? yield* httpEffect : yield* HttpServerRespondable.toResponse(problem)
          }).pipe(Effect.catchCause((cause) => responseOf(cause, request, path)))
          traffic.count(request.method, Routes.find(path)?.path, response.status)
          return response
        })
      )
    })
  )

/** Headers of every response: browsers load, run and frame nothing of other sites. */
export const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; worker-src 'self'; require-trusted-types-for 'script'; " +
    "trusted-types tool-executor-worker",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
} as const

const hostsOf = (
  options: Pick<Options, "publicUrl" | "hosts"> | undefined
): Effect.Effect<(host: string) => boolean, ConfigurationError> =>
  Effect.suspend(() => {
    const names = (options?.hosts ?? []).map((it) => it.toLowerCase())
    const problems = names.flatMap((name, index) =>
      ClientAddress.originOf(`http://${name}`)?.host.replace(/:80$/, "") === name.replace(/:80$/, "") ? [] : [{
        path: `hosts[${index}]`,
        problem: `it is ${shown(name)}`,
        expected: "a name, or a name and a port, such as tools.example.com:8080"
      }]
    )
    if (problems.length > 0) return Effect.fail(new ConfigurationError({ subject: "RequestGuard", problems }))
    const publicUrl = options?.publicUrl === undefined ? undefined : ClientAddress.originOf(options.publicUrl)
    const known = new Set(["localhost", "127.0.0.1", "[::1]", ...names, ...(publicUrl ? [publicUrl.host] : [])])
    return Effect.succeed((host: string) => known.has(host) || known.has(host.replace(/:\d{1,5}$/, "")))
  })

/** Health checks use an address and no host name; they reveal nothing but health. */
const isProbe = (path: string): boolean => path === "/health" || path === "/ready"

const pathOf = (url: string): string => /^[^?#]*/.exec(url)![0]

type Problem = HttpServerRespondable.Respondable

/** Why a request is refused, whatever its route. */
const problemOf = (
  request: HttpServerRequest.HttpServerRequest,
  path: string,
  isOurHost: boolean,
  caller: ClientAddress.Caller
): Problem | undefined => {
  const { headers, method } = request
  if (!isOurHost) {
    return new Problems.WrongHost({ detail: "Set publicUrl or hosts to the names by which clients reach the server." })
  }
  if (!path.startsWith("/")) return new Problems.NotFound({})
  const isChange = method !== "GET" && method !== "HEAD" && method !== "OPTIONS"
  const isOther = isOtherSite(headers["origin"], headers["sec-fetch-site"], caller.origin)
  if (isOther && (isChange || !isPage(path))) return new Problems.WrongOrigin({})
  // browsers send an origin with every change; clients without an origin have no cookie either
  const hasCookie = headers["cookie"]?.includes(cookieName) === true
  if (isChange && hasCookie && headers["origin"] === undefined) return new Problems.WrongOrigin({})
  const hasBody = Number(headers["content-length"] ?? 0) !== 0 || headers["transfer-encoding"] !== undefined
  // links answer by a form, which browsers send with its origin
  if (isLink(path)) return isChange && headers["origin"] === undefined ? new Problems.WrongOrigin({}) : undefined
  const needsJson = isChange && (method !== "DELETE" || hasBody)
  if (needsJson && !/^application\/json *(?:;|$)/i.test(headers["content-type"] ?? "")) return new Problems.NotJson({})
  return undefined
}

/**
 * A page opened from another site is only displayed; it requests everything else itself. Encoded paths do not count:
 * the router decodes `%61` to `a` and takes what follows `;` for a query.
 */
const isPage = (path: string): boolean => !/[%;]|^\/+(?:api|metrics)(?:\/|$)/i.test(path)

const isOtherSite = (origin: string | undefined, site: string | undefined, own: string): boolean =>
  (origin !== undefined && origin !== own) || (site !== undefined && site !== "same-origin" && site !== "none")

/** The response to a failure. */
const responseOf = (
  cause: Cause.Cause<unknown>,
  request: HttpServerRequest.HttpServerRequest,
  path: string
): Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled> => {
  // the client has gone, or the server stops
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause as Cause.Cause<never>)
  const thrown = Cause.squash(cause)
  if (HttpServerResponse.isHttpServerResponse(thrown)) return Effect.succeed(thrown)
  if (thrown instanceof HttpServerError) {
    const { reason } = thrown
    if (reason._tag === "RouteNotFound") return Effect.orDie(missing(request.method, path))
    if (reason._tag === "RequestParseError") {
      return Effect.orDie(HttpServerRespondable.toResponse(
        reason.reason === "BodyTooLarge"
          ? new Problems.TooLarge({})
          : new Problems.Invalid({ errors: [{ path: "", problem: "the request was incomplete" }] })
      ))
    }
  }
  if (thrown instanceof Problems.TooMany) return Effect.orDie(HttpServerRespondable.toResponse(thrown))
  return Effect.andThen(
    Effect.logError("A request failed with a defect", cause),
    Effect.orDie(HttpServerRespondable.toResponse(new Problems.Failed({})))
  )
}

const missing = (method: string, path: string) => {
  const methods = Routes.find(path)?.methods ?? []
  if (methods.length === 0 || methods.includes(method)) {
    return HttpServerRespondable.toResponse(new Problems.NotFound({}))
  }
  return Effect.map(
    HttpServerRespondable.toResponse(new Problems.WrongMethod({})),
    HttpServerResponse.setHeader("allow", methods.join(", "))
  )
}

const dressed = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(response, {
    ...headers,
    // pages without scripts have stricter ones
    ...Record.filter(response.headers, (_, name) => Object.hasOwn(headers, name)),
    "cache-control": response.headers["cache-control"] ?? "no-store",
    // RFC 9110, 15.5.2: a 401 names the scheme
    ...(response.status === 401 ? { "www-authenticate": "Bearer" } : {})
  })
