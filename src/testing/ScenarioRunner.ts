/** Runs a scenario in virtual time against the real executor and compares the result with what it expects. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as LocalExecutor from "../assembly/LocalExecutor.ts"
import * as ExecutorSettings from "../core/engine/state/ExecutorSettings.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import type { Guard } from "../core/gates/Guards.ts"
import { Pools } from "../core/gates/Pools.ts"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import * as Journal from "../core/store/Journal.ts"
import * as StateStore from "../core/store/StateStore.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import { memory, type Records, type RecordStorage } from "./RecordStorage.ts"
import type { Scenario, Step, Store } from "./Scenario.ts"
import type { Report } from "./ScenarioReport.ts"
import { type Approver, direct, type ScenarioTransport } from "./ScenarioTransport.ts"
import * as ScriptedTools from "./ScriptedTools.ts"
import { ScenarioLog, ScriptProgress } from "./ScriptProgress.ts"
import * as Script from "./ScriptSteps.ts"
import { SimulatedProcess } from "./SimulatedProcess.ts"
import * as VirtualTime from "./VirtualTime.ts"

export type { Report, TimedOutcome, WaveReport } from "./ScenarioReport.ts"

export interface Options {
  /** How it reaches the executor. Default: direct method calls. */
  readonly transport?: ScenarioTransport | undefined
  /**
   * The executor under test, built once per principal. The scenario provides its gates and tools unless it brings its
   * own. Default: `ToolExecutor.layer`.
   */
  readonly executor?:
    | Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, LocalExecutor.Gates | ToolHandlers.ToolHandlers>
    | undefined
  /** Overrides the `store` of the scenario. */
  readonly store?: Store | undefined
  /** Stores besides memory. */
  readonly stores?:
    | { readonly [S in Exclude<Store, "memory">]?: Effect.Effect<RecordStorage, ConfigurationError, Scope.Scope> }
    | undefined
}

/**
 * Runs a scenario.
 *
 * Fails with `ConfigurationError` if its tools or rules cannot be built, and with `VirtualTime.Stuck` if a wave waits
 * for something that never happens.
 *
 * **Example** (An executor with one gate of another kind)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Permissions, ToolExecutor } from "effect-tool-executor"
 * import { Scenario, ScenarioRunner } from "effect-tool-executor/testing"
 *
 * const program = Effect.gen(function*() {
 *   const scenario = yield* Scenario.decode({
 *     name: "nothing runs",
 *     tools: { write: {} },
 *     script: [{ wave: [{ id: "1", name: "write" }], expect: { outcomes: [{ tag: "Denied", reason: "PolicyDenied" }] } }]
 *   })
 *   const executor = ToolExecutor.layer.pipe(Layer.provide(Permissions.layerDenyAll))
 *   return (yield* ScenarioRunner.run(scenario, { executor })).differences
 * })
 *
 * await Effect.runPromise(program) // => []
 * ```
 */
export const run = (
  scenario: Scenario,
  options: Options = {}
): Effect.Effect<Report, ConfigurationError | VirtualTime.Stuck> =>
  Effect.scoped(Effect.gen(function*() {
    const tools = ScriptedTools.make(scenario.tools)
    const { config, rules = [], script } = scenario
    const world: World = {
      scenario,
      options,
      tools,
      place: yield* storageOf(scenario, options),
      log: new ScenarioLog({ classes: classesOf(scenario), runs: tools.runs, onUnknown: config?.onUnknown }),
      answers: (scenario.answers ?? []).map((it) => ({ ...it, use: "free" }))
    }
    let start = 0
    for (const steps of processesOf(script)) {
      start = yield* Effect.scoped(runProcess(world, steps, start))
    }
    const { differences, waves } = world.log
    return { name: scenario.name, rules, waves, differences }
  }))

interface World {
  readonly scenario: Scenario
  readonly options: Options
  readonly tools: ScriptedTools.ScriptedTools
  /** Where records are stored, if needed. */
  readonly place: RecordStorage | undefined
  readonly log: ScenarioLog
  readonly answers: ReadonlyArray<ScriptedAnswer>
}

/** A scripted answer. One that was pending at a crash can be used again. */
type ScriptedAnswer = NonNullable<Scenario["answers"]>[number] & { use: "free" | "pending" | "given" }

