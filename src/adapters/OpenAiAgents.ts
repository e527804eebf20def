/**
 * Puts an executor behind the function tools of the OpenAI Agents SDK.
 *
 * Needs no package of the SDK: any object with its interface of a function tool will do.
 *
 * **Example** (Guarding the tools of an agent)
 *
 * ```ts
 * import { Agent, run, tool } from "@openai/agents"
 * import * as OpenAiAgents from "effect-tool-executor/openai-agents"
 * import { z } from "zod"
 *
 * const search = tool({
 *   name: "search",
 *   description: "Finds documents",
 *   parameters: z.object({ query: z.string() }),
 *   execute: async ({ query }) => `${query}.md`
 * })
 *
 * export const answer = async (prompt: string) => {
 *   const { close, tools } = await OpenAiAgents.guard([search], { policy: { allow: ["search"] } })
 *   const agent = new Agent({ name: "helper", tools: [...tools] })
 *   return run(agent, prompt).then((it) => it.finalOutput).finally(close)
 * }
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { Step } from "../core/contract/ToolProcess.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as Guard from "./Guard.ts"
import * as PlainTool from "./PlainTool.ts"

export type { Approval, Guarded, Options, Request } from "./Guard.ts"

/** A tool of the SDK. Tools of other types than `function` are returned unchanged. */
export interface Tool {
  readonly type: string
  readonly name: string
}

/** The names of some tools. */
export type NamesOf<Tools extends ReadonlyArray<Tool>> = Tools[number]["name"]

/**
 * Returns the same tools, in the same order, whose calls pass every gate.
 *
 * - If a call does not succeed, the model reads the executor's text; nothing is thrown.
 * - The runner starts all calls of a message together. They run in order: reads in parallel, a write alone.
 * - The `signal` of the run cancels its calls.
 * - `approvals: "loop"` uses the SDK's own flow: the run ends with `interruptions`, and continues from its state.
 *
 * Rejects with one `ConfigurationError` that lists every problem.
 */
export const guard = <const Tools extends ReadonlyArray<Tool>>(
  tools: Tools,
  options: Guard.Options<NamesOf<Tools>> = {}
): Promise<Guard.Guarded<Tools>> =>
  Guard.guard({
    subject: "OpenAiAgents.guard",
    adapted: Effect.suspend(() => read(tools, options.tools ?? {})),
    given: options,
    hasApprovals: true,
    toolsOf: (calls) => {
      const step = Guard.steps(calls)
      return Promise.all(
        tools.map((tool) => isFunction(tool) ? guarded(calls, step, tool, options.approvals === "loop") : tool)
      ) as never
    }
  })

interface FunctionTool extends Tool {
  readonly description: string
  readonly parameters: unknown
  readonly invoke: (context: unknown, input: string, details?: unknown) => Promise<unknown>
  readonly needsApproval: (context: unknown, input: unknown, callId?: string) => Promise<boolean>
}

/** What the runner passes to `invoke`. */
interface Given {
  readonly context: unknown
  readonly details: object
}

const isFunction = (tool: Tool): tool is FunctionTool =>
  tool.type === "function" && Predicate.hasProperty(tool, "invoke") && typeof tool.invoke === "function"

const read = (
  tools: ReadonlyArray<Tool>,
  settings: { readonly [name: string]: PlainTool.Declared | undefined }
): Effect.Effect<Guard.Adapted, ConfigurationError> =>
  Guard.adapt({
    subject: "OpenAiAgents.guard",
    tools: tools.filter(isFunction),
    settings,
    problems: [],
    toolOf: (tool, declared) =>
      PlainTool.make(tool.name, declared, {
        description: tool.description,
        parameters: tool.parameters as JsonSchema.JsonSchema,
        needsApproval: (input, { toolCallId }) =>
          Effect.contextWith((services: Context.Context<never>) => {
            const given = Context.get(services, Guard.LoopCall)?.given as Given | undefined
            return PlainTool.approval(() => tool.needsApproval(given?.context, input, toolCallId))
          })
      }),
    handlerOf
  })

/** What the SDK's default `errorFunction` returns for a tool that threw. */
const failed = /^An error occurred while running the tool\./

const handlerOf = (tool: FunctionTool) => (args: unknown): Effect.Effect<unknown, string> =>
  Effect.contextWith((services: Context.Context<never>) => {
    const live = Context.get(services, Guard.LoopCall)
    const { context, details } = live?.given as Given | undefined ?? { context: undefined, details: {} }
    return PlainTool.attempt((signal) => tool.invoke(context, JSON.stringify(args), { ...details, signal })).pipe(
      Effect.filterOrFail(
        (value) => typeof value !== "string" || !failed.test(value),
        String
      ),
      Effect.tap((value) => Effect.sync(() => live === undefined ? undefined : live.returned = { value }))
    )
  })

const guarded = async (
  calls: Guard.Calls,
  step: () => Step,
  tool: FunctionTool,
  asksLoop: boolean
): Promise<Tool> => {
  const { name } = tool
  const invoke = async (context: unknown, input: string, details: object = {}) => {
    const { signal, toolCall } = details as {
      readonly signal?: AbortSignal
      readonly toolCall?: { readonly callId?: string }
    }
    const callId = toolCall?.callId ?? calls.id(name)
    const live: Guard.Live = { given: { context, details } }
    const answer = await calls.run(step(), ToolCall.make(callId, name, argumentsOf(input)), live, {
      signal,
      isApproved: isApproved(context, name, callId)
    })
    const value = live.returned?.value
    return Guard.fits(answer, value) ? value : partsOf(answer.content)
  }
  // the SDK knows its own constant policies, and interrupts the run for malformed arguments under any other
  const asksNobody = tool.needsApproval.length === 0 && await tool.needsApproval(undefined, {}) === false
  const needsApproval = asksLoop
    ? (context: unknown, input: unknown, callId = "") =>
      calls.needsApproval(ToolCall.make(callId, name, input), { given: { context, details: {} } })
    : asksNobody
    ? tool.needsApproval
    : () => Promise.resolve(false)
  const parameters = calls.shown.get(name)?.jsonSchema ?? tool.parameters
  return { ...tool, parameters, invoke, needsApproval } as Tool
}

const json = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))

/** A text that is not JSON stays a text, which the executor refuses. */
const argumentsOf = (input: string): unknown => input.trim() === "" ? {} : Option.getOrElse(json(input), () => input)

/** Whether the run's state contains an approval of the call. */
const isApproved = (context: unknown, toolName: string, callId: string): boolean =>
  Predicate.hasProperty(context, "isToolApproved") && typeof context.isToolApproved === "function" &&
  context.isToolApproved({ toolName, callId }) === true

/** Outputs of the SDK: one text, or texts and images. */
const partsOf = (content: ToolContent.ToolContent): unknown => {
  const parts = content.map((part) =>
    part.type === "text"
      ? { type: "text", text: part.text }
      : ToolContent.isImage(part)
      ? { type: "image", image: { data: part.data, mediaType: part.mediaType } }
      : { type: "text", text: ToolContent.note(part) }
  )
  const [first] = parts
  return parts.length === 1 && first?.type === "text" ? first.text : parts
}
