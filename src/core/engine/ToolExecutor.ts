/**
 * The executor: decides for every call of a model whether it may run, when, for how long and alongside which others.
 * Every call gets exactly one outcome.
 *
 * The lifecycle of a call is a sequence of steps, one module each:
 *
 * - `call/Arrive`, for all calls of a wave before anything runs: cancellation, turn budget, lookup, decoding, policy
 * - `call/Dispatch`, when the call's run begins: the turn again, blocked tools, guards, then dedupe and rules,
 *   reserved
 * in one atomic step
 * - `call/Authorize`: a grant, or an approver (`call/authorize/ApprovalRound`)
 * - `call/Permits`: resources, the tool's concurrency limit, the pool of its class
 * - `call/Start`, holding all permits: checks again what may have changed, then runs the handler (`call/attempt/Attempt`)
 * - `call/Settle`, once: output, history, reservation, event
 *
 * `call/Driver` acts on what they decide. The gates are separate services, in `policy`. Talking to a model and
 * keeping the conversation is left to a loop.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import { outagesOf } from "../../internal/outages.ts"
import type { DepthExceeded, ForkOptions, Service } from "../contract/Executor.ts"
import { ToolContext } from "../contract/ToolContext.ts"
import * as Approvals from "../gates/Approvals.ts"
import * as CircuitBreakers from "../gates/CircuitBreakers.ts"
import { Dedupe } from "../gates/Dedupe.ts"
import * as Gate from "../gates/Gate.ts"
import * as HostGates from "../gates/HostGates.ts"
import * as Permissions from "../gates/Permissions.ts"
import { Pools } from "../gates/Pools.ts"
import { Provenance } from "../gates/Provenance.ts"
import * as RateLimits from "../gates/RateLimits.ts"
import * as Reviewer from "../gates/Reviewer.ts"
import { Rules } from "../gates/Rules.ts"
import * as ShadowPolicy from "../gates/ShadowPolicy.ts"
import * as TurnBudget from "../gates/TurnBudget.ts"
import { ArtifactStore } from "../output/ArtifactStore.ts"
import { Checkpoints } from "../output/Checkpoints.ts"
import * as OutputPolicy from "../output/OutputPolicy.ts"
import type { RuleSet } from "../rules/RuleIndex.ts"
import * as Journal from "../store/Journal.ts"
import * as StateStore from "../store/StateStore.ts"
import { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import * as ToolCall from "../vocabulary/ToolCall.ts"
import { ToolHandlers } from "../vocabulary/ToolHandlers.ts"
import { InCommit } from "./call/attempt/Attempt.ts"
import type { Engine } from "./call/Engine.ts"
import * as Principals from "./data/Principal.ts"
import * as Facade from "./executor/Facade.ts"
import * as Periodic from "./executor/Periodic.ts"
import { RetryingStore } from "./ports/RetryingStore.ts"
import * as TimedPorts from "./ports/TimedPorts.ts"
import * as Batches from "./process/Batches.ts"
import * as Process from "./process/Process.ts"
import { JournalWriter } from "./report/JournalWriter.ts"
import * as MeasuredStore from "./report/MeasuredStore.ts"
import { Telemetry } from "./report/Telemetry.ts"
import * as CheckedSettings from "./state/CheckedSettings.ts"
import { Conversations } from "./state/Conversations.ts"
import { Orphans } from "./state/Orphans.ts"
import { Sessions } from "./state/Sessions.ts"

export {
  type Batch,
  type BatchOptions,
  DepthExceeded,
  type ForkOptions,
  type NewProcessOptions,
  type Orphan,
  type Orphans,
  type ProcessOptions,
  type Service
} from "../contract/Executor.ts"

/** The executor of one principal. */
export class ToolExecutor extends Context.Service<ToolExecutor, Service>()("effect-tool-executor/ToolExecutor") {}

/**
 * The owner of an executor without a `principal` setting (`ExecutorSettings`) and, inside a call, the owner of the
 * call. Stores and guards read it. Default `"default"`.
 */
export const Principal: Context.Reference<string> = Principals.Principal

/** The services that an executor requires. */
export type Gates = ToolHandlers | Rules | Permissions.Permissions | Dedupe | Pools

/** An executor that can be ended before its scope closes. */
export interface Open {
  readonly executor: Service
  /** Cancels running and later calls. Waves still end with outcomes. */
  readonly end: (reason: string) => Effect.Effect<void>
}

