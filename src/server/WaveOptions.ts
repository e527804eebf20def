/** Bounds of the waves of a server, and what holds where nothing is said. */
import type * as Duration from "effect/Duration"
import { readOptions } from "../core/vocabulary/ConfigurationError.ts"

/** Bounds of what the server takes and keeps. */
export interface Options {
  /** Sessions that have an executor at once; more are refused. */
  readonly maxSessions?: number | undefined
  readonly maxSessionsPerUser?: number | undefined
  /** Waves that run at once, those that wait for people included; more are refused. */
  readonly maxWaves?: number | undefined
  readonly maxWavesPerUser?: number | undefined
  /** Calls of one message; one with more is refused. */
  readonly maxCalls?: number | undefined
  /** Events of tools that are kept of one wave, the latest ones. */
  readonly keptEvents?: number | undefined
  /** Characters of them. */
  readonly keptChars?: number | undefined
  /**
   * Calls of the waves of one user that run at once, and characters of the messages that they came in, as JSON; more
   * are refused, but for a wave that is the only one.
   */
  readonly maxOpenCallsPerUser?: number | undefined
  readonly maxOpenCharsPerUser?: number | undefined
  /** Characters of all messages whose waves run; more are refused. */
  readonly maxOpenChars?: number | undefined
  /** Turns that are open at once; those in which nothing happened for longest are put away until they are needed. */
  readonly maxTurns?: number | undefined
  readonly maxTurnsPerUser?: number | undefined
  /** Turns that are put away; of more, the oldest are ended. */
  readonly maxTurnsAway?: number | undefined
  /** How long a turn is held open in which nothing runs: after that its counts are forgotten. */
  readonly turnIdle?: Duration.Input | undefined
  /** How long a wave that ended is listed, and in memory with the latest that its tools emitted. */
  readonly listed?: Duration.Input | undefined
  /** How many of those are, the latest ones. */
  readonly maxListed?: number | undefined
  /** Characters of the messages, results and events of all of those, as JSON. */
  readonly listedChars?: number | undefined
  /** How long a wave that ended is found again, with its results, in the `WaveStore`. */
  readonly retention?: Duration.Input | undefined
}

/** The defaults. */
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

/** Reads them; fails with every one that is none. */
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
