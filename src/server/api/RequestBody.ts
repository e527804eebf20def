/**
 * Reads and validates the bodies of requests: their size, depth, time, JSON and schema. Problems say what is wrong and
 * where.
 */
import * as ByteSize from "effect/ByteSize"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import { isTextTooDeep, mostDepth } from "../../internal/jsonDepth.ts"
import { issuesOf } from "../../internal/schemaIssues.ts"
import { ClientAddress } from "../guard/ClientAddress.ts"
import { Limits, refusal } from "../guard/Limits.ts"
import { Authorization, Checks, CurrentUser } from "./ApiAccess.ts"
import { Invalid, TooLarge, TooSlow } from "./ApiProblems.ts"

/** Limits of bodies. */
export interface Options {
  /** Bytes of a body. Default 4 MB. */
  readonly maxBodyBytes?: number | undefined
  /** Time for a body to arrive. Default 30 seconds; a login has at most 2 seconds. */
  readonly bodyTimeout?: Duration.Input | undefined
}

/** Default limits. */
export const defaults = { maxBodyBytes: 4_000_000, bodyTimeout: "30 seconds" } as const

/** Layer that reads and validates bodies. */
export const layer = (
  options?: Options
): Layer.Layer<Checks, ConfigurationError, ClientAddress | Limits> =>
  Layer.effect(
    Checks,
    Effect.gen(function*() {
      const { bytes, millis } = yield* readOptions("RequestBody", (read) => ({
        bytes: read.count("maxBodyBytes", options?.maxBodyBytes ?? defaults.maxBodyBytes, 1),
        millis: read.millis("bodyTimeout", options?.bodyTimeout ?? defaults.bodyTimeout)
      }))
      const callers = yield* ClientAddress
      const limits = yield* Limits
      return Checks.of((httpEffect, { endpoint }) => {
        // a login has no user yet
        const isOpen = isOpenToAll(endpoint)
        const most = isOpen ? Math.min(bytes, openBytes) : bytes
        const hasBody = endpoint.payload.size > 0
        const taken = isOpen
          ? Effect.gen(function*() {
            const { address } = callers.of(yield* HttpServerRequest.HttpServerRequest)
            const body = hasBody ? take(most, Math.min(millis, openMillis)) : Effect.void
            return yield* refusal(Effect.flatMap(limits.knock(address), (reading) => reading(body)))
          })
          // runs after `Authorization`, which the types of endpoints without it do not show
          : Effect.flatMap(Effect.serviceOption(CurrentUser), (user) => {
            const name = Option.match(user, { onNone: () => "", onSome: (it) => it.name })
            return hasBody ? take(most, millis, { limits, name }) : limits.turn(name)
          })
        return Effect.flatMap(taken, (refused) => refused ? Effect.succeed(refused) : httpEffect).pipe(
          Effect.catch((error) =>
            HttpApiSchemaError.is(error) && error.kind !== "Body" && error.kind !== "ResponseHeaders"
              ? Effect.fail(invalidBy(error))
              : Effect.fail(error)
          ),
          Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(most))
        )
      })
    })
  )

const openBytes = 4_096
const openMillis = 2_000

const isOpenToAll = (endpoint: HttpApiEndpoint.Top): boolean => !endpoint.middlewares.has(Authorization)

const whole = (problem: string) => new Invalid({ errors: [{ path: "", problem }] })

/** Reads the body once, within bytes and milliseconds; the request keeps it for the endpoint. */
export const take = (
  most: number,
  millis: number,
  user?: { readonly limits: Limits["Service"]; readonly name: string }
) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const declared = request.headers["content-length"]
    if (Number(declared ?? 0) > most) return yield* tooLarge(most)
    let keep: ((bytes: number) => Effect.Effect<void>) | undefined
    if (user !== undefined) {
      keep = yield* Effect.timeoutOrElse(
        user.limits.body(user.name, declared === undefined ? most : Number(declared)),
        {
          duration: millis,
          orElse: () => Effect.fail(new TooSlow({ detail: "Your other requests are still being sent." }))
        }
      )
    }
    const coming = Effect.mapError(
      request.arrayBuffer,
      ({ reason }) =>
        reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
          ? tooLarge(most)
          : whole("the body broke off")
    )
    // aborting the read closes the connection, so it waits until the answer is sent
    const reading = yield* Effect.forkScoped(coming, { startImmediately: true })
    const bytes = yield* Effect.timeoutOrElse(Fiber.join(reading), {
      duration: millis,
      orElse: () => Effect.fail(new TooSlow({}))
    })
    // a body of unknown size may have reserved too much
    if (keep !== undefined) yield* keep(bytes.byteLength)
    if (user !== undefined) yield* user.limits.turn(user.name)
    const text = textOf(bytes)
    if (text === undefined) return yield* whole("the body is not UTF-8")
    if (isTextTooDeep(text)) {
      return yield* new TooLarge({ detail: `Values may be nested at most ${mostDepth} levels deep.` })
    }
  })

const tooLarge = (most: number) => new TooLarge({ detail: `At most ${most} bytes are accepted.` })

const textOf = (bytes: ArrayBuffer): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const invalidBy = (error: HttpApiSchemaError) => {
  const at = error.kind === "Payload" ? "" : error.kind.toLowerCase()
  const issues = issuesOf(error.cause)
  return new Invalid({
    ...(issues.length > maxIssues ? { detail: `The first ${maxIssues} of ${issues.length} mistakes.` } : {}),
    errors: issues.slice(0, maxIssues).map(({ message, path }) => ({
      path: pathOf(path, at),
      problem: message.length > 300 ? `${message.slice(0, 300)}…` : message
    }))
  })
}

const maxIssues = 50

const pathOf = (path: ReadonlyArray<PropertyKey>, root: string): string =>
  path.reduce<string>(
    (text, key) => typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`,
    root
  )
