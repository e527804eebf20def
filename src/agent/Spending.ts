/** What an operation and those above it have used of their limits. */
import type * as Response from "effect/ai/Response"
import * as Predicate from "effect/Predicate"
import { CallCounter } from "../core/gates/TurnBudget.ts"
import type { OptionReader } from "../internal/OptionReader.ts"
import type { EndReason, Usage } from "./AgentEvent.ts"
import { type AgentLimits, type Cost, defaultAnswerChars, defaultTurns, type Price } from "./AgentLimits.ts"
import type { ModelId, Origin } from "./Conversation.ts"
import type { Used } from "./TranscriptTree.ts"

/** Limits as numbers; `Infinity` means no limit. */
export interface Checked {
  readonly turns: number
  readonly calls: number
  readonly tokens: number
  readonly timeMillis: number
  readonly cost: Cost | undefined
  readonly answerChars: number
}

/** Every limit. */
const names: { readonly [K in keyof Required<AgentLimits>]: true } = {
  turns: true,
  calls: true,
  tokens: true,
  time: true,
  cost: true,
  answerChars: true
}

/** Reads limits and records their problems. */
export const read = (reader: OptionReader, limits: AgentLimits = {}): Checked => {
  const { cost } = limits
  reader.known("limits", limits, names)
  const atLeastOne = (name: string, value: number | undefined, otherwise: number) =>
    value === undefined ? otherwise : reader.atLeast(`limits.${name}`, value, 1)
  if (cost !== undefined) {
    if (!(cost.max > 0)) {
      reader.problems.push({ path: "limits.cost.max", problem: `it is ${cost.max}`, expected: "a number above zero" })
    }
    if (!Predicate.isObject(cost.prices)) {
      reader.problems.push({
        path: "limits.cost.prices",
        problem: "there are none",
        expected: "the price of each model"
      })
    }
    for (const [model, price] of Object.entries(cost.prices ?? {})) {
      for (const part of ["input", "output", "cachedInput", "cacheWrite"] as const) {
        const value = price?.[part]
        if (value === undefined && (part === "cachedInput" || part === "cacheWrite")) continue
        if (typeof value === "number" && value >= 0 && Number.isFinite(value)) continue
        reader.problems.push({
          path: `limits.cost.prices[${JSON.stringify(model)}].${part}`,
          problem: `it is ${String(value)}`,
          expected: "the price of a million tokens, zero or more"
        })
      }
    }
  }
  return {
    turns: atLeastOne("turns", limits.turns, defaultTurns),
    calls: atLeastOne("calls", limits.calls, Infinity),
    tokens: atLeastOne("tokens", limits.tokens, Infinity),
    timeMillis: limits.time === undefined ? Infinity : reader.millis("limits.time", limits.time),
    cost,
    answerChars: atLeastOne("answerChars", limits.answerChars, defaultAnswerChars)
  }
}

/** The price of a model, if there is one. */
export const priceOf = ({ prices }: Cost, { model, provider }: ModelId): Price | undefined => {
  const name = [`${provider}:${model}`, model, "*"].find((it) => Object.hasOwn(prices, it))
  return name === undefined ? undefined : prices[name]
}

export class Spending {
  readonly limits: Checked
  readonly calls: CallCounter
  /** The operation above. */
  private readonly above: Spending | undefined
  turns = 0
  private input = 0
  private output = 0
  private cached = 0
  private written = 0
  private cost = 0
  /** Used by the operation it resumes. Counts toward its limits, but not as its own usage. */
  private before = { turns: 0, tokens: 0, cost: 0 }

  constructor(limits: Checked, above?: Spending) {
    this.limits = limits
    this.above = above
    this.calls = new CallCounter(limits.calls, above?.calls)
  }

  get usage(): Usage {
    return {
      inputTokens: this.input,
      outputTokens: this.output,
      cachedInputTokens: this.cached,
      cacheWriteInputTokens: this.written
    }
  }

  /** The turn it is in, after those of the operation it resumes. */
  get turn(): number {
    return this.before.turns + this.turns
  }

