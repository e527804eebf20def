/**
 * What a model of the AI SDK says beside its answer: what it binds to a part, its id and name, why it ended, what it
 * cost.
 */
import type * as Response from "effect/ai/Response"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/** How an answer ended, of any specification. */
export interface Finish {
  readonly finishReason: unknown
  readonly usage: unknown
  readonly providerMetadata?: unknown
}

/** When an answer was made, by what, and its id. */
export interface ResponseMetadata {
  readonly id?: string | undefined
  readonly timestamp?: Date | undefined
  readonly modelId?: string | undefined
}

/** What the provider says of a part, for the next turn; JSON has no `undefined`. */
export const ofPart = (part: object): { readonly metadata?: Response.ProviderMetadata } => {
  const said = "providerMetadata" in part ? part.providerMetadata : undefined
  return Shape.isObject(said) ? { metadata: PlainJson.from(said) as Response.ProviderMetadata } : {}
}

/** How an answer ended, and what it cost. */
export const finish = (provider: string, part: Finish): Response.FinishPartEncoded => ({
  type: "finish",
  reason: reasonOf(provider, part),
  usage: usage(part.usage),
  ...ofPart(part)
})

/**
 * Tells whether a provider has said that the answer is over. Some packages write an end of their own behind a stream
 * that just stops: `other` without a word of the provider, or `tool-calls` because there were some. Then no tokens were
 * counted either.
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

/** Gives the provider's own word for why an answer ended. */
export const wordOf = (provider: string, finishReason: unknown): string | undefined => {
  const raw = Shape.own(finishReason, "raw")
  if (typeof raw !== "string" || raw === "") return undefined
  // words of the package `ollama-ai-provider-v2`, whether or not Ollama said anything
  const isMadeUp = raw === "other" || (provider === "ollama.responses" && raw === "tool_calls")
  return isMadeUp ? undefined : raw
}

/** The id of an answer, and what made it when. */
export const response = ({ id, modelId, timestamp }: ResponseMetadata): Response.ResponseMetadataPartEncoded => ({
  type: "response-metadata",
  ...typeof id === "string" ? { id } : {},
  ...typeof modelId === "string" ? { modelId } : {},
  ...timestamp instanceof Date && !Number.isNaN(timestamp.getTime()) ? { timestamp: timestamp.toISOString() } : {}
})

// Utilities

/** v2 has one word; v3 and v4 have the provider's beside it. */
const reasonOf = (provider: string, finish: Finish): Response.FinishReason => {
  if (!isProven(provider, finish)) return "unknown"
  const { finishReason } = finish
  const word = wordOf(provider, finishReason)
  const known = word === undefined ? undefined : words.get(word.toLowerCase())
  return known ??
    (typeof finishReason === "string" ? finishReason : Shape.own(finishReason, "unified")) as Response.FinishReason
}

/** Words that packages pass on as something that they are not. */
const words = new Map<string, Response.FinishReason>([
  // https://docs.claude.com/en/api/handling-stop-reasons: the turn goes on when it is sent back
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

/** v2 is flat, and says of cached tokens only how many were read. */
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
