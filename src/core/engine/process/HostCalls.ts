/**
 * Calls that the host makes because rules require them: start tools, and tools required before exit. They pass the same
 * gates as a model's calls.
 */
import * as Effect from "effect/Effect"
import type { HostArguments } from "../../contract/ToolProcess.ts"
import * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import * as Received from "../data/Received.ts"

/** Whether there are arguments for a tool; unreadable ones count as missing. */
export const has = (args: HostArguments, tool: string): boolean => {
  try {
    return Object.hasOwn(args, tool)
  } catch {
    return false
  }
}

/**
 * Calls tools in one wave, then retries retryable failures, up to `attempts` times in total. Returns the last outcome
 * of each tool.
 */
export const run = Effect.fnUntraced(function*(
  tools: ReadonlyArray<string>,
  args: HostArguments,
  attempts: number,
  makeId: () => string,
  execute: (calls: ReadonlyArray<Received.Received>) => Effect.Effect<ToolOutcome.WaveResult>
): Effect.fn.Return<ToolOutcome.WaveResult> {
  const callsOf = (names: ReadonlyArray<string>) =>
    Received.wave(names.map((name) => ({
      id: makeId(),
      name,
      get params() {
        return has(args, name) ? args[name] : {}
      }
    })))
  let wave = yield* execute(callsOf(tools))
  const last = new Map(wave.outcomes.map((outcome) => [outcome.tool, outcome]))
  for (let attempt = 1; attempt < attempts; attempt++) {
    const again = tools.filter((tool) => isWorthARetry(last.get(tool)))
    if (again.length === 0) break
    wave = yield* execute(callsOf(again))
    for (const outcome of wave.outcomes) last.set(outcome.tool, outcome)
  }
  const outcomes = tools.map((tool, index) => ({ ...last.get(tool)!, index }))
  return { ...wave, outcomes, toolMessages: outcomes.map(ToolOutcome.toMessage) }
})

const isWorthARetry = (outcome: ToolOutcome.ToolOutcome | undefined): boolean =>
  (outcome?._tag === "Failed" || outcome?._tag === "TimedOut") && outcome.retryable
