/**
 * A toolkit behind the executor: for `LanguageModel.generateText` and `streamText`, `Chat` and `McpServer`, with every
 * gate in between.
 *
 * Whatever becomes of a call is a result that the model reads; a call that is refused, fails, dies or hangs never fails
 * its siblings or the request. Calls of one request go in runs: reads side by side, a write alone.
 *
 * A tool name that the toolkit does not have fails the request before any handler: that is `effect/ai`'s own check.
 *
 * **Example** (Guarding a toolkit)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { LanguageModel, Tool, Toolkit } from "effect/ai"
 * import { ToolExecutor } from "effect-tool-executor"
 *
 * const kit = Toolkit.make(Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String }))
 *
 * export const answer = Effect.gen(function*() {
 *   const executor = yield* ToolExecutor.ToolExecutor
 *   const process = yield* executor.process()
 *   const toolkit = yield* process.guard(kit)
 *   return yield* LanguageModel.generateText({ prompt: "Find fish", toolkit })
 * }).pipe(Effect.scoped)
 * ```
 */
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Effect from "effect/Effect"

/**
 * A toolkit whose calls go through an executor. It needs no handlers, and cannot be merged again: guard what was
 * merged.
 */
export interface GuardedToolkit<Tools extends Record<string, Tool.Any>>
  extends Effect.Effect<Toolkit.WithHandler<Tools>>
{
  readonly tools: Tools
}

/** The result of a call, as a part of a response. */
export type ResultPart = Response.ToolResultPart<string, unknown, unknown>
