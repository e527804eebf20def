/**
 * The executor: decides for every call of a model whether it may run, when, how
 * long and beside what, and gives every call exactly one outcome.
 *
 * The life of a call has three stages. Each gate is a module of its own.
 *
 * - **Arrival** (`execution/Stages.arrive`), for all calls of a wave before
 *   anything runs: cancelled? · turn budget (`policy/TurnBudget`) · lookup ·
 *   decoding (`ToolHandlers`) · policy (`policy/Permissions`)
 * - **Dispatch** (`Stages.dispatch`), when the call's run begins
 *   (`execution/Waves`): the turn again · blocked tools · the host's guards
 *   (`policy/Guards`) · dedupe (`policy/Dedupe`) and rules (`policy/Rules`),
 *   reserved in one atomic step (`store/StateStore`) · permission
 * - **Start** (`Stages.recheck`), holding all permits (`policy/Pools`): once
 *   more whatever may have changed · the handler (`execution/Attempt`) ·
 *   output (`output/OutputPolicy`) · settled once (`execution/Wave`)
 *
 * It does not talk to a model and holds no conversation; a loop does that.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { ConfigurationError } from "./ConfigurationError.ts"
import type { BatchState, Engine, ProcessState } from "./execution/Engine.ts"
import * as EventHub from "./execution/EventHub.ts"
import * as Limits from "./execution/Limits.ts"
import { type Orphan, Orphans } from "./execution/Orphans.ts"
import * as Periodic from "./execution/Periodic.ts"
import * as ShownTools from "./execution/ShownTools.ts"
import * as Waves from "./execution/Waves.ts"
import { ArtifactStore } from "./output/ArtifactStore.ts"
import { Checkpoints } from "./output/Checkpoints.ts"
import * as OutputPolicy from "./output/OutputPolicy.ts"
import * as Approvals from "./policy/Approvals.ts"
import { Dedupe } from "./policy/Dedupe.ts"
import * as Guards from "./policy/Guards.ts"
import * as Permissions from "./policy/Permissions.ts"
import { Pools } from "./policy/Pools.ts"
import { RuleHistory } from "./policy/RuleHistory.ts"
import { Rules } from "./policy/Rules.ts"
import * as TurnBudget from "./policy/TurnBudget.ts"
import type { Grant } from "./store/Grant.ts"
import * as StateStore from "./store/StateStore.ts"
import * as ToolCall from "./ToolCall.ts"
import { type RegisteredTool, ToolHandlers } from "./ToolHandlers.ts"
import * as ToolProcess from "./ToolProcess.ts"
import type { Of } from "./ToolRule.ts"

/**
 * Options of a process.
 *
 * @category options
 * @since 0.1.0
 */
export interface ProcessOptions {
  /** The turn's budget; overrides `TurnBudget.Turn`. */
  readonly turn?: TurnBudget.Options | undefined
  /** Metadata of the operation, for handlers (`ToolContext.meta`). */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}

/**
 * One user request with all its processes. Call limits live here.
 *
 * @category models
 * @since 0.1.0
 */
export interface Batch {
  readonly id: string
  /** Begins one pass of an agent; the turn's clock starts. */
  readonly process: Effect.Effect<ToolProcess.ToolProcess>
  /** Begins one pass of an agent with options. */
  readonly processWith: (options: ProcessOptions) => Effect.Effect<ToolProcess.ToolProcess>
}

/**
 * The executor of one principal.
 *
 * @category services
 * @since 0.1.0
 */
