/**
 * The loop of an operation: model, wave, results, until it is done.
 *
 * What the model asked for runs once it has said all of its turn, and is in the history before it runs. Bounds are
 * looked at before each request: what was asked for by then still runs, so that every call in the history has its
 * answer.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ProvidedTools from "../core/engine/ProvidedTools.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import type { AssistantMessageFinal, EndReason, OperationEnd } from "./AgentEvent.ts"
import * as AgentTrace from "./AgentTrace.ts"
import * as Conversation from "./Conversation.ts"
import * as ModelTurn from "./ModelTurn.ts"
import type { Operation } from "./Operation.ts"
import { Current } from "./OperationTree.ts"
import * as Watch from "./ProcessEvents.ts"
import * as Requirements from "./Requirements.ts"
import type { TranscriptError } from "./Transcripts.ts"

/** Runs an operation to its end, which is its last event. `prompt` is what it begins with, behind its history. */
export const run = (
  operation: Operation,
  prompt: ReadonlyArray<Prompt.Message>
): Effect.Effect<OperationEnd> =>
  Effect.gen(function*() {
    operation.begins()
    const ended = yield* Effect.catchTag(turns(operation, prompt), "TranscriptError", (error) =>
      Effect.sync((): EndReason => {
        // what could not be kept was not run
        const { calls } = Conversation.open(operation.messages)
        if (calls.length > 0) {
          operation.messages.push(Conversation.answerAll(calls, notRun))
        }
        return { _tag: "NotKept", message: error.message }
      }))
    // whoever stopped it is why, unless there is something that has to be known
    const reason = mustBeKnown.has(ended._tag) ? ended : operation.stopped ?? ended
    // what was said too late is there for whoever goes on
    if (reason._tag !== "NotKept") {
      yield* Effect.ignore(operation.hear())
    }
    const { given: { agentPath, id, tree: { spending } }, text, turn } = operation
    const end: OperationEnd = {
      _tag: "OperationEnd",
      agentPath,
      operation: id,
      turn,
      at: operation.now(),
      reason,
      text,
      history: operation.history,
      usage: spending.usage,
      turns: spending.turns,
      calls: spending.calls.taken
    }
    operation.ends()
    return end
  }).pipe(
    Effect.ensuring(Effect.sync(() =>
      operation.ends()
    )),
    Effect.provideService(Current, operation.given.tree),
    Effect.scoped,
    AgentTrace.traced(operation)
  )

// Utilities

/** A bound that nothing counts for is none, and whoever set it would learn so from the bill. */
const unmetered = ({ given: { tree: { spending, model } } }: Operation): Effect.Effect<void> =>
  spending.meters(model)
    ? Effect.logWarning(
      `${model.provider}:${model.model} does not say what it uses: limits.tokens and limits.cost do not end this operation`
    )
    : Effect.void

