/** Reads the tools of the AI SDK: as tools of a toolkit, with handlers that run `execute`. */
import type { Tool as SdkTool } from "ai"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import { ToolOptions } from "./AiSdkModelCall.ts"
import * as AiSdkSchema from "./AiSdkSchema.ts"
import { type Adapted, type Live, LoopCall } from "./Guard.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"

/** Host settings of an AI SDK tool. */
export interface Settings extends PlainTool.Declared {
  /** The `context` of `execute`, validated by the tool's `contextSchema`. */
  readonly context?: Record<string, unknown> | undefined
}

/**
 * Makes the toolkit and handlers of the tools that have `execute`. `isLive`: the SDK's loop calls them, and passes
 * messages and context itself.
 */
export const read = Effect.fnUntraced(function*(
  subject: string,
  all: Readonly<Record<string, SdkTool>>,
  settings: { readonly [name: string]: Settings | undefined },
  isLive: boolean
): Effect.fn.Return<Adapted, ConfigurationError> {
  const problems: Array<Problem> = []
  const taken: Array<Taken> = []
  for (const name of new Set([...Object.keys(all), ...Object.keys(settings)])) {
    const tool = Object.hasOwn(all, name) ? all[name] : undefined
    const said = Object.hasOwn(settings, name) ? settings[name] : undefined
    const wrong = settingsProblems(name, tool, said, isLive)
    problems.push(...wrong)
    if (typeof tool?.execute !== "function") continue
    problems.push(...PlainProblems.ofName(name))
    const read = yield* Effect.result(take(name, tool, wrong.length === 0 ? said ?? {} : {}, isLive))
    if (Result.isSuccess(read)) taken.push(read.success)
    else problems.push(read.failure)
  }
  if (problems.length > 0) return yield* new ConfigurationError({ subject, problems })
  const toolkit = Toolkit.make(...taken.map((it) => it.effectTool))
  return {
    toolkit,
    layer: toolkit.toLayer(Object.fromEntries(taken.map((it) => [it.effectTool.name, handlerOf(it)])) as never)
  } as never
})

/** A tool as read, with what its handler needs. */
interface Taken {
  readonly effectTool: PlainTool.PlainTool<string>
  readonly tool: SdkTool
  readonly context: unknown
}

const settingsProblems = (
  name: string,
  tool: SdkTool | undefined,
  said: unknown,
  isLive: boolean
): ReadonlyArray<Problem> => {
  const path = `${isLive ? "tools" : "settings"}.${name}`
  if (said === undefined) return []
  if (tool === undefined) {
    return [{ path, problem: "settings for a tool that does not exist", expected: "the name of one of the tools" }]
  }
  return typeof tool.execute === "function" ?
    PlainProblems.ofDeclared(path, said, isLive ? {} : { context: "any" }) :
    [{
      path,
      problem: "settings for a tool without execute, which is left out",
      expected: "a tool with execute, or no settings"
    }]
}

const take = (name: string, tool: SdkTool, settings: Settings, isLive: boolean): Effect.Effect<Taken, Problem> => {
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
    const context = contextSchema === undefined || isLive ? settings.context : yield* Effect.mapError(
      AiSdkSchema.validated(contextSchema, settings.context),
      at("contextSchema", "a context in the settings that fits it")
    )
    const text = yield* Effect.mapError(
      PlainTool.attempt(() =>
        typeof description !== "function"
          ? description
          : isLive
          ? undefined
          : description({ context: context as never })
      ),
      at("description", "a text, or a function that gives one")
    )
    const effectTool = PlainTool.make(name, settings, {
      description: typeof text === "string" ? text : undefined,
      parameters,
      needsApproval: typeof needsApproval === "function"
        ? (input, { toolCallId }) =>
          optionsOf(
            { toolCallId, messages: [], context },
            (options) => PlainTool.approval(() => needsApproval(input as never, options as never))
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
    optionsOf({ toolCallId: handler.toolCallId ?? "", messages: [], context }, (options, live, services) => {
      const { toolCallId } = options
      const show = (value: unknown) => {
        live?.show?.(value)
        Effect.runForkWith(services)(handler.preliminary(value))
      }
      const executed = PlainTool.attempt((abortSignal) => {
        const given: unknown = tool.execute!(input as never, { ...options, abortSignal } as never)
        return isAsyncIterable(given) ? last(given, abortSignal, show) : given
      }).pipe(Effect.tap((value) => Effect.sync(() => live === undefined ? undefined : live.returned = { value })))
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

interface CallOptions {
  readonly toolCallId: string
  readonly messages: ReadonlyArray<unknown>
  readonly context: unknown
}

/** Runs with the options that the loop passed to a call, or with these if the call is not a loop's. */
const optionsOf = <A, E>(
  own: CallOptions,
  run: (options: CallOptions, live: Live | undefined, services: Context.Context<never>) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.contextWith((services: Context.Context<never>) => {
    const live = Context.get(services, LoopCall)
    return run(
      { ...own, ...live?.given as Partial<CallOptions> | undefined, toolCallId: own.toolCallId },
      live,
      services
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
