/** What models say beside text and calls, and what nobody should say. */
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { specModel } from "../support/specModel.ts"

type Parts = ReadonlyArray<Response.AnyPart>

const toolkit = Toolkit.make(
  Tool.providerDefined({
    id: "plain.web",
    customName: "web",
    providerName: "web_search",
    parameters: Schema.Struct({ query: Schema.String }),
    success: Schema.Array(Schema.Struct({ url: Schema.String }))
  })(undefined as never)
)

const request = { prompt: "Hi", toolkit, disableToolCallResolution: true, toolCallValidation: "deferred" } as const

/** The same content, streamed and whole, as what comes of it both ways. */
const both = Effect.fnUntraced(function*(
  content: ReadonlyArray<object>,
  version: AiSdk.ProviderModel["specificationVersion"] = "v4"
) {
  const { model } = specModel(version, {
    stream: [...content, { type: "finish", finishReason: "stop", usage: {} }],
    answer: { content, finishReason: "stop", usage: {}, warnings: [] }
  })
  const [streamed, whole] = yield* Effect.all([
    Stream.runCollect(LanguageModel.streamText(request)),
    Effect.map(LanguageModel.generateText(request), ({ content }) => content)
  ]).pipe(Effect.provide(AiSdk.layerLanguageModel(model)))
  const seen = plain(streamed as Parts)
  assert.deepStrictEqual(plain(whole as Parts), seen)
  return seen.filter(({ type }) => type !== "finish")
})

/** Without the mark of a part, what is empty, and what stands for parts that `effect/ai` does not have. */
const plain = (parts: Parts): ReadonlyArray<Readonly<Record<string, unknown>>> =>
  parts.flatMap((part): ReadonlyArray<Readonly<Record<string, unknown>>> => {
    const { encodedResult: _, metadata, ...rest } = Object.fromEntries(
      Object.entries(part).filter(([key, value]) => !key.startsWith("~") && value !== undefined)
    )
    if ("effect-tool-executor/ai-sdk" in part.metadata) return [carried]
    return part.type === "text-end" ? [] : [Object.keys(part.metadata).length === 0 ? rest : { ...rest, metadata }]
  })

const carried = { type: "carried" }

const finishes = (version: AiSdk.ProviderModel["specificationVersion"], finish: object) => {
  const { model } = specModel(version, { stream: [{ type: "finish", ...finish }] })
  return LanguageModel.streamText({ prompt: "Hi" }).pipe(
    Stream.runCollect,
    Effect.provide(AiSdk.layerLanguageModel(model)),
    Effect.map(([part]) => part as Response.FinishPart)
  )
}

