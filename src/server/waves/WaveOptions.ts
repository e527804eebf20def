/** Limits of the waves of a server, and their defaults. */
import {
  type Checked as Read,
  count,
  defaultsOf,
  millis,
  type Options as Given,
  read as readTable
} from "../../core/vocabulary/OptionTable.ts"

const table = {
  /** Sessions with an executor; more are refused. */
  maxSessions: count(1_000),
  maxSessionsPerUser: count(100),
  /** Running waves, including those that wait for approval; more are refused. */
  maxWaves: count(2_000),
  maxWavesPerUser: count(200),
  /** Calls of one message; a message with more is refused. */
  maxCalls: count(1_000),
  /** Tool events kept per wave, the latest ones. */
  keptEvents: count(1_000, 0),
  /** Characters of these events. */
  keptChars: count(1_000_000, 0),
  /**
   * Running calls of a user, and characters of their messages as JSON. More are refused, except for a user's only wave.
   */
  maxOpenCallsPerUser: count(4_000),
  maxOpenCharsPerUser: count(16_000_000),
  /** Characters of the messages of all running waves; more are refused. */
  maxOpenChars: count(64_000_000),
  /** Open turns; idle ones are parked until they are needed. */
  maxTurns: count(1_000),
  maxTurnsPerUser: count(100),
  /** Parked turns; one more ends the oldest. */
  maxTurnsAway: count(10_000),
  /** Idle time after which a turn is closed and its counts are deleted. */
  turnIdle: millis("1 hour"),
  /** How long an ended wave is listed and kept in memory. */
  listed: millis("10 minutes"),
  /** Ended waves in memory, the latest ones. */
  maxListed: count(1_000),
  /** Characters of the messages, results and events of these waves, as JSON. */
  listedChars: count(16_000_000, 0),
  /** How long the `WaveStore` keeps the results of an ended wave. */
  retention: millis("24 hours")
}

export interface Options extends Given<typeof table> {}

export type Checked = Read<typeof table>

export const defaults = defaultsOf(table)

/** Reads the options. Fails with all invalid ones. */
export const read = (options: Options) => readTable("Waves", table, options)
