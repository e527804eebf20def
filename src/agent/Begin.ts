/**
 * How an operation begins: its options are looked at, its model is made, its session
 * opened; and what its host gets hold of.
 *
 * @since 0.1.0
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../ConfigurationError.ts"
import type { Service as Executor } from "../Executor.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import * as Approvals from "../policy/Approvals.ts"
import { ToolExecutor } from "../ToolExecutor.ts"
import type { Agent, Options } from "./Agent.ts"
import { type AgentEvent, isReport, type OperationEnd } from "./AgentEvent.ts"
import * as Ledger from "./Ledger.ts"
import type * as Link from "./Link.ts"
import * as Loop from "./Loop.ts"
import { type Given, Operation } from "./Operation.ts"
import { type Transcript, Transcripts } from "./Transcripts.ts"

/**
 * What operations have around them.
 *
 * @category models
 * @since 0.1.0
 */
export interface Around {
  readonly executor: Executor
  readonly model: Link.Model
  readonly approvals: Approvals.Approvals["Service"] | undefined
  readonly transcripts: Transcripts["Service"] | undefined
}

/**
 * Finds what operations have around them.
 *
 * @category constructors
 * @since 0.1.0
 */
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

/**
 * The model of a context, with its name.
 *
 * @category getters
 * @since 0.1.0
 */
export const modelIn = (context: Context.Context<LanguageModel.LanguageModel>): Link.Model => ({
  service: Context.get(context, LanguageModel.LanguageModel),
  provider: Option.getOrElse(Context.getOption(context, Model.ProviderName), () => "unknown"),
  model: Option.getOrElse(Context.getOption(context, Model.ModelName), () => "unknown")
})

/**
 * Begins an operation that can be steered.
 *
 * @category constructors
 * @since 0.1.0
 */
export const start = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>
): Effect.fn.Return<Agent, ConfigurationError | E, Scope.Scope | R> {
  const queue = yield* Queue.unbounded<AgentEvent, Cause.Done>()
  // whoever reads can answer as long as they do
  const reader = yield* Scope.fork(yield* Effect.scope)
  const approvals = options.mode === "Interactive"
    ? around.approvals ?? (yield* Scope.provide(Approvals.make(), reader))
    : undefined
  const { operation, prompt } = yield* prepare({ ...around, approvals }, options, (event) => {
    // whoever reads too slowly misses what tools report, and nothing else
    const isTaken = !isReport(event) || Queue.sizeUnsafe(queue) < unread
    if (isTaken) Queue.offerUnsafe(queue, event)
    return isTaken
  })
  const answer: Agent["answer"] = approvals?.answer ??
    ((id) => new Approvals.ApprovalError({ id, reason: "NotPending" }))
  const result = yield* Deferred.make<OperationEnd>()
  yield* Loop.run(operation, prompt).pipe(
    Effect.tap((end) => Queue.offer(queue, end)),
    Effect.onExit((exit) => Effect.andThen(Deferred.done(result, exit), Queue.end(queue))),
    Effect.forkScoped({ startImmediately: true })
  )
  return {
    id: operation.given.id,
    events: Stream.ensuring(Stream.fromQueue(queue), Scope.close(reader, Exit.void)),
    result: Deferred.await(result),
    say: Effect.fnUntraced(function*(text, { settle = false } = {}) {
      const isSaid = operation.say(text)
      if (isSaid && settle) {
        for (const id of Array.from(operation.given.link.requests.keys())) {
          yield* Effect.ignore(answer(id, { _tag: "Deny", reason: "they said something else instead" }))
        }
      }
      return isSaid
    }),
    cancel: (reason) => Effect.sync(() => operation.stop({ _tag: "Cancelled", reason })),
    answer,
    questions: Effect.sync(() => Array.from(operation.given.link.requests.values())),
    history: Effect.sync(() => Prompt.fromMessages(operation.messages))
  }
})

/**
 * Runs an operation to its end, with nobody who reads its events.
 *
 * @category running
 * @since 0.1.0
 */
export const run = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>
): Effect.fn.Return<OperationEnd, ConfigurationError | E, Scope.Scope | R> {
  const { operation, prompt } = yield* prepare(around, options, () => true)
  return yield* Loop.run(operation, prompt)
})

/**
 * Where an operation comes from that works for the call of another one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Above {
  readonly agentPath: ReadonlyArray<string>
  readonly link: Link.Link | undefined
  /** Nobody is asked, whoever there is. */
  readonly isAutomatic: boolean
}

/**
 * Runs the operation of a sub-agent, whose events go to those who read its caller's.
 *
 * @category running
 * @since 0.1.0
 */
export const runBelow = Effect.fnUntraced(function*<E, R>(
  around: Pick<Around, "executor"> & { readonly model: Link.Model | undefined },
  options: Options<E, R>,
  above: Above
): Effect.fn.Return<OperationEnd, ConfigurationError | E, Scope.Scope | R> {
  const { agentPath, isAutomatic, link } = above
  const checked = yield* check(around.executor, options)
  const tell = link?.tell ?? (() => true)
  const operation = yield* create({
    ...checked,
    executor: around.executor,
    agentPath,
    approvals: isAutomatic ? "nobody" : undefined,
    link: {
      tell,
      ledger: new Ledger.Ledger(checked.limits, link?.ledger),
      model: yield* modelOf(around, options),
      approval: link?.approval,
      processes: link?.processes ?? new Set(),
      requests: link?.requests ?? new Map()
    },
    transcript: undefined
  })
  yield* checkPrice(operation)
  return yield* Loop.run(operation, Prompt.make(options.prompt).content)
})

