/** One turn of a model: sends the request, reports the answer as it streams in, and returns it once complete. */
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
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Compaction from "./Compaction.ts"
import * as Conversation from "./Conversation.ts"
import type { Operation } from "./Operation.ts"
import { sum, usageOf } from "./Spending.ts"
import type { TranscriptError } from "./Transcripts.ts"

/**
 * A model's answer. `finish` is `"cut"` if it was incomplete: `message` is then what is worth keeping, and `because`
 * the reason unless the operation was stopped.
 */
export interface Answer {
  readonly message: Prompt.AssistantMessage | undefined
  readonly finish: Response.FinishReason | "cut"
  readonly usage: Usage
  readonly because: EndReason | undefined
}

export const ask = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess
): Effect.fn.Return<Answer, TranscriptError> {
  const { given } = operation
  const { model, spending: { limits: { answerChars } } } = given.tree
  const toolkit = toolkitOf(operation, yield* process.tools)
  const hasTools = Object.keys(toolkit.tools).length > 0
  const promptOf = () =>
    withSystem(Conversation.forModel(CompactedHistory.view(operation.messages), model), given.system)
  const request = {
    ...hasTools
      ? { toolkit, toolChoice: given.toolChoice === "rules" ? yield* process.toolChoice : "auto" as const }
      : {},
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const
  let prompt = promptOf()
  let isCompacted = false
  // tokens of failed attempts still count
  let wasted: Usage | undefined
  for (let retries = 0;; retries++) {
    const parts: Array<Part> = []
    let chars = 0
    const said = Stream.runForEachArray(
      Stream.suspend(() =>
        model.service.streamText({ ...request, prompt } as never) as unknown as Stream.Stream<Part, AiError.AiError>
      ),
      (more) =>
        Effect.suspend(() => {
          // a model that ignores interruption may continue
          if (operation.stopped !== undefined) return Effect.void
          for (const part of more) {
            chars += charsOf(part)
            if (chars > answerChars) return Effect.fail(tooLong(answerChars))
            parts.push(part)
            operation.report<AssistantMessagePart>({ _tag: "AssistantMessagePart", part })
          }
          return Effect.void
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
    if (known !== undefined && wait === undefined && !parts.some(isSaid)) {
      const because = yield* Compaction.afterRefusal(operation, process, known, !isCompacted)
      if (because !== undefined || operation.stopped !== undefined) return cut(parts, usage, because)
      isCompacted = true
      prompt = promptOf()
      wasted = usage
      continue
    }
    if (known === undefined || wait === undefined) {
      return cut(parts, usage, { _tag: "ModelFailed", error: known, message: known?.message ?? saidBy(failure) })
    }
    operation.report<ModelRetry>({ _tag: "ModelRetry", error: known, afterMillis: wait })
    wasted = usage
    if ((yield* operation.unlessStopped(Effect.sleep(wait))) === undefined) return cut(parts, usage, undefined)
  }
})

type Part = AssistantMessagePart["part"]

/** A longer wait is not worth a retry. */
const longestWait = 60_000

/** Milliseconds before the next try; `undefined`: do not retry. */
const waitOf = (error: AiError.AiError, retries: number): number | undefined => {
  if (!error.isRetryable) return undefined
  const millis = error.retryAfter === undefined ? 1_000 * 2 ** retries : Duration.toMillis(error.retryAfter)
  return millis <= longestWait ? millis : undefined
}

/**
 * Whether a part was already read as the answer or executed by the provider. Such an answer is not requested again;
 * calls that did not run are.
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

/** Characters of a part that comes as a text or becomes one. */
const charsOf = (part: Part): number => {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
    case "tool-params-delta":
      return part.delta.length
    case "tool-call":
      return JSON.stringify(part.params)?.length ?? 0
    default:
      return 0
  }
}

const tooLong = (most: number) =>
  new Error(`its answer has more than ${most} characters. Raise \`limits.answerChars\` if answers may be that long`)

/** A failure reported as a part of the answer or by its end. */
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

/** The message of an error that is not a model error, without its origin, because clients read it. */
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

/** The tools as `effect/ai` expects them, without handlers: the executor runs the calls. */
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

/** Returns the same tool each turn, so that work cached per tool is reused. */
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