/** Creates an executor that can be ended. */
export const open: Effect.Effect<Open, ConfigurationError, Gates | Scope.Scope> = Effect.gen(function*() {
  const context = apart(yield* Effect.context<never>())
  const { output, telemetry: mode, telemetryContent: hasContent, ...settings } = yield* CheckedSettings.checked
  const telemetry = mode === "off" ? undefined : new Telemetry(mode, hasContent)
  const artifacts = Option.getOrUndefined(
    Option.map(yield* Effect.serviceOption(ArtifactStore), TimedPorts.artifactStore)
  )
  const driver = Option.getOrElse(yield* Effect.serviceOption(StateStore.StateStore), () => StateStore.makeMemory())
  // unique among the executors over one store
  const unique = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
  const { patienceMillis: timeout, principal, retryMillis: retry } = settings
  const measured = telemetry === undefined ? driver : MeasuredStore.make(driver, telemetry, context)
  const outages = outagesOf(driver)
  const store = new RetryingStore(measured, context, { session: unique, principal, timeout, retry, outages })
  yield* Effect.addFinalizer(() => store.close)
  const journal = Option.getOrUndefined(yield* Effect.serviceOption(Journal.Journal))
  const writer = journal === undefined || journal === Journal.noop
    ? undefined
    : new JournalWriter(TimedPorts.journal(journal), context, {
      session: unique,
      principal,
      outages: outagesOf(journal),
      now: () => Context.get(context, Clock.Clock).currentTimeMillisUnsafe()
    })
  if (writer !== undefined) yield* Effect.addFinalizer(() => writer.close)
  const provenance = Option.getOrUndefined(yield* Effect.serviceOption(Provenance))
  const reviewer = Option.getOrUndefined(
    Option.map(yield* Effect.serviceOption(Reviewer.Reviewer), TimedPorts.reviewer)
  )
  const engine: Engine = {
    handlers: yield* ToolHandlers,
    rules: yield* Rules,
    permissions: yield* Permissions.Permissions,
    shadow: Option.getOrUndefined(yield* Effect.serviceOption(ShadowPolicy.ShadowPolicy)),
    approvals: Option.getOrUndefined(
      Option.map(yield* Effect.serviceOption(Approvals.Approvals), (it) => TimedPorts.people(it, context))
    ),
    reviewer,
    revoked: new Map(),
    dedupe: yield* Dedupe,
    pools: yield* Pools,
    store,
    journal: writer,
    artifacts,
    checkpoints: Option.getOrUndefined(Option.map(yield* Effect.serviceOption(Checkpoints), TimedPorts.checkpoints)),
    output: OutputPolicy.make(output, artifacts),
    orphans: new Orphans(),
    telemetry,
    gates: yield* HostGates.provided({
      first: [yield* Gate.entryOr(CircuitBreakers.name, CircuitBreakers.make())],
      last: [yield* Gate.entryOr(RateLimits.name, RateLimits.make())]
    }),
    turns: Option.getOrElse(yield* Effect.serviceOption(TurnBudget.TurnBudget), () => TurnBudget.plain),
    agentPath: [],
    parent: undefined,
    unique,
    ...settings,
    leaders: new Map(),
    last: { wave: undefined },
    sessions: new Sessions(settings.principal, unique),
    conversations: provenance === undefined && reviewer === undefined ? undefined : new Conversations({
      provenance,
      handlers: yield* ToolHandlers,
      breaker: reviewer?.breaker,
      journal: writer,
      principal: settings.principal,
      now: () => Context.get(context, Clock.Clock).currentTimeMillisUnsafe()
    }),
    services: new WeakMap(),
    context,
    batches: () => batches,
    handleFor: (caller) => Facade.fromEngine(engine, batches, caller)
  }
  yield* Permissions.checkNames(engine.permissions, engine.handlers, "Permissions")
  if (!warned.has(engine.permissions)) {
    warned.add(engine.permissions)
    const meaningless = Permissions.meaningless(engine.permissions, engine.handlers, reviewer !== undefined)
    yield* Effect.forEach(meaningless, (it) => Effect.logWarning(`The policy: ${it}.`), { discard: true })
  }
  if (engine.shadow !== undefined) {
    const { name, permissions } = engine.shadow
    yield* Permissions.checkNames(permissions, engine.handlers, `Shadow policy ${name}`)
  }
  const wrong = provenance?.problems(Array.from(engine.handlers.current().keys()), engine.handlers.expects) ?? []
  if (wrong.length > 0) return yield* new ConfigurationError({ subject: "Provenance", problems: wrong })
  const batches = new Batches.Batches(engine, {}, unique)
  const executor = Facade.fromEngine(engine, batches)
  const fire = Effect.fnUntraced(function*({ params = {}, tool }: RuleSet["periodic"][number]) {
    const state = yield* batches.begins(yield* batches.enter(), {}, { fires: tool })
    return yield* Process.make(engine, state).execute(ToolCall.make(state.id, tool, params))
  }, Effect.scoped)
  const end = (reason: string) => batches.close(reason)
  yield* Effect.addFinalizer(() => end("the executor has ended"))
  yield* Effect.updateContext(
    Periodic.start(engine.rules.current().periodic, fire, engine.orphans),
    (around: Context.Context<Scope.Scope>) => apart(around)
  )
  return { executor, end }
})