// Utilities

/** Events that a reader may be behind before it misses what tools report. */
const unread = 10_000

/** Everything that an operation needs to be run. */
const prepare = Effect.fnUntraced(function*<E, R>(
  around: Around,
  options: Options<E, R>,
  tell: Link.Link["tell"]
) {
  const checked = yield* check(around.executor, options)
  const isInteractive = options.mode === "Interactive"
  const requests = new Map<string, Approvals.ApprovalRequest>()
  const transcript = options.session === undefined ? undefined : yield* openSession(around, options.session)
  const operation = yield* create({
    ...checked,
    executor: around.executor,
    agentPath: [],
    approvals: isInteractive && around.approvals !== undefined ? noting(around.approvals, requests) : "nobody",
    link: {
      tell,
      ledger: new Ledger.Ledger(checked.limits),
      model: yield* modelOf(around, options),
      approval: isInteractive ? "upfront" : "perCall",
      processes: new Set(),
      requests
    },
    transcript
  })
  yield* checkPrice(operation)
  return { operation, prompt: Prompt.make(options.prompt).content }
})

/** Notes what people are asked as long as they are. */
const noting = (
  people: Approvals.Approvals["Service"],
  requests: Map<string, Approvals.ApprovalRequest>
): Approvals.Approvals["Service"] => ({
  ...people,
  // before anybody is told that it is asked
  request: (question) => Effect.tap(people.request(question), (it) => Effect.sync(() => requests.set(it.id, it))),
  ask: (request, told) =>
    Effect.suspend(() => {
      const over = () => requests.delete(request.id)
      const asked = people.ask(request, (resolution) => {
        over()
        told?.(resolution)
      })
      return Effect.ensuring(asked, Effect.sync(over))
    })
})

/** The model of an operation; there is one of its own, or around it. */
const modelOf = <E, R>({ model }: { readonly model: Link.Model | undefined }, options: Options<E, R>) =>
  options.model === undefined ? Effect.succeed(model!) : Effect.map(Layer.build(options.model), modelIn)

const create = Effect.fnUntraced(function*({ limits: _, ...given }: Given & { readonly limits: Ledger.Checked }) {
  const context = yield* Effect.context<never>()
  return new Operation(given, given.transcript?.messages ?? [], context, yield* Clock.Clock)
})

/** Where the cost has a bound every model needs a price. */
const checkPrice = ({ given: { link: { ledger, model } } }: Operation) => {
  const name = `${model.provider}:${model.model}`
  return ledger.unpriced(model)
    ? Effect.fail(
      wrong(
        "limits.cost.prices",
        `there is none for ${name}`,
        `the price of its tokens, as "${name}", "${model.model}" or "*"`
      )
    )
    : Effect.void
}

const openSession = (
  { transcripts }: Around,
  session: string
): Effect.Effect<Transcript, ConfigurationError, Scope.Scope> =>
  transcripts === undefined
    ? Effect.fail(wrong("session", "nobody keeps conversations", "Transcripts in the context of the layer"))
    : Effect.mapError(
      transcripts.open(session),
      (error) => wrong("session", error.message, "a session that can be opened")
    )

/** Whether the provider of the model runs it. */
const isProvided = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

const wrong = (path: string, problem: string, expected: string) =>
  new ConfigurationError({ subject: "AgentExecutor", problems: [{ path, problem, expected }] })

const check = Effect.fnUntraced(function*<E, R>(executor: Executor, options: Options<E, R>) {
  const reader = new OptionReader()
  const limits = Ledger.read(reader, options.limits)
  const { batch, exit = {}, meta, mode = "Automatic", perHeartbeat = false, retries = 2, start = {}, system } = options
  reader.oneOf("mode", mode, ["Automatic", "Interactive"])
  reader.count("retries", retries, 0)
  const toolChoice = reader.oneOf<"rules" | "auto">("toolChoice", options.toolChoice ?? "rules", ["rules", "auto"])
  if (options.session !== undefined) reader.text("session", options.session)
  const all: ReadonlyArray<Tool.Any> = Object.values(options.toolkit?.tools ?? {})
  const provided = all.filter(isProvided)
  const tools = options.toolkit && all.filter((it) => !provided.includes(it)).map((it) => it.name)
  // tools that the executor does not have; those that its policy hides are not shown
  if (tools !== undefined) yield* Effect.scoped(executor.process({ tools }))
  if (reader.problems.length > 0) {
    return yield* new ConfigurationError({ subject: "AgentExecutor", problems: reader.problems })
  }
  const id = `operation-${(yield* Random.nextIntBetween(0, 2 ** 48)).toString(36)}`
  return {
    id,
    batch: batch ?? id,
    exit,
    limits,
    meta,
    perHeartbeat,
    provided,
    retries,
    start,
    system,
    toolChoice,
    tools
  }
})
