/**
 * Puts an executor behind tools of LangChain, for agents, graphs and tool nodes.
 *
 * Needs no package of LangChain: any object with its interface of a structured tool will do.
 *
 * **Example** (Guarding the tools of an agent)
 *
 * ```ts
 * import { tool } from "@langchain/core/tools"
 * import * as LangChain from "effect-tool-executor/langchain"
 * import { z } from "zod"
 *
 * const search = tool(async ({ query }) => `${query}.md`, {
 *   name: "search",
 *   description: "Finds documents",
 *   schema: z.object({ query: z.string() })
 * })
 *
 * export const answer = async (run: (tools: ReadonlyArray<typeof search>) => Promise<string>) => {
 *   const { close, tools: [guarded] } = await LangChain.guard([search], { policy: { allow: ["search"] } })
 *   return run([guarded]).finally(close)
 * }
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { Answer, Step } from "../core/contract/ToolProcess.ts"
import { textOf } from "../core/output/OutputPolicy.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Guard from "./Guard.ts"
import * as PlainTool from "./PlainTool.ts"
import * as ValidatedSchema from "./ValidatedSchema.ts"

export type { Approval, Guarded, Options, Request } from "./Guard.ts"

/** A structured tool of LangChain, as far as a guard needs it. */
export interface Tool {
  readonly name: string
  readonly description: string
  /** A Zod schema or a JSON Schema. */
  readonly schema: unknown
  readonly invoke: (input: never, config?: never) => Promise<unknown>
}

/** The names of some tools. */
export type NamesOf<Tools extends ReadonlyArray<Tool>> = Tools[number]["name"]

/**
 * Returns the same tools, in the same order, whose calls pass every gate.
 *
 * - A tool call gets a `ToolMessage` whatever happens; its `status` is `"error"` if the call did not succeed. Plain
 * arguments get the tool's own result, or reject with `ToolExecutionError`.
 * - Calls that arrive together run in order: reads in parallel, a write alone.
 * - The `signal` of the config cancels the call.
 * - `approvals` must be a function, since LangChain has no approval flow for tools.
 *
 * Rejects with one `ConfigurationError` that lists every problem.
 */
export const guard = <const Tools extends ReadonlyArray<Tool>>(
  tools: Tools,
  options: Guard.Options<NamesOf<Tools>> = {}
): Promise<Guard.Guarded<Tools>> =>
  Guard.guard({
    subject: "LangChain.guard",
    adapted: Effect.suspend(() => read(tools, options.tools ?? {})),
    given: options,
    hasApprovals: false,
    toolsOf: (calls) => {
      const step = Guard.steps(calls)
      return tools.map((tool) => guarded(calls, step, tool as Structured)) as never
    }
  })

/** What LangChain's class has besides: subclasses implement `_call`. */
interface Structured extends Tool {
  readonly responseFormat?: unknown
  readonly _call: (args: unknown, manager: unknown, config: unknown) => unknown
}

interface Config {
  readonly signal?: AbortSignal | undefined
  readonly toolCall?: { readonly id?: string | undefined } | undefined
}

/** What a call of the loop passes to the tool's function. */
interface Given {
  readonly manager: unknown
  readonly config: Config
}

const read = (
  tools: ReadonlyArray<Tool>,
  settings: { readonly [name: string]: PlainTool.Declared | undefined }
): Effect.Effect<Guard.Adapted, ConfigurationError> =>
  Guard.adapt({
    subject: "LangChain.guard",
    tools: tools.filter(isStructured),
    settings,
    problems: tools.filter((it) => !isStructured(it)).map((tool) => ({
      path: `tools.${String((tool as Partial<Tool> | undefined)?.name)}`,
      problem: "it is not a structured tool",
      expected: "what tool() of LangChain returns"
    })),
    toolOf: (tool, declared) =>
      PlainTool.make(tool.name, declared, {
        description: tool.description,
        parameters: ValidatedSchema.of(tool.schema),
        needsApproval: undefined,
        worded: true
      }),
    handlerOf
  })

const isStructured = (tool: unknown): tool is Structured =>
  Predicate.hasProperty(tool, "_call") && typeof tool._call === "function" && Predicate.hasProperty(tool, "name") &&
  typeof tool.name === "string"

const handlerOf = (tool: Structured) => (args: unknown): Effect.Effect<unknown, string> =>
  Effect.contextWith((services: Context.Context<never>) => {
    const live = Context.get(services, Guard.LoopCall)
    const { config, manager } = live?.given as Given | undefined ?? { config: {}, manager: undefined }
    const called = PlainTool.attempt(async (signal) => {
      const given = await tool._call(args, manager, { ...config, signal })
      return isGenerator(given) ? await end(given) : given
    })
    return Effect.map(called, (value) => {
      if (live !== undefined) live.returned = { value }
      const content = tool.responseFormat === "content_and_artifact" && Array.isArray(value) ? value[0] : value
      return new PlainTool.Worded(value, Result.succeed([ToolContent.text(textOf(PlainJson.from(content)))]))
    })
  })

const isGenerator = (given: unknown): given is AsyncGenerator<unknown, unknown> =>
  Predicate.hasProperty(given, Symbol.asyncIterator) && Predicate.hasProperty(given, "next")

/** The result of a generator; what it yields are events, and the tool's own. */
const end = async (values: AsyncGenerator<unknown, unknown>): Promise<unknown> => {
  let next = await values.next()
  while (next.done !== true) next = await values.next()
  return next.value
}

/** The same tool, with the class and fields of the original. */
const guarded = (calls: Guard.Calls, step: () => Step, tool: Structured): Tool => {
  const call = async (args: unknown, given: Given): Promise<Answer & { readonly live: Guard.Live }> => {
    const live: Guard.Live = { given }
    const id = given.config.toolCall?.id ?? calls.id(tool.name)
    const answer = await calls.run(step(), ToolCall.make(id, tool.name, args), live, {
      signal: given.config.signal,
      isApproved: false
    })
    return { ...answer, live }
  }
  const failed = new WeakMap<object, boolean>()
  // LangChain's own `invoke` runs around the executor: callbacks, events and the message are as without a guard
  const inner: unknown = Object.create(tool, {
    schema: { value: anyArguments },
    _call: {
      value: async (args: unknown, manager: unknown, config: Config | undefined) => {
        const { live, ...answer } = await call(args, { manager, config: config ?? {} })
        const { outcome, text } = answer
        const isArtifact = tool.responseFormat === "content_and_artifact"
        const short = isArtifact ? [text, undefined] : text
        if (outcome._tag === "Succeeded") {
          const value = live.returned?.value
          const content = isArtifact && Array.isArray(value) ? value[0] : value
          return live.returned !== undefined && (config?.toolCall?.id === undefined || Guard.fits(answer, content))
            ? value
            : short
        }
        if (config?.toolCall?.id === undefined) throw ToolOutcome.toError(outcome)
        failed.set(config.toolCall, true)
        return short
      }
    }
  })
  const invoke = async (input: unknown, config?: Config) => {
    const message = await (inner as { invoke: (input: unknown, config?: Config) => Promise<unknown> }).invoke(
      input,
      config
    )
    const key = isCall(input) ? input : config?.toolCall
    if (key !== undefined && failed.delete(key) && Predicate.isObject(message)) {
      Object.assign(message, { status: "error" })
    }
    return message
  }
  return Object.create(tool, { invoke: { value: invoke } }) as Tool
}

const isCall = (input: unknown): input is object => Predicate.hasProperty(input, "type") && input.type === "tool_call"

const anyArguments = { type: "object" }
