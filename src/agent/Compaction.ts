/**
 * Compaction of long conversations: when a conversation nears its model's context window, older turns are summarised or
 * dropped.
 *
 * Only what the model reads changes. The history and the session keep every message.
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import * as ContextLength from "../internal/contextLength.ts"
import type { EndReason, HistoryCompacted, Usage } from "./AgentEvent.ts"
import * as AgentTrace from "./AgentTrace.ts"
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Conversation from "./Conversation.ts"
import type { Operation } from "./Operation.ts"
import type { Compaction } from "./OperationTree.ts"
import { sum, usageOf } from "./Spending.ts"
import type { TranscriptError } from "./Transcripts.ts"

/** Compacts if the next request nears the window. Returns why the operation ends, if the summary was too much. */
export const fit = (
  operation: Operation,
  process: ToolProcess
): Effect.Effect<EndReason | undefined, TranscriptError> =>
  Effect.gen(function*() {
    const { given: { tree: { compaction, spending } } } = operation
    if (compaction === undefined) return undefined
    const size = yield* sizeOf(operation, process)
    if (size.tokens <= compaction.above) return undefined
    const isDone = yield* compact(operation, process, compaction, size, compaction.above / 2)
    return isDone ? operation.stopped ?? spending.reached() : undefined
  })

/**
 * Compacts after the provider has refused a request as too long. Returns whether a shorter one can be sent; if not, why
 * the operation ends.
 */
export const afterRefusal = (
  operation: Operation,
  process: ToolProcess,
  error: AiError.AiError,
  isFirst: boolean
): Effect.Effect<EndReason | undefined, TranscriptError> =>
  Effect.gen(function*() {
    const { given: { tree: { compaction, spending } } } = operation
    const failed: EndReason = { _tag: "ModelFailed", error, message: error.message }
    if (compaction === undefined || !isTooLong(error)) return failed
    const tooLong: EndReason = { _tag: "HistoryTooLong", window: compaction.window }
    if (!isFirst) return tooLong
    const size = yield* sizeOf(operation, process)
    if (!(yield* compact(operation, process, compaction, size, size.tokens / 2))) return operation.stopped ?? tooLong
    return operation.stopped ?? spending.spent()
  })

/** Whether a provider refused a request because it exceeds the context window. */
export const isTooLong = ({ reason }: AiError.AiError): boolean =>
  reason._tag === "InvalidRequestError" &&
  (reason.constraint === ContextLength.constraint || ContextLength.isIn(reason.description ?? ""))

// Utilities

/** The size of the next request. */
interface Size {
  readonly tokens: number
  /** Tokens of the system prompt and the tools. */
  readonly fixed: number
  /** How many tokens an estimated token is. */
  readonly scale: number
}

const sizeOf = Effect.fnUntraced(function*(
  { given: { system = "" }, messages }: Operation,
  process: ToolProcess
): Effect.fn.Return<Size> {
  const tools = yield* process.tools
  const fixed = CompactedHistory.textTokens(system) + tools.reduce((sum, it) => sum + toolTokens(it), 0)
  const estimated = fixed + CompactedHistory.tokensIn(CompactedHistory.view(messages))
  const compactedAt = messages.findLastIndex(CompactedHistory.isRecord)
  const at = messages.findLastIndex((it) => it.role === "assistant" && usedFor(it) > 0)
  // a size reported before a compaction no longer holds
  if (at <= compactedAt) return { tokens: estimated, fixed, scale: 1 }
  const tokens = usedFor(messages[at]!) + CompactedHistory.tokensIn(messages.slice(at + 1))
  return { tokens, fixed, scale: Math.min(Math.max(tokens / estimated, 0.5), 4) }
})

/** Tokens that a message and everything before it took, as its provider reported them. */
const usedFor = (message: Prompt.Message): number => {
  const usage = message.role === "assistant" ? Conversation.originOf(message)?.usage : undefined
  return usage === undefined ? 0 : usage.inputTokens + usage.outputTokens
}

const toolSizes = new WeakMap<RegisteredTool, number>()

const toolTokens = (tool: RegisteredTool): number => {
  let size = toolSizes.get(tool)
  if (size === undefined) {
    const { description = "", jsonSchema, name } = tool
    size = CompactedHistory.textTokens(name + description + JSON.stringify(jsonSchema))
    toolSizes.set(tool, size)
  }
  return size
}

