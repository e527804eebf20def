/**
 * AI SDK models as `LanguageModel` of `effect/ai`.
 *
 * Needs a provider package but not `ai`: any object of the specification works. `AiSdkModelRequests` makes the
 * requests.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as AiModel from "effect/ai/Model"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { ModelOptions } from "./AiSdkModelCall.ts"
import type { ResultFiles } from "./AiSdkModelPrompt.ts"
import { type Callable, Requests } from "./AiSdkModelRequests.ts"
import type { Version } from "./AiSdkModelVersions.ts"

/** A provider package's model: the used parts of `LanguageModelV2`, `V3` or `V4` of the AI SDK. */
export interface ProviderModel {
  readonly specificationVersion: Version
  readonly provider: string
  readonly modelId: string
  // `never` accepts the options of all versions
  readonly doGenerate: (options: never) => PromiseLike<object>
  readonly doStream: (options: never) => PromiseLike<{ readonly stream: ReadableStream<unknown> }>
}

/** Options of `layerLanguageModel`. */
export interface LayerOptions extends ModelOptions {
  /**
   * Adapts the schema of `generateObject` to the provider: `OpenAiStructuredOutput.toCodecOpenAI` for OpenAI's strict
   * mode, `AnthropicStructuredOutput.toCodecAnthropic` for Anthropic. Default: the schema unchanged.
   */
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
  /**
   * Where files from tools go: into the result (`"result"`), into a user message after the results (`"message"`), or
   * nowhere, with a note (`"omit"`).
   *
   * Default `"result"`, but `"omit"` if the provider's name ends in `.chat`, because chat completions have no files in
   * results. Use `"message"` for such models that accept images.
   */
  readonly resultFiles?: ResultFiles | undefined
}

/** Default options; for chat completions `resultFiles` is `"omit"`. */
export const defaults = { resultFiles: "result" } satisfies LayerOptions

/**
 * Provides a model of an AI SDK provider package as `LanguageModel`, with `ProviderName` and `ModelName` of
 * `effect/ai/Model`.
 *
 * - Nothing is retried; the failure has `isRetryable` and `retryAfter`.
 * - An interrupted request is aborted immediately, even while it waits for headers.
 * - Provider data of a part, such as signatures and item ids, is in its `metadata` and is sent back unchanged in a
 * prompt's `options`.
 * - Arguments that are not JSON stay text. With `toolCallValidation: "deferred"` no call fails the request.
 * - A stream that breaks off fails. So does one that ends without a `finish` part, or with one that has neither a
 * provider's reason nor a token count.
 *
 * Throws `ConfigurationError` if the value is not a model.
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
 */
export const layerLanguageModel = (
  model: ProviderModel,
  options: LayerOptions = {}
): AiModel.Model<string, LanguageModel.LanguageModel, never> => {
  const problem = problemOf(model)
  if (problem !== undefined) {
    throw new ConfigurationError({ subject: "AiSdk.layerLanguageModel", problems: [{ path: "model", ...problem }] })
  }
  const { modelId, provider } = model
  const { codecTransformer = LanguageModel.defaultCodecTransformer, resultFiles = resultFilesOf(provider), ...said } =
    options
  return AiModel.make(
    provider,
    modelId,
    Layer.effect(
      LanguageModel.LanguageModel,
      Effect.suspend(() => {
        const requests = new Requests(model as unknown as Callable, { said, codecTransformer, resultFiles })
        return LanguageModel.make({
          generateText: (request) => requests.generate(request),
          streamText: (request) => requests.stream(request),
          codecTransformer
        })
      })
    )
  )
}

const resultFilesOf = (provider: string): ResultFiles => provider.endsWith(".chat") ? "omit" : defaults.resultFiles

/** Reads any property, including getters of a class. */
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
