/** Builds the options of one AI SDK model call from the host's options and a request of `effect/ai`. */
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ProviderTool,
  LanguageModelV4ToolChoice
} from "@ai-sdk/provider"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type { Origin } from "../wire/CarriedPart.ts"
import * as ModelPrompt from "./AiSdkModelPrompt.ts"

/** Options of a model request. Omitted ones use the provider's default. */
export interface ModelOptions {
  /** Maximum tokens of an answer. */
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly presencePenalty?: number | undefined
  readonly frequencyPenalty?: number | undefined
  readonly stopSequences?: ReadonlyArray<string> | undefined
  /** Makes answers repeatable, if the provider supports it. */
  readonly seed?: number | undefined
  /**
   * Reasoning effort, in the provider-independent words of specification v4. Older packages have their own options
   * (`providerOptions`).
   */
  readonly reasoning?:
    | "provider-default"
    | "none"
    | "minimal"
    | "low"
    | "medium"
    | "high"
    | "xhigh"
    | "max"
    | undefined
  /** HTTP headers in addition to the provider package's. */
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  /** Provider-specific options, by provider: `{ openai: { store: false } }`. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, Schema.Json>>>> | undefined
}

/**
 * Options of all requests of an effect. They override the layer's options field by field; `headers` and
 * `providerOptions` are merged by name.
 *
 * **Example** (One careful answer)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 *
 * export const careful = LanguageModel.generateText({ prompt: "Name the capital of Peru." }).pipe(
 *   Effect.provideService(AiSdk.ModelOptions, { temperature: 0, maxOutputTokens: 50 })
 * )
 * ```
 */
export const ModelOptions = Context.Reference<ModelOptions>(
  "effect-tool-executor/adapters/AiSdkModelCall/ModelOptions",
  {
    defaultValue: () => ({})
  }
)

/**
 * What a provider is sent of a tool besides name, description and schema. `layerLanguageModel` sends it, `fromTools`
 * reads it from AI SDK tools, and `toTools` returns it to them.
 *
 * **Example** (A place up to which Anthropic caches)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 *
 * export const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
 *   .annotate(AiSdk.ToolOptions, {
 *     providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
 *     inputExamples: [{ input: { query: "fish" } }]
 *   })
 * ```
 */
export const ToolOptions = Context.Reference<ToolOptions>(
  "effect-tool-executor/adapters/AiSdkModelCall/ToolOptions",
  {
    defaultValue: () => ({})
  }
)

/** Provider settings of a tool. */
export interface ToolOptions {
  /** By provider name. */
  readonly providerOptions?: ModelOptions["providerOptions"]
  /** Example arguments for the model. */
  readonly inputExamples?: ReadonlyArray<{ readonly input: unknown }> | undefined
}

/** Returns the provider settings in a tool's annotations. */
export const toolOptions = (
  annotations: Context.Context<never>
): Pick<LanguageModelV4FunctionTool, "strict" | "providerOptions" | "inputExamples"> => {
  const strict = Context.get(annotations, Tool.Strict)
  const { inputExamples, providerOptions } = Context.get(annotations, ToolOptions)
  return {
    ...strict === undefined ? {} : { strict },
    ...providerOptions === undefined ? {} : { providerOptions: providerOptions as never },
    ...inputExamples === undefined ? {} : { inputExamples: inputExamples as never }
  }
}

/** Merges options; the second ones win. */
export const merge = (first: ModelOptions, second: ModelOptions): ModelOptions => {
  const names = new Set([...Object.keys(first.providerOptions ?? {}), ...Object.keys(second.providerOptions ?? {})])
  return {
    ...first,
    ...Object.fromEntries(Object.entries(second).filter(([, value]) => value !== undefined)),
    headers: { ...first.headers, ...second.headers },
    providerOptions: Object.fromEntries(
      Array.from(names, (name) => [name, { ...first.providerOptions?.[name], ...second.providerOptions?.[name] }])
    )
  }
}

/** Builds the options of a call, without its signal; throws if a schema cannot be written. */
export const write = (
  model: Origin & { readonly resultFiles: ModelPrompt.ResultFiles },
  said: ModelOptions,
  request: LanguageModel.ProviderOptions,
  codecTransformer: LanguageModel.CodecTransformer
): LanguageModelV4CallOptions => {
  const providerTools = new Set(request.tools.filter(Tool.isProviderDefined).map((tool) => tool.name))
  const { headers, providerOptions, stopSequences, ...rest } = said
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    prompt: ModelPrompt.write(request.prompt, { ...model, providerTools }),
    ...stopSequences === undefined ? {} : { stopSequences: [...stopSequences] },
    ...isEmpty(headers) ? {} : { headers: { ...headers } },
    ...isEmpty(providerOptions) ? {} : { providerOptions: providerOptions as never },
    ...responseFormat(request, codecTransformer),
    // providers reject a tool choice without tools
    ...request.tools.length === 0 ? {} : {
      tools: request.tools.map(toolOf),
      toolChoice: toolChoice(request.toolChoice)
    }
  }
}

const responseFormat = (
  { responseFormat }: LanguageModel.ProviderOptions,
  codecTransformer: LanguageModel.CodecTransformer
): Pick<LanguageModelV4CallOptions, "responseFormat"> => {
  if (responseFormat.type === "text") return {}
  const { jsonSchema } = codecTransformer(responseFormat.schema as never)
  return { responseFormat: { type: "json", name: responseFormat.objectName, schema: jsonSchema as never } }
}

const isEmpty = (record: object | undefined): boolean => record === undefined || Object.keys(record).length === 0

/** Provider tools are named by the host here and by the provider in AI SDK packages. */
const toolOf = (tool: Tool.Any): LanguageModelV4FunctionTool | LanguageModelV4ProviderTool => {
  if (Tool.isProviderDefined(tool)) {
    const args: unknown = tool.args
    return { type: "provider", id: tool.id, name: tool.name, args: Predicate.isObject(args) ? { ...args } : {} }
  }
  const description = Tool.getDescription(tool)
  return {
    type: "function",
    name: tool.name,
    inputSchema: inputSchema(tool),
    ...description === undefined ? {} : { description },
    ...toolOptions(tool.annotations)
  }
}

/** OpenAI rejects an object schema without `properties`. */
const inputSchema = (tool: Tool.Any): LanguageModelV4FunctionTool["inputSchema"] => {
  const schema = Tool.getJsonSchema(tool)
  return (schema.type === "object" && schema.properties === undefined ? { ...schema, properties: {} } : schema) as never
}

/** `oneOf` sends only its tools: `LanguageModel` has left the others out. */
const toolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): LanguageModelV4ToolChoice => {
  if (typeof choice === "string") return { type: choice }
  return "tool" in choice ? { type: "tool", toolName: choice.tool } : { type: choice.mode ?? "auto" }
}
