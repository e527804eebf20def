/**
 * Models of the AI SDK as the `LanguageModel` of `effect/ai`.
 *
 * It needs a provider package, and nothing of `ai`: a plain object of the
 * specification will do. What it sends is written in `AiSdkModelCall`, what comes
 * back is read in `AiSdkModelResponse`.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as AiModel from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Pull from "effect/Pull"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../ConfigurationError.ts"
import * as Shape from "../wire/Shape.ts"
import * as ModelCall from "./AiSdkModelCall.ts"
import * as ModelError from "./AiSdkModelError.ts"
import type { ResultFiles } from "./AiSdkModelPrompt.ts"
import * as ModelResponse from "./AiSdkModelResponse.ts"
import * as Versions from "./AiSdkModelVersions.ts"

/**
 * A model of a provider package: `LanguageModelV2`, `V3` or `V4` of the AI SDK,
 * by what of them is used.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProviderModel {
  readonly specificationVersion: Versions.Version
  readonly provider: string
  readonly modelId: string
  // a function of fewer demands could not be told from one of other demands
  readonly doGenerate: (options: never) => PromiseLike<object>
  readonly doStream: (options: never) => PromiseLike<{ readonly stream: ReadableStream<unknown> }>
}

/**
 * Options of `layerLanguageModel`: those of its requests, and how it makes JSON.
 *
 * @category options
 * @since 0.1.0
 */
export interface LayerOptions extends ModelCall.ModelOptions {
  /**
   * Turns the schema of `generateObject` into one that the provider takes. The
   * strict mode of OpenAI needs `OpenAiStructuredOutput.toCodecOpenAI` of
   * `effect/ai`, Anthropic's `AnthropicStructuredOutput.toCodecAnthropic`. By
   * default the schema goes as it is.
   */
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
  /**
   * Where the files go that tools give: into the result (`"result"`), into a
   * message of the user behind the results (`"message"`), or nowhere, with a word
   * that they were there (`"omit"`). By default into the result, and nowhere where
   * the provider's name ends in `.chat`: chat completions have no files in results,
   * and their packages write the base64 as text. For a model there that sees
   * pictures say `"message"`.
   */
  readonly resultFiles?: ResultFiles | undefined
}

/**
 * What the layer assumes; `resultFiles` is `"omit"` for the chat completions of a provider.
 *
 * @category options
 * @internal
 */
export const defaults = { resultFiles: "result" } satisfies LayerOptions

/**
 * Makes a layer of the `LanguageModel` of `effect/ai` out of a model of any
 * provider package of the AI SDK, with `ProviderName` and `ModelName` of
 * `effect/ai/Model` beside it.
 *
 * **Details**
 *
 * - Nothing is retried: the failure says whether it may go well the next time
 *   (`isRetryable`) and when (`retryAfter`).
 * - An interrupted request is aborted at once, also while it waits for headers.
 * - What a provider says of a part (signatures, ids of items) is in its
 *   `metadata`, and goes back byte for byte with the `options` of a prompt.
 * - Arguments that are no JSON are handed on as the text they are. With
 *   `toolCallValidation: "deferred"` no call fails the request.
 * - A stream that breaks off fails. One that ends without a `finish` part has
 *   none here either.
 *
 * Throws a `ConfigurationError` for something that is no model.
 *
 * **Example** (Any model)
 *
 * ```ts
 * import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 *
 * const local = createOpenAICompatible({ name: "local", baseURL: "http://127.0.0.1:11434/v1" })
 *
 * export const Model = AiSdk.layerLanguageModel(local("qwen3"), { temperature: 0 })
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerLanguageModel = (
  model: ProviderModel,
  options: LayerOptions = {}
): AiModel.Model<string, LanguageModel.LanguageModel, never> => {
  const problem = problemOf(model)
  if (problem !== undefined) {
    throw new ConfigurationError({ subject: "AiSdk.layerLanguageModel", problems: [{ path: "model", ...problem }] })
  }
  return AiModel.make(model.provider, model.modelId, Layer.effect(LanguageModel.LanguageModel, make(model, options)))
}

// Utilities

/** Of a class or not: models have getters. */
const fieldOf = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined

