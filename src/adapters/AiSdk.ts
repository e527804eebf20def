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
import { dynamicTool, type Tool as SdkTool, type ToolExecuteFunction, type ToolSet } from "ai"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import { ToolOptions } from "./AiSdkModelCall.ts"
import { Runner } from "./AiSdkRunner.ts"
import * as AiSdkSchema from "./AiSdkSchema.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"

export { layerLanguageModel, type LayerOptions, type ProviderModel } from "./AiSdkModel.ts"
export { ModelOptions, ToolOptions } from "./AiSdkModelCall.ts"

/** Host settings of an AI SDK tool. */
export interface Settings extends PlainTool.Declared {
  /** The `context` of `execute`, validated by the tool's `contextSchema`. */
  readonly context?: Record<string, unknown> | undefined
}

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
  settings: { readonly [N in keyof Tools]?: Settings | undefined } = {}
): Effect.fn.Return<{
  readonly toolkit: PlainTool.PlainToolkit<keyof Tools & string>
  readonly layer: Layer.Layer<PlainTool.Handlers<keyof Tools & string>>
}, ConfigurationError> {
  const problems: Array<Problem> = []
  const taken: Array<Taken> = []
  const all: Readonly<Record<string, SdkTool>> = tools as never
  for (const name of new Set([...Object.keys(all), ...Object.keys(settings)])) {
    const tool = Object.hasOwn(all, name) ? all[name] : undefined
    const said = Object.hasOwn(settings, name) ? settings[name] : undefined
    const wrong = settingsProblems(name, tool, said)
    problems.push(...wrong)
    if (typeof tool?.execute !== "function") continue
    problems.push(...PlainProblems.ofName(name))
    const read = yield* Effect.result(take(name, tool, wrong.length === 0 ? said ?? {} : {}))
    if (Result.isSuccess(read)) taken.push(read.success)
    else problems.push(read.failure)
  }
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "AiSdk.fromTools", problems })
  const toolkit = Toolkit.make(...taken.map((it) => it.effectTool))
  return {
    toolkit,
    layer: toolkit.toLayer(Object.fromEntries(taken.map((it) => [it.effectTool.name, handlerOf(it)])) as never)
  } as never
})

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
 * Fails if the executor lacks a tool of the toolkit; a tool hidden by the policy is left out.
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
  const runner = new Runner(process, yield* Effect.context<never>())
  const shown = (yield* process.tools).filter((it) => toolkit === undefined || Object.hasOwn(toolkit.tools, it.name))
  return Object.fromEntries(shown.map((it) => {
    const tool = runner.tool(it)
    return [it.name, toolkit === undefined ? dynamicTool(tool) : tool]
  }))
}) as never

/** A tool as read, with what its handler needs. */
interface Taken {
  readonly effectTool: PlainTool.PlainTool<string>
  readonly tool: SdkTool
  readonly context: unknown
}

const settingsProblems = (name: string, tool: SdkTool | undefined, said: unknown): ReadonlyArray<Problem> => {
  const path = `settings.${name}`
  if (said === undefined) return []
  if (tool === undefined) {
    return [{ path, problem: "settings for a tool that does not exist", expected: "the name of one of the tools" }]
  }
  return typeof tool.execute === "function" ? PlainProblems.ofDeclared(path, said, { context: "any" }) : [{
    path,
    problem: "settings for a tool without execute, which is left out",
    expected: "a tool with execute, or no settings"
  }]
}

const take = (name: string, tool: SdkTool, settings: Settings): Effect.Effect<Taken, Problem> => {
  const at = (part: string, expected: string) => (problem: string): Problem => ({
    path: `tools.${name}.${part}`,
    problem,
    expected
  })
  const { contextSchema, description, needsApproval } = tool
  return Effect.gen(function*() {
    const parameters = yield* Effect.mapError(
      AiSdkSchema.parameters(tool.inputSchema),
      at("inputSchema", "a schema with the JSON Schema of an object")
    )
    const context = contextSchema === undefined ? settings.context : yield* Effect.mapError(
      AiSdkSchema.validated(contextSchema, settings.context),
      at("contextSchema", "a context in the settings that fits it")
    )
    const text = yield* Effect.mapError(
      PlainTool.attempt(() =>
        typeof description === "function" ? description({ context: context as never }) : description
      ),
      at("description", "a text, or a function that gives one")
    )
    const effectTool = PlainTool.make(name, settings, {
      description: typeof text === "string" ? text : undefined,
      parameters,
      needsApproval: typeof needsApproval === "function"
        ? (input, { toolCallId }) =>
          PlainTool.approval(() =>
            needsApproval(input as never, { toolCallId, messages: [], context: context as never })
          )
        : needsApproval,
      worded: tool.toModelOutput !== undefined,
      annotations: annotationsOf(tool)
    })
    return { effectTool, tool, context }
  })
}

/** Provider settings of the SDK's tool; host settings override them. */
const annotationsOf = ({ inputExamples, providerOptions, strict }: SdkTool): Context.Context<never> => {
  const options = {
    ...providerOptions === undefined ? {} : { providerOptions },
    ...inputExamples === undefined ? {} : { inputExamples }
  }
  return Context.empty().pipe(
    PlainTool.add(Tool.Strict, strict),
    PlainTool.add(ToolOptions, Object.keys(options).length === 0 ? undefined : options as ToolOptions)
  )
}

const handlerOf =
  ({ context, tool }: Taken) =>
  (input: unknown, handler: Toolkit.HandlerContext<PlainTool.PlainTool<string>>): Effect.Effect<unknown, string> =>
    Effect.contextWith((services: Context.Context<never>) => {
      const toolCallId = handler.toolCallId ?? ""
      const show = (value: unknown) => void Effect.runForkWith(services)(handler.preliminary(value))
      const executed = PlainTool.attempt((abortSignal) => {
        const given: unknown = tool.execute!(input as never, {
          toolCallId,
          messages: [],
          abortSignal,
          context: context as never
        })
        return isAsyncIterable(given) ? last(given, abortSignal, show) : given
      })
      const { toModelOutput } = tool
      return toModelOutput === undefined ?
        executed :
        Effect.flatMap(
          executed,
          (output) =>
            PlainTool.attempt(() => toModelOutput({ toolCallId, input: input as never, output })).pipe(
              Effect.map(AiSdkSchema.shown),
              Effect.filterOrFail(Predicate.isNotUndefined, () => "toModelOutput gave no output"),
              Effect.result,
              Effect.map((shown) => new PlainTool.Worded(output, shown))
            )
        )
    })

const isAsyncIterable = (given: unknown): given is AsyncIterable<unknown> =>
  Predicate.hasProperty(given, Symbol.asyncIterator) && typeof given[Symbol.asyncIterator] === "function"

/**
 * The last value yielded. A promise rather than an Effect, so that a stopped call waits for it like for any promise.
 */
const last = async (values: AsyncIterable<unknown>, signal: AbortSignal, show: (value: unknown) => void) => {
  let latest: unknown
  for await (const value of values) {
    if (signal.aborted) break
    latest = value
    show(value)
  }
  return latest
}
