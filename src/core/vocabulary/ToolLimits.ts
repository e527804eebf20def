/**
 * Circuit breakers and rate limits of tools, as plain settings.
 *
 * A tool declares them as annotations, or the host sets them (`ToolAnnotations.CircuitBreaker`,
 * `ToolAnnotations.RateLimit`). The gates `CircuitBreakers` and `RateLimits` enforce them.
 */
import * as Duration from "effect/Duration"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"
import type { OptionReader } from "../../internal/OptionReader.ts"
import type { ToolOutcome } from "./ToolOutcome.ts"

/**
 * What happens to a call while the counting store is unreachable: it runs uncounted, or is refused
 * (`StoreUnavailable`).
 */
export type OnStoreError = "allow" | "refuse"

/** When calls of a tool are blocked because it keeps failing. */
export interface Circuit {
  /** Consecutive failures that open it. Default 5. */
  readonly failures?: number | undefined
  /** Opens at a failure rate of recent calls instead of at consecutive failures. */
  readonly rate?: {
    /** From 0 to 1. Default 0.5. */
    readonly threshold?: number | undefined
    /** Number of recent calls considered. Default 100. */
    readonly calls?: number | undefined
    /** Calls needed before it may open. Default `calls`. */
    readonly minimumCalls?: number | undefined
  } | undefined
  /**
   * How long it stays open before one trial call. With a schedule, its n-th delay applies to the n-th opening in a row.
   * Default 30 seconds.
   */
  readonly openFor?: Duration.Input | Schedule.Schedule<unknown, number> | undefined
  /**
   * Whether an outcome is a failure of the tool.
   *
   * Called for `Succeeded`, `Failed`, and `TimedOut` by the tool's own limit; other outcomes do not count. Default:
   * `TimedOut`, and `Failed` by a handler that fails or dies.
   */
  readonly isFailure?: ((outcome: ToolOutcome) => boolean) | undefined
  /** Default `"allow"`: a store outage does not stop working tools. */
  readonly onStoreError?: OnStoreError | undefined
}

/** How many calls may start in a period. */
export interface Rate {
  /** Number of calls; 1 or more. */
  readonly limit: number
  readonly window: Duration.Input
  /**
   * `"token-bucket"` adds a call every `window / limit`, up to `limit`. `"fixed-window"` allows `limit` calls per
   * window. Default `"token-bucket"`.
   */
  readonly algorithm?: "token-bucket" | "fixed-window" | undefined
  /** Default `"refuse"`: a store outage does not lift the limit. */
  readonly onStoreError?: OnStoreError | undefined
}

/** How many calls of one tool may start in a period. */
export interface ToolRate extends Rate {
  /** Whether principals share the limit or each has a separate one. Default `"everyone"`. */
  readonly per?: "everyone" | "principal" | undefined
}

export interface CheckedCircuit {
  readonly tripPolicy: CircuitBreaker.TripPolicy
  readonly openDuration: Duration.Input | Schedule.Schedule<unknown, number>
  readonly isFailure: (outcome: ToolOutcome) => boolean
  readonly onStoreError: OnStoreError
}

export interface CheckedRate {
  readonly limit: number
  readonly windowMillis: number
  readonly algorithm: "token-bucket" | "fixed-window"
  readonly onStoreError: OnStoreError
}

export interface CheckedToolRate extends CheckedRate {
  readonly per: "everyone" | "principal"
}

export const circuitDefaults = {
  failures: 5,
  openFor: "30 seconds",
  onStoreError: "allow",
  rate: { threshold: 0.5, calls: 100 }
} as const

export const rateDefaults = { algorithm: "token-bucket", onStoreError: "refuse", per: "everyone" } as const

/** Reads a circuit; problems go to the reader. */
export const circuit = (read: OptionReader, path: string, input: Circuit): CheckedCircuit => {
  const {
    failures = circuitDefaults.failures,
    isFailure = isTrouble,
    onStoreError = circuitDefaults.onStoreError,
    openFor = circuitDefaults.openFor,
    rate
  } = input
  return {
    tripPolicy: rate === undefined
      ? { _tag: "Consecutive", failures: read.count(`${path}.failures`, failures, 1) }
      : shareOf(read, `${path}.rate`, rate),
    openDuration: Schedule.isSchedule(openFor) ? openFor : Duration.millis(read.millis(`${path}.openFor`, openFor)),
    isFailure,
    onStoreError: read.oneOf(`${path}.onStoreError`, onStoreError, onStoreErrors)
  }
}

/** Reads a rate; problems go to the reader. */
export const rate = (read: OptionReader, path: string, input: Rate): CheckedRate => {
  const { algorithm = rateDefaults.algorithm, limit, onStoreError = rateDefaults.onStoreError, window } = input
  return {
    limit: read.count(`${path}.limit`, limit, 1),
    windowMillis: read.millis(`${path}.window`, window),
    algorithm: read.oneOf(`${path}.algorithm`, algorithm, ["token-bucket", "fixed-window"]),
    onStoreError: read.oneOf(`${path}.onStoreError`, onStoreError, onStoreErrors)
  }
}

/** Reads a tool's rate; problems go to the reader. */
export const toolRate = (read: OptionReader, path: string, input: ToolRate): CheckedToolRate => ({
  ...rate(read, path, input),
  per: read.oneOf(`${path}.per`, input.per ?? rateDefaults.per, ["everyone", "principal"])
})

const onStoreErrors: ReadonlyArray<OnStoreError> = ["allow", "refuse"]

const shareOf = (read: OptionReader, path: string, rate: NonNullable<Circuit["rate"]>): CircuitBreaker.TripPolicy => {
  const size = read.count(`${path}.calls`, rate.calls ?? circuitDefaults.rate.calls, 1)
  return {
    _tag: "Rate",
    threshold: read.share(`${path}.threshold`, rate.threshold ?? circuitDefaults.rate.threshold),
    size,
    minimumCalls: read.count(`${path}.minimumCalls`, rate.minimumCalls ?? size, 1, size)
  }
}

/** The tool could not do its work. An invalid output does not count: the tool did respond. */
const isTrouble = (outcome: ToolOutcome): boolean =>
  outcome._tag === "TimedOut" || (outcome._tag === "Failed" && outcome.origin !== "result")
