/**
 * The calls of the AI SDK's loops, through a process.
 *
 * @since 0.1.0
 */
import { jsonSchema, type JSONSchema7, type ToolExecutionOptions } from "ai"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ToolCall from "../ToolCall.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import * as ToolOutcome from "../ToolOutcome.ts"
import type { Step, ToolProcess } from "../ToolProcess.ts"

/**
 * Runs the calls of the SDK's loops for one process.
 *
 * @category models
 * @internal
 */
export class Runner {
  private readonly process: ToolProcess
  private readonly services: Context.Context<never>
  /** All calls of a step come with the same messages. */
  private readonly steps = new WeakMap<object, Step>()
  /** What the model is to read, until the SDK asks for it, which it does once. */
  private readonly texts = new Map<string, { readonly output: unknown; readonly text: string }>()

  constructor(process: ToolProcess, services: Context.Context<never>) {
    this.process = process
    this.services = services
  }

  /** A tool of the executor as one of the SDK. */
  tool({ description, jsonSchema: schema, name }: RegisteredTool) {
    return {
      ...description === undefined ? {} : { description },
      inputSchema: jsonSchema(schema as JSONSchema7),
      execute: (input: unknown, options: ToolExecutionOptions<unknown>) => this.execute(name, input, options),
      toModelOutput: ({ output, toolCallId }: { readonly toolCallId: string; readonly output: unknown }) => ({
        type: "text" as const,
        value: this.takeText(toolCallId, output) ?? this.process.shown(output)
      })
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
      const { outcome, text, value } = exit.value
      if (outcome._tag !== "Succeeded") throw ToolOutcome.toError(outcome)
      this.texts.set(toolCallId, { output: value, text })
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

  /** Of two requests whose calls have one id, each has its own. */
  private takeText(toolCallId: string, output: unknown): string | undefined {
    const known = this.texts.get(toolCallId)
    if (known === undefined || known.output !== output) return undefined
    this.texts.delete(toolCallId)
    return known.text
  }
}

// Utilities

const aborted = (tool: string, { reason }: AbortSignal): Error =>
  Object.assign(
    new Error(`"${tool}" was cancelled, because the request was aborted. What it had done until then is done.`, {
      cause: reason
    }),
    { name: "AbortError" }
  )
