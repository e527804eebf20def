/** One turn of a model: asks it, tells what it says as it says it, and gives what it said once it has said all. */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import { turnEnd } from "../internal/turnEnd.ts"
import type { AssistantMessagePart, EndReason, ModelRetry, Usage } from "./AgentEvent.ts"
import * as Conversation from "./Conversation.ts"
import type { Operation } from "./Operation.ts"
import { sum, usageOf } from "./Spending.ts"

/**
 * What a model said in a turn. `finish` is `"cut"` where it did not get to its end: then `message` is what is worth
 * keeping, and `because` why, unless somebody stopped it.
 */
export interface Answer {
  readonly message: Prompt.AssistantMessage | undefined
  readonly finish: Response.FinishReason | "cut"
  readonly usage: Usage
  readonly because: EndReason | undefined
}

/** Asks the model of an operation. */
export const ask = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess
): Effect.fn.Return<Answer> {
  const { given } = operation
  const { model } = given.tree
  const toolkit = toolkitOf(operation, yield* process.tools)
  const hasTools = Object.keys(toolkit.tools).length > 0
  const request = {
    prompt: withSystem(Conversation.forModel(operation.messages, model), given.system),
    ...hasTools
      ? { toolkit, toolChoice: given.toolChoice === "rules" ? yield* process.toolChoice : "auto" as const }
      : {},
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const
  // what an answer cost that nobody gets is spent all the same
  let wasted: Usage | undefined
  for (let retries = 0;; retries++) {
    const parts: Array<Part> = []
    const said = Stream.runForEachArray(
      Stream.suspend(() =>
        model.service.streamText(request as never) as unknown as Stream.Stream<Part, AiError.AiError>
      ),
      (more) =>
        Effect.sync(() => {
          // one that is deaf to interruption may go on
          if (operation.stopped !== undefined) return
          for (const part of more) {
            parts.push(part)
            operation.report<AssistantMessagePart>({ _tag: "AssistantMessagePart", part })
          }
        })
    )
    const exit = yield* operation.unlessStopped(said)
    const usage = sum(wasted, usageOf(parts.findLast((it) => it.type === "finish")?.usage))
    if (exit === undefined) return cut(parts, usage, undefined)
    const failure = exit._tag === "Failure" ? exit.cause : failureIn(parts)
    if (failure === undefined) return { message: messageOf(parts), finish: finishOf(parts)!, usage, because: undefined }
    const error = Option.getOrUndefined(Cause.findErrorOption(failure))
    const known = AiError.isAiError(error) ? error : undefined
    const isRepeatable = retries < given.retries && !parts.some(isSaid)
    const wait = known === undefined || !isRepeatable ? undefined : waitOf(known, retries)
    if (known === undefined || wait === undefined) {
      return cut(parts, usage, { _tag: "ModelFailed", error: known, message: known?.message ?? saidBy(failure) })
    }
    operation.report<ModelRetry>({ _tag: "ModelRetry", error: known, afterMillis: wait })
    wasted = usage
    if ((yield* operation.unlessStopped(Effect.sleep(wait))) === undefined) return cut(parts, usage, undefined)
  }
})

// Utilities

type Part = AssistantMessagePart["part"]

/** Longer than this nobody waits for a model that is busy. */
const longestWait = 60_000

/** How long to wait before another try; `undefined`: there is none. */
const waitOf = (error: AiError.AiError, retries: number): number | undefined => {
  if (!error.isRetryable) return undefined
  const millis = error.retryAfter === undefined ? 1_000 * 2 ** retries : Duration.toMillis(error.retryAfter)
  return millis <= longestWait ? millis : undefined
}

/**
 * Whether a part is something that somebody has read as the answer, or that the provider has done already: such is not
 * asked for anew. Calls that did not run are.
 */
const isSaid = (part: Part): boolean => {
  switch (part.type) {
    case "text-delta":
      return part.delta !== ""
    case "tool-call":
    case "tool-params-start":
      return part.providerExecuted
    case "file":
    case "source":
    case "tool-result":
      return true
    default:
      return false
  }
}

/** A failure that came as a part of the answer, or is its end. */
const failureIn = (parts: ReadonlyArray<Part>): Cause.Cause<unknown> | undefined => {
  const failed = parts.find((it) => it.type === "error")
  if (failed !== undefined) return Cause.fail(failed.error)
  switch (turnEnd(finishOf(parts))) {
    case "failed":
      return Cause.fail(notEnded(new AiError.InternalProviderError({ description: "its answer ended with an error" })))
    case "broken":
      return Cause.fail(notEnded(
        new AiError.NetworkError({
          reason: "TransportError",
          method: "POST",
          url: "",
          description: "its answer broke off before its end"
        })
      ))
    default: {
      const open = finishOf(parts) === "pause" ? undefined : Conversation.unexecuted(messageOf(parts))
      return open === undefined
        ? undefined
        : Cause.fail(notEnded(new AiError.InternalProviderError({ description: open })))
    }
  }
}

const notEnded = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "AgentExecutor", method: "streamText", reason })

const finishOf = (parts: ReadonlyArray<Part>): Response.FinishReason | undefined =>
  parts.findLast((it) => it.type === "finish")?.reason

/** What an error that is none of a model's says, without where it comes from: clients and callers read it. */
const saidBy = (failure: Cause.Cause<unknown>): string => {
  const error = Cause.squash(failure)
  if (typeof error === "string") return error
  return Predicate.hasProperty(error, "message") && typeof error.message === "string" && error.message !== ""
    ? error.message
    : "it does not say why"
}

const cut = (parts: ReadonlyArray<Part>, usage: Usage, because: EndReason | undefined): Answer => ({
  message: Conversation.said(messageOf(parts)),
  finish: "cut",
  usage,
  because
})

const messageOf = (parts: ReadonlyArray<Part>): Prompt.AssistantMessage | undefined =>
  Prompt.fromResponseParts(parts as ReadonlyArray<Response.AnyPart>).content.find((it) => it.role === "assistant")

const withSystem = (prompt: Prompt.Prompt, system: string | undefined): Prompt.Prompt =>
  system === undefined || system.trim() === "" ? prompt : Prompt.prependSystem(prompt, system)

type Shown = LanguageModel.ToolkitOption<Record<string, Tool.Any>>

/** The tools as `effect/ai` takes them: without handlers, for nobody runs them here. */
const toolkitOf = (operation: Operation, tools: ReadonlyArray<RegisteredTool>) => {
  const all = Object.fromEntries([
    ...tools.map((it) => [it.name, toolOf(it)] as const),
    ...operation.given.provided.map((it) => [it.name, it] as const)
  ])
  return { tools: all, handle: () => Effect.die(new Error("an executor runs the calls")) } as unknown as
    & Shown
    & { readonly tools: Record<string, Tool.Any> }
}

const made = new WeakMap<RegisteredTool, Tool.Any>()

/** The same tool each time, so that what is made of it once is not made anew each turn. */
const toolOf = (tool: RegisteredTool): Tool.Any => {
  const found = made.get(tool)
  if (found !== undefined) return found
  const { annotations, description, jsonSchema, name } = tool
  const shown: Tool.Any = Tool.dynamic(name, {
    ...description === undefined ? {} : { description },
    parameters: jsonSchema
  }).annotateMerge(annotations)
  made.set(tool, shown)
  return shown
}
