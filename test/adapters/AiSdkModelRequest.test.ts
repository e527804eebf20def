/** How models are asked: with which options, for how long, and what is told of it. */
import type { EmbeddingModelV4, LanguageModelV2, LanguageModelV3, LanguageModelV4 } from "@ai-sdk/provider"
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { ConfigurationError } from "effect-tool-executor"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { type Said, type SpecCall, specModel } from "../support/specModel.ts"

const answered = (content: ReadonlyArray<object>, more: object = {}) => ({
  content,
  finishReason: "stop",
  usage: {},
  warnings: [],
  ...more
})

const ask = LanguageModel.generateText({ prompt: "Hi" })

const stream = Stream.runDrain(LanguageModel.streamText({ prompt: "Hi" }))

/** Opens when the model is asked, which then says nothing. */
const silent = Effect.map(Latch.make(), (asked) => {
  const never = (call: SpecCall): PromiseLike<never> => {
    asked.openUnsafe()
    return new Promise((_, reject) => call.abortSignal.addEventListener("abort", () => reject(new Error("aborted"))))
  }
  return { asked, ...specModel("v4", { answer: never, stream: never }) }
})

const optionsOf = ({ abortSignal: _, prompt: __, ...options }: SpecCall) => options

describe("a request", () => {
  it.effect("is aborted when its fiber is interrupted, also before any answer", () =>
    Effect.gen(function*() {
      for (const effect of [ask, stream]) {
        const { asked, calls, model } = yield* silent
        const fiber = yield* effect.pipe(Effect.provide(AiSdk.layerLanguageModel(model)), Effect.forkChild)
        yield* asked.await
        assert.isFalse(calls[0]!.abortSignal.aborted)
        yield* Fiber.interrupt(fiber)
        assert.isTrue(calls[0]!.abortSignal.aborted)
      }
    }))

  it.effect("is aborted when its fiber is interrupted between two parts, though the stream hangs", () =>
    Effect.gen(function*() {
      const started = yield* Latch.make()
      const cancelled: Array<unknown> = []
      const { calls, model } = specModel("v4", {
        stream: () =>
          Promise.resolve(
            new ReadableStream({
              start: (controller) => controller.enqueue({ type: "text-start", id: "0" }),
              cancel: (reason) => {
                cancelled.push(reason)
                return new Promise(() => {})
              }
            })
          )
      })
      const fiber = yield* LanguageModel.streamText({ prompt: "Hi" }).pipe(
        Stream.runForEach(() => started.open),
        Effect.provide(AiSdk.layerLanguageModel(model)),
        Effect.forkChild
      )
      yield* started.await
      yield* Fiber.interrupt(fiber)
      assert.isTrue(calls[0]!.abortSignal.aborted)
      assert.strictEqual(cancelled.length, 1)
    }))

  it.effect("is left by whoever takes no more of it", () =>
    Effect.gen(function*() {
      const { calls, model } = specModel("v4", {
        stream: () =>
          Promise.resolve(
            new ReadableStream({ pull: (controller) => controller.enqueue({ type: "text-start", id: "0" }) })
          )
      })
      yield* LanguageModel.streamText({ prompt: "Hi" }).pipe(
        Stream.take(2),
        Stream.runDrain,
        Effect.provide(AiSdk.layerLanguageModel(model))
      )
      assert.isTrue(calls[0]!.abortSignal.aborted)
    }))

  it.effect("leaves no stream open that a model, deaf to signals, gives too late", () =>
    Effect.gen(function*() {
      const asked = yield* Latch.make()
      const late = yield* Deferred.make<ReadableStream<unknown>>()
      const left = yield* Latch.make()
      const waitingForIt = Effect.runPromiseWith(yield* Effect.context())(Deferred.await(late))
      const { model } = specModel("v4", {
        stream: () => {
          asked.openUnsafe()
          return waitingForIt
        }
      })
      const fiber = yield* stream.pipe(Effect.provide(AiSdk.layerLanguageModel(model)), Effect.forkChild)
      yield* asked.await
      yield* Fiber.interrupt(fiber)
      yield* Deferred.succeed(late, new ReadableStream({ cancel: () => void left.openUnsafe() }))
      yield* left.await
    }))

  it.effect("has the options of the layer, and before them its own", () =>
    Effect.gen(function*() {
      const { calls, model } = specModel("v4", { answer: answered([]) })
      const layer = AiSdk.layerLanguageModel(model, {
        temperature: 0.5,
        maxOutputTokens: 100,
        stopSequences: ["\n"],
        reasoning: "low",
        headers: { "x-team": "a", "x-one": "1" },
        providerOptions: { plain: { store: false, user: "a" }, other: { x: 1 } }
      })
      yield* ask.pipe(Effect.provide(layer))
      yield* ask.pipe(
        Effect.provideService(AiSdk.ModelOptions, {
          temperature: 0,
          maxOutputTokens: undefined,
          headers: { "x-team": "b" },
          providerOptions: { plain: { user: "b" } }
        }),
        Effect.provide(layer)
      )
      const first = {
        temperature: 0.5,
        maxOutputTokens: 100,
        stopSequences: ["\n"],
        reasoning: "low",
        headers: { "x-team": "a", "x-one": "1" },
        providerOptions: { plain: { store: false, user: "a" }, other: { x: 1 } }
      }
      assert.deepStrictEqual(optionsOf(calls[0]!), first)
      assert.deepStrictEqual(optionsOf(calls[1]!), {
        ...first,
        temperature: 0,
        headers: { "x-team": "b", "x-one": "1" },
        providerOptions: { plain: { store: false, user: "b" }, other: { x: 1 } }
      })
    }))

  it.effect("has no option that nobody gave", () =>
    Effect.gen(function*() {
      const { calls, model } = specModel("v4", { answer: answered([]) })
      yield* ask.pipe(Effect.provide(AiSdk.layerLanguageModel(model)))
      assert.deepStrictEqual(optionsOf(calls[0]!), {})
    }))

  it.effect("tells each warning once", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
        lines.push(`${logLevel} ${String(message)}`)
      })
      const warnings = [
        { type: "unsupported", feature: "topK", details: "not there" },
        { type: "unsupported-setting", setting: "seed" },
        { type: "unsupported-tool", tool: { name: "web" } },
        { type: "deprecated", setting: "user", message: "use another" },
        { type: "other", message: "something else" }
      ]
      const { model } = specModel("v2", {
        answer: answered([], { warnings }),
        stream: [{ type: "stream-start", warnings }, { type: "finish", finishReason: "stop", usage: {} }]
      })
      yield* Effect.all([ask, ask, stream]).pipe(
        Effect.provide([AiSdk.layerLanguageModel(model, { reasoning: "high" }), Logger.layer([logger])])
      )
      assert.deepStrictEqual(lines, [
        "Warn plain.chat plain-1: unsupported: reasoning (use the options of the provider)",
        "Warn plain.chat plain-1: unsupported: topK (not there)",
        "Warn plain.chat plain-1: unsupported setting: seed",
        "Warn plain.chat plain-1: unsupported tool: web",
        "Warn plain.chat plain-1: deprecated: user (use another)",
        "Warn plain.chat plain-1: something else"
      ])
    }))

  it.effect("for an object has its schema, which may be made fit for the provider", () =>
    Effect.gen(function*() {
      const { calls, model } = specModel("v4", {
        answer: answered([{ type: "text", text: "{\"name\":\"Lima\",\"people\":null}" }])
      })
      const City = Schema.Struct({ name: Schema.String, people: Schema.optional(Schema.Finite) })
      const city = LanguageModel.generateObject({ prompt: "Name a city", schema: City, objectName: "city" })
      const { value } = yield* city.pipe(Effect.provide(AiSdk.layerLanguageModel(model, {
        codecTransformer: OpenAiStructuredOutput.toCodecOpenAI
      })))
      assert.deepStrictEqual({ ...value }, { name: "Lima" })
      yield* Effect.exit(city.pipe(Effect.provide(AiSdk.layerLanguageModel(model))))
      const [strict, plain] = calls.map(({ responseFormat }) =>
        responseFormat as { readonly type: string; readonly name: string; readonly schema: object }
      )
      assert.deepInclude(strict, { type: "json", name: "city" })
      assert.deepInclude(strict!.schema, { additionalProperties: false, required: ["name", "people"] })
      assert.deepInclude(plain!.schema, { type: "object", required: ["name"] })
    }))

  it.effect("may let effect/ai run the calls", () =>
    Effect.gen(function*() {
      const toolkit = Toolkit.make(Tool.make("add", {
        parameters: Schema.Struct({ a: Schema.Finite }),
        success: Schema.Finite
      }))
      const call = { type: "tool-call", toolCallId: "1", toolName: "add", input: "{\"a\":1}" }
      const { model } = specModel("v4", { answer: answered([call], { finishReason: "tool-calls" }) })
      const { toolResults } = yield* LanguageModel.generateText({ prompt: "Hi", toolkit }).pipe(
        Effect.provide([AiSdk.layerLanguageModel(model), toolkit.toLayer({ add: ({ a }) => Effect.succeed(a + 1) })])
      )
      assert.deepStrictEqual(toolResults.map(({ result }) => result), [2])
    }))

  it.effect("has a span that says what was asked, and what it cost", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const usage = { inputTokens: { total: 10 }, outputTokens: { total: 5 } }
      const finishReason = { unified: "stop", raw: "end" }
      const response = { id: "r1", modelId: "plain-1b" }
      const { model } = specModel("v4", {
        answer: { content: [], finishReason, usage, response, warnings: [] },
        stream: [{ type: "response-metadata", ...response }, { type: "finish", finishReason, usage }]
      })
      yield* Effect.all([ask, stream]).pipe(
        Effect.provide(AiSdk.layerLanguageModel(model, { temperature: 0 })),
        Effect.provideService(Tracer.Tracer, tracer)
      )
      assert.strictEqual(spans.length, 2)
      for (const { attributes } of spans) {
        assert.deepInclude(Object.fromEntries(attributes), {
          "gen_ai.provider.name": "plain.chat",
          "gen_ai.operation.name": "chat",
          "gen_ai.request.model": "plain-1",
          "gen_ai.request.temperature": 0,
          "gen_ai.response.id": "r1",
          "gen_ai.response.model": "plain-1b",
          "gen_ai.response.finish_reasons": ["stop"],
          "gen_ai.usage.input_tokens": 10,
          "gen_ai.usage.output_tokens": 5
        })
      }
    }))

  it.effect("whose schema cannot be written fails before it is sent", () =>
    Effect.gen(function*() {
      const { calls, model } = specModel("v4", {})
      const error = yield* LanguageModel.generateObject({ prompt: "Hi", schema: Schema.Struct({}) }).pipe(
        Effect.flip,
        Effect.provide(AiSdk.layerLanguageModel(model, {
          codecTransformer: () => {
            throw new Error("No such thing")
          }
        }))
      )
      assert.strictEqual(error.reason._tag, "UnsupportedSchemaError")
      assert.include(error.message, "No such thing")
      assert.deepStrictEqual(calls, [])
    }))

  it.effect("to something that does not keep to the specification is a failure, and no defect", () =>
    Effect.gen(function*() {
      const odd: ReadonlyArray<Said> = [
        { answer: {}, stream: [null] },
        { answer: { content: [null] }, stream: () => Promise.resolve({} as ReadableStream) },
        { answer: () => Promise.resolve(null as never), stream: () => Promise.resolve(undefined as never) }
      ]
      const models = odd.map((said) => specModel("v4", said).model)
      const mute = { ...models[0]!, doStream: () => Promise.resolve(null as never) }
      for (const model of [...models, mute]) {
        for (const effect of [ask, stream]) {
          const { reason } = yield* effect.pipe(Effect.flip, Effect.provide(AiSdk.layerLanguageModel(model)))
          assert.strictEqual(reason._tag, "InvalidResponseError")
        }
      }
    }))

  it.effect("knows what it goes to", () =>
    Effect.gen(function*() {
      const { model } = specModel("v4", {})
      const layer = AiSdk.layerLanguageModel(model)
      assert.strictEqual(layer.provider, "plain.chat")
      assert.deepStrictEqual(
        yield* Effect.all([Model.ProviderName, Model.ModelName]).pipe(Effect.provide(layer)),
        ["plain.chat", "plain-1"]
      )
    }))
})

