/** Events of a wave that no executor can report on. */
import type * as ToolEvent from "../../core/facts/ToolEvent.ts"
import type { ToolCall } from "../../core/vocabulary/ToolCall.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import type { SubmittedWave } from "./WaveStore.ts"

/** A wave that is not running. */
export interface Lost {
  readonly submitted: SubmittedWave
  readonly calls: ReadonlyArray<ToolCall>
}

/** The end of a wave that cannot continue until the next start. */
export const suspended = (wave: Lost, at: number): ToolEvent.ToolEvent => ({
  ...originOf(wave),
  _tag: "WaveSuspended",
  sequence: 1,
  at,
  calls: wave.calls.map(({ id }) => id),
  executionResults: []
})

/** Outcomes of a wave without a record: its calls may have run. */
export const outcomes = ({ calls, submitted: { beganAt } }: Lost): ReadonlyArray<ToolOutcome.ToolOutcome> =>
  calls.map(({ id, name }, index) => ({
    _tag: "Unknown",
    callId: id,
    tool: name,
    index,
    attempt: 0,
    queuedAt: beganAt,
    startedAt: beganAt,
    commits: 0
  }))

/** Events for these outcomes. */
export const events = (
  wave: Lost,
  executionResults: ReadonlyArray<ToolOutcome.ToolOutcome>,
  at: number
): ReadonlyArray<ToolEvent.ToolEvent> => {
  const origin = originOf(wave)
  let sequence = 0
  return [
    ...wave.calls.map(({ id, malformed, name, params }, index): ToolEvent.ToolEvent => ({
      ...origin,
      _tag: "ToolCallQueued",
      callId: id,
      tool: name,
      index,
      sequence: ++sequence,
      at,
      params: malformed?.text ?? params
    })),
    ...executionResults.map((outcome): ToolEvent.ToolEvent => ({
      ...origin,
      _tag: "ToolCallComplete",
      callId: outcome.callId,
      tool: outcome.tool,
      index: outcome.index,
      sequence: ++sequence,
      at,
      outcome,
      dropped: 0
    })),
    {
      ...origin,
      _tag: "ToolsEnd",
      sequence: ++sequence,
      at,
      toolMessages: executionResults.map(ToolOutcome.toMessage),
      executionResults
    }
  ]
}

const originOf = ({ submitted: { turn, wave } }: Lost) => ({
  agentPath: [],
  batch: turn,
  process: wave,
  wave: 1
})
