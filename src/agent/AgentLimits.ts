/**
 * Limits of an operation.
 *
 * Tokens, cost and calls of sub-agents count toward every operation above them. Turns and time are counted per
 * operation.
 */
import type * as Duration from "effect/Duration"

/** Limits of an operation, checked before each model request. Reaching the time limit also ends what is running. */
export interface AgentLimits {
  /** Requests to the model. Default 100. */
  readonly turns?: number | undefined
  /** Calls started; one more is refused and ends the operation. Default: no limit. */
  readonly calls?: number | undefined
  /** Input plus output tokens. Default: no limit. */
  readonly tokens?: number | undefined
  /** Running time, excluding time spent waiting for approval. Default: no limit. */
  readonly time?: Duration.Input | undefined
  /** Cost of the tokens. Default: no limit. */
  readonly cost?: Cost | undefined
  /**
   * Characters of one answer: text, reasoning, and the arguments of its calls. A longer answer is cut off, and the
   * operation ends with `ModelFailed`. Default 1,000,000.
   */
  readonly answerChars?: number | undefined
}

/** A cost limit, in the unit of its prices. */
export interface Cost {
  readonly max: number
  /**
   * Prices by `provider:model` (such as `anthropic.messages:claude-sonnet-4-5`), by model name, or `"*"` for any model.
   * A model without a price is refused.
   */
  readonly prices: { readonly [model: string]: Price }
}

/** Price per million tokens. */
export interface Price {
  readonly input: number
  readonly output: number
  /** For tokens read from a cache. Default: `input`. */
  readonly cachedInput?: number | undefined
  /**
   * For tokens written to a cache. Default: 1.25 times `input`, the usual price of a five-minute cache. Providers
   * charge twice `input` for an hour.
   */
  readonly cacheWrite?: number | undefined
}

export const defaultTurns = 100

export const defaultAnswerChars = 1_000_000
