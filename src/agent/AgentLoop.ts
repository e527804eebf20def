/**
 * The loop of an operation: call the model, run the wave, return the results, repeat.
 *
 * Calls run after the model's message is complete and stored. Limits are checked before each model request; calls
 * already made still run, so that each gets an answer.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ProvidedTools from "../core/engine/process/ProvidedTools.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import type { AssistantMessageFinal, EndReason, OperationEnd } from "./AgentEvent.ts"
import * as AgentTrace from "./AgentTrace.ts"
import * as Background from "./Background.ts"
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Compaction from "./Compaction.ts"
import * as Conversation from "./Conversation.ts"
import * as ModelTurn from "./ModelTurn.ts"
import type { Operation } from "./Operation.ts"
import { Current } from "./OperationTree.ts"
import * as Watch from "./ProcessEvents.ts"
import * as Requirements from "./Requirements.ts"
import type { TranscriptError } from "./Transcripts.ts"
import * as UserMessages from "./UserMessages.ts"

/** Runs an operation to its last event. `prompt` is appended to its history. */
export const run = (
  operation: Operation,
  prompt: ReadonlyArray<Prompt.Message>
): Effect.Effect<OperationEnd> =>
  Effect.gen(function*() {
    operation.begins()
    const ended = yield* Effect.catchTag(turns(operation, prompt), "TranscriptError", (error) =>
      Effect.sync((): EndReason => {
        // these calls were not stored, so they did not run
        const { calls } = Conversation.open(operation.messages)
        if (calls.length > 0) {
          operation.messages.push(Conversation.answerAll(calls, notRun))
        }
        return { _tag: "NotKept", message: error.message }
      }))
    // the reason it was stopped wins, unless the other one must be reported
    const reason = mustBeKnown.has(ended._tag) ? ended : operation.stopped ?? ended
    yield* Background.leave(operation, {
      isAwaited: reason._tag === "Exited" && operation.given.background === "wait",
      isSuspended: reason._tag === "Suspended" || reason._tag === "NotResumed"
    })
    // messages that arrived too late stay in the history for the next operation
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

/** Warns that a token or cost limit cannot work because the model reports no usage. */
const unmetered = ({ given: { tree: { spending, model } } }: Operation): Effect.Effect<void> =>
  spending.meters(model)
    ? Effect.logWarning(
      `${model.provider}:${model.model} does not report its usage, so limits.tokens and limits.cost cannot end this operation`
    )
    : Effect.void

const turns = Effect.fnUntraced(function*(
  operation: Operation,
  prompt: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<EndReason, TranscriptError, Scope.Scope> {
  const { given, given: { tree: { spending, model } } } = operation
  const before = [...operation.messages]
  // the conversation so far, then the new prompt
  const asked = prompt.findLastIndex((it) =>
    it.role !== "user" && it.role !== "system" || CompactedHistory.isRecord(it)
  ) + 1
  yield* operation.append(...prompt.slice(0, asked))
  const more = prompt.slice(asked)
  const { next } = yield* sequence(operation)
  const found = unfinished(operation, more.length === 0)
  const begun = yield* next(found?.run)
  yield* UserMessages.hear([...before, ...prompt], begun)
  const requirements = yield* Requirements.make(operation, begun)
  if (found !== undefined) {
    const end = yield* goOn(operation, begun, found, requirements, more.length > 0)
    if (end !== undefined) return end
  }
  yield* operation.append(...more)
  let process = found?.run !== undefined && given.perHeartbeat ? yield* next() : begun
  while (true) {
    if (operation.stopped !== undefined) return operation.stopped
    const { suspended } = operation.background
    if (suspended.length > 0) return { _tag: "Suspended", calls: suspended }
    const limit = spending.reached()
    if (limit !== undefined) return limit
    yield* operation.hear()
    const full = yield* Compaction.fit(operation, process)
    if (full !== undefined) return full
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
      operation.text = Conversation.textOf(kept)
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
      const end = yield* atEnd(operation, process, requirements)
      if (end === undefined) continue
      return end
    }
    const { named, wave } = yield* isCut
      ? refuse(operation, calls, finish)
      : Background.execute(operation, process, calls, (it) => process.executeWave(it))
    if (wave.suspended !== undefined) return { _tag: "Suspended", calls: wave.suspended }
    yield* operation.append(answerOf(calls, wave, named))
    if (operation.stopped !== undefined) return operation.stopped
    if (isCut) continue
    const end = yield* afterWave(operation, process, wave, requirements)
    if (end !== undefined) return end
    if (given.perHeartbeat) process = yield* next()
  }
})

/** Returns why a wave ends the operation, if it does. */
const afterWave = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  wave: ToolOutcome.WaveResult,
  requirements: Requirements.Requirements
): Effect.fn.Return<EndReason | undefined, TranscriptError> {
  // not cancelled from here: the batch or the executor has ended
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
  return yield* atEnd(operation, process, requirements)
})

