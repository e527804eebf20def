/** The report of a scenario. */
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"

/** One thing that is not as expected. */
export interface Difference {
  readonly where: string
  readonly expected: unknown
  readonly got: unknown
}

/** One wave of a scenario as it went. */
export interface WaveReport {
  /** Place of its step in the script, from 0. */
  readonly step: number
  /** The same as a path, which tells waves side by side apart. */
  readonly where: string
  /** Epoch milliseconds at which it began. */
  readonly began: number
  readonly outcomes: ReadonlyArray<TimedOutcome>
  /** Virtual milliseconds till the wave ended. */
  readonly elapsed: number
  readonly events: ReadonlyArray<ToolEvent>
  /** Absent if nobody was told: the caller was interrupted. */
  readonly needsContinuation?: boolean
  readonly shouldExit?: boolean
  /** The process died in it: outcomes are those that there were by then. */
  readonly died?: true
  /** What became of the agent whose waves these are. */
  readonly agent?: AgentReport
}

/** How the operation of an agent ended. */
export interface AgentReport {
  /** The tag of the reason. */
  readonly reason: string
  readonly turns: number
  /** What the model said last. */
  readonly text: string
}

/** An outcome with its virtual times in milliseconds since the wave began. */
export interface TimedOutcome {
  /** Absent if the call never started. */
  readonly start?: number
  readonly end: number
  readonly outcome: ToolOutcome
}

/** A scenario as it went. */
export interface Report {
  readonly name: string
  /** The rules that were enforced. */
  readonly rules: ReadonlyArray<ToolRule>
  readonly waves: ReadonlyArray<WaveReport>
  /** Empty if everything holds. */
  readonly differences: ReadonlyArray<Difference>
}
