/** The report of a scenario. */
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"

/** One deviation from what was expected. */
export interface Difference {
  readonly where: string
  readonly expected: unknown
  readonly got: unknown
}

/** The result of one wave of a scenario. */
export interface WaveReport {
  /** Position of its step in the script, from 0. */
  readonly step: number
  /** The same as a path, which distinguishes concurrent waves. */
  readonly where: string
  /** Epoch milliseconds of its start. */
  readonly began: number
  readonly outcomes: ReadonlyArray<TimedOutcome>
  /** Virtual milliseconds until the wave ended. */
  readonly elapsed: number
  readonly events: ReadonlyArray<ToolEvent>
  /** Absent if the caller was interrupted. */
  readonly needsContinuation?: boolean
  readonly shouldExit?: boolean
  /** The process crashed during it; `outcomes` has those so far. */
  readonly died?: true
  /** The result of the agent whose waves these are. */
  readonly agent?: AgentReport
}

/** How the operation of an agent ended. */
export interface AgentReport {
  /** The tag of the reason. */
  readonly reason: string
  readonly turns: number
  /** The model's last text. */
  readonly text: string
}

/** An outcome with virtual times in milliseconds since the start of the wave. */
export interface TimedOutcome {
  /** Absent if the call never started. */
  readonly start?: number
  readonly end: number
  readonly outcome: ToolOutcome
}

/** The result of a scenario. */
export interface Report {
  readonly name: string
  /** The rules that were enforced. */
  readonly rules: ReadonlyArray<ToolRule>
  readonly waves: ReadonlyArray<WaveReport>
  /** Empty if everything matches. */
  readonly differences: ReadonlyArray<Difference>
}