export class ToolExecutor extends Context.Service<ToolExecutor, {
  /**
   * Begins a batch. Closing its scope cancels what still runs and forgets the
   * batch's counts. Without an id it gets one of its own.
   */
  readonly batch: (id?: string) => Effect.Effect<Batch, never, Scope.Scope>
  /** Forgets a batch whose scope may stay open: its processes are cancelled, its counts are gone. */
  readonly completeBatch: (id: string) => Effect.Effect<void>
  /** Tells whether an agent goes on after the tool only if the model asks for it: with `Heartbeats`, without a `ContinueLoop` rule. */
  readonly requiresHeartbeat: (tool: string) => boolean
  /**
   * The tools that the policy lets this agent see, with the JSON Schemas of
   * their parameters as the rules leave them: `AllowedOperations` limits values,
   * prefilled arguments are the host's and not shown.
   */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  /** The standing permissions of the principal. */
  readonly grants: Effect.Effect<ReadonlyArray<Grant>, StateStore.StateStoreError>
  /**
   * Takes standing permissions back: one by its id, or all of a tool. Calls that
   * they let through and that have not started are refused. Gives how many.
   */
  readonly revoke: (which: { readonly id?: string; readonly tool?: string }) => Effect.Effect<
    number,
    StateStore.StateStoreError
  >
  /** Forgets what is past its window; gives the number of entries dropped. */
  readonly pruneExpired: Effect.Effect<number, StateStore.StateStoreError>
  /** Handlers that still run although their call has its outcome. */
  readonly orphans: Effect.Effect<{
    readonly running: ReadonlyArray<Orphan>
    /** How many there ever were. */
    readonly total: number
    /** Commits and reports that came after the outcome and were kept out. */
    readonly lateWritesBlocked: number
  }>
}>()("effect-tool-executor/ToolExecutor") {}

/**
 * Whose executor it is. Dedupe keys and artifacts carry it. Default `"default"`.
 *
 * @category references
 * @since 0.1.0
 */
export const Principal = Context.Reference<string>("effect-tool-executor/ToolExecutor/Principal", {
  defaultValue: () => "default"
})

/**
 * Whether agents go on only if the model asks for it. Then the tools that need
 * a heartbeat show the argument `request_heartbeat` in their JSON Schema. The
 * argument is taken out of every call, on or off. Default false.
 *
 * @category references
 * @since 0.1.0
 */
export const Heartbeats = Context.Reference<boolean>("effect-tool-executor/ToolExecutor/Heartbeats", {
  defaultValue: () => false
})