/** Steps with their positions. */
type Steps = ReadonlyArray<readonly [index: number, step: Step]>

/** Splits a script into processes: each ends with a crash or before a resume. */
const processesOf = (script: ReadonlyArray<Step>): ReadonlyArray<Steps> => {
  const processes: Array<Array<readonly [number, Step]>> = [[]]
  let isDying = false
  for (const [index, step] of script.entries()) {
    const isPlayed = step.wave !== undefined || step.agent !== undefined || step.resume !== undefined
    const last = processes.at(-1)!
    // a process that is still alive ends when its wave is submitted again
    if (step.resume !== undefined && last.some(([, it]) => isSubmitted(it))) processes.push([])
    if (step.crash !== undefined) isDying = true
    processes.at(-1)!.push([index, step])
    if (!isPlayed || !isDying) continue
    isDying = false
    processes.push([])
  }
  return processes.filter((it) => it.length > 0)
}

const isSubmitted = ({ agent, resume, wave }: Step): boolean =>
  wave !== undefined || agent !== undefined || resume !== undefined

const isRecorded = ({ agent, crash, resume }: Step): boolean =>
  agent !== undefined || crash !== undefined || resume !== undefined

const storageOf = Effect.fnUntraced(function*(
  scenario: Scenario,
  { store = scenario.store, stores }: Options
): Effect.fn.Return<RecordStorage | undefined, ConfigurationError, Scope.Scope> {
  if (store === undefined && !scenario.script.some(isRecorded)) return undefined
  if (store === undefined || store === "memory") return yield* memory
  const place = stores?.[store]
  if (place !== undefined) return yield* place
  return yield* new ConfigurationError({
    subject: "scenario",
    problems: [{ path: "store", problem: `there is no ${store} here`, expected: "memory, or one of `stores`" }]
  })
})

/** Runs one process in virtual time from `start`; returns when it ended. */
const runProcess = Effect.fnUntraced(function*(world: World, steps: Steps, start: number) {
  const { log } = world
  const opened = yield* Effect.scope
  let simulated: SimulatedProcess | undefined
  let progress: ScriptProgress | undefined
  let until = start
  const isLast = steps.at(-1)?.[0] === world.scenario.script.length - 1
  const playing = Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const records = world.place === undefined ? undefined : yield* Scope.provide(world.place.open, opened)
    simulated = records === undefined
      ? undefined
      : new SimulatedProcess(records, leaseOf(world.scenario) ?? usualLease, clock, log.gone)
    const scope = yield* Scope.make()
    progress = yield* progressOf(world, simulated, records, scope)
    for (const [index, step] of steps) yield* Script.perform(progress, step, index)
    until = yield* Clock.currentTimeMillis
    if (!isLast && simulated !== undefined) return yield* simulated.end
    yield* Scope.close(scope, Exit.void)
  })
  const played = yield* Effect.result(VirtualTime.run(playing, { start, killed: () => simulated?.isDead === true }))
  if (Result.isFailure(played)) {
    // a stuck run is interrupted, which may bring it to its crash point
    const isKilled = played.failure._tag === "Stuck" && played.failure.because === "killed"
    if (simulated === undefined || !isKilled) return yield* played.failure
    until = simulated.until
    if (progress?.dying !== undefined) log.waves.push(progress.dying())
    const { isUnrecorded, sessions } = simulated
    log.gone.push({ isUnrecorded, sessions, until: until + (leaseOf(world.scenario) ?? 0) })
    for (const it of world.answers) if (it.use === "pending") it.use = "free"
  }
  return until
})

/** Default lease in milliseconds. */
const usualLease = Infinity

const leaseOf = ({ config }: Scenario): number | undefined =>
  config?.lease === undefined ? undefined : Duration.toMillis(Duration.fromInputUnsafe(config.lease as Duration.Input))