const turns = Effect.fnUntraced(function*(
  operation: Operation,
  prompt: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<EndReason, TranscriptError, Scope.Scope> {
  const { given, given: { tree: { spending, model } } } = operation
  // the conversation so far, and what is asked now
  const asked = prompt.findLastIndex((it) => it.role === "assistant" || it.role === "tool") + 1
  yield* operation.append(...prompt.slice(0, asked))
  const more = prompt.slice(asked)
  const { next } = yield* sequence(operation)
  const found = unfinished(operation, more.length === 0)
  const begun = yield* next(found?.run)
  const requirements = yield* Requirements.make(operation, begun)
  if (found !== undefined) {
    const end = yield* goOn(operation, begun, found, requirements, more.length > 0)
    if (end !== undefined) return end
  }
  yield* operation.append(...more)
  let process = found?.run !== undefined && given.perHeartbeat ? yield* next() : begun
  while (true) {
    if (operation.stopped !== undefined) return operation.stopped
    const limit = spending.reached()
    if (limit !== undefined) return limit
    yield* operation.hear()
    spending.turns++
    const { because, finish, message, usage } = yield* ModelTurn.ask(operation, process)
    spending.spend(usage, model)
    yield* AgentTrace.spent(model, usage)
    if (spending.turns === 1 && because === undefined && usage.inputTokens + usage.outputTokens === 0) {
      yield* unmetered(operation)
    }
    const { batch } = operation
    const isCut = finish === "length" || finish === "content-filter"
    const kept = message === undefined ? undefined : Conversation.mark(
      Conversation.withOwnIds(message, operation.callIds, operation.newCallId),
      { provider: model.provider, model: model.model, usage, ...isCut ? {} : { run: { batch, process: process.id } } }
    )
    if (kept !== undefined) {
      operation.text = textOf(kept)
      yield* operation.append(kept)
    }
    operation.report<AssistantMessageFinal>({
      _tag: "AssistantMessageFinal",
      message: kept ?? Prompt.assistantMessage({ content: [] }),
      finish,
      usage,
      provider: model.provider,
      model: model.model
    })
    if (because !== undefined || finish === "cut") return because ?? stoppedUnknown
    if (kept !== undefined) yield* process.provided(ProvidedTools.callsIn(kept.content))
    const calls = kept === undefined ? [] : Conversation.callsOf(kept).map(toCall)
    if (calls.length === 0) {
      if (finish === "pause" || operation.queue.length > 0) continue
      if (isCut) return { _tag: "CutOff", finish }
      const end = yield* requirements.atEnd(process)
      if (end === "goesOn") continue
      return end ?? { _tag: "Finished" }
    }
    const wave = yield* isCut ? refuse(operation, calls, finish) : process.executeWave(calls)
    if (wave.suspended !== undefined) return { _tag: "Suspended", calls: wave.suspended }
    yield* operation.append(answerOf(wave))
    if (operation.stopped !== undefined) return operation.stopped
    if (isCut) continue
    const end = yield* afterWave(operation, process, wave, requirements)
    if (end !== undefined) return end
    if (given.perHeartbeat) process = yield* next()
  }
})

/** Why an operation is over with a wave, if it is. */
const afterWave = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  wave: ToolOutcome.WaveResult,
  requirements: Requirements.Requirements
): Effect.fn.Return<EndReason | undefined, TranscriptError> {
  // nobody here has cancelled it: the batch or the executor is over, and nothing runs there any more
  const over = wave.outcomes.find((it) => it._tag === "Cancelled")
  if (over !== undefined) return { _tag: "Cancelled", reason: over.reason }
  if (wave.shouldExit) return { _tag: "Exited" }
  const exhausted = wave.outcomes.find((it) => it._tag === "Denied" && it.reason._tag === "CallBudgetExhausted")
  if (exhausted?._tag === "Denied" && exhausted.reason._tag === "CallBudgetExhausted") {
    return { _tag: "LimitReached", limit: "calls", max: exhausted.reason.max }
  }
  const missing = yield* requirements.afterWave(process)
  if (missing !== undefined) return missing
  if (wave.needsContinuation || wave.outcomes.length === 0 || operation.queue.length > 0) return undefined
  const end = yield* requirements.atEnd(process)
  return end === "goesOn" ? undefined : end ?? { _tag: "Finished" }
})

const mustBeKnown: ReadonlySet<EndReason["_tag"]> = new Set(["Suspended", "NotResumed", "NotKept"])

const notRun = "It was not run: the conversation could not be kept."

/** The fiber of the model was interrupted, and nobody says why. */
const stoppedUnknown: EndReason = { _tag: "Cancelled", reason: "the model was interrupted" }

/** Begins a process, as long as the scope is open. */
const begin = Effect.fnUntraced(function*(operation: Operation, name: Conversation.Origin["run"]) {
  const { approvals, executor, id, tree, meta, provided, tools } = operation.given
  // tools may have gone since
  const shown = tools === undefined ? undefined : new Set((yield* executor.tools).map((it) => it.name))
  // whatever may be wrong with these was looked at when the operation began
  const process = yield* Effect.orDie(executor.process({
    batch: operation.batch,
    id: name?.process ?? `${id}-${++operation.processes}`,
    meta,
    tools: tools?.filter((it) => shown!.has(it)),
    provided: provided.map((it) => it.name),
    approvals,
    approval: tree.approval,
    turn: { shared: tree.spending.calls }
  }))
  yield* Watch.watch(operation, process)
  return process
})