const problemOf = (model: unknown): { readonly problem: string; readonly expected: string } | undefined => {
  const expected = "a model of a provider package of the AI SDK, such as openai(\"gpt-5\")"
  if (typeof model === "string") return { problem: `it is the text ${JSON.stringify(model)}, an id`, expected }
  const version = fieldOf(model, "specificationVersion")
  if (version !== "v2" && version !== "v3" && version !== "v4") {
    return typeof version === "string"
      ? { problem: `it is of specification ${version}`, expected: "a model of specification v2, v3 or v4" }
      : { problem: "it has no specificationVersion", expected }
  }
  const lacks = [
    ...["provider", "modelId"].filter((key) => typeof fieldOf(model, key) !== "string"),
    ...["doGenerate", "doStream"].filter((key) => typeof fieldOf(model, key) !== "function")
  ]
  return lacks.length === 0 ? undefined : { problem: `it has no ${lacks.join(", no ")}`, expected }
}

/** A model as it is called: what it takes is written for its version, what it gives is read for any. */
interface Callable {
  readonly doGenerate: (options: object) => PromiseLike<Generated>
  readonly doStream: (options: object) => PromiseLike<{ readonly stream: ReadableStream<ModelResponse.StreamPart> }>
}

interface Generated extends ModelResponse.Finish {
  readonly content: ReadonlyArray<ModelResponse.Content>
  readonly response?: ModelResponse.Metadata
  readonly warnings?: ReadonlyArray<unknown>
}