describe("what a model says", () => {
  it.effect("beside its text: files, sources and questions", () =>
    Effect.gen(function*() {
      const providerMetadata = { plain: { x: 1 } }
      assert.deepStrictEqual(
        yield* both([
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" }, providerMetadata },
          { type: "file", mediaType: "x/odd; y=\"z\"", data: { type: "data", data: new Uint8Array([1, 2, 3]) } },
          { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://a.example/b.png") } },
          { type: "source", sourceType: "url", id: "s1", url: "https://a.example/", title: "A", providerMetadata },
          { type: "source", sourceType: "url", id: "s2", url: "https://b.example/" },
          { type: "source", sourceType: "document", id: "s3", mediaType: "text/plain", filename: "a.txt" },
          { type: "tool-approval-request", approvalId: "a", toolCallId: "1" }
        ]),
        [
          { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]), metadata: providerMetadata },
          { type: "file", mediaType: "x/odd; y=\"z\"", data: new Uint8Array([1, 2, 3]) },
          {
            type: "source",
            sourceType: "url",
            id: "https://a.example/b.png",
            url: new URL("https://a.example/b.png"),
            title: "image/png"
          },
          {
            type: "source",
            sourceType: "url",
            id: "s1",
            url: new URL("https://a.example/"),
            title: "A",
            metadata: providerMetadata
          },
          {
            type: "source",
            sourceType: "url",
            id: "s2",
            url: new URL("https://b.example/"),
            title: "https://b.example/"
          },
          {
            type: "source",
            sourceType: "document",
            id: "s3",
            mediaType: "text/plain",
            title: "a.txt",
            fileName: "a.txt"
          },
          { type: "tool-approval-request", approvalId: "a", toolCallId: "1" }
        ]
      )
    }))

  it.effect("before v4, where data is the content itself", () =>
    Effect.gen(function*() {
      const expected = [{ type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }]
      for (const version of ["v2", "v3"] as const) {
        assert.deepStrictEqual(yield* both([{ type: "file", mediaType: "image/png", data: "AQID" }], version), expected)
        assert.deepStrictEqual(
          yield* both([{ type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }], version),
          expected
        )
      }
    }))

  it.effect("that effect/ai would reject does not fail the request", () =>
    Effect.gen(function*() {
      const circular: Record<string, unknown> = { when: new Date(0), n: NaN, big: 1n, none: undefined }
      circular.self = circular
      assert.deepStrictEqual(
        yield* both([
          { type: "file", data: { type: "data", data: "AQID" } },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "no base64!" } },
          { type: "file", mediaType: "image/png" },
          { type: "source", sourceType: "url", id: "s1", url: "no address" },
          { type: "source", sourceType: "of-a-version-to-come", id: "s2" },
          { type: "of-a-version-to-come" },
          { type: "tool-call", toolCallId: "1", toolName: "x", input: { a: 1 } },
          { type: "tool-call", toolCallId: "2", toolName: "x", input: "{}", providerMetadata: { plain: circular } },
          { type: "tool-call", toolCallId: "3", toolName: "x", input: "{}", providerMetadata: "odd" }
        ]),
        [
          { type: "file", mediaType: "application/octet-stream", data: new Uint8Array([1, 2, 3]) },
          { type: "tool-call", id: "1", name: "x", params: { a: 1 }, providerExecuted: false },
          {
            type: "tool-call",
            id: "2",
            name: "x",
            params: {},
            providerExecuted: false,
            metadata: { plain: { when: "1970-01-01T00:00:00.000Z", n: null, big: "1", self: "[circular]" } }
          },
          { type: "tool-call", id: "3", name: "x", params: {}, providerExecuted: false }
        ]
      )
    }))

  it.effect("of tools that the provider ran: parts where the toolkit takes them, else carried", () =>
    Effect.gen(function*() {
      const ran = (toolName: string, input: string) =>
        ({ type: "tool-call", toolCallId: "1", toolName, input, providerExecuted: true }) as const
      const found = (toolName: string, result: unknown, more: object = {}) =>
        ({ type: "tool-result", toolCallId: "1", toolName, result, ...more }) as const
      assert.deepStrictEqual(
        yield* both([ran("web", "{\"query\":\"a\"}"), found("web", [{ url: "u" }])]),
        [
          { type: "tool-call", id: "1", name: "web", params: { query: "a" }, providerExecuted: true },
          {
            type: "tool-result",
            id: "1",
            name: "web",
            result: [{ url: "u" }],
            isFailure: false,
            providerExecuted: true,
            preliminary: false
          }
        ]
      )
      assert.deepStrictEqual(
        yield* both([
          ran("web", "{\"q\":1}"),
          found("web", "odd"),
          found("web", { code: "unavailable" }, { isError: true }),
          ran("other", "{}"),
          found("other", 1),
          found("other", 1, { preliminary: true })
        ]),
        [carried, carried, carried, carried, carried]
      )
    }))

  it.effect("of why it ended, in every version", () =>
    Effect.gen(function*() {
      const reasonOf = (version: AiSdk.ProviderModel["specificationVersion"], finishReason: unknown) =>
        Effect.map(finishes(version, { finishReason, usage: {} }), ({ reason }) => reason)
      for (const reason of ["stop", "length", "content-filter", "tool-calls"] as const) {
        assert.strictEqual(yield* reasonOf("v2", reason), reason)
      }
      for (const reason of ["stop", "length", "content-filter", "tool-calls", "other"] as const) {
        assert.strictEqual(yield* reasonOf("v3", { unified: reason, raw: "x" }), reason)
      }
      for (
        const [unified, raw, reason] of [
          ["stop", "pause_turn", "pause"],
          ["other", "model_context_window_exceeded", "length"]
        ]
      ) {
        assert.strictEqual(yield* reasonOf("v4", { unified, raw }), reason)
      }
    }))

  describe("with an end that proves nothing", () => {
    const none = { inputTokens: { total: undefined }, outputTokens: { total: undefined } }
    const zero = { inputTokens: { total: 0 }, outputTokens: { total: 0 } }
    const some = { inputTokens: { total: 3 }, outputTokens: { total: 4 } }
    const call = { type: "tool-call", toolCallId: "1", toolName: "x", input: "{}" }

    /** The parts of an answer, streamed and whole, and the failure that comes behind them. */
    const endings = Effect.fnUntraced(function*(
      version: AiSdk.ProviderModel["specificationVersion"],
      provider: string,
      finish: { readonly finishReason: unknown; readonly usage: unknown }
    ) {
      const { model } = specModel(version, {
        stream: [call, { type: "finish", ...finish }],
        answer: { content: [call], ...finish }
      })
      const seen: Array<Response.AnyPart> = []
      const layer = AiSdk.layerLanguageModel({ ...model, provider })
      const streamed = yield* LanguageModel.streamText(request).pipe(
        Stream.runForEach((part) => Effect.sync(() => seen.push(part as Response.AnyPart))),
        Effect.provide(layer),
        Effect.result
      )
      const whole = yield* Effect.result(Effect.provide(LanguageModel.generateText(request), layer))
      assert.strictEqual(Result.isFailure(whole), Result.isFailure(streamed))
      const error = Result.isFailure(streamed) ? streamed.failure : undefined
      return { error, finish: seen.find((part) => part.type === "finish") }
    })

    // what these packages make of a stream that stops behind a call
    it.effect.each(
      [
        ["@ai-sdk/openai, google, groq and mistral", "v4", "openai.chat", { unified: "interrupted" }, none],
        ["@ai-sdk/deepseek, cohere and amazon-bedrock", "v4", "deepseek.chat", { unified: "other" }, none],
        ["@ai-sdk/xai", "v4", "xai.responses", { unified: "other", raw: undefined }, zero],
        ["@ai-sdk/google of specification v3", "v3", "google.generative-ai", { unified: "other" }, some],
        ["@openrouter/ai-sdk-provider", "v4", "openrouter", { unified: "tool-calls", raw: undefined }, none],
        ["@openrouter/ai-sdk-provider of v2", "v2", "openrouter", "other", { inputTokens: NaN, outputTokens: NaN }],
        ["ollama-ai-provider-v2", "v4", "ollama.responses", { unified: "tool-calls", raw: "tool_calls" }, none],
        ["ollama-ai-provider-v2, completions", "v4", "ollama.completion", { unified: "other", raw: "other" }, none],
        ["most packages of specification v2", "v2", "cohere.chat", "unknown", {}],
        ["a version to come", "v4", "plain", { unified: "of-a-version-to-come", raw: "x" }, some],
        ["nothing", "v4", "plain", undefined, undefined]
      ] as const
    )("of %s has broken off", ([, version, provider, finishReason, usage]) =>
      Effect.gen(function*() {
        const { error, finish } = yield* endings(version, provider, { finishReason, usage })
        assert.deepStrictEqual([error?.reason._tag, error?.isRetryable], ["NetworkError", true])
        // what it cost is there all the same
        assert.strictEqual(finish?.reason, "unknown")
        assert.strictEqual(finish?.usage.outputTokens.total, usage === some ? 4 : usage === zero ? 0 : undefined)
      }), { tags: ["AG19"] })

    it.effect.each(
      [
        ["@ai-sdk/openai responses", "v4", "openai.responses", { unified: "tool-calls", raw: undefined }, some],
        ["@ai-sdk/groq, which counts nothing", "v4", "groq.chat", { unified: "tool-calls", raw: "tool_calls" }, none],
        ["@ai-sdk/openai-compatible named ollama", "v4", "ollama.chat", {
          unified: "tool-calls",
          raw: "tool_calls"
        }, none],
        ["ollama-ai-provider-v2", "v4", "ollama.responses", { unified: "tool-calls", raw: "tool_calls" }, some],
        ["@ai-sdk/xai", "v4", "xai.responses", { unified: "tool-calls", raw: "completed" }, some],
        ["a provider with a word of its own", "v4", "plain", { unified: "other", raw: "COMPLETE" }, none],
        ["a package of specification v2 that counts nothing", "v2", "plain", "tool-calls", {}],
        ["a package of specification v2, for a reason of its own", "v2", "plain", "other", some]
      ] as const
    )("is none of %s", ([, version, provider, finishReason, usage]) =>
      Effect.gen(function*() {
        const { error, finish } = yield* endings(version, provider, { finishReason, usage })
        assert.isUndefined(error)
        assert.include(["tool-calls", "other"], finish?.reason)
      }))

    it.effect.each(
      [
        ["error", "MALFORMED_FUNCTION_CALL"],
        ["other", "MALFORMED_RESPONSE"],
        ["other", "UNEXPECTED_TOOL_CALL"],
        ["other", "malformed_tool_use"],
        ["tool-calls", "error"],
        ["error", "insufficient_system_resource"]
      ] as const
    )("or is an error: %s %s", ([unified, raw]) =>
      Effect.gen(function*() {
        const { error, finish } = yield* endings("v4", "plain", { finishReason: { unified, raw }, usage: some })
        assert.deepStrictEqual([error?.reason._tag, error?.isRetryable], ["InternalProviderError", true])
        assert.include(error?.message, raw)
        assert.deepStrictEqual([finish?.reason, finish?.usage.inputTokens.total], ["error", 3])
      }), { tags: ["AG19"] })
  })

  it.effect("of what it cost, whatever stands there", () =>
    Effect.gen(function*() {
      const usageOf = (usage: unknown) =>
        Effect.map(finishes("v4", { finishReason: "stop", usage }), ({ usage }) =>
          JSON.parse(JSON.stringify({ ...usage })) as unknown)
      const none = { inputTokens: {}, outputTokens: {} }
      for (const odd of [undefined, null, 7, {}, { inputTokens: NaN, outputTokens: 1.5 }, { inputTokens: null }]) {
        assert.deepStrictEqual(yield* usageOf(odd), none)
      }
      assert.deepStrictEqual(
        yield* usageOf({ inputTokens: { total: 3, noCache: 1, cacheRead: 1, cacheWrite: 1 }, outputTokens: {} }),
        { inputTokens: { total: 3, uncached: 1, cacheRead: 1, cacheWrite: 1 }, outputTokens: {} }
      )
    }))

  it.effect("of itself: its id, its name, the time", () =>
    Effect.gen(function*() {
      const { model } = specModel("v4", {
        stream: [
          { type: "response-metadata", id: "r1", timestamp: new Date(NaN) },
          { type: "response-metadata", modelId: "m" },
          { type: "finish", finishReason: "stop", usage: {} }
        ]
      })
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "Hi" })).pipe(
        Effect.provide(AiSdk.layerLanguageModel(model))
      )
      assert.deepStrictEqual(plain(parts).slice(0, -1), [
        { type: "response-metadata", id: "r1" },
        { type: "response-metadata", modelId: "m" }
      ])
    }))
})