const mustBeKnown: ReadonlySet<EndReason["_tag"]> = new Set(["Suspended", "NotResumed", "NotKept"])

const notRun = "It was not run: the conversation could not be stored."

/** The model's fiber was interrupted without a reason. */
const stoppedUnknown: EndReason = { _tag: "Cancelled", reason: "the model was interrupted" }

/** Starts a process for the rest of the scope. */
const begin = Effect.fnUntraced(function*(operation: Operation, name: Conversation.Origin["run"]) {
  const { approvals, executor, run, tree, meta, provided, tools } = operation.given
  // tools may have been removed since
  const shown = new Map((yield* executor.tools).map((it) => [it.name, it.background === true]))
  operation.backgroundTools = new Set(Array.from(shown).flatMap(([name, isBackground]) => isBackground ? [name] : []))
  // its options were checked when the operation started
  const process = yield* Effect.orDie(executor.process({
    batch: operation.batch,
    id: name?.process ?? `${run}-${++operation.processes}`,
    meta,
    // an operation without a session is a conversation
    session: operation.given.session ?? operation.batch,
    tools: tools?.filter((it) => shown.has(it)),
    provided: provided.map((it) => it.name),
    approvals,
    approval: tree.approval,
    turn: { shared: tree.spending.calls }
  }))
  yield* Watch.watch(operation, process)
  if (operation.stopText !== undefined) yield* process.cancel(operation.stopText)
  return process
})

/** The processes of an operation; each ends when the next one starts. */
const sequence = Effect.fnUntraced(function*(operation: Operation) {
  const around = yield* Effect.scope
  let last: Scope.Closeable | undefined
  const next = Effect.fnUntraced(function*(run?: Conversation.Origin["run"]) {
    const scope = yield* Scope.fork(around)
    const process = yield* Scope.provide(begin(operation, run), scope)
    operation.runs(process)
    // what runs in the background stays in its process
    if (last !== undefined && !operation.background.isRunning) yield* Scope.close(last, Exit.void)
    last = scope
    return process
  })
  return { next }
})

/** What an earlier operation left unfinished. */
interface Unfinished extends Pick<Conversation.Open, "calls"> {
  /** What runs in the background. */
  readonly behind: ReadonlyArray<Conversation.Begun>
  /** Where to resume; absent: nowhere. */
  readonly run: Conversation.Origin["run"]
}

/**
 * Finds what an earlier operation left unfinished: calls without an answer or, without a new prompt, answers the model
 * has not read. It resumes in that operation's batch and process.
 */
const unfinished = (operation: Operation, isSilent: boolean): Unfinished | undefined => {
  const { messages } = operation
  const { calls, origin } = Conversation.open(messages)
  const behind = Conversation.behind(messages)
  const { agentPath, id, tree: { branch, spending } } = operation.given
  // a sub-agent has one request; a message to a root may begin another one
  const isOne = agentPath.length > 0
  const isLeft = isSilent && origin !== undefined && (isOne || CompactedHistory.last(messages)?.role !== "user")
  const isUnfinished = calls.length > 0 || behind.length > 0 || isLeft
  const run = isUnfinished ? origin?.run ?? behind[0]?.run : undefined
  if (run !== undefined) operation.batch = run.batch
  const turns = isOne
    ? run && Conversation.originsIn(messages)
    // an operation of its name was here before, in any number of processes
    : operation.batch === id
    ? Conversation.turnsOf(messages, { batch: id })
    : run && Conversation.turnsOf(messages, run)
  if (turns !== undefined) {
    const processes = isOne ? undefined : new Set(turns.flatMap((it) => it.run?.process ?? []))
    spending.goesOn(turns, branch.used(processes), CompactedHistory.originsIn(messages, processes))
  }
  return isUnfinished ? { behind, calls, run } : undefined
}

/**
 * Resolves the open calls of the history from the journal and from what runs now. Without a journal the model reads
 * that their outcome is unknown.
 */
