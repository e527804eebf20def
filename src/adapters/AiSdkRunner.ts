/** Runs the calls of AI SDK loops through a process. */
import { jsonSchema, type JSONSchema7, type Tool as SdkTool, type ToolExecutionOptions } from "ai"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { Answer, Step, ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as AiSdk from "../wire/AiSdk.ts"
import { toolOptions } from "./AiSdkModelCall.ts"
import * as Guard from "./Guard.ts"

/** How the calls of a loop reach the executor. */
export interface Way {
  readonly process: ToolProcess
  readonly step: () => Step
  readonly run: (
    step: Step,
    call: ToolCall.ToolCall,
    options: ToolExecutionOptions<unknown>,
    show?: (value: unknown) => void
  ) => Promise<{ readonly answer: Answer; readonly value: unknown }>
}

/** What the SDK needs of a tool. */
export type Shown = Pick<RegisteredTool, "annotations" | "description" | "jsonSchema" | "name">

const inputSchema = ({ jsonSchema: schema }: Shown) => jsonSchema(schema as JSONSchema7)

export class Runner {
  private readonly way: Way
  /** All calls of a step share one messages array. */
  private readonly steps = new WeakMap<object, Step>()
  /** Outputs for the model until the SDK asks for each, once. */
  private readonly shown = new Map<string, { readonly output: unknown; readonly content: ToolContent.ToolContent }>()

  constructor(way: Way) {
    this.way = way
  }

  /** A tool of the executor as an SDK tool. */
  tool(tool: Shown) {
    const { annotations, description, name } = tool
    return {
      ...toolOptions(annotations),
      ...description === undefined ? {} : { description },
      inputSchema: inputSchema(tool),
      ...this.calls(name)
    }
  }

  /** What runs the calls of a tool, and words their results for the model. */
  calls(name: string) {
    return {
      execute: (input: unknown, options: ToolExecutionOptions<unknown>) => this.execute(name, input, options),
      toModelOutput: ({ output, toolCallId }: { readonly toolCallId: string; readonly output: unknown }) =>
        AiSdk.shown(this.take(toolCallId, output) ?? [ToolContent.text(this.way.process.shown(output))])
    }
  }

  /** Runs a call; `show` receives what its tool yields before the result. */
  async execute(
    tool: string,
    input: unknown,
    options: ToolExecutionOptions<unknown>,
    show?: (value: unknown) => void
  ): Promise<unknown> {
    const { messages, toolCallId } = options
    const call = ToolCall.make(toolCallId, tool, input)
    const { answer: { content, outcome }, value } = await this.way.run(this.stepOf(messages), call, options, show)
    if (outcome._tag !== "Succeeded") throw ToolOutcome.toError(outcome)
    this.shown.set(toolCallId, { output: value, content })
    return value
  }

  private stepOf(messages: object): Step {
    const known = this.steps.get(messages)
    if (known !== undefined) return known
    const step = this.way.step()
    this.steps.set(messages, step)
    return step
  }

  /** Keeps calls of different requests with the same id apart. */
  private take(toolCallId: string, output: unknown): ToolContent.ToolContent | undefined {
    const known = this.shown.get(toolCallId)
    if (known === undefined || known.output !== output) return undefined
    this.shown.delete(toolCallId)
    return known.content
  }
}

/** Calls of a loop inside an Effect program. */
export const direct = (process: ToolProcess, services: Context.Context<never>): Way => ({
  process,
  step: () => Effect.runSyncWith(services)(Effect.orDie(process.step)),
  run: (step, call, { abortSignal }) =>
    Guard.runCall(services, step.execute(call), call.name, abortSignal).then((answer) => ({
      answer,
      value: answer.value
    }))
})

/** Calls of a loop without Effect. Tools receive what the loop passed, and the loop what they returned. */
const behind = (calls: Guard.Calls): Way => ({
  process: calls.process,
  step: () => calls.step(),
  run: async (step, call, options, show) => {
    const live: Guard.Live = { given: options, show }
    const isApproved = approvedIn(options.messages, call.id)
    const answer = await calls.run(step, call, live, { signal: options.abortSignal, isApproved })
    return { answer, value: live.returned === undefined ? answer.value : live.returned.value }
  }
})

/** The same tools, whose calls go through an executor. */
export const guarded = (
  calls: Guard.Calls,
  tools: Readonly<Record<string, SdkTool>>,
  asksLoop: boolean
): Record<string, SdkTool> => {
  const runner = new Runner(behind(calls))
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]): readonly [string, SdkTool] => {
      if (typeof tool.execute !== "function") return [name, tool]
      const shown = calls.shown.get(name)
      const { execute, toModelOutput } = runner.calls(name)
      const own = {
        // the schema of a denied tool is never narrowed
        ...shown === undefined ? {} : { inputSchema: inputSchema(shown) },
        toModelOutput,
        execute: isGenerator(tool.execute)
          ? (input: unknown, options: ToolExecutionOptions<unknown>) =>
            streamed((show) => runner.execute(name, input, options, show))
          : execute,
        needsApproval: asksLoop
          ? (input: unknown, options: ToolExecutionOptions<unknown>) =>
            calls.needsApproval(ToolCall.make(options.toolCallId, name, input), { given: options })
          : undefined
      }
      return [name, { ...tool, ...own } as never]
    })
  )
}

const isGenerator = (execute: unknown): boolean =>
  Object.prototype.toString.call(execute) === "[object AsyncGeneratorFunction]"

/** Whether the messages contain an approval of the call. */
const approvedIn = (messages: unknown, callId: string): boolean => {
  const parts = (Array.isArray(messages) ? messages : []).flatMap((message: unknown): ReadonlyArray<unknown> =>
    Predicate.hasProperty(message, "content") && Array.isArray(message.content) ? message.content : []
  )
  const asked = new Set(
    parts.flatMap((part) =>
      Predicate.isObject(part) && part.type === "tool-approval-request" && part.toolCallId === callId
        ? [part.approvalId]
        : []
    )
  )
  return parts.some((part) =>
    Predicate.isObject(part) && part.type === "tool-approval-response" && part.approved === true &&
    asked.has(part.approvalId)
  )
}

/** What a run shows while it works, then its result. */
const streamed = async function*(run: (show: (value: unknown) => void) => Promise<unknown>): AsyncGenerator<unknown> {
  const values: Array<unknown> = []
  let wake = () => {}
  const result = run((value) => {
    values.push(value)
    wake()
  })
  const ended = result.then(() => true, () => true)
  let last: unknown
  for (let isOver = false; !isOver || values.length > 0;) {
    if (values.length === 0) {
      const shown = new Promise<boolean>((resolve) => wake = () => resolve(false))
      isOver = await Promise.race([ended, shown])
    } else {
      last = values.shift()
      yield last
    }
  }
  const value = await result
  if (value !== last) yield value
}
