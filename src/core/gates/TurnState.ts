/**
 * What a process remembers between its waves, as plain data: kept with a record of
 * the conversation, a process can be begun from it that goes on where this one was
 * (`ToolProcess.state`, and `state` of `ToolExecutor.process`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { kinds } from "../rules/ToolRule.ts"
import { ConfigurationError, validateStrict } from "../vocabulary/ConfigurationError.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * What rules remember of a process.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Remembered = Schema.Struct({
  /** Tools that succeeded in the process. */
  succeeded: Schema.Array(Schema.String),
  /** Tools that succeeded in any process of its batch. */
  succeededInBatch: Schema.Array(Schema.String),
  /** The last success in input order, where some rule asks for it. */
  last: Schema.optionalKey(Schema.Struct({
    tool: Schema.String,
    /** What `Conditional` rules made of its output: only these tools may be next. */
    routes: Schema.Array(Schema.Struct({ rule: kinds.Conditional, tools: Schema.Array(Schema.String) }))
  })),
  /** An `ExitLoop` tool succeeded. */
  exitWanted: Schema.Boolean,
  /** Waves at whose end a required tool held up the end of the loop. */
  held: Count,
  /** It was held up often enough: the required tools are waited for no longer. */
  letThrough: Schema.Boolean
})

/**
 * What rules remember of a process.
 *
 * @category models
 * @since 0.1.0
 */
export type Remembered = typeof Remembered.Type

/**
 * What a process remembers between its waves.
 *
 * **Details**
 *
 * Of calls that have no outcome yet there is nothing in it but that they are counted:
 * what had started and has no end is on record elsewhere (`Journal`). Counts of a
 * batch, cooldowns, equal calls and grants are the `StateStore`'s. Whether the process
 * was cancelled and how much of its time is over is not the state's: who goes on from
 * it wants it to go on, and gives a `turn`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const TurnState = Schema.Struct({
  rules: Remembered,
  /** Tools that are not to be called again, and why. */
  blocked: Schema.Array(Schema.Struct({ tool: Schema.String, because: Schema.String })),
  /** Calls that count towards `maxCalls` of the turn. */
  calls: Count
})

/**
 * What a process remembers between its waves.
 *
 * @category models
 * @since 0.1.0
 */
export type TurnState = typeof TurnState.Type

/**
 * Fails with everything that is wrong with a state that may come from a record.
 *
 * @category decoding
 * @internal
 */
export const check = (state: TurnState, subject: string): Effect.Effect<TurnState, ConfigurationError> => {
  const problems = validateStrict(TurnState, state, "state")
  return problems.length === 0 ? Effect.succeed(state) : Effect.fail(new ConfigurationError({ subject, problems }))
}