const make = (model: ProviderModel, { codecTransformer, resultFiles, ...layerOptions }: LayerOptions) => {
  const callable = model as unknown as Callable
  const { modelId, provider } = model
  const target = {
    provider,
    modelId,
    resultFiles: resultFiles ?? (provider.endsWith(".chat") ? "omit" : defaults.resultFiles)
  }
  const told = new Set<string>()

  const warn = (warnings: unknown): Effect.Effect<void> =>
    Effect.forEach(
      Array.isArray(warnings) ? warnings.map(warningText) : [],
      (text) => {
        if (told.has(text)) return Effect.void
        told.add(text)
        return Effect.logWarning(`${provider} ${modelId}: ${text}`)
      },
      { discard: true }
    )

  const fail = (method: string) => (error: unknown) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (now) => Effect.fail(AiError.make({ module: "AiSdk", method, reason: ModelError.reasonOf(error, now) }))
    )

  /** Runs a promise; what it is rejected with becomes the failure. */
  const attempt = <A>(method: string, evaluate: (signal: AbortSignal) => PromiseLike<A>) =>
    Effect.catch(
      Effect.tryPromise({ try: evaluate, catch: (error): { readonly error: unknown } => ({ error }) }),
      ({ error }) => fail(method)(error)
    )

  const callOf = (method: string, request: LanguageModel.ProviderOptions) =>
    Effect.gen(function*() {
      const said = ModelCall.merge(layerOptions, yield* ModelCall.ModelOptions)
      if (said.reasoning !== undefined && model.specificationVersion !== "v4") {
        yield* warn([{ type: "unsupported", feature: "reasoning", details: "use the options of the provider" }])
      }
      Telemetry.addGenAIAnnotations(request.span, {
        provider: { name: provider },
        operation: { name: "chat" },
        request: {
          model: modelId,
          temperature: said.temperature,
          topK: said.topK,
          topP: said.topP,
          maxTokens: said.maxOutputTokens,
          stopSequences: said.stopSequences,
          frequencyPenalty: said.frequencyPenalty,
          presencePenalty: said.presencePenalty,
          seed: said.seed
        }
      })
      const responseFormat = yield* responseFormatOf(method, request)
      return Versions.write(
        model.specificationVersion,
        ModelCall.write(target, said, request, responseFormat)
      )
    })

  const responseFormatOf = (method: string, { responseFormat }: LanguageModel.ProviderOptions) =>
    Effect.try({
      try: () =>
        responseFormat.type === "text" ? undefined : {
          type: "json" as const,
          name: responseFormat.objectName,
          schema: (codecTransformer ?? LanguageModel.defaultCodecTransformer)(responseFormat.schema as never)
            .jsonSchema as never
        },
      catch: (error) =>
        AiError.make({
          module: "AiSdk",
          method,
          reason: new AiError.UnsupportedSchemaError({
            description: error instanceof Error ? error.message : String(error)
          })
        })
    })

  const generateText = Effect.fnUntraced(function*(
    request: LanguageModel.ProviderOptions
  ): Effect.fn.Return<Array<Response.PartEncoded>, AiError.AiError> {
    const call = yield* callOf("generateText", request)
    const generated = yield* attempt(
      "generateText",
      (abortSignal) => callable.doGenerate({ ...call, abortSignal })
    )
    yield* warn(generated.warnings)
    const reader = new ModelResponse.ResponseReader(target, request.tools)
    const parts = [
      ...generated.content.flatMap((part) => reader.content(part)),
      ...generated.response === undefined ? [] : ModelResponse.responseMetadata(generated.response),
      ModelResponse.finish(generated)
    ]
    annotate(request, parts)
    return parts
  })

  const streamText = (
    request: LanguageModel.ProviderOptions
  ): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> =>
    Stream.unwrap(Effect.map(open(request), (pull) => Stream.fromPull(Effect.succeed(pull))))

  const open = Effect.fnUntraced(function*(
    request: LanguageModel.ProviderOptions
  ): Effect.fn.Return<
    Pull.Pull<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError>,
    AiError.AiError,
    Scope.Scope
  > {
    const call = yield* callOf("streamText", request)
    const abortSignal = yield* Effect.abortSignal
    const { stream } = yield* attempt("streamText", () =>
      callable.doStream({ ...call, abortSignal }).then((opened) => {
        // it came too late, for a model that is deaf to signals
        if (abortSignal.aborted) void opened.stream.cancel().catch(() => undefined)
        return opened
      }))
    const source = yield* Effect.acquireRelease(
      Effect.sync(() => stream.getReader()),
      // not waited for: a stream that hangs would hold the interruption up
      (source) => Effect.sync(() => void source.cancel().catch(() => undefined))
    )
    const reader = new ModelResponse.ResponseReader(target, request.tools)

    const take = (part: ModelResponse.StreamPart): typeof pull => {
      if (part.type === "error") return fail("streamText")(part.error)
      if (part.type === "stream-start") return Effect.andThen(warn(part.warnings), pull)
      if (part.type === "finish" && ModelResponse.isBrokenOff(part)) {
        return Effect.fail(AiError.make({
          module: "AiSdk",
          method: "streamText",
          reason: ModelError.brokenOff("The stream of the provider ended before the answer did.")
        }))
      }
      const parts = reader.stream(part)
      annotate(request, parts)
      return Arr.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : pull
    }

    const pull: Pull.Pull<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> = Effect.flatMap(
      attempt("streamText", () => source.read()),
      ({ done, value }) => done ? Cause.done() : take(value)
    )
    return pull
  })

  return LanguageModel.make({
    generateText,
    streamText,
    ...codecTransformer === undefined ? {} : { codecTransformer }
  })
}

const annotate = (
  { span }: LanguageModel.ProviderOptions,
  parts: ReadonlyArray<Response.PartEncoded | Response.StreamPartEncoded>
): void => {
  for (const part of parts) {
    if (part.type === "response-metadata") {
      Telemetry.addGenAIAnnotations(span, { response: { id: part.id, model: part.modelId } })
    }
    if (part.type === "finish") {
      Telemetry.addGenAIAnnotations(span, {
        response: { finishReasons: [part.reason] },
        usage: { inputTokens: part.usage.inputTokens.total, outputTokens: part.usage.outputTokens.total }
      })
    }
  }
}

/** v2 names a setting or a tool, v3 and v4 a feature. */
const warningText = (warning: unknown): string => {
  const of = (key: string): string | undefined => {
    const value = Shape.own(warning, key)
    return typeof value === "string" ? value : undefined
  }
  const type = of("type") ?? "other"
  const what = of("feature") ?? of("setting") ??
    (type === "unsupported-tool" ? String(Shape.own(Shape.own(warning, "tool"), "name")) : undefined)
  const more = of("details") ?? of("message")
  if (what === undefined) return more ?? type
  return `${type.replaceAll("-", " ")}: ${what}${more === undefined ? "" : ` (${more})`}`
}
