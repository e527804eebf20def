/**
 * Models of the AI SDK as the `LanguageModel` of `effect/ai`.
 *
 * It needs a provider package, and nothing of `ai`: a plain object of the specification will do. How a model is asked
 * is in `AiSdkModelRequests`.
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

/** A model of a provider package: `LanguageModelV2`, `V3` or `V4` of the AI SDK, by what of them is used. */
export interface ProviderModel {
  readonly specificationVersion: Version
  readonly provider: string
  readonly modelId: string
  // a function of fewer demands could not be told from one of other demands
  readonly doGenerate: (options: never) => PromiseLike<object>
  readonly doStream: (options: never) => PromiseLike<{ readonly stream: ReadableStream<unknown> }>
}

/** Options of `layerLanguageModel`: those of its requests, and how it makes JSON. */
export interface LayerOptions extends ModelOptions {
  /**
   * Turns the schema of `generateObject` into one that the provider takes. The strict mode of OpenAI needs
   * `OpenAiStructuredOutput.toCodecOpenAI` of `effect/ai`, Anthropic's `AnthropicStructuredOutput.toCodecAnthropic`. By
   * default the schema goes as it is.
   */
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
  /**
   * Where the files go that tools give: into the result (`"result"`), into a message of the user behind the results
   * (`"message"`), or nowhere, with a word that they were there (`"omit"`). By default into the result, and nowhere
   * where the provider's name ends in `.chat`: chat completions have no files in results, and their packages write the
   * base64 as text. For a model there that sees pictures say `"message"`.
   */
  readonly resultFiles?: ResultFiles | undefined
}

/** What the layer assumes; `resultFiles` is `"omit"` for the chat completions of a provider. */
export const defaults = { resultFiles: "result" } satisfies LayerOptions

/**
 * Makes a layer of the `LanguageModel` of `effect/ai` out of a model of any provider package of the AI SDK, with
 * `ProviderName` and `ModelName` of `effect/ai/Model` beside it.
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
 * - A stream that breaks off fails. So does one that just ends: without a `finish` part, or
 *   with one that has neither a reason of the provider nor a count of its tokens.
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

// Utilities

const resultFilesOf = (provider: string): ResultFiles => provider.endsWith(".chat") ? "omit" : defaults.resultFiles

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
