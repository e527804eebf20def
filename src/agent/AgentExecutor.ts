/**
 * The loop: asks a model, runs the calls that it makes as waves of an executor, tells it what became of them, until it
 * is done.
 *
 * No call runs before the model has said all of its turn. However an operation ends, every call in its history has an
 * answer, so that the conversation can go on, with this model or another one.
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

/** Runs operations of agents over an executor. */
export class AgentExecutor extends Context.Service<AgentExecutor, {
  /**
   * Runs an operation as a stream of what happens; `OperationEnd` is last. The stream owns the operation: ending it
   * early cancels it. Fails where an option is wrong, before anything has run.
   */
  readonly runOperation: <E = never, R = never>(
    options: Options<E, R>
  ) => Stream.Stream<AgentEvent, ConfigurationError | E, R>
  /** Runs an operation to its end. */
  readonly run: <E = never, R = never>(
    options: Options<E, R>
  ) => Effect.Effect<OperationEnd, ConfigurationError | E, R>
  /** Begins an operation that can be steered; closing the scope ends it. */
  readonly start: <E = never, R = never>(
    options: Options<E, R>
  ) => Effect.Effect<Agent, ConfigurationError | E, Scope.Scope | R>
}>()("effect-tool-executor/agent/AgentExecutor") {}

/**
 * Creates the service from the executor and the model in the context, with `Approvals` (else people answer by the
 * handle that `start` gives; without one those are asked whom the executor asks), and `Transcripts` for sessions, if
 * there are any.
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

/** Layer of the service. */
export const layer: Layer.Layer<AgentExecutor, never, ToolExecutor | LanguageModel.LanguageModel> = Layer.effect(
  AgentExecutor,
  make
)
