/**
 * Runs a scenario in virtual time against the real executor and compares what
 * happened with what it expects.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as LocalExecutor from "../core/assembly/LocalExecutor.ts"
import * as ExecutorSettings from "../core/engine/ExecutorSettings.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import type { Guard } from "../core/gates/Guards.ts"
import { Pools } from "../core/gates/Pools.ts"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import * as Journal from "../core/store/Journal.ts"
import * as StateStore from "../core/store/StateStore.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import { Life } from "./Life.ts"
import * as Place from "./Place.ts"
import type { Report } from "./Report.ts"
import type { Scenario, Step, Store } from "./Scenario.ts"
import * as Script from "./Script.ts"
import * as ScriptedTools from "./ScriptedTools.ts"
import { Host, Stage } from "./Stage.ts"
import * as VirtualTime from "./VirtualTime.ts"
import * as Way from "./Way.ts"

export type { Report, TimedOutcome, WaveReport } from "./Report.ts"

/**
 * How a scenario is run.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How it gets at the executor. Default: by its own methods. */
  readonly way?: Way.Way | undefined
  /**
   * The executor under test, built anew for each principal. What it requires of
   * gates and tools is the scenario's; what it brings itself holds instead.
   * Default: `ToolExecutor.layer`.
   */
  readonly executor?:
    | Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, LocalExecutor.Gates | ToolHandlers.ToolHandlers>
    | undefined
  /** Where records are, instead of where the scenario says. */
  readonly store?: Store | undefined
  /** The places beside memory that there are. */
  readonly stores?:
    | { readonly [S in Exclude<Store, "memory">]?: Effect.Effect<Place.Place, ConfigurationError, Scope.Scope> }
    | undefined
}

/**
 * Runs a scenario.
 *
 * **Details**
 *
 * Fails with `ConfigurationError` if its tools or rules cannot be built, and
 * with `VirtualTime.Stuck` if a wave waits for something that never comes.
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
 *
 * @category running
 * @since 0.1.0
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
      place: yield* placeOf(scenario, options),
      host: new Host({ classes: classesOf(scenario), runs: tools.runs, onUnknown: config?.onUnknown }),
      answers: (scenario.answers ?? []).map((it) => ({ ...it, use: "free" }))
    }
    let start = 0
    for (const steps of livesOf(script)) {
      start = yield* Effect.scoped(playLife(world, steps, start))
    }
    const { differences, waves } = world.host
    return { name: scenario.name, rules, waves, differences }
  }))

// Utilities

/** What there is over all lives. */
interface World {
  readonly scenario: Scenario
  readonly options: Options
  readonly tools: ScriptedTools.ScriptedTools
  /** Where records are, if anything is recorded. */
  readonly place: Place.Place | undefined
  readonly host: Host
  readonly answers: ReadonlyArray<Said>
}

/** An answer of the script. What somebody was about to say when the process died is said to whoever asks again. */
type Said = NonNullable<Scenario["answers"]>[number] & { use: "free" | "pending" | "given" }

/** Steps with their places. */
type Steps = ReadonlyArray<readonly [index: number, step: Step]>

/** The lives of a script: each ends with what dies of a crash, or with what comes before a resume. */
const livesOf = (script: ReadonlyArray<Step>): ReadonlyArray<Steps> => {
  const lives: Array<Array<readonly [number, Step]>> = [[]]
  let isDying = false
  for (const [index, step] of script.entries()) {
    const isPlayed = step.wave !== undefined || step.agent !== undefined || step.resume !== undefined
    const last = lives.at(-1)!
    // what has not died is ended by whoever hands it over again
    if (step.resume !== undefined && last.some(([, it]) => isHandedOver(it))) lives.push([])
    if (step.crash !== undefined) isDying = true
    lives.at(-1)!.push([index, step])
    if (!isPlayed || !isDying) continue
    isDying = false
    lives.push([])
  }
  return lives.filter((it) => it.length > 0)
}

const isHandedOver = ({ agent, resume, wave }: Step): boolean =>
  wave !== undefined || agent !== undefined || resume !== undefined

const isRecorded = ({ agent, crash, resume }: Step): boolean =>
  agent !== undefined || crash !== undefined || resume !== undefined

const placeOf = Effect.fnUntraced(function*(
  scenario: Scenario,
  { store = scenario.store, stores }: Options
): Effect.fn.Return<Place.Place | undefined, ConfigurationError, Scope.Scope> {
  if (store === undefined && !scenario.script.some(isRecorded)) return undefined
  if (store === undefined || store === "memory") return yield* Place.memory
  const place = stores?.[store]
  if (place !== undefined) return yield* place
  return yield* new ConfigurationError({
    subject: "scenario",
    problems: [{ path: "store", problem: `there is no ${store} here`, expected: "memory, or one of `stores`" }]
  })
})

