/**
 * Connects the AI SDK (`ai`): its tools in our executor (`fromTools`), our executor behind its loops (`toTools`), and
 * the models of its provider packages as `LanguageModel` of `effect/ai` (`layerLanguageModel`).
 *
 * Only this module needs the package `ai`.
 *
 * **Example** (Keeping the loop of the AI SDK)
 *
 * ```ts
 * import { generateText, isStepCount, type LanguageModel } from "ai"
 * import { Effect } from "effect"
 * import { ToolExecutor } from "effect-tool-executor"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 *
 * export const answer = (model: LanguageModel, prompt: string) =>
 *   Effect.gen(function*() {
 *     const executor = yield* ToolExecutor.ToolExecutor
 *     const process = yield* executor.process()
 *     const tools = yield* AiSdk.toTools(process)
 *     return yield* Effect.tryPromise((abortSignal) =>
 *       generateText({ model, prompt, tools, abortSignal, stopWhen: isStepCount(10) })
 *     )
 *   }).pipe(Effect.scoped)
 * ```
 */
import {
  dynamicTool,
  type InferToolInput,
  type InferToolOutput,
  type Tool as SdkTool,
  type ToolExecuteFunction,
  type ToolSet
} from "ai"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { direct, guarded, Runner, type Shown } from "./AiSdkRunner.ts"
import * as AiSdkTools from "./AiSdkTools.ts"
import * as Guard from "./Guard.ts"
import type * as PlainTool from "./PlainTool.ts"

export { layerLanguageModel, type LayerOptions, type ProviderModel } from "./AiSdkModel.ts"
export { ModelOptions, ToolOptions } from "./AiSdkModelCall.ts"

/** Options of `guard`, and what it returns. */
export type { Settings } from "./AiSdkTools.ts"
export type { Approval, Guarded, Options as GuardOptions, Request as GuardedRequest } from "./Guard.ts"

/**
 * Makes the toolkit and handlers of AI SDK tools.
 *
 * - The SDK's schema validates arguments; `execute` gets its result, with defaults and transformations.
 * - If `execute` throws, the tool fails, and the model reads the message without a stack.
 * - Values yielded before the last are partial output (`ToolContext.partial`).
 * - `strict`, `providerOptions` and `inputExamples` become annotations, used by `layerLanguageModel` and `toTools`.
 * - `needsApproval` requests approval, also if it throws.
 * - `toModelOutput` decides what the model sees. If it throws, the outcome is `Failed` with origin `result`, because
 * the tool has run.
 * - Tools without `execute` run at the provider or client and are left out.
 *
 * Fails with one `ConfigurationError` that lists every problem.
 *
 * **Example** (Taking tools)
 *
 * ```ts
 * import { tool } from "ai"
 * import { Effect, Layer } from "effect"
 * import { LocalExecutor } from "effect-tool-executor"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 * import { z } from "zod"
 *
 * const tools = {
 *   search: tool({
 *     description: "Finds documents",
 *     inputSchema: z.object({ query: z.string(), limit: z.number().default(5) }),
 *     execute: async ({ limit, query }) => [`${query}.md`].slice(0, limit)
 *   })
 * }
 *
 * export const Executor = Layer.unwrap(Effect.map(
 *   AiSdk.fromTools(tools, { search: { readOnly: true, timeout: "10 seconds" } }),
 *   ({ layer, toolkit }) => LocalExecutor.layer(toolkit).pipe(Layer.provide(layer))
 * ))
 * ```
 */
export const fromTools = Effect.fnUntraced(function*<const Tools extends ToolSet>(
  tools: Tools,
  settings: { readonly [N in keyof Tools]?: AiSdkTools.Settings | undefined } = {}
): Effect.fn.Return<{
  readonly toolkit: Toolkit.Toolkit<TakenTools<Tools>>
  readonly layer: Layer.Layer<Tool.HandlersFor<TakenTools<Tools>>>
}, ConfigurationError> {
  return (yield* AiSdkTools.read("AiSdk.fromTools", tools as never, settings, false)) as never
})

/** AI SDK tools as tools of a toolkit, with the types of their inputs and outputs. */
export type TakenTools<Tools extends ToolSet> = {
  readonly [N in keyof Tools & string]: Tools[N] extends SdkTool
    ? PlainTool.PlainTool<N, InferToolInput<Tools[N]>, InferToolOutput<Tools[N]>>
    : PlainTool.PlainTool<N>
}

/** An AI SDK tool with `execute`. */
export type FunctionTool<Input, Output> =
  & SdkTool<Input, Output, Record<string, unknown>>
  & { execute: ToolExecuteFunction<Input, Output, Record<string, unknown>> }

