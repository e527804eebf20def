/**
 * Converts errors of AI SDK models to the `AiError` of `effect/ai`.
 *
 * Errors are recognized by their fields rather than their class, since each provider package may bring its own version
 * of the classes.
 */
import * as AiError from "effect/ai/AiError"
import type * as Response from "effect/ai/Response"
import * as Duration from "effect/Duration"
import * as ContextLength from "../internal/contextLength.ts"
import { turnEnd } from "../internal/turnEnd.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/** Finds the reason of an error; `now` is the base of a `retry-after` date. */
export const reasonOf = (error: unknown, now: number): AiError.AiErrorReason => {
  const body = errorBody(error)
  const found = { ...read(body ?? error), isBody: body !== undefined }
  return brokenConnection(found) ?? byName(found) ?? byStatus(found, now)
}

/** The reason of an answer without an end. */
export const brokenOff: AiError.AiErrorReason = new AiError.NetworkError({
  reason: "TransportError",
  method: "POST",
  url: "",
  description: "The answer broke off before the provider ended it."
})

/** Why an answer failed, from its end; `word` is the provider's term. */
export const endReason = (
  reason: Response.FinishReason,
  word: string | undefined
): AiError.AiErrorReason | undefined => {
  switch (turnEnd(reason)) {
    case "failed":
      return new AiError.InternalProviderError({
        description: `The provider ended the answer with ${JSON.stringify(word ?? reason)}.`
      })
    case "broken":
      return brokenOff
    default:
      return undefined
  }
}

/** The known facts of an error. */
interface Found {
  readonly error: unknown
  /** Its name and those of its causes. */
  readonly names: ReadonlyArray<string>
  readonly codes: ReadonlyArray<string>
  readonly message: string
  readonly status: number | undefined
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly data: unknown
  readonly isRetryable: boolean | undefined
  /** The provider sent it instead of a part of its answer. */
  readonly isBody: boolean
}

/**
 * An error that a provider sent instead of a part of its answer, either as is or in the error of a package that could
 * not parse it.
 */
const errorBody = (error: unknown): object | undefined => {
  const chain = causes(error)
  if (chain.some((it) => Number(field(it, "statusCode")) >= 300)) return undefined
  const unread = chain.find((it) => field(it, "name") === "AI_TypeValidationError")
  const value = unread === undefined && !(error instanceof Error) ? error : field(unread, "value")
  // Google sends it as a list of one
  const body: unknown = Array.isArray(value) ? value[0] : value
  if (!Shape.isObject(body)) return undefined
  const said = [body.error, body.message, body.detail]
  const isError = body.object === "error" || body.type === "error" ||
    said.some((it) => typeof it === "string" || (Shape.isObject(it) && it === body.error))
  return isError ? body : undefined
}

/** Merges an error, its causes and the provider's response; the outermost value wins. */
const read = (error: unknown): Omit<Found, "isBody"> => {
  const chain = causes(error)
  const first = (key: string): unknown => chain.map((it) => field(it, key)).find((it) => it !== undefined)
  const all = (key: string): ReadonlyArray<string> =>
    chain.flatMap((it) => {
      const value = field(it, key)
      return typeof value === "string" ? [value] : []
    })
  const status = chain.flatMap((it) =>
    ["statusCode", "status", "status_code", "code"].map((key) => Number(field(it, key)))
  )
    .find((it) => Number.isInteger(it) && it >= 100 && it < 600)
  const [message, url, body] = [
    first("message") ?? first("detail") ?? first("error"),
    first("url"),
    first("responseBody")
  ]
  const headers = first("responseHeaders")
  const isRetryable = first("isRetryable")
  return {
    error,
    names: all("name"),
    codes: [...all("code"), ...all("type"), ...all("status")],
    message: typeof message === "string" ? message : textOf(error),
    status,
    url: typeof url === "string" ? withoutQuery(url) : "",
    headers: Shape.isObject(headers) ? strings(headers) : {},
    body: typeof body === "string" && body !== "" ? Shape.wellFormed(body.slice(0, longestBody)) : undefined,
    data: first("data"),
    isRetryable: typeof isRetryable === "boolean" ? isRetryable : undefined
  }
}

/** The error first, then the provider's response, then its causes. */
const causes = (error: unknown): ReadonlyArray<object> => {
  const found: Array<object> = []
  const add = (it: unknown): void => {
    if (typeof it !== "object" || it === null || found.includes(it) || found.length >= deepest) return
    found.push(it)
    const data = field(it, "data")
    add(data)
    add(field(data, "error"))
    add(field(it, "error"))
    add(field(it, "lastError"))
    add(field(it, "cause"))
  }
  add(error)
  return found
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined

const textOf = (error: unknown): string => {
  if (typeof error === "string") return error
  return error === undefined || error === null ? "No reason was given." : JSON.stringify(PlainJson.shown(error))
}

/** Query strings may hold a key. */
const withoutQuery = (url: string): string => url.replace(/[?#].*$/, "")

/** Leaves out cookies, which must not be logged. */
const strings = (headers: Shape.JsonObject): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === "string" && name.toLowerCase() !== "set-cookie" ? [[name.toLowerCase(), value]] : []
    )
  )

const deepest = 10

const longestBody = 10_000

const transport = new Set([
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
  "ConnectionClosed",
  "ConnectionRefused",
  "FailedToOpenSocket"
])

/** An answer that started with status 200 and then broke off counts, too. */
const brokenConnection = (found: Found): AiError.AiErrorReason | undefined => {
  const hasBegun = found.status === undefined || found.status < 300
  const isBroken = found.codes.some((it) => transport.has(it) || it.startsWith("UND_ERR_")) ||
    found.names.some((it) => it === "AbortError" || it === "TimeoutError") ||
    // messages of fetch without a code
    /^(?:fetch failed|failed to fetch|terminated|network error)$/i.test(found.message) ||
    // messages of provider packages when a body ends early
    /stream ended without|did not receive done|incomplete .* frame|truncated event message/i.test(found.message) ||
    (found.names.includes("AI_APICallError") && found.status === undefined)
  return hasBegun && isBroken
    ? new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: found.url,
      description: found.message
    })
    : undefined
}