describe("something that is no model", () => {
  it("is none for the compiler either, and every specification is one", () => {
    expectTypeOf<LanguageModelV2>().toExtend<AiSdk.ProviderModel>()
    expectTypeOf<LanguageModelV3>().toExtend<AiSdk.ProviderModel>()
    expectTypeOf<LanguageModelV4>().toExtend<AiSdk.ProviderModel>()
    expectTypeOf<string>().not.toExtend<AiSdk.ProviderModel>()
    expectTypeOf<EmbeddingModelV4>().not.toExtend<AiSdk.ProviderModel>()
    expectTypeOf<Omit<LanguageModelV4, "specificationVersion"> & { readonly specificationVersion: "v5" }>().not
      .toExtend<AiSdk.ProviderModel>()
  })

  const problem = (model: unknown) => {
    try {
      AiSdk.layerLanguageModel(model as AiSdk.ProviderModel)
    } catch (error) {
      return error instanceof ConfigurationError.ConfigurationError ? error.message : error
    }
    return undefined
  }

  it("is told at once, and what would be one", () => {
    const { model } = specModel("v4", {})
    const expected = "expected a model of a provider package of the AI SDK, such as openai(\"gpt-5\")"
    const head = "AiSdk.layerLanguageModel: 1 problem\n  model: "
    assert.strictEqual(problem("openai/gpt-5"), `${head}it is the text "openai/gpt-5", an id; ${expected}`)
    assert.strictEqual(problem(undefined), `${head}it has no specificationVersion; ${expected}`)
    assert.strictEqual(problem({}), `${head}it has no specificationVersion; ${expected}`)
    assert.strictEqual(
      problem({ ...model, specificationVersion: "v5" }),
      `${head}it is of specification v5; expected a model of specification v2, v3 or v4`
    )
    assert.strictEqual(
      problem({ ...model, modelId: undefined, doStream: 1 }),
      `${head}it has no modelId, no doStream; ${expected}`
    )
    assert.isUndefined(problem(model))
  })
})
