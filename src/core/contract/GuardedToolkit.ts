/**
 * A toolkit for `LanguageModel.generateText`, `streamText`, `Chat` and `McpServer` whose calls go through all gates.
 *
 * A call that is refused, fails, dies or hangs is a result the model reads; it never fails its siblings or the request.
 * Reads of one request overlap, and a write runs alone.
 *
 * Only an unknown tool name fails the request, by `effect/ai`'s own check.
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

/** A toolkit whose calls go through an executor. It needs no handlers and cannot be merged: merge first, then guard. */
export interface GuardedToolkit<Tools extends Record<string, Tool.Any>>
  extends Effect.Effect<Toolkit.WithHandler<Tools>>
{
  readonly tools: Tools
}

/** A call's result as a response part. */
export type ResultPart = Response.ToolResultPart<string, unknown, unknown>