/** Errors of the provider package: no request was made, or its answer could not be parsed. */
const byName = (found: Found): AiError.AiErrorReason | undefined => {
  const description = found.message
  for (const name of found.names) {
    switch (name) {
      case "AI_LoadAPIKeyError":
        return new AiError.AuthenticationError({ kind: "MissingKey", description })
      case "AI_LoadSettingError":
      case "AI_InvalidArgumentError":
      case "AI_InvalidPromptError":
      case "AI_NoSuchModelError":
      case "AI_NoSuchProviderReferenceError":
      case "AI_UnsupportedFunctionalityError":
        return new AiError.InvalidRequestError({ description })
      case "AI_EmptyResponseBodyError":
      case "AI_InvalidResponseDataError":
      case "AI_JSONParseError":
      case "AI_NoContentGeneratedError":
      case "AI_TypeValidationError":
        // with an error status, an unparsable body adds nothing
        return found.status === undefined || found.status < 300
          ? new AiError.InvalidResponseError({ description, ...details(found) })
          : undefined
    }
  }
  return undefined
}

/** By the provider's error name, then by status. */
const byStatus = (found: Found, now: number): AiError.AiErrorReason => {
  const { codes, message, status } = found
  const retryAfter = retryAfterOf(found.headers, now)
  const common = details(found, retryAfter)
  const has = (...words: ReadonlyArray<string>): boolean => codes.some((it) => words.includes(it.toLowerCase()))
  // https://platform.openai.com/docs/guides/error-codes: a 429, but waiting does not help
  if (status === 402 || has("insufficient_quota", "billing_error")) return new AiError.QuotaExhaustedError(common)
  if (status === 429 || has(...limits)) {
    return new AiError.RateLimitError({ ...common, ...retryAfter === undefined ? {} : { retryAfter } })
  }
  if (isTooLong(found, has)) {
    return new AiError.InvalidRequestError({
      parameter: "prompt",
      constraint: ContextLength.constraint,
      description: message,
      ...common
    })
  }
  if (status === 401 || has("authentication_error", "invalid_api_key", "unauthenticated")) {
    return new AiError.AuthenticationError({ kind: "InvalidKey", description: message, ...common })
  }
  if (status === 403 || has("permission_error", "permission_denied")) {
    return new AiError.AuthenticationError({ kind: "InsufficientPermissions", description: message, ...common })
  }
  if (has("content_filter", "content_policy_violation")) {
    return new AiError.ContentPolicyError({ description: message, ...common })
  }
  // the AI SDK also retries 408 and 409
  if (status === undefined ? isTheirs(found, has) : status >= 500 || status === 408 || status === 409) {
    return new AiError.InternalProviderError({ description: message, ...common })
  }
  if (status === undefined ? has(...refusals) : status >= 400) {
    return new AiError.InvalidRequestError({ description: message, ...common })
  }
  return new AiError.UnknownError({ description: message, ...common })
}

type Has = (...words: ReadonlyArray<string>) => boolean

/** Errors in a stream have no status: https://docs.claude.com/en/api/errors. */
const isTheirs = ({ isBody, isRetryable }: Found, has: Has): boolean =>
  isRetryable === true ||
  has("overloaded_error", "api_error", "server_error", "internal_server_error", "timeout_error", "unavailable") ||
  // the answer had started, so the request was accepted
  (isBody && !has(...refusals))

/** Error names of rate limits; `rate_limited` is Mistral's. */
const limits = ["rate_limit_error", "rate_limit_exceeded", "rate_limited", "resource_exhausted", "too_many_requests"]

const refusals = ["invalid_request_error", "not_found_error", "invalid_argument"]

/** OpenAI sends a code; Anthropic, Google and local servers send a sentence. */
const isTooLong = ({ message, status }: Found, has: Has): boolean =>
  has("context_length_exceeded") ||
  ((status === undefined || status === 400 || status === 413) &&
    ContextLength.isIn(message))

/** `retry-after-ms` is OpenAI's; `retry-after` is in seconds or a date (RFC 9110, 10.2.3). */
const retryAfterOf = (headers: Readonly<Record<string, string>>, now: number): Duration.Duration | undefined => {
  const [millis, after] = [headers["retry-after-ms"], headers["retry-after"]]
  for (
    const wait of [
      amount(millis),
      amount(after) * 1000,
      after === undefined ? NaN : Date.parse(after) - now
    ]
  ) {
    if (!Number.isNaN(wait)) return Duration.millis(Math.max(0, wait))
  }
  return undefined
}

const amount = (text: string | undefined): number =>
  text !== undefined && /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? Number(text) : NaN

/** The provider's response, for diagnosis. */
const details = ({ body, data, headers, status }: Found, retryAfter?: Duration.Duration) => ({
  ...status === undefined ? {} : {
    http: { response: { status, headers }, ...body === undefined ? {} : { body } }
  },
  metadata: {
    ...Shape.isObject(data) ? { error: mutable(data) } : {},
    ...retryAfter === undefined ? {} : { retryAfterMillis: Duration.toMillis(retryAfter) }
  }
})

/** The schema of `effect/ai` requires mutable JSON. */
const mutable = (data: Shape.JsonObject): AiError.ProviderMetadata[string] => PlainJson.shown(data) as never