/** Leaves out older turns, to a size if possible. Returns whether there was something to leave out. */
const compact = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  compaction: Compaction,
  { fixed, scale, tokens }: Size,
  wanted: number
): Effect.fn.Return<boolean, TranscriptError> {
  const { given, messages } = operation
  const sizeFrom = (from: number, text: string) => {
    const left = CompactedHistory.viewFrom(
      messages,
      from,
      CompactedHistory.record({ keeps: 0, text, origin: undefined })
    )
    return Math.round(scale * (fixed + CompactedHistory.tokensIn(left)))
  }
  const room = roomFor(compaction)
  const cuts = CompactedHistory.cutsIn(messages).slice(-compaction.keepTurns)
  const from = cuts.find((it) => sizeFrom(it, dropped) + room <= wanted) ?? cuts.at(-1)
  // a summary of a few words would be longer than they are
  if (from === undefined || sizeFrom(from, dropped) > tokens - room) return false
  const left = CompactedHistory.leftOut(messages, from)
  const said = compaction.by === "drop" ? undefined : yield* summary(operation, compaction, left)
  if (operation.stopped !== undefined) return false
  const { problem, text, usage } = said ?? { text: undefined, usage: undefined, problem: undefined }
  const { model, provider } = compaction.model ?? given.tree.model
  const stands = text === undefined ? dropped : summarised(text)
  const compacted = CompactedHistory.record({
    keeps: messages.length - from,
    text: stands,
    origin: usage === undefined ?
      undefined :
      { provider, model, usage, run: { batch: operation.batch, process: process.id } }
  })
  const before = CompactedHistory.view(messages).length
  yield* operation.append(compacted)
  if (problem !== undefined) yield* Effect.logWarning(`The conversation was not summarised: ${problem}`)
  operation.report<HistoryCompacted>({
    _tag: "HistoryCompacted",
    by: text === undefined ? "drop" : "summary",
    beforeTokens: Math.round(tokens),
    afterTokens: sizeFrom(from, stands),
    messages: before - CompactedHistory.view(messages).length + 1,
    usage: usage ?? none,
    ...problem === undefined ? {} : { problem }
  })
  return true
})

const none: Usage = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

/** What a summary came to: a text, or a problem. */
interface Said {
  readonly text: string | undefined
  readonly problem: string | undefined
  readonly usage: Usage
}

const summary = Effect.fnUntraced(function*(
  operation: Operation,
  { instructions, model = operation.given.tree.model, window }: Compaction,
  messages: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<Said> {
  const { given: { retries, tree: { spending } } } = operation
  const prompt = [
    { role: "system" as const, content: instructions },
    { role: "user" as const, content: `${CompactedHistory.textOf(messages, window / 2)}\n\n${now}` }
  ]
  const exit = yield* operation.unlessStopped(
    Effect.retry(model.service.generateText({ prompt }), {
      times: retries,
      schedule: Schedule.exponential("1 second"),
      while: (error) => AiError.isAiError(error) && error.isRetryable
    })
  )
  if (exit === undefined) return { text: undefined, problem: "the operation was stopped", usage: none }
  if (exit._tag === "Failure") return { text: undefined, problem: problemIn(exit.cause), usage: none }
  const usage = sum(undefined, usageOf(exit.value.usage))
  spending.spend(usage, model)
  yield* AgentTrace.spent(model, usage)
  const text = exit.value.text.trim()
  return text === "" ? { text: undefined, problem: "its text is empty", usage } : { text, problem: undefined, usage }
})

const problemIn = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return Predicate.hasProperty(error, "message") && typeof error.message === "string"
    ? error.message
    : "the model failed"
}

/** Room for a summary, in tokens. */
const roomFor = ({ window }: Compaction): number => Math.min(2_000, window / 10)

const dropped =
  "The older part of this conversation was removed because it no longer fits. Its tool calls did run. Read the current " +
  "state before you repeat one of them."

const summarised = (text: string): string =>
  `The older part of this conversation was replaced with this summary. What it lists as done is done.\n\n${text}`

const now = "Write the summary of the conversation above now."
