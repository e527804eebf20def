/** Limits of the waves of a server, and their defaults. */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import { readOptions } from "../core/vocabulary/ConfigurationError.ts"

export interface Options {
  /** Sessions with an executor; more are refused. */
  readonly maxSessions?: number | undefined
  readonly maxSessionsPerUser?: number | undefined
  /** Running waves, including those that wait for approval; more are refused. */
  readonly maxWaves?: number | undefined
  readonly maxWavesPerUser?: number | undefined
  /** Calls of one message; a message with more is refused. */
  readonly maxCalls?: number | undefined
  /** Tool events kept per wave, the latest ones. */
  readonly keptEvents?: number | undefined
  /** Characters of these events. */
  readonly keptChars?: number | undefined
  /**
   * Running calls of a user, and characters of their messages as JSON. More are refused, except for a user's only wave.
   */
  readonly maxOpenCallsPerUser?: number | undefined
  readonly maxOpenCharsPerUser?: number | undefined
  /** Characters of the messages of all running waves; more are refused. */
  readonly maxOpenChars?: number | undefined
  /** Open turns; idle ones are parked until they are needed. */
  readonly maxTurns?: number | undefined
  readonly maxTurnsPerUser?: number | undefined
  /** Parked turns; one more ends the oldest. */
  readonly maxTurnsAway?: number | undefined
  /** Idle time after which a turn is closed and its counts are deleted. */
  readonly turnIdle?: Duration.Input | undefined
  /** How long an ended wave is listed and kept in memory. */
  readonly listed?: Duration.Input | undefined
  /** Ended waves in memory, the latest ones. */
  readonly maxListed?: number | undefined
  /** Characters of the messages, results and events of these waves, as JSON. */
  readonly listedChars?: number | undefined
  /** How long the `WaveStore` keeps the results of an ended wave. */
  readonly retention?: Duration.Input | undefined
}

export const defaults = {
  maxSessions: 1_000,
  maxSessionsPerUser: 100,
  maxWaves: 2_000,
  maxWavesPerUser: 200,
  maxCalls: 1_000,
  keptEvents: 1_000,
  keptChars: 1_000_000,
  maxOpenCallsPerUser: 4_000,
  maxOpenCharsPerUser: 16_000_000,
  maxOpenChars: 64_000_000,
  maxTurns: 1_000,
  maxTurnsPerUser: 100,
  maxTurnsAway: 10_000,
  turnIdle: "1 hour",
  listed: "10 minutes",
  maxListed: 1_000,
  listedChars: 16_000_000,
  retention: "24 hours"
} as const satisfies Options

/** Reads the options. Fails with all invalid ones. */
export const read = (options: Options) =>
  readOptions("Waves", (read) => {
    const given = { ...defaults, ...options }
    const count = (name: Extract<keyof typeof defaults, `max${string}`>) =>
      read.count(name, given[name] ?? defaults[name], 1)
    return {
      maxSessions: count("maxSessions"),
      maxSessionsPerUser: count("maxSessionsPerUser"),
      maxWaves: count("maxWaves"),
      maxWavesPerUser: count("maxWavesPerUser"),
      maxCalls: count("maxCalls"),
      maxOpenCallsPerUser: count("maxOpenCallsPerUser"),
      maxOpenCharsPerUser: count("maxOpenCharsPerUser"),
      maxOpenChars: count("maxOpenChars"),
      maxTurns: count("maxTurns"),
      maxTurnsPerUser: count("maxTurnsPerUser"),
      maxTurnsAway: count("maxTurnsAway"),
      keptEvents: read.count("keptEvents", given.keptEvents ?? defaults.keptEvents, 0),
      keptChars: read.count("keptChars", given.keptChars ?? defaults.keptChars, 0),
      turnIdle: read.millis("turnIdle", given.turnIdle ?? defaults.turnIdle),
      listed: read.millis("listed", given.listed ?? defaults.listed),
      maxListed: count("maxListed"),
      listedChars: read.count("listedChars", given.listedChars ?? defaults.listedChars, 0),
      retention: read.millis("retention", given.retention ?? defaults.retention)
    }
  })

export type Checked = Effect.Success<ReturnType<typeof read>>