const goOn = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  { behind, calls: open, run }: Unfinished,
  requirements: Requirements.Requirements,
  isAsked: boolean
): Effect.fn.Return<EndReason | undefined, TranscriptError, Scope.Scope> {
  const calls = open.map(toCall)
  const unanswered = calls.length === 0
    ? Effect.undefined
    : Effect.suspend(() => Effect.as(operation.append(Conversation.answerAll(calls)), undefined))
  if (run === undefined) return yield* unanswered
  yield* process.provided(ProvidedTools.callsIn(Conversation.partsOf(operation.messages, run)), true)
  const isBehind = behind.length > 0 || calls.some(({ name }) => operation.backgroundTools.has(name))
  // waves that run together must all find what the process did before
  if (isBehind) yield* Effect.ignore(process.resume([]))
  yield* continueBehind(operation, process, behind)
  const ended = yield* Background.execute(operation, process, calls, (it) => process.resume(it)).pipe(
    Effect.catchTags({
      // without a journal
      ConfigurationError: () => Effect.undefined,
      ResumeError: (error) => Effect.succeed(error)
    })
  )
  if (ended === undefined) return yield* unanswered
  if ("_tag" in ended) return notResumed(ended)
  const { named, wave } = ended
  if (wave.suspended !== undefined) return { _tag: "Suspended", calls: wave.suspended }
  const last = CompactedHistory.last(operation.messages)
  operation.text = Conversation.lastText(operation.messages)
  if (calls.length > 0) yield* operation.append(answerOf(calls, wave, named))
  // there is a new prompt, or the model must read what was cancelled
  if (isAsked || (calls.length === 0 && last?.role === "user") || wave.outcomes.some(isCancelled)) return undefined
  return yield* calls.length === 0 && last?.role === "assistant"
    ? atEnd(operation, process, requirements)
    : afterWave(operation, process, wave, requirements)
})

/** Continues what runs in the background, each call in its own process. */
const continueBehind = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  behind: ReadonlyArray<Conversation.Begun>
): Effect.fn.Return<void, never, Scope.Scope> {
  const processes = new Map([[process.id, process]])
  for (const { call, name, run } of behind) {
    const own = processes.get(run.process) ?? (yield* begin(operation, run))
    processes.set(run.process, own)
    yield* Background.begin(operation, own, name, toCall(call), (it) => own.resume(it))
  }
})

const isCancelled = ({ _tag }: ToolOutcome.ToolOutcome): boolean => _tag === "Cancelled"

/** Returns why an operation ends whose model calls nothing, unless a result or a requirement comes first. */
const atEnd = Effect.fnUntraced(function*(
  operation: Operation,
  process: ToolProcess,
  requirements: Requirements.Requirements
): Effect.fn.Return<EndReason | undefined, TranscriptError> {
  const { background, given, queue } = operation
  if (given.background === "wait" && background.isRunning) {
    const news = background.until(() => queue.length > 0 || !background.isRunning)
    yield* operation.waiting("background", operation.unlessStopped(news))
  }
  // a message has arrived, or there is another reason to end
  if (queue.length > 0 || background.suspended.length > 0 || operation.stopped !== undefined) return undefined
  const end = yield* requirements.atEnd(process)
  return end === "goesOn" ? undefined : end ?? { _tag: "Finished" }
})

const notResumed = ({ calls, message, reason }: ResumeError): EndReason => ({
  _tag: "NotResumed",
  because: reason,
  message,
  calls
})

/** Refuses the calls of an answer that was cut off: they may be incomplete, so none runs. */
const refuse = Effect.fnUntraced(function*(
  operation: Operation,
  calls: ReadonlyArray<ToolCall.ToolCall>,
  finish: string
): Effect.fn.Return<
  { readonly wave: ToolOutcome.WaveResult; readonly named: ReadonlyMap<string, string> },
  never,
  Scope.Scope
> {
  const process = yield* begin(operation, undefined)
  yield* process.cancel(
    `the response was cut off (${finish}), so none of its calls ran; try again with fewer or shorter calls`
  )
  return { wave: yield* process.executeWave(calls), named: new Map<string, string>() }
}, Effect.scoped)

const toCall = ({ id, name, params }: Prompt.ToolCallPart): ToolCall.ToolCall => ToolCall.make(id, name, params)

/** The answers to the calls of a message: to those that began in the background, with their names. */
const answerOf = (
  calls: ReadonlyArray<ToolCall.ToolCall>,
  { outcomes }: ToolOutcome.WaveResult,
  named: ReadonlyMap<string, string>
): Prompt.ToolMessage => {
  const results = outcomes.values()
  return Prompt.toolMessage({
    content: calls.map((call) => {
      const name = named.get(call.id)
      return name === undefined ? resultOf(results.next().value!) : Conversation.begun(call, name)
    })
  })
}

const resultOf = (outcome: ToolOutcome.ToolOutcome): Prompt.ToolResultPart => {
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
}