/**
 * Creates an executor from its gates and the settings in the context. The tools
 * of `Periodic` rules are fired as long as the scope is open.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: Effect.Effect<
  ToolExecutor["Service"],
  ConfigurationError,
  ToolHandlers | Rules | Permissions.Permissions | Dedupe | Pools | Scope.Scope
> = Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  const { turn, ...limits } = yield* Limits.checked
  const artifacts = Option.getOrUndefined(yield* Effect.serviceOption(ArtifactStore))
  const engine: Engine = {
    handlers: yield* ToolHandlers,
    rules: yield* Rules,
    permissions: yield* Permissions.Permissions,
    approvals: Option.getOrUndefined(yield* Effect.serviceOption(Approvals.Approvals)),
    approvalMode: yield* Approvals.Mode,
    revoked: new Set(),
    dedupe: yield* Dedupe,
    pools: yield* Pools,
    store: Option.getOrElse(yield* Effect.serviceOption(StateStore.StateStore), () => StateStore.makeMemory()),
    artifacts,
    checkpoints: Option.getOrUndefined(yield* Effect.serviceOption(Checkpoints)),
    output: OutputPolicy.make(yield* OutputPolicy.Limits, artifacts),
    orphans: new Orphans(),
    guards: yield* Guards.Guards,
    guardMillis: yield* Guards.TimeoutMillis,
    principal: yield* Principal,
    agentPath: [],
    mode: yield* Waves.Mode,
    onExecutionError: yield* Waves.OnExecutionError,
    ...limits,
    toolEvents: yield* EventHub.ToolEvents,
    heartbeats: yield* Heartbeats,
    leaders: new Map(),
    context,
    self: () => executor
  }
  const buffer = yield* EventHub.Buffer
  const batches = new Map<string, OpenBatch>()
  // ids of our own are no other executor's, over one store
  const unique = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
  let lastBatch = 0
  let lastProcess = 0

  const processWith = Effect.fnUntraced(function*(open: OpenBatch, options: ProcessOptions, fires?: string) {
    const now = yield* Clock.currentTimeMillis
    const state: ProcessState = {
      id: `process-${unique}-${++lastProcess}`,
      batch: open.state,
      budget: new TurnBudget.TurnBudget(options.turn ?? turn, now),
      hub: new EventHub.EventHub(buffer),
      meta: options.meta ?? {},
      history: new RuleHistory(open.state.succeeded),
      fires,
      blocked: new Map(),
      waves: new Set(),
      cancelled: open.closed ? "the batch is closed" : undefined,
      closed: open.closed
    }
    if (open.closed) state.hub.end()
    open.processes.add(state)
    return ToolProcess.make(engine, state)
  })
  const newBatch = (id: string): OpenBatch => {
    const open: OpenBatch = {
      state: { id, key: JSON.stringify([engine.principal, id]), outputChars: 0, succeeded: new Set() },
      processes: new Set(),
      scopes: 0,
      closed: false,
      batch: {
        id,
        process: Effect.suspend(() => processWith(open, {})),
        processWith: (options) => processWith(open, options)
      }
    }
    return open
  }
  const complete = (id: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const open = batches.get(id)
      if (open === undefined) return Effect.void
      batches.delete(id)
      open.closed = true
      for (const process of open.processes) process.cancelled ??= "the batch is closed"
      // before anybody can go on in a batch of the same id
      const closed = engine.store.closeBatch(open.state.key)
      for (const process of open.processes) {
        for (const wave of Array.from(process.waves)) wave.cancel(process.cancelled!)
        process.closed = true
        if (process.waves.size === 0) process.hub.end()
      }
      return Effect.isEffect(closed)
        ? Effect.catch(closed, (error) => Effect.logWarning(error.message, error.cause))
        : Effect.void
    })

  // a batch may be entered again: it is the same one until the last of its scopes closes
  const enter = (id = `batch-${unique}-${++lastBatch}`) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const found = batches.get(id) ?? newBatch(id)
        found.scopes++
        batches.set(id, found)
        return found
      }),
      (it) => Effect.suspend(() => --it.scopes === 0 && batches.get(id) === it ? complete(id) : Effect.void)
    )
  const fire = Effect.fnUntraced(function*({ params = {}, tool }: Of<"Periodic">) {
    const process = yield* processWith(yield* enter(), {}, tool)
    return yield* process.execute(ToolCall.make(process.id, tool, params))
  }, Effect.scoped)

  const grants = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const known = engine.store.grants(engine.principal, now)
    return Effect.isEffect(known) ? known : Effect.succeed(known)
  })

  const requiresHeartbeat = (tool: string): boolean =>
    engine.heartbeats && !engine.rules.current().forTool(tool).continues

  const executor = ToolExecutor.of({
    batch: (id) => Effect.map(enter(id), (open) => open.batch),
    completeBatch: complete,
    requiresHeartbeat,
    tools: Effect.sync(() =>
      Array.from(engine.handlers.current().values()).filter((it) => Permissions.sees(engine.permissions, it)).map((
        tool
      ) => ShownTools.show(tool, engine.rules.current().forTool(tool.name), requiresHeartbeat(tool.name)))
    ),
    grants,
    revoke: Effect.fnUntraced(function*({ id, tool }) {
      const known = (yield* grants).filter((it) => it.id === id || it.tool === tool)
      for (const grant of known) {
        engine.revoked.add(grant.id)
        const revoked = engine.store.revoke(engine.principal, grant.id)
        if (Effect.isEffect(revoked)) yield* revoked
      }
      return known.length
    }),
    pruneExpired: Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const pruned = engine.store.pruneExpired(now)
      return Effect.isEffect(pruned) ? pruned : Effect.succeed(pruned)
    }),
    orphans: Effect.sync(() => ({
      running: engine.orphans.current,
      total: engine.orphans.counts.orphans,
      lateWritesBlocked: engine.orphans.counts.lateWritesBlocked
    }))
  })
  yield* Periodic.start(engine.rules.current().periodic, fire)
  return executor
})

/**
 * Layer of an executor.
 *
 * **Details**
 *
 * What must never be forgotten is required: leaving it out is a type error, and
 * "off" is written (`Rules.layerNoop`, `Permissions.layerAllowAll`,
 * `Dedupe.layerNoop`, `Pools.layerNoop`). Extras are used if they are there:
 * `StateStore` (else memory of its own), `ArtifactStore` (else large outputs
 * are cut).
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<
  ToolExecutor,
  ConfigurationError,
  ToolHandlers | Rules | Permissions.Permissions | Dedupe | Pools
> = Layer.effect(ToolExecutor, make)

// Utilities

interface OpenBatch {
  readonly state: BatchState
  readonly batch: Batch
  readonly processes: Set<ProcessState>
  /** Open scopes that entered it. */
  scopes: number
  closed: boolean
}