/** Plays one life, in virtual time from `start` on; gives when it ended. */
const playLife = Effect.fnUntraced(function*(world: World, steps: Steps, start: number) {
  const { host } = world
  // what a life has open is closed by its end, whatever it was about to do
  const opened = yield* Effect.scope
  let life: Life | undefined
  let stage: Stage | undefined
  let until = start
  const isLast = steps.at(-1)?.[0] === world.scenario.script.length - 1
  const playing = Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const kept = world.place === undefined ? undefined : yield* Scope.provide(world.place.open, opened)
    life = kept === undefined ? undefined : new Life(kept, leaseOf(world.scenario) ?? usualLease, clock, host.gone)
    const scope = yield* Scope.make()
    stage = yield* stageOf(world, life, kept, scope)
    for (const [index, step] of steps) yield* Script.perform(stage, step, index)
    until = yield* Clock.currentTimeMillis
    if (!isLast && life !== undefined) return yield* life.end
    yield* Scope.close(scope, Exit.void)
  })
  const played = yield* Effect.result(VirtualTime.run(playing, { start, killed: () => life?.isDead === true }))
  if (Result.isFailure(played)) {
    // one that is stuck is interrupted, and may come to its moment by that
    const isKilled = played.failure._tag === "Stuck" && played.failure.because === "killed"
    if (life === undefined || !isKilled) return yield* played.failure
    until = life.until
    if (stage?.dying !== undefined) host.waves.push(stage.dying())
    host.gone.push({ sessions: life.sessions, until: until + (leaseOf(world.scenario) ?? 0) })
    for (const it of world.answers) if (it.use === "pending") it.use = "free"
  }
  return until
})

/** Milliseconds that are held what a process has taken, where a scenario says nothing of it. */
const usualLease = Infinity

const leaseOf = ({ config }: Scenario): number | undefined =>
  config?.lease === undefined ? undefined : Duration.toMillis(Duration.fromInputUnsafe(config.lease as Duration.Input))

const stageOf = Effect.fnUntraced(function*(
  { answers, host, options: { executor = ToolExecutor.layer, way = Way.directly }, scenario, tools }: World,
  life: Life | undefined,
  kept: Place.Kept | undefined,
  scope: Scope.Scope
) {
  const options = optionsOf(scenario)
  const people = yield* peopleOf(scenario, answers, scope)
  if (people !== undefined) yield* Scope.provide(way.answer(people), scope)
  const records = life === undefined || kept === undefined ? Layer.empty : Layer.mergeAll(
    Layer.succeed(Journal.Journal, life.journal),
    Layer.succeed(StateStore.StateStore, life.state),
    Layer.succeed(ArtifactStore.ArtifactStore, kept.artifacts)
  )
  const shared = LocalExecutor.layerGates(options).pipe(
    Layer.provideMerge(ToolHandlers.layer(tools.toolkit, { tools: options.tools })),
    Layer.provide(tools.handlers),
    Layer.provideMerge(records),
    Layer.merge(people === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, people.approvals))
  )
  const context = yield* Layer.buildWithScope(shared, scope)
  return new Stage({
    host,
    life,
    kept,
    approvals: people?.approvals,
    scope,
    build: (principal) =>
      Layer.fresh(executor).pipe(
        Layer.provide(Layer.succeedContext(ofPrincipal(context, principal))),
        Layer.buildWithScope(scope),
        Effect.map((it) => Context.get(it, ToolExecutor.ToolExecutor))
      ),
    enter: (executor, process) => Scope.provide(way.enter({ executor, process, people }), scope)
  })
})

/** Caps and keys are of all; the pools of the classes, like everything with a name on it, are each principal's. */
const ofPrincipal = (context: Context.Context<LocalExecutor.Gates | ToolHandlers.ToolHandlers>, principal: string) =>
  context.pipe(
    Context.add(ExecutorSettings.ExecutorSettings, {
      ...Context.get(context, ExecutorSettings.ExecutorSettings),
      principal
    }),
    Context.add(Pools, Context.get(context, Pools).session())
  )

/** Who answers; nobody if there are no answers to give. */
const peopleOf = Effect.fnUntraced(function*(
  { answers, config }: Scenario,
  said: ReadonlyArray<Said>,
  scope: Scope.Scope
) {
  if (answers === null) return undefined
  const timeout = config?.permissionTimeout as Duration.Input | undefined
  const approvals = yield* Scope.provide(Approvals.make({ timeout }), scope)
  const people: Way.People = {
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
  return people
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
  const { guards = [], lease: _, onUnknown: __, permissionTimeout: ___, ...same } = config
  return {
    // durations were checked when the scenario was decoded
    ...same as LocalExecutor.Options,
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
