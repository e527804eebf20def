/** What models throw, as the failures of effect/ai. */
import {
  APICallError,
  EmptyResponseBodyError,
  JSONParseError,
  LoadAPIKeyError,
  NoSuchModelError,
  TypeValidationError,
  UnsupportedFunctionalityError
} from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { specModel } from "../support/specModel.ts"

const failure = (error: unknown) =>
  LanguageModel.generateText({ prompt: "Hi" }).pipe(
    Effect.flip,
    Effect.provide(AiSdk.layerLanguageModel(specModel("v4", { answer: () => Promise.reject(error) }).model)),
    Effect.map((error) => error as Exclude<typeof error, never>)
  )

const streamFailure = (error: unknown) =>
  Stream.runDrain(LanguageModel.streamText({ prompt: "Hi" })).pipe(
    Effect.flip,
    Effect.provide(AiSdk.layerLanguageModel(specModel("v4", { stream: [{ type: "error", error }] }).model))
  )

const http = (statusCode: number | undefined, more: Partial<ConstructorParameters<typeof APICallError>[0]> = {}) =>
  new APICallError({
    message: "It went wrong",
    url: "https://api.example/v1/messages?key=secret",
    requestBodyValues: { prompt: "private" },
    ...statusCode === undefined ? {} : { statusCode },
    ...more
  })

const limit = (responseHeaders: Record<string, string>) =>
  Effect.map(
    failure(http(429, { responseHeaders })),
    ({ retryAfter }) => retryAfter === undefined ? undefined : Duration.toMillis(retryAfter)
  )