/** Permissions of which it was said what means nothing. */
const warned = new WeakSet<object>()

/**
 * Creates an executor from its gates and the settings in the context. Fires the tools of `Periodic` rules while the
 * scope is open. Closing the scope cancels what runs.
 */
export const make: Effect.Effect<Service, ConfigurationError, Gates | Scope.Scope> = Effect.map(
  open,
  ({ executor }) => executor
)

/**
 * Layer of an executor.
 *
 * The gates are required: leaving one out is a type error, and turning one off is explicit (`Rules.layerNoop`,
 * `Permissions.layerAllowAll`, `Dedupe.layerNoop`, `Pools.layerNoop`).
 *
 * These services are optional, and used if they are provided:
 *
 * - `StateStore`: without it, state is kept in memory
 * - `ArtifactStore`: without it, large outputs are cut
 * - `Checkpoints`: without it, nothing can be undone
 * - `Journal`: without it, nothing is on record before it happens
 * - `Approvals`: without it, calls that need approval are denied
 * - `Reviewer`: without it, people decide about every call that needs approval
 * - `TurnBudget`: without it, turns are not limited
 * - `Provenance`: without it, it does not matter where arguments come from
 * - the settings (`ExecutorSettings`)
 *
 * **Gotchas**
 *
 * A layer is built once per program. For two executors with different gates, use `Layer.fresh(ToolExecutor.layer)` for
 * each, or `LocalExecutor.layer`.
 */
export const layer: Layer.Layer<ToolExecutor, ConfigurationError, Gates> = Layer.effect(ToolExecutor, make)

/**
 * Makes an executor for a sub-agent. Inside a handler its parent is the executor that runs the call, elsewhere the one
 * in the context. Closing the scope ends it.
 *
 * **Example** (A sub-agent that only reads)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolCall, ToolExecutor } from "effect-tool-executor"
 *
 * // in the handler of a tool
 * export const research = (question: string) =>
 *   Effect.gen(function*() {
 *     const executor = yield* ToolExecutor.readOnly({ name: "researcher" })
 *     const process = yield* executor.process()
 *     const wave = yield* process.executeWave([ToolCall.make("1", "search", { question })])
 *     return wave.toolMessages.map((it) => it.text).join("\n")
 *   }).pipe(Effect.scoped)
 * ```
 */
export const fork = (options?: ForkOptions): Effect.Effect<
  Service,
  DepthExceeded | ConfigurationError,
  Scope.Scope
> => Effect.flatMap(running, (executor) => executor.fork(options))

/**
 * Makes an executor for a sub-agent that may run only ReadOnly, closed-world tools. Its parent is chosen as in `fork`.
 * Closing the scope ends it.
 */
export const readOnly = (options?: Omit<ForkOptions, "policy">): Effect.Effect<
  Service,
  DepthExceeded | ConfigurationError,
  Scope.Scope
> => Effect.flatMap(running, (executor) => executor.readOnly(options))

/** Layer of a sub-agent's executor, forked from the one in the context. Each use makes a new executor. */
export const layerFork = (
  options?: ForkOptions
): Layer.Layer<ToolExecutor, DepthExceeded | ConfigurationError, ToolExecutor> =>
  Layer.fresh(Layer.effect(ToolExecutor, Effect.andThen(ToolExecutor, fork(options))))

/** What an executor does in the background belongs to no call, even if a handler is the first to use the executor. */
const apart = Context.omit(ToolContext, InCommit)

/** A handler gets the executor of its call, even if the context has another one. */
const running: Effect.Effect<Service, ConfigurationError> = Effect.gen(function*() {
  const { executor } = yield* ToolContext
  if (executor !== undefined) return executor
  const found = yield* Effect.serviceOption(ToolExecutor)
  if (Option.isSome(found)) return found.value
  return yield* new ConfigurationError({
    subject: "ToolExecutor.fork",
    problems: [{
      path: "",
      problem: "no executor runs this code, and the context has no ToolExecutor",
      expected: "the handler of a call that an executor runs, or ToolExecutor in the context"
    }]
  })
})
