/**
 * What protects a tool, and those who call it, from trouble that lasts: when it is not to be called for a while, and
 * how often it may be called.
 *
 * Plain settings, as an annotation of the tool or the host gives them (`ToolAnnotations.CircuitBreaker`,
 * `ToolAnnotations.RateLimit`). The gates that hold them are `CircuitBreakers` and `RateLimits`.
 */
import * as Duration from "effect/Duration"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"
import type { OptionReader } from "../../internal/OptionReader.ts"
import type { ToolOutcome } from "./ToolOutcome.ts"

/**
 * What a call gets while the store that counts cannot be reached: it runs as if nothing were counted, or it is refused
 * (`StoreUnavailable`).
 */
export type OnStoreError = "allow" | "refuse"

/** When a tool is not to be called for a while, because it keeps failing. */
export interface Circuit {
  /** So many failures in a row open it. Default 5. */
  readonly failures?: number | undefined
  /** A share of failures among the last calls opens it, instead of failures in a row. */
  readonly rate?: {
    /** From 0 to 1. Default 0.5. */
    readonly threshold?: number | undefined
    /** How many of the last calls are looked at. Default 100. */
    readonly calls?: number | undefined
    /** So many have to be there before it may open. Default `calls`. */
    readonly minimumCalls?: number | undefined
  } | undefined
  /**
   * How long it stays open before one call may try whether the tool works again. Of a schedule, the n-th opening in a
   * row lasts its n-th delay. Default 30 seconds.
   */
  readonly openFor?: Duration.Input | Schedule.Schedule<unknown, number> | undefined
  /**
   * Tells whether an outcome counts against the tool; what does not, counts for it. Asked about `Succeeded`, `Failed`
   * and `TimedOut` by a limit of the tool's alone: refusals, cancellations, the end of the turn and what never started
   * count neither way. Default: `TimedOut`, and `Failed` of a handler that fails or dies.
   */
  readonly isFailure?: ((outcome: ToolOutcome) => boolean) | undefined
  /** Default `"allow"`: a store that is down does not stop tools that work. */
  readonly onStoreError?: OnStoreError | undefined
}

/** How many calls may start within a time. */
export interface Rate {
  /** So many calls; 1 or more. */
  readonly limit: number
  /** Within this time. */
  readonly window: Duration.Input
  /**
   * `"token-bucket"`: a call more every `window / limit`, up to `limit` at once. `"fixed-window"`: `limit` calls, then
   * none until the time of all of them is over. Default `"token-bucket"`.
   */
  readonly algorithm?: "token-bucket" | "fixed-window" | undefined
  /** Default `"refuse"`: nobody is to exceed a limit because nothing counts. */
  readonly onStoreError?: OnStoreError | undefined
}

/** How many calls of one tool may start within a time. */
export interface ToolRate extends Rate {
  /** Whether all principals share the limit, or each has one of its own. Default `"everyone"`. */
  readonly per?: "everyone" | "principal" | undefined
}

/** A circuit with its defaults. */
export interface CheckedCircuit {
  readonly tripPolicy: CircuitBreaker.TripPolicy
  readonly openDuration: Duration.Input | Schedule.Schedule<unknown, number>
  readonly isFailure: (outcome: ToolOutcome) => boolean
  readonly onStoreError: OnStoreError
}

/** A rate with its defaults. */
export interface CheckedRate {
  readonly limit: number
  readonly windowMillis: number
  readonly algorithm: "token-bucket" | "fixed-window"
  readonly onStoreError: OnStoreError
}

/** The rate of a tool with its defaults. */
export interface CheckedToolRate extends CheckedRate {
  readonly per: "everyone" | "principal"
}

/** What holds where a circuit says nothing. */
export const circuitDefaults = {
  failures: 5,
  openFor: "30 seconds",
  onStoreError: "allow",
  rate: { threshold: 0.5, calls: 100 }
} as const

/** What holds where a rate says nothing. */
export const rateDefaults = { algorithm: "token-bucket", onStoreError: "refuse", per: "everyone" } as const

/** Reads a circuit; what is wrong with it is in the reader. */
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

/** Reads a rate; what is wrong with it is in the reader. */
export const rate = (read: OptionReader, path: string, input: Rate): CheckedRate => {
  const { algorithm = rateDefaults.algorithm, limit, onStoreError = rateDefaults.onStoreError, window } = input
  return {
    limit: read.count(`${path}.limit`, limit, 1),
    windowMillis: read.millis(`${path}.window`, window),
    algorithm: read.oneOf(`${path}.algorithm`, algorithm, ["token-bucket", "fixed-window"]),
    onStoreError: read.oneOf(`${path}.onStoreError`, onStoreError, onStoreErrors)
  }
}

/** Reads the rate of a tool; what is wrong with it is in the reader. */
export const toolRate = (read: OptionReader, path: string, input: ToolRate): CheckedToolRate => ({
  ...rate(read, path, input),
  per: read.oneOf(`${path}.per`, input.per ?? rateDefaults.per, ["everyone", "principal"])
})

// Utilities

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

/** The tool was reached and could not do its work: its output may be odd, but it has given one. */
const isTrouble = (outcome: ToolOutcome): boolean =>
  outcome._tag === "TimedOut" || (outcome._tag === "Failed" && outcome.origin !== "result")
