/**
 * The bounds of an operation.
 *
 * What sub-agents spend counts for those that they work for as well: tokens, cost and calls of all of them have one
 * bound. Turns and time are each one's own.
 */
import type * as Duration from "effect/Duration"

/** Bounds of an operation. They are looked at before each request to the model; time ends whatever is under way. */
export interface AgentLimits {
  /** How often the model is asked. Default 100. */
  readonly turns?: number | undefined
  /** How many calls are started: one more is refused, and the end. Default: no bound. */
  readonly calls?: number | undefined
  /** Tokens, those that go in and those that come out. Default: no bound. */
  readonly tokens?: number | undefined
  /** How long it takes, without the time in which people are asked. Default: no bound. */
  readonly time?: Duration.Input | undefined
  /** What the tokens of the models cost. Default: no bound. */
  readonly cost?: Cost | undefined
}

/** A bound of what tokens cost, in whatever unit the prices have. */
export interface Cost {
  readonly max: number
  /**
   * By `provider:model`, such as `anthropic.messages:claude-sonnet-4-5`, by the name of the model alone, or `"*"` for
   * any: a model without a price is refused.
   */
  readonly prices: { readonly [model: string]: Price }
}

/** What a million tokens of a model cost. */
export interface Price {
  readonly input: number
  readonly output: number
  /** For tokens that are read from a cache. Default: as `input`. */
  readonly cachedInput?: number | undefined
  /**
   * For tokens that are written to a cache. Default: 1.25 times `input`, which is the price of the providers that count
   * them, for five minutes. An hour costs twice the `input` there.
   */
  readonly cacheWrite?: number | undefined
}

/** How often a model is asked if nothing is said of it. */
export const defaultTurns = 100