describe("an error of a model", () => {
  it.effect("has the reason that its status says, and may be tried again accordingly", () =>
    Effect.gen(function*() {
      const expected = [
        [400, "InvalidRequestError", false],
        [401, "AuthenticationError", false],
        [402, "QuotaExhaustedError", false],
        [403, "AuthenticationError", false],
        [404, "InvalidRequestError", false],
        [408, "InternalProviderError", true],
        [409, "InternalProviderError", true],
        [413, "InvalidRequestError", false],
        [422, "InvalidRequestError", false],
        [429, "RateLimitError", true],
        [500, "InternalProviderError", true],
        [503, "InternalProviderError", true],
        [529, "InternalProviderError", true]
      ] as const
      for (const [status, tag, isRetryable] of expected) {
        const error = yield* failure(http(status))
        assert.deepStrictEqual([status, error.reason._tag, error.isRetryable], [status, tag, isRetryable])
        assert.strictEqual(error.module, "AiSdk")
        assert.strictEqual(error.method, "generateText")
        if (tag !== "RateLimitError" && tag !== "QuotaExhaustedError") assert.include(error.message, "It went wrong")
      }
    }))

  it.effect("says when to come back: in milliseconds, in seconds, or by a date", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1))
      assert.strictEqual(yield* limit({ "retry-after-ms": "1500", "retry-after": "9" }), 1_500)
      assert.strictEqual(yield* limit({ "retry-after": "9" }), 9_000)
      assert.strictEqual(yield* limit({ "Retry-After": "0.5" }), 500)
      assert.strictEqual(yield* limit({ "retry-after": "Thu, 01 Jan 2026 00:01:00 GMT" }), 60_000)
      assert.strictEqual(yield* limit({ "retry-after": "Thu, 01 Jan 2025 00:01:00 GMT" }), 0)
      assert.strictEqual(yield* limit({ "retry-after": "soon" }), undefined)
      assert.strictEqual(yield* limit({}), undefined)
      const overloaded = yield* failure(http(529, { responseHeaders: { "retry-after": "3" } }))
      assert.deepInclude(overloaded.reason, { metadata: { retryAfterMillis: 3_000 } })
    }))

  it.effect("tells a limit that waiting does not help against", () =>
    Effect.gen(function*() {
      const error = yield* failure(http(429, { data: { error: { code: "insufficient_quota", message: "No money" } } }))
      assert.strictEqual(error.reason._tag, "QuotaExhaustedError")
      assert.isFalse(error.isRetryable)
    }))

  it.effect("tells a prompt that is too long, in the words of each provider", () =>
    Effect.gen(function*() {
      const words = [
        http(400, { data: { error: { code: "context_length_exceeded", message: "Too long" } } }),
        http(400, { message: "prompt is too long: 212345 tokens > 200000 maximum" }),
        http(400, {
          message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        }),
        http(400, { message: "This model's maximum context length is 8192 tokens." }),
        { type: "invalid_request_error", code: "context_length_exceeded", message: "Your input exceeds the window" }
      ]
      for (const error of words) {
        const { reason } = yield* failure(error)
        assert.deepInclude(reason, {
          _tag: "InvalidRequestError",
          parameter: "prompt",
          constraint: "is longer than the model's context window"
        })
      }
    }))

  it.effect("in a stream has no status: what the provider calls it counts", () =>
    Effect.gen(function*() {
      const expected = [
        [{ type: "overloaded_error", message: "Overloaded" }, "InternalProviderError", true],
        [{ type: "error", error: { type: "api_error", message: "Internal" } }, "InternalProviderError", true],
        [{ type: "rate_limit_error", message: "Slowly" }, "RateLimitError", true],
        [{ code: "rate_limit_exceeded", message: "Slowly" }, "RateLimitError", true],
        [{ type: "authentication_error", message: "Who?" }, "AuthenticationError", false],
        [{ type: "invalid_request_error", message: "No" }, "InvalidRequestError", false],
        [{ code: "content_filter", message: "No" }, "ContentPolicyError", false],
        [{ message: "Later", statusCode: 503, isRetryable: true }, "InternalProviderError", true],
        [{ message: "Later", isRetryable: true }, "InternalProviderError", true],
        ["Overloaded", "UnknownError", false],
        [{ odd: 1 }, "UnknownError", false],
        [undefined, "UnknownError", false],
        [new JSONParseError({ text: "{", cause: new SyntaxError("odd") }), "InvalidResponseError", false],
        [new TypeValidationError({ value: 1, cause: new Error("odd") }), "InvalidResponseError", false]
      ] as const
      for (const [error, tag, isRetryable] of expected) {
        const failure = yield* streamFailure(error)
        assert.deepStrictEqual([error, failure.reason._tag, failure.isRetryable], [error, tag, isRetryable])
      }
    }))

  it.effect("that a provider sends in the place of a part is read as what it says, and may be tried again", () =>
    Effect.gen(function*() {
      const expected = [
        [{ error: { code: 503, message: "Overloaded", status: "UNAVAILABLE" } }, "InternalProviderError", true],
        [[{ error: { code: 500, message: "Internal", status: "INTERNAL" } }], "InternalProviderError", true],
        [{ error: { code: 429, message: "Slowly", status: "RESOURCE_EXHAUSTED" } }, "RateLimitError", true],
        [{ error: { code: 400, message: "No", status: "INVALID_ARGUMENT" } }, "InvalidRequestError", false],
        [
          { object: "error", message: "Full", type: "service_tier_capacity_exceeded", code: "3505" },
          "InternalProviderError",
          true
        ],
        [{ object: "error", message: "Slowly", type: "rate_limited", code: "1300" }, "RateLimitError", true],
        [{ object: "error", message: "No", type: "invalid_request_error", code: "1210" }, "InvalidRequestError", false],
        [{ id: "x", message: "internal server error" }, "InternalProviderError", true],
        [{ message: "Slowly", status_code: 429 }, "RateLimitError", true],
        [{ message: "Who?", status_code: 401 }, "AuthenticationError", false],
        [{ error: { code: 402, message: "No money" } }, "QuotaExhaustedError", false],
        [{ error: { code: "context_length_exceeded", message: "Too long" } }, "InvalidRequestError", false],
        [{ code: "at capacity", error: "Later" }, "InternalProviderError", true],
        [{ detail: "Later" }, "InternalProviderError", true]
      ] as const
      for (const [value, tag, isRetryable] of expected) {
        const unread = new TypeValidationError({ value, cause: new Error("odd") })
        for (const failing of [streamFailure(unread), streamFailure(value), failure(http(200, { cause: unread }))]) {
          const failed = yield* failing
          assert.deepStrictEqual([value, failed.reason._tag, failed.isRetryable], [value, tag, isRetryable])
          assert.notInclude(failed.message, "Type validation")
        }
      }
      // a part that is no error, and cannot be read
      for (const value of [{ choices: 1 }, { type: "text" }, [], null, "message"]) {
        const failed = yield* streamFailure(new TypeValidationError({ value, cause: new Error("odd") }))
        assert.deepStrictEqual([failed.reason._tag, failed.isRetryable], ["InvalidResponseError", false])
      }
    }))

  it.effect("of the network may be tried again, and says where to, without keys", () =>
    Effect.gen(function*() {
      const refused = Object.assign(new TypeError("fetch failed"), {
        cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })
      })
      const brokenOff = http(200, {
        message: "Failed to process successful response",
        cause: Object.assign(new TypeError("terminated"), { cause: { code: "UND_ERR_SOCKET" } })
      })
      const timeout = new DOMException("The operation was aborted due to timeout", "TimeoutError")
      const noEnd = new Error("Did not receive done or success response in stream.")
      const cut = new Error("Incomplete Amazon Bedrock event-stream frame: 7 buffered bytes remain at end of stream.")
      for (const error of [http(undefined), refused, brokenOff, timeout, new TypeError("terminated"), noEnd, cut]) {
        const failed = yield* failure(error)
        assert.strictEqual(failed.reason._tag, "NetworkError")
        assert.isTrue(failed.isRetryable)
        assert.notInclude(failed.message, "secret")
      }
      assert.deepInclude((yield* failure(http(undefined))).reason, { url: "https://api.example/v1/messages" })
    }))

  it.effect("of the provider package itself says what is missing or cannot be read", () =>
    Effect.gen(function*() {
      const expected = [
        [new LoadAPIKeyError({ message: "No key" }), "AuthenticationError"],
        [new NoSuchModelError({ modelId: "m", modelType: "languageModel" }), "InvalidRequestError"],
        [new UnsupportedFunctionalityError({ functionality: "video" }), "InvalidRequestError"],
        [new EmptyResponseBodyError({}), "InvalidResponseError"],
        [
          http(200, {
            message: "Invalid JSON response",
            cause: new JSONParseError({ text: "<html>", cause: new Error("odd") })
          }),
          "InvalidResponseError"
        ],
        [http(502, { cause: new JSONParseError({ text: "<html>", cause: new Error("odd") }) }), "InternalProviderError"]
      ] as const
      for (const [error, tag] of expected) {
        const failed = yield* failure(error)
        assert.deepStrictEqual([error.name, failed.reason._tag], [error.name, tag])
        assert.include(failed.message, error.message)
      }
    }))

  it.effect("keeps what the provider answered, and neither the request nor cookies", () =>
    Effect.gen(function*() {
      const failed = yield* failure(http(400, {
        responseBody: "{\"error\":1}",
        responseHeaders: { "X-Request-Id": "r1", "set-cookie": "session=private" },
        data: { error: { type: "odd" } }
      }))
      assert.deepInclude(failed.reason, {
        http: { response: { status: 400, headers: { "x-request-id": "r1" } }, body: "{\"error\":1}" },
        metadata: { error: { error: { type: "odd" } } }
      })
      assert.notInclude(JSON.stringify(failed), "private")
    }))

  it.effect("that a provider throws at once is a failure like any other", () =>
    Effect.gen(function*() {
      const { model } = specModel("v4", {})
      const error = yield* LanguageModel.generateText({ prompt: "Hi" }).pipe(
        Effect.flip,
        Effect.provide(AiSdk.layerLanguageModel({
          ...model,
          doGenerate: () => {
            throw new UnsupportedFunctionalityError({ functionality: "video" })
          }
        }))
      )
      assert.strictEqual(error.reason._tag, "InvalidRequestError")
    }))

  it.effect("that refers to itself is read all the same", () =>
    Effect.gen(function*() {
      const error = Object.assign(new Error("odd"), { cause: undefined as unknown })
      error.cause = error
      assert.strictEqual((yield* failure(error)).reason._tag, "UnknownError")
    }))
})
