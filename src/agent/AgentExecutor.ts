/**
 * The agent loop: calls a model, runs its tool calls as waves of an executor, and returns the results to it.
 *
 * A wave is all tool calls of one model message; it runs only after the message is complete. However the operation
 * ends, the history answers every call, or the end event lists those that are still open.
 *
 * **Example** (An agent)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { AgentExecutor } from "effect-tool-executor/agent"
 *
 * export const ask = (prompt: string) =>
 *   Effect.gen(function*() {
 *     const agents = yield* AgentExecutor.AgentExecutor
 *     yield* Stream.runForEach(agents.runOperation({ prompt }), (event) =>
 *       event._tag === "OperationEnd" ? Effect.log(event.text) : Effect.void)
 *   })
 * ```
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ToolExecutor } from "../core/engine/ToolExecutor.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { AgentEvent, OperationEnd } from "./AgentEvent.ts"
import type { Agent, Options } from "./AgentOptions.ts"
import * as Begin from "./OperationStart.ts"

export type { Agent, Mode, Options } from "./AgentOptions.ts"
export type { Compaction } from "./CompactionOptions.ts"

/** Runs operations of agents over an executor. */
export class AgentExecutor extends Context.Service<AgentExecutor, {
  /**
   * Runs an operation as a stream of events that ends with `OperationEnd`. Ending the stream early cancels the
   * operation. Fails with `ConfigurationError` before anything runs if an option is wrong.
   */
  readonly runOperation: <E = never, R = never>(
    options: Options<E, R>
  ) => Stream.Stream<AgentEvent, ConfigurationError | E, R>
  /** Runs an operation and returns its end. */
  readonly run: <E = never, R = never>(
    options: Options<E, R>
  ) => Effect.Effect<OperationEnd, ConfigurationError | E, R>
  /** Starts an operation that can be steered. Closing the scope ends it. */
  readonly start: <E = never, R = never>(
    options: Options<E, R>
  ) => Effect.Effect<Agent, ConfigurationError | E, Scope.Scope | R>
}>()("effect-tool-executor/agent/AgentExecutor") {}

/**
 * Creates the service from the executor and the model in the context.
 *
 * Uses `Approvals` if provided. Otherwise approval requests are answered through the handle of `start`, or, without a
 * handle, by the executor's approvers. Uses `Transcripts` for sessions if provided.
 */
export const make: Effect.Effect<
  AgentExecutor["Service"],
  never,
  ToolExecutor | LanguageModel.LanguageModel
> = Effect.map(Begin.around, (around) => {
  return {
    start: (options) => Begin.start(around, options, true),
    run: (options) => Effect.scoped(Begin.run(around, options)),
    runOperation: (options) => Stream.unwrap(Effect.map(Begin.start(around, options, false), (agent) => agent.events))
  }
})

export const layer: Layer.Layer<AgentExecutor, never, ToolExecutor | LanguageModel.LanguageModel> = Layer.effect(
  AgentExecutor,
  make
)
