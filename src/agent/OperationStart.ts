/** Starts an operation: builds its model, opens its session and creates its handle. */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Service as Executor } from "../core/contract/Executor.ts"
import { ToolExecutor } from "../core/engine/ToolExecutor.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { type AgentEvent, isReport, type OperationEnd } from "./AgentEvent.ts"
import * as Loop from "./AgentLoop.ts"
import type { Agent, Options } from "./AgentOptions.ts"
import { BackgroundCalls } from "./BackgroundCalls.ts"
import * as CheckedOptions from "./CheckedOptions.ts"
import type * as CompactionOptions from "./CompactionOptions.ts"
import * as Conversation from "./Conversation.ts"
import { type Given, Operation } from "./Operation.ts"
import * as OperationTree from "./OperationTree.ts"
import * as Spending from "./Spending.ts"
import { type Place, type Transcript, Transcripts } from "./Transcripts.ts"
import { Branch } from "./TranscriptTree.ts"

/** What operations take from their surroundings. */
export interface Around {
  readonly executor: Executor
  readonly model: OperationTree.Model
  readonly approvals: Approvals.Approvals["Service"] | undefined
  readonly transcripts: Transcripts["Service"] | undefined
}

export const around: Effect.Effect<Around, never, ToolExecutor | LanguageModel.LanguageModel> = Effect.gen(
  function*() {
    return {
      executor: yield* ToolExecutor,
      model: modelIn(yield* Effect.context<LanguageModel.LanguageModel>()),
      approvals: Option.getOrUndefined(yield* Effect.serviceOption(Approvals.Approvals)),
      transcripts: Option.getOrUndefined(yield* Effect.serviceOption(Transcripts))
    }
  }
)

export const modelIn = (context: Context.Context<LanguageModel.LanguageModel>): OperationTree.Model => ({
  service: Context.get(context, LanguageModel.LanguageModel),
  provider: Option.getOrElse(Context.getOption(context, Model.ProviderName), () => "unknown"),
  model: Option.getOrElse(Context.getOption(context, Model.ModelName), () => "unknown")
})

/** Starts an operation. `isHeld`: the caller has a handle to answer approval requests with. */
export const start = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>,
  isHeld: boolean
): Effect.fn.Return<Agent, ConfigurationError | E, Scope.Scope | R> {
  const queue = yield* Queue.unbounded<AgentEvent, Cause.Done>()
  // resources such as the session live as long as the operation, and are released if it fails to start
  const own = yield* Scope.fork(yield* Effect.scope)
  // requests can be answered only while there is a reader
  const reader = yield* Scope.fork(own)
  const report: OperationTree.OperationTree["report"] = (event) => {
    // slow readers miss only tool reports and streamed text
    const isSpared = isReport(event) || event._tag === "AssistantMessagePart"
    const isTaken = !isSpared || Queue.sizeUnsafe(queue) < unread
    if (isTaken) Queue.offerUnsafe(queue, event)
    return isTaken
  }
  const { approvals, operation, prompt } = yield* Effect.gen(function*() {
    const approvals = options.mode === "Interactive" && isHeld
      ? around.approvals ?? (yield* Scope.provide(Approvals.make(), reader))
      : around.approvals
    return { approvals, ...yield* prepare({ ...around, approvals }, options, report) }
  }).pipe(
    Scope.provide(own),
    Effect.onError((cause) => Scope.close(own, Exit.failCause(cause)))
  )
  const { requests } = operation.given.tree
  const answer: Agent["answer"] = (id, said, of) =>
    // requests of other operations are ignored
    approvals !== undefined && requests.has(id)
      ? approvals.answer(id, said, of)
      : new Approvals.ApprovalError({ id, reason: "NotPending" })
  const result = yield* Deferred.make<OperationEnd>()
  yield* Loop.run(operation, prompt).pipe(
    Effect.onExit((exit) => Scope.close(own, exit)),
    Effect.onExit((exit) => {
      if (Exit.isSuccess(exit)) Queue.offerUnsafe(queue, exit.value)
      // an unexpected failure is not reported as a normal end
      const end = Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)
        ? Queue.end(queue)
        : Queue.failCause(queue, exit.cause)
      return Effect.andThen(end, Deferred.done(result, exit))
    }),
    Effect.forkScoped({ startImmediately: true })
  )
  return {
    id: operation.given.id,
    events: Stream.ensuring(Stream.fromQueue(queue), Scope.close(reader, Exit.void)),
    result: Deferred.await(result),
    say: Effect.fnUntraced(function*(text, { id, settle = false } = {}) {
      const isSaid = operation.say(text, id, settle)
      if (isSaid && settle) {
        for (const id of Array.from(requests.keys())) {
          yield* Effect.ignore(answer(id, settled))
        }
      }
      return isSaid
    }),
    cancel: (reason) => Effect.sync(() => operation.stop({ _tag: "Cancelled", reason })),
    answer,
    pending: Effect.sync(() => Array.from(requests.values())),
    isWaiting: () => operation.isWaiting,
    history: Effect.sync(() => operation.history)
  }
})

