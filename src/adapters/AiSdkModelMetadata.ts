/**
 * What a model of the AI SDK says beside its answer: what it binds to a part, its
 * id and name, why it ended, what it cost.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/**
 * How an answer ended, of any specification.
 *
 * @category models
 * @internal
 */
export interface Finish {
  readonly finishReason: unknown
  readonly usage: unknown
  readonly providerMetadata?: unknown
}

/**
 * When an answer was made, by what, and its id.
 *
 * @category models
 * @internal
 */
export interface ResponseMetadata {
  readonly id?: string | undefined
  readonly timestamp?: Date | undefined
  readonly modelId?: string | undefined
}

/**
 * What the provider says of a part, for the next turn; JSON has no `undefined`.
 *
 * @category conversions
 * @internal
 */
export const ofPart = (part: object): { readonly metadata?: Response.ProviderMetadata } => {
  const said = "providerMetadata" in part ? part.providerMetadata : undefined
  return Shape.isObject(said) ? { metadata: PlainJson.from(said) as Response.ProviderMetadata } : {}
}

/**
 * How an answer ended, and what it cost.
 *
 * @category conversions
 * @internal
 */
export const finish = (part: Finish): Response.FinishPartEncoded => ({
  type: "finish",
  reason: finishReason(part.finishReason),
  usage: usage(part.usage),
  ...ofPart(part)
})

/**
 * Tells whether the provider says that the stream ended before the answer did.
 *
 * @category predicates
 * @internal
 */
export const isBrokenOff = (part: Finish): boolean => Shape.own(part.finishReason, "unified") === "interrupted"

/**
 * The id of an answer, and what made it when.
 *
 * @category conversions
 * @internal
 */
export const response = ({ id, modelId, timestamp }: ResponseMetadata): Response.ResponseMetadataPartEncoded => ({
  type: "response-metadata",
  ...typeof id === "string" ? { id } : {},
  ...typeof modelId === "string" ? { modelId } : {},
  ...timestamp instanceof Date && !Number.isNaN(timestamp.getTime()) ? { timestamp: timestamp.toISOString() } : {}
})

// Utilities

/** v2 has one word; v3 and v4 have the provider's beside it. */
const finishReason = (reason: unknown): Response.FinishReason => {
  const raw = Shape.own(reason, "raw")
  const unified = typeof reason === "string" ? reason : Shape.own(reason, "unified")
  switch (unified) {
    case "stop":
      // https://docs.claude.com/en/api/handling-stop-reasons: the turn goes on when it is sent back
      return raw === "pause_turn" ? "pause" : "stop"
    case "length":
    case "content-filter":
    case "tool-calls":
    case "error":
      return unified
    case "other":
      // no reason was sent at all
      return typeof reason === "object" && raw === undefined ? "unknown" : "other"
    default:
      return "unknown"
  }
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