/** The processes of an operation, one after the other: the one before ends when the next begins. */
const sequence = Effect.fnUntraced(function*(operation: Operation) {
  const around = yield* Effect.scope
  let last: Scope.Closeable | undefined
  const next = Effect.fnUntraced(function*(run?: Conversation.Origin["run"]) {
    const scope = yield* Scope.fork(around)
    const process = yield* Scope.provide(begin(operation, run), scope)
    operation.runs(process)
    if (last !== undefined) yield* Scope.close(last, Exit.void)
    last = scope
    return process
  })
  return { next }
})

/** What an operation before this one has left in the middle. */
interface Unfinished extends Conversation.Open {
  /** Where it is gone on with; absent: nowhere. */
  readonly run: Conversation.Origin["run"]
}

/**
 * Finds what an operation before this one has left in the middle: calls without an answer, or, where there is nothing
 * else to say, answers that its model has not heard. Whoever goes on with it does what its user asked for, in its batch
 * and its process.
 */
const unfinished = (operation: Operation, isSilent: boolean): Unfinished | undefined => {
  const { messages } = operation
  const { calls, origin } = Conversation.open(messages)
  if (calls.length === 0 && !(isSilent && messages.at(-1)?.role === "tool")) return undefined
  const run = origin?.run
  if (run !== undefined) {
    operation.batch = run.batch
    operation.given.tree.spending.goesOn(Conversation.turnsOf(messages, run))
  }
  return { calls, origin, run }
}

/**
 * Finds out about the calls that the history has open: what is on record, what runs now. Without a journal nobody
 * knows, and the model is told so.
 */
const goOn = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  { calls, run }: Unfinished,
  requirements: Requirements.Requirements,
  isAsked: boolean
): Effect.fn.Return<EndReason | undefined, TranscriptError> {
  const unanswered = calls.length === 0
    ? Effect.undefined
    : Effect.suspend(() => Effect.as(operation.append(Conversation.answerAll(calls)), undefined))
  if (run === undefined) return yield* unanswered
  yield* process.provided(ProvidedTools.callsIn(Conversation.partsOf(operation.messages, run)), true)
  const ended = yield* process.resume(calls.map(toCall)).pipe(
    Effect.catchTags({
      // there is no journal
      ConfigurationError: () => Effect.undefined,
      ResumeError: (error) => Effect.succeed(error)
    })
  )
  if (ended === undefined) return yield* unanswered
  if ("_tag" in ended) return notResumed(ended)
  if (ended.suspended !== undefined) return { _tag: "Suspended", calls: ended.suspended }
  if (calls.length > 0) yield* operation.append(answerOf(ended))
  // somebody has more to say, or its model has to hear what an earlier end has cancelled
  return isAsked || ended.outcomes.some((it) => it._tag === "Cancelled")
    ? undefined
    : yield* afterWave(operation, process, ended, requirements)
})

const notResumed = ({ calls, message }: ResumeError): EndReason => ({ _tag: "NotResumed", message, calls })

/** The calls of an answer that was cut off: nobody knows what would have come. They arrive, and none runs. */
const refuse = Effect.fnUntraced(function*(
  operation: Operation,
  calls: ReadonlyArray<ToolCall.ToolCall>,
  finish: string
): Effect.fn.Return<ToolOutcome.WaveResult, never, Scope.Scope> {
  const process = yield* begin(operation, undefined)
  yield* process.cancel(
    `the response was cut off (${finish}), so none of its calls was run; ask again, with less at once`
  )
  return yield* process.executeWave(calls)
}, Effect.scoped)

const toCall = ({ id, name, params }: Prompt.ToolCallPart): ToolCall.ToolCall => ToolCall.make(id, name, params)

const answerOf = ({ outcomes }: ToolOutcome.WaveResult): Prompt.ToolMessage =>
  Prompt.toolMessage({
    content: outcomes.map((outcome) => {
      const { callId, isError, text, tool } = ToolOutcome.toMessage(outcome)
      const content = outcome._tag === "Succeeded" ? outcome.output.content : undefined
      return Prompt.toolResultPart({
        id: callId,
        name: tool,
        isFailure: isError,
        result: text,
        providerExecuted: false,
        ...content === undefined ? {} : { modelOutput: ToolContent.toModelOutput(content) }
      })
    })
  })

const textOf = ({ content }: Prompt.AssistantMessage): string =>
  content.map((it) => it.type === "text" ? it.text : "").join("")