  /** Whether this or an operation above limits cost without a price for the model. */
  unpriced(model: ModelId): boolean {
    const { cost } = this.limits
    return (cost !== undefined && priceOf(cost, model) === undefined) || this.above?.unpriced(model) === true
  }

  /** Whether this or an operation above has a limit that depends on reported usage. */
  meters(model: ModelId): boolean {
    const { cost, tokens } = this.limits
    const price = cost && priceOf(cost, model)
    const isPaid = price !== undefined && price.input + price.output > 0
    return tokens < Infinity || isPaid || this.above?.meters(model) === true
  }

  spend(usage: Usage, model: ModelId): void {
    this.input += usage.inputTokens
    this.output += usage.outputTokens
    this.cached += usage.cachedInputTokens
    this.written += usage.cacheWriteInputTokens
    this.cost += this.costOf(usage, model)
    this.above?.spend(usage, model)
  }

  /** Continues an operation that had these turns and summaries, and whose sub-agents have used this. */
  goesOn(turns: ReadonlyArray<Origin>, below: Used, summaries: ReadonlyArray<Origin>): void {
    const before = { turns: turns.length, tokens: 0, cost: 0 }
    this.calls.take(below.calls)
    for (const { usage, ...model } of [...turns, ...summaries, ...below.turns]) {
      if (usage === undefined) continue
      before.tokens += usage.inputTokens + usage.outputTokens
      before.cost += this.costOf(usage, model)
    }
    this.before = before
  }

  private costOf(usage: Usage, model: ModelId): number {
    const { cost } = this.limits
    const price = cost && priceOf(cost, model)
    return price === undefined ? 0 : costOf(usage, price)
  }

  /** The limit that is reached, if any. */
  reached(): Extract<EndReason, { readonly _tag: "LimitReached" }> | undefined {
    const { limits } = this
    if (this.turn >= limits.turns) return { _tag: "LimitReached", limit: "turns", max: limits.turns }
    return this.spent()
  }

  /** The limit of tokens or cost that is reached, if any. */
  spent(): Extract<EndReason, { readonly _tag: "LimitReached" }> | undefined {
    const { before, limits } = this
    if (before.tokens + this.input + this.output >= limits.tokens) {
      return { _tag: "LimitReached", limit: "tokens", max: limits.tokens }
    }
    if (limits.cost !== undefined && before.cost + this.cost >= limits.cost.max) {
      return { _tag: "LimitReached", limit: "cost", max: limits.cost.max }
    }
    return this.above?.spent()
  }
}

/** The usage a model reports. */
export const usageOf = (usage: Response.Usage | undefined): Usage => {
  const { inputTokens, outputTokens } = usage ?? { inputTokens: undefined, outputTokens: undefined }
  // ignore negative counts from a server
  const count = (value: number | undefined) => Math.max(0, value ?? 0)
  const [read, written] = [count(inputTokens?.cacheRead), count(inputTokens?.cacheWrite)]
  const total = inputTokens?.total === undefined
    ? count(inputTokens?.uncached) + read + written
    : count(inputTokens.total)
  return {
    // some providers count cached tokens separately
    inputTokens: total < read + written ? total + read + written : total,
    outputTokens: count(outputTokens?.total ?? (outputTokens?.text ?? 0) + (outputTokens?.reasoning ?? 0)),
    cachedInputTokens: read,
    cacheWriteInputTokens: written
  }
}

export const sum = (one: Usage | undefined, other: Usage): Usage =>
  one === undefined ? other : {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
    cacheWriteInputTokens: one.cacheWriteInputTokens + other.cacheWriteInputTokens
  }

/** The cost of tokens, in the unit of the price. */
export const costOf = (
  { cacheWriteInputTokens, cachedInputTokens, inputTokens, outputTokens }: Usage,
  { cacheWrite, cachedInput, input, output }: Price
): number => {
  const plain = inputTokens - cachedInputTokens - cacheWriteInputTokens
  return (plain * input + cachedInputTokens * (cachedInput ?? input) +
    cacheWriteInputTokens * (cacheWrite ?? 1.25 * input) + outputTokens * output) / 1_000_000
}