const progressOf = Effect.fnUntraced(function*(
  { answers, log, options: { executor = ToolExecutor.layer, transport = direct }, scenario, tools }: World,
  simulated: SimulatedProcess | undefined,
  records: Records | undefined,
  scope: Scope.Scope
) {
  const options = optionsOf(scenario)
  const approver = yield* approverOf(scenario, answers, scope)
  if (approver !== undefined) yield* Scope.provide(transport.answer(approver), scope)
  const stores = simulated === undefined || records === undefined ? Layer.empty : Layer.mergeAll(
    Layer.succeed(Journal.Journal, simulated.journal),
    Layer.succeed(StateStore.StateStore, simulated.state),
    Layer.succeed(ArtifactStore.ArtifactStore, records.artifacts)
  )
  const shared = LocalExecutor.layerGates(options).pipe(
    Layer.provideMerge(ToolHandlers.layer(tools.toolkit, { tools: options.tools })),
    Layer.provide(tools.handlers),
    Layer.provideMerge(stores),
    Layer.merge(approver === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, approver.approvals))
  )
  const context = yield* Layer.buildWithScope(shared, scope)
  return new ScriptProgress({
    log,
    simulated,
    records,
    approvals: approver?.approvals,
    scope,
    build: (principal) =>
      Layer.fresh(executor).pipe(
        Layer.provide(Layer.succeedContext(ofPrincipal(context, principal))),
        Layer.buildWithScope(scope),
        Effect.map((it) => Context.get(it, ToolExecutor.ToolExecutor))
      ),
    connect: (executor, process) => Scope.provide(transport.connect({ executor, process, approver }), scope)
  })
})

/** Caps and keys are shared; each principal has its own class pools. */
const ofPrincipal = (context: Context.Context<LocalExecutor.Gates | ToolHandlers.ToolHandlers>, principal: string) =>
  context.pipe(
    Context.add(ExecutorSettings.ExecutorSettings, {
      ...Context.get(context, ExecutorSettings.ExecutorSettings),
      principal
    }),
    Context.add(Pools, Context.get(context, Pools).session())
  )

/** The scripted approver; absent if `answers` is null. */
const approverOf = Effect.fnUntraced(function*(
  { answers, config }: Scenario,
  said: ReadonlyArray<ScriptedAnswer>,
  scope: Scope.Scope
) {
  if (answers === null) return undefined
  const timeout = config?.permissionTimeout as Duration.Input | undefined
  const approvals = yield* Scope.provide(Approvals.make({ timeout }), scope)
  const approver: Approver = {
    approvals,
    next: (tool) =>
      Effect.suspend(() => {
        const next = said.find((it) => it.tool === tool && it.use === "free")
        if (next === undefined) return Effect.never
        next.use = "pending"
        const answer = next.answer as Approvals.Answer
        return Effect.as(Effect.sleep((next.after ?? 0) as Duration.Input), answer).pipe(
          Effect.tap(Effect.sync(() => {
            next.use = "given"
          }))
        )
      })
  }
  return approver
})

const classesOf = (scenario: Scenario): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(scenario.tools).map(([name, tool]) => [
      name,
      tool.recursive === true
        ? "ConcurrentMut"
        : tool.class === "ReadOnly"
        ? "ReadOnly"
        : tool.promoted ?? tool.class === "ConcurrentMut"
        ? "ConcurrentMut"
        : "SerialMut"
    ])
  )

const optionsOf = ({ config = {}, policy, rules }: Scenario): LocalExecutor.Options => {
  const { dedupe, guards = [], lease: _, onUnknown: __, permissionTimeout: ___, ...same } = config
  const { reach: scope, ...equal } = typeof dedupe === "object" ? dedupe : {}
  return {
    // durations were checked when the scenario was decoded
    ...same as LocalExecutor.Options,
    dedupe: dedupe === false ? false : { ...equal as LocalExecutor.Options["dedupe"] & object, scope },
    rules,
    policy: { default: "allow", ...policy },
    guards: guards.map(guardOf)
  }
}

const guardOf = (
  { after = "0 millis", says, tool }: NonNullable<NonNullable<Scenario["config"]>["guards"]>[number]
): Guard => ({
  name: "a guard of the scenario",
  check: ({ call }) =>
    tool !== undefined && tool !== call.name
      ? Effect.void
      : Effect.andThen(Effect.sleep(after as Duration.Input), verdicts.get(says) ?? Effect.fail(says))
})

const verdicts = new Map<string, Effect.Effect<void>>([
  ["yes", Effect.void],
  ["dies", Effect.die(new Error("the guard died"))],
  ["never", Effect.never]
])