/** Runs an operation to its end without a reader of its events. */
export const run = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>
): Effect.fn.Return<OperationEnd, ConfigurationError | E, Scope.Scope | R> {
  const { operation, prompt } = yield* prepare(around, options, () => true)
  return yield* Loop.run(operation, prompt)
})

/** The operation a sub-agent works for. */
export interface Above {
  readonly agentPath: ReadonlyArray<string>
  readonly tree: OperationTree.OperationTree | undefined
  /** The call it works for. */
  readonly place: Place
  /** Its conversation so far. */
  readonly branch: Branch
  /** Approval requests are denied immediately. */
  readonly isAutomatic: boolean
  /** Takes what says whether it waits for nothing but approvals. */
  readonly waits: (isWaiting: () => boolean) => Effect.Effect<void>
}

/** Runs a sub-agent's operation; its events go to the caller's reader. */
export const runBelow = Effect.fnUntraced(function*<E, R>(
  around: Pick<Around, "executor"> & { readonly model: OperationTree.Model | undefined },
  options: Options<E, R>,
  above: Above
): Effect.fn.Return<OperationEnd, ConfigurationError | E, Scope.Scope | R> {
  const { agentPath, branch, isAutomatic, place, tree, waits } = above
  const checked = yield* CheckedOptions.check(around.executor, options)
  const report = tree?.report ?? (() => true)
  const tools = checked.tools ?? tree?.tools
  const operation = yield* create({
    ...checked,
    tools,
    executor: around.executor,
    agentPath,
    caller: { process: place.process, callId: place.call },
    approvals: isAutomatic ? "nobody" : undefined,
    tree: {
      report,
      spending: new Spending.Spending(checked.limits, tree?.spending),
      model: yield* modelOf(around, options),
      // the window is that of the caller's model
      compaction: (yield* compactionOf(checked, options)) ??
        (options.model === undefined ? tree?.compaction : undefined),
      approval: tree?.approval,
      reported: tree?.reported ?? new WeakSet(),
      tools,
      requests: tree?.requests ?? new Map(),
      settling: tree?.settling ?? new Set(),
      background: new BackgroundCalls(),
      branch
    },
    session: undefined,
    transcript: branch
  })
  yield* checkPrice(operation)
  yield* checkAsked(operation, checked.prompt)
  for (const { id, text } of branch.unread) operation.say(text, id)
  tree?.background.joins(place, operation)
  yield* waits(() => operation.isWaiting)
  return yield* Loop.run(operation, checked.prompt)
})

/** Unread events before some are dropped. */
const unread = 10_000

/** Collects everything an operation needs. */
const prepare = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>,
  report: OperationTree.OperationTree["report"]
) {
  const checked = yield* CheckedOptions.check(around.executor, options)
  const isInteractive = options.mode === "Interactive"
  const requests = new Map<string, Approvals.ApprovalRequest>()
  const settling = new Set<string>()
  // the handler of a call may begin it
  const above = yield* OperationTree.Current
  const transcript = options.session === undefined ? undefined : yield* openSession(around, options.session)
  const operation = yield* create({
    ...checked,
    executor: around.executor,
    agentPath: [],
    caller: undefined,
    // without its own approvers, the executor's are used
    approvals: isInteractive
      ? around.approvals && noting(around.approvals, checked.id, { requests, settling })
      : "nobody",
    tree: {
      report,
      spending: new Spending.Spending(checked.limits, above?.spending),
      model: yield* modelOf(around, options),
      compaction: yield* compactionOf(checked, options),
      approval: isInteractive ? "upfront" : "perCall",
      reported: new WeakSet(),
      tools: checked.tools,
      requests,
      settling,
      background: new BackgroundCalls(),
      branch: Branch.root([...transcript?.messages ?? [], ...checked.prompt], transcript)
    },
    session: options.session,
    transcript
  })
  yield* checkPrice(operation)
  yield* checkAsked(operation, checked.prompt)
  if (options.cancelled !== undefined) operation.stop({ _tag: "Cancelled", reason: options.cancelled })
  return { operation, prompt: checked.prompt }
})

