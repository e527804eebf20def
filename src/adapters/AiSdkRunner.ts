/** Runs the calls of AI SDK loops through a process. */
import { jsonSchema, type JSONSchema7, type ToolExecutionOptions } from "ai"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Step, ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as AiSdk from "../wire/AiSdk.ts"
import { toolOptions } from "./AiSdkModelCall.ts"

export class Runner {
  private readonly process: ToolProcess
  private readonly services: Context.Context<never>
  /** All calls of a step share one messages array. */
  private readonly steps = new WeakMap<object, Step>()
  /** Outputs for the model until the SDK asks for each, once. */
  private readonly shown = new Map<string, { readonly output: unknown; readonly content: ToolContent.ToolContent }>()

  constructor(process: ToolProcess, services: Context.Context<never>) {
    this.process = process
    this.services = services
  }

  /** A tool of the executor as an SDK tool. */
  tool({ annotations, description, jsonSchema: schema, name }: RegisteredTool) {
    return {
      ...toolOptions(annotations),
      ...description === undefined ? {} : { description },
      inputSchema: jsonSchema(schema as JSONSchema7),
      execute: (input: unknown, options: ToolExecutionOptions<unknown>) => this.execute(name, input, options),
      toModelOutput: ({ output, toolCallId }: { readonly toolCallId: string; readonly output: unknown }) =>
        AiSdk.shown(this.take(toolCallId, output) ?? [ToolContent.text(this.process.shown(output))])
    }
  }

  private execute(
    tool: string,
    input: unknown,
    { abortSignal, messages, toolCallId }: ToolExecutionOptions<unknown>
  ): Promise<unknown> {
    if (abortSignal?.aborted === true) return Promise.reject(aborted(tool, abortSignal))
    const call = this.stepOf(messages).execute(ToolCall.make(toolCallId, tool, input))
    const running = Effect.runPromiseExitWith(this.services)(
      call,
      abortSignal === undefined ? {} : { signal: abortSignal }
    )
    return running.then((exit) => {
      if (Exit.isFailure(exit)) {
        throw abortSignal?.aborted === true ? aborted(tool, abortSignal) : Cause.squash(exit.cause)
      }
      const { content, outcome, value } = exit.value
      if (outcome._tag !== "Succeeded") throw ToolOutcome.toError(outcome)
      this.shown.set(toolCallId, { output: value, content })
      return value
    })
  }

  private stepOf(messages: object): Step {
    const known = this.steps.get(messages)
    if (known !== undefined) return known
    const step = Effect.runSyncWith(this.services)(this.process.step)
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

const aborted = (tool: string, { reason }: AbortSignal): Error =>
  Object.assign(
    new Error(`"${tool}" was cancelled, because the request was aborted. What it had already done is not undone.`, {
      cause: reason
    }),
    { name: "AbortError" }
  )