/** The tools of a toolkit as typed AI SDK tools. */
export type ToolsOf<Tools extends Record<string, Tool.Any>> = {
  [N in keyof Tools]: FunctionTool<Tool.ParametersEncoded<Tools[N]>, Tool.SuccessEncoded<Tools[N]>>
}

/**
 * Makes AI SDK tools whose calls go through a process with every gate: all tools the executor shows, or the typed tools
 * of a toolkit.
 *
 * - Reads of a step overlap, and a write runs alone, in order. Steps of other requests do not wait for each other.
 * - A call that does not succeed throws `ToolExecutionError`, which the SDK turns into a `tool-error` part. The model
 * reads the executor's text, and other calls continue.
 * - The result is the full encoded output; the model reads the executor's limited text (`toModelOutput`).
 * - The SDK's `abortSignal` ends the call. The executor handles approval; `needsApproval` is not set.
 * - Partial output is in `process.events`.
 *
 * Fails if the executor lacks a tool of the toolkit. Calls of a tool that the policy denies are refused.
 */
export const toTools: {
  (process: ToolProcess): Effect.Effect<Record<string, ReturnType<typeof dynamicTool>>>
  <Tools extends Record<string, Tool.Any>>(
    process: ToolProcess,
    toolkit: { readonly tools: Tools }
  ): Effect.Effect<ToolsOf<Tools>, ConfigurationError>
} = Effect.fnUntraced(function*(
  process: ToolProcess,
  toolkit?: { readonly tools: Record<string, Tool.Any> }
) {
  // the SDK submits calls one by one
  yield* process.step
  // fails for tools the executor does not have
  if (toolkit !== undefined) yield* Effect.asVoid(process.guard(toolkit))
  const runner = new Runner(direct(process, yield* Effect.context<never>()))
  const shown = yield* process.tools
  if (toolkit === undefined) return Object.fromEntries(shown.map((it) => [it.name, dynamicTool(runner.tool(it))]))
  return Object.fromEntries(
    Object.values(toolkit.tools).map((tool) => [
      tool.name,
      runner.tool(shown.find((it) => it.name === tool.name) ?? unseen(tool))
    ])
  )
}) as never

/** A tool that the policy denies, for calls that are refused. */
const unseen = (tool: Tool.Any): Shown => ({
  name: tool.name,
  description: tool.description,
  annotations: tool.annotations,
  jsonSchema: Tool.getJsonSchema(tool)
})

/**
 * Puts an executor behind the tools of `generateText`, `streamText` and agents, without Effect.
 *
 * - The returned tools have the same names and types. Tools without `execute` are returned unchanged; calls of a tool
 * that the policy denies are refused.
 * - `approvals: "loop"` uses the SDK's own approval flow: the response contains a `tool-approval-request` for each call
 * that needs approval. A call runs only if the messages contain its approval.
 * - A call that does not succeed throws `ToolExecutionError`, which the SDK turns into a `tool-error` part.
 * - Counts and order apply from `guard` to `close`, or per `request()`.
 *
 * Rejects with one `ConfigurationError` that lists every problem.
 *
 * **Example** (Guarding a loop)
 *
 * ```ts
 * import { generateText, isStepCount, type LanguageModel, tool } from "ai"
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 * import { z } from "zod"
 *
 * const search = tool({
 *   description: "Finds documents",
 *   inputSchema: z.object({ query: z.string() }),
 *   execute: async ({ query }) => [`${query}.md`]
 * })
 *
 * export const answer = async (model: LanguageModel, prompt: string) => {
 *   const { close, tools } = await AiSdk.guard({ search }, {
 *     policy: { allow: ["search"] },
 *     rules: [{ _tag: "MaxCalls", tool: "search", max: 3 }],
 *     timeout: "10 seconds"
 *   })
 *   try {
 *     return await generateText({ model, prompt, tools, stopWhen: isStepCount(10) })
 *   } finally {
 *     await close()
 *   }
 * }
 * ```
 */
export const guard = <const Tools extends ToolSet>(
  tools: Tools,
  options: Guard.Options<keyof Tools & string> = {}
): Promise<Guard.Guarded<Tools>> =>
  Guard.guard({
    subject: "AiSdk.guard",
    adapted: AiSdkTools.read("AiSdk.guard", tools as never, options.tools ?? {}, true),
    given: options,
    hasApprovals: true,
    toolsOf: (calls) => guarded(calls, tools as never, options.approvals === "loop") as never
  })