/**
 * Tracks approval requests while they are pending, and tells approvers which operation they belong to. A request that
 * comes while a message waits to settle is denied, such as one that returns when the operation is resumed.
 */
const noting = (
  people: Approvals.Approvals["Service"],
  operation: string,
  { requests, settling }: {
    readonly requests: Map<string, Approvals.ApprovalRequest>
    readonly settling: ReadonlySet<string>
  }
): Approvals.Approvals["Service"] => ({
  ...people,
  // before anyone is notified
  request: (question) => Effect.tap(people.request(question), (it) => Effect.sync(() => requests.set(it.id, it))),
  submit: (request, told, heard) =>
    Effect.suspend(() => {
      const over = () => requests.delete(request.id)
      const asked = people.submit({ ...request, operation }, (resolution) => {
        over()
        return told?.(resolution) ?? Effect.void
      }, heard)
      const denied = Effect.retry(people.answer(request.id, settled), { schedule: Schedule.spaced("20 millis") })
      const resolved = settling.size === 0
        ? asked
        : Effect.raceFirst(asked, Effect.andThen(Effect.ignore(denied), Effect.never))
      return Effect.ensuring(resolved, Effect.sync(over))
    })
})

const settled: Approvals.Answer = { _tag: "Deny", reason: "a new message was sent instead" }

/** The operation's model: its own, or the surrounding one. */
const modelOf = <E, R>({ model }: { readonly model: OperationTree.Model | undefined }, options: Options<E, R>) =>
  options.model === undefined ? Effect.succeed(model!) : Effect.map(Layer.build(options.model), modelIn)

const compactionOf = Effect.fnUntraced(function*<E, R>(
  { compaction }: { readonly compaction: CompactionOptions.Checked | undefined },
  options: Options<E, R>
): Effect.fn.Return<OperationTree.Compaction | undefined, E, Scope.Scope | R> {
  if (compaction === undefined) return undefined
  const own = options.compaction?.model
  return { ...compaction, model: own === undefined ? undefined : modelIn(yield* Layer.build(own)) }
})

const create = Effect.fnUntraced(function*(
  { compaction: _, limits: __, prompt: ___, ...given }: Given & {
    readonly compaction: CompactionOptions.Checked | undefined
    readonly limits: Spending.Checked
    readonly prompt: ReadonlyArray<Prompt.Message>
  }
) {
  const context = yield* Effect.context<never>()
  return new Operation(given, given.transcript?.messages ?? [], context, yield* Clock.Clock)
})

/** A cost limit needs a price for every model. */
const checkPrice = ({ given: { tree: { compaction, spending, model: own } } }: Operation) => {
  const model = [own, compaction?.model ?? own].find((it) => spending.unpriced(it))
  const name = `${model?.provider}:${model?.model}`
  return model !== undefined
    ? Effect.fail(
      CheckedOptions.wrong(
        "limits.cost.prices",
        `the price of ${name} is missing`,
        `the price of its tokens, as "${name}", "${model.model}" or "*"`
      )
    )
    : Effect.void
}

/** Providers reject a conversation without a user message. */
const checkAsked = ({ given: { tree: { model } }, messages }: Operation, prompt: ReadonlyArray<Prompt.Message>) => {
  const isSaid = (message: Prompt.Message) =>
    Conversation.forModel([message], model).content.some((it) => it.role !== "system")
  return messages.some(isSaid) || prompt.some(isSaid)
    ? Effect.void
    : Effect.fail(CheckedOptions.wrong(
      "prompt",
      "there is nothing to ask: neither it nor the conversation so far has a message with content",
      "a text, or messages that are not empty"
    ))
}

const openSession = (
  { executor, transcripts }: Around,
  session: string
): Effect.Effect<Transcript, ConfigurationError, Scope.Scope> =>
  transcripts === undefined
    ? Effect.fail(
      CheckedOptions.wrong("session", "sessions are not stored", "Transcripts in the context of the layer")
    )
    : Effect.mapError(
      transcripts.open(session, executor.principal),
      (error) => CheckedOptions.wrong("session", error.message, "a session that can be opened")
    )
