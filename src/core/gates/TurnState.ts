/**
 * What a process remembers between its waves, as plain data: kept with a record of the conversation, a process can be
 * begun from it that goes on where this one was (`ToolProcess.state`, and `state` of `ToolExecutor.process`).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Remembered } from "../rules/RuleHistory.ts"
import { ConfigurationError, validateStrict } from "../vocabulary/ConfigurationError.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * What a process remembers between its waves.
 *
 * Of calls that have no outcome yet there is nothing in it but that they are counted: what had started and has no end
 * is on record elsewhere (`Journal`). Counts of a batch, cooldowns, equal calls and grants are the `StateStore`'s.
 * Whether the process was cancelled and how much of its time is over is not the state's: who goes on from it wants it
 * to go on, and gives a `turn`.
 */
export const TurnState = Schema.Struct({
  rules: Remembered,
  /** Tools that are not to be called again, and why. */
  blocked: Schema.Array(Schema.Struct({ tool: Schema.String, because: Schema.String })),
  /** The id under which limits of the process count, if there are any. */
  process: Schema.optionalKey(Schema.String),
  /** Calls that count towards `maxCalls` of the turn. */
  calls: Count
})

/** What a process remembers between its waves. */
export type TurnState = typeof TurnState.Type

/** Fails with everything that is wrong with a state that may come from a record. */
export const check = (state: TurnState, subject: string): Effect.Effect<TurnState, ConfigurationError> => {
  const problems = validateStrict(TurnState, state, "state")
  return problems.length === 0 ? Effect.succeed(state) : Effect.fail(new ConfigurationError({ subject, problems }))
}
