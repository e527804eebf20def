/** Metadata of an AI SDK answer: provider data of parts, id and model, the reason it ended, and its usage. */
import type * as Response from "effect/ai/Response"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/** The end of an answer, in any specification. */
export interface Finish {
  readonly finishReason: unknown
  readonly usage: unknown
  readonly providerMetadata?: unknown
}

/** The id, model and time of an answer. */
export interface ResponseMetadata {
  readonly id?: string | undefined
  readonly timestamp?: Date | undefined
  readonly modelId?: string | undefined
}

/** Provider data of a part, for the next turn, without `undefined`. */
export const ofPart = (part: object): { readonly metadata?: Response.ProviderMetadata } => {
  const said = "providerMetadata" in part ? part.providerMetadata : undefined
  return Shape.isObject(said) ? { metadata: PlainJson.from(said) as Response.ProviderMetadata } : {}
}

/** The reason and usage of an answer's end. */
export const finish = (provider: string, part: Finish): Response.FinishPartEncoded => ({
  type: "finish",
  reason: reasonOf(provider, part),
  usage: usage(part.usage),
  ...ofPart(part)
})

/**
 * Whether the provider itself ended the answer. Some packages add an end to a stream that just stops: `other` without
 * the provider's reason, or `tool-calls` after calls. Such an end has no token count.
 */
export const isProven = (provider: string, { finishReason, usage }: Finish): boolean => {
  const isWord = typeof finishReason === "string"
  const hasWord = isWord || wordOf(provider, finishReason) !== undefined
  switch (isWord ? finishReason : Shape.own(finishReason, "unified")) {
    case "stop":
    case "length":
    case "content-filter":
    case "error":
      return true
    case "tool-calls":
      return hasWord || isCounted(usage)
    case "other":
      return isWord ? isCounted(usage) : hasWord
    default:
      return false
  }
}

/** Returns the provider's own reason for the end. */
export const wordOf = (provider: string, finishReason: unknown): string | undefined => {
  const raw = Shape.own(finishReason, "raw")
  if (typeof raw !== "string" || raw === "") return undefined
  // `ollama-ai-provider-v2` invents these words
  const isMadeUp = raw === "other" || (provider === "ollama.responses" && raw === "tool_calls")
  return isMadeUp ? undefined : raw
}

/** The id, model and time of an answer. */
export const response = ({ id, modelId, timestamp }: ResponseMetadata): Response.ResponseMetadataPartEncoded => ({
  type: "response-metadata",
  ...typeof id === "string" ? { id } : {},
  ...typeof modelId === "string" ? { modelId } : {},
  ...timestamp instanceof Date && !Number.isNaN(timestamp.getTime()) ? { timestamp: timestamp.toISOString() } : {}
})

/** v2 has one word; v3 and v4 add the provider's. */
const reasonOf = (provider: string, finish: Finish): Response.FinishReason => {
  if (!isProven(provider, finish)) return "unknown"
  const { finishReason } = finish
  const word = wordOf(provider, finishReason)
  const known = word === undefined ? undefined : words.get(word.toLowerCase())
  return known ??
    (typeof finishReason === "string" ? finishReason : Shape.own(finishReason, "unified")) as Response.FinishReason
}

/** Provider words that packages misclassify. */
const words = new Map<string, Response.FinishReason>([
  // https://docs.claude.com/en/api/handling-stop-reasons: the turn continues when it is sent back
  ["pause_turn", "pause"],
  ["model_context_window_exceeded", "length"],
  ["error", "error"],
  ["timeout", "error"],
  // https://ai.google.dev/api/generate-content#FinishReason
  ["malformed_function_call", "error"],
  ["malformed_response", "error"],
  ["unexpected_tool_call", "error"],
  // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
  ["malformed_model_output", "error"],
  ["malformed_tool_use", "error"]
])

const isCounted = (given: unknown): boolean => {
  const { inputTokens, outputTokens } = usage(given)
  return (inputTokens.total ?? 0) + (outputTokens.total ?? 0) > 0
}

/** v2 is flat and counts only cache reads. */
const usage = (given: unknown): Response.FinishPartEncoded["usage"] => {
  const [input, output] = [Shape.own(given, "inputTokens"), Shape.own(given, "outputTokens")]
  return {
    inputTokens: {
      total: count(Shape.isObject(input) ? input.total : input),
      uncached: count(Shape.own(input, "noCache")),
      cacheRead: count(Shape.own(input, "cacheRead") ?? Shape.own(given, "cachedInputTokens")),
      cacheWrite: count(Shape.own(input, "cacheWrite"))
    },
    outputTokens: {
      total: count(Shape.isObject(output) ? output.total : output),
      text: count(Shape.own(output, "text")),
      reasoning: count(Shape.own(output, "reasoning") ?? Shape.own(given, "reasoningTokens"))
    }
  }
}

const count = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) ? value : undefined
