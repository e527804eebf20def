/**
 * Runs a scenario in virtual time against the real executor and compares what
 * happened with what it expects.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import type { ConfigurationError } from "../ConfigurationError.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import * as Approvals from "../policy/Approvals.ts"
import type { Guard } from "../policy/Guards.ts"
import { Pools } from "../policy/Pools.ts"
import type { ToolEvent } from "../ToolEvent.ts"
import * as ToolExecutor from "../ToolExecutor.ts"
import * as ToolHandlers from "../ToolHandlers.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolProcess } from "../ToolProcess.ts"
import type { ToolRule } from "../ToolRule.ts"
import * as Comparison from "./Comparison.ts"
import type { Expected, Scenario, Step } from "./Scenario.ts"
import * as ScriptedTools from "./ScriptedTools.ts"
import * as VirtualTime from "./VirtualTime.ts"
import * as Way from "./Way.ts"

/**
 * One wave of a scenario as it went.
 *
 * @category models
 * @since 0.1.0
 */
export interface WaveReport {
  /** Place of its step in the script, from 0. */
  readonly step: number
  /** The same as a path, which tells waves side by side apart. */
  readonly where: string
  readonly outcomes: ReadonlyArray<TimedOutcome>
  /** Virtual milliseconds till the wave ended. */
  readonly elapsed: number
  readonly events: ReadonlyArray<ToolEvent>
  /** Absent if nobody was told: the caller was interrupted. */
  readonly needsContinuation?: boolean
  readonly shouldExit?: boolean
}

/**
 * An outcome with its virtual times in milliseconds since the wave began.
 *
 * @category models
 * @since 0.1.0
 */
export interface TimedOutcome {
  /** Absent if the call never started. */
  readonly start?: number
  readonly end: number
  readonly outcome: ToolOutcome
}

/**
 * A scenario as it went.
 *
 * @category models
 * @since 0.1.0
 */
export interface Report {
  readonly name: string
  /** The rules that were enforced. */
  readonly rules: ReadonlyArray<ToolRule>
  readonly waves: ReadonlyArray<WaveReport>
  /** Empty if everything holds. */
  readonly differences: ReadonlyArray<Comparison.Difference>
}

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
): Effect.Effect<Report, ConfigurationError | VirtualTime.Stuck> => VirtualTime.run(playAll(scenario, options))

// Utilities

const playAll = Effect.fnUntraced(function*(
  scenario: Scenario,
  { executor = ToolExecutor.layer, way = Way.directly }: Options
) {
  const tools = ScriptedTools.make(scenario.tools)
  const options = optionsOf(scenario)
  const scope = yield* Scope.make()
  const people = yield* peopleOf(scenario, scope)
  if (people !== undefined) yield* Scope.provide(way.answer(people), scope)
  const shared = LocalExecutor.layerGates(options).pipe(
    Layer.provideMerge(ToolHandlers.layer(tools.toolkit, { tools: options.tools })),
    Layer.provide(tools.handlers),
    Layer.merge(people === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, people.approvals))
  )
  const context = yield* Layer.buildWithScope(shared, scope)
  const stage = new Stage(
    (principal) =>
      Layer.fresh(executor).pipe(
        Layer.provide(Layer.succeedContext(ofPrincipal(context, principal))),
        Layer.buildWithScope(scope),
        Effect.map((it) => Context.get(it, ToolExecutor.ToolExecutor))
      ),
    scope,
    classesOf(scenario),
    (executor, process) => Scope.provide(way.enter({ executor, process, people }), scope)
  )
  for (const [index, step] of scenario.script.entries()) yield* perform(stage, step, index)
  yield* Scope.close(scope, Exit.void)
  const { differences, waves } = stage
  return { name: scenario.name, rules: options.rules ?? [], waves, differences }
})

/** Caps and keys are of all; the pools of the classes, like everything with a name on it, are each principal's. */
const ofPrincipal = (context: Context.Context<LocalExecutor.Gates | ToolHandlers.ToolHandlers>, principal: string) =>
  context.pipe(
    Context.add(ToolExecutor.Principal, principal),
    Context.add(Pools, Context.get(context, Pools).session())
  )

/** Who answers; nobody if there are no answers to give. */
const peopleOf = Effect.fnUntraced(function*({ answers = [], config }: Scenario, scope: Scope.Scope) {
  if (answers === null) return undefined
  const timeout = config?.permissionTimeout as Duration.Input | undefined
  const approvals = yield* Scope.provide(Approvals.make({ timeout }), scope)
  const left = [...answers]
  const people: Way.People = {
    approvals,
    next: (tool) =>
      Effect.suspend(() => {
        const index = left.findIndex((it) => it.tool === tool)
        if (index === -1) return Effect.never
        const [next] = left.splice(index, 1)
        return Effect.as(Effect.sleep((next!.after ?? 0) as Duration.Input), next!.answer as Approvals.Answer)
      })
  }
  return people
})

type Executor = ToolExecutor.Service

/** A process whose waves the script runs. */
interface Player {
  readonly executor: Executor
  readonly process: ToolProcess
  readonly entered: Way.Entered
}

/** Something that is to happen during the wave that follows. */
interface Pending {
  readonly at: string | undefined
  readonly run: (player: Player, leave: Effect.Effect<void>) => Effect.Effect<void>
}

/** What the steps of a script work on. */
class Stage {
  readonly scope: Scope.Scope
  readonly classes: ReadonlyMap<string, string>
  readonly waves: Array<WaveReport> = []
  readonly differences: Array<Comparison.Difference> = []
  readonly executors = new Map<string, Executor>()
  /** By principal and id. */
  readonly batches = new Map<string, ToolExecutor.Batch>()
  /** The last of each batch. */
  readonly players = new Map<string, Player>()
  readonly build: (principal: string) => Effect.Effect<Executor, ConfigurationError>
  readonly enter: (executor: Executor, process: ToolProcess) => Effect.Effect<Way.Entered>
  current: Player | undefined
  pending: Array<Pending> = []

  constructor(
    build: Stage["build"],
    scope: Scope.Scope,
    classes: ReadonlyMap<string, string>,
    enter: Stage["enter"]
  ) {
    this.build = build
    this.scope = scope
    this.classes = classes
    this.enter = enter
  }
}

const perform = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
  const { at, cancelCall, principal } = step
  if (step.process !== undefined) stage.current = yield* begin(stage, step.process, principal)
  else if (step.advance !== undefined) yield* Effect.sleep(step.advance as Duration.Input)
  else if (step.completeBatch !== undefined) {
    yield* (yield* executorOf(stage, principal)).completeBatch(step.completeBatch)
    stage.batches.delete(keyOf(step.completeBatch, principal))
    stage.players.delete(keyOf(step.completeBatch, principal))
  } else if (step.interrupt !== undefined) stage.pending.push({ at, run: (_, leave) => leave })
  else if (step.cancel !== undefined) {
    stage.pending.push({ at, run: ({ process }) => process.cancel("the user stopped it") })
  } else if (cancelCall !== undefined) {
    stage.pending.push({ at, run: ({ entered }) => entered.cancelCall(cancelCall) })
  } else if (step.revoke !== undefined) {
    const executor = yield* executorOf(stage, principal)
    const revoke = Effect.asVoid(Effect.orDie(executor.revoke({ tool: step.revoke })))
    if (at === undefined) yield* revoke
    else stage.pending.push({ at, run: () => revoke })
  } else if (step.expectProcess !== undefined) yield* expectProcess(stage, step.expectProcess, index)
  else yield* playStep(stage, step, index)
})

const usual = "default"

const keyOf = (id: string, principal: string = usual): string => JSON.stringify([principal, id])

const executorOf = Effect.fnUntraced(function*(stage: Stage, principal: string = usual) {
  const known = stage.executors.get(principal)
  if (known !== undefined) return known
  const executor = yield* stage.build(principal)
  stage.executors.set(principal, executor)
  return executor
})

const begin = Effect.fnUntraced(function*(stage: Stage, id: string, principal?: string) {
  const key = keyOf(id, principal)
  const executor = yield* executorOf(stage, principal)
  let batch = stage.batches.get(key)
  if (batch === undefined) {
    batch = yield* Scope.provide(executor.batch(id), stage.scope)
    stage.batches.set(key, batch)
  }
  const process = yield* batch.process
  const player: Player = { executor, process, entered: yield* stage.enter(executor, process) }
  stage.players.set(key, player)
  return player
})

/** The process of the step before, or the first. */
const current = Effect.fnUntraced(function*(stage: Stage) {
  return stage.current ??= yield* begin(stage, "batch")
})

/** One wave of a step: whose it is, what runs, and what is expected. */
interface Part {
  readonly player: Player
  readonly where: string
  readonly expect: Expected | undefined
  readonly execute: (gone: Effect.Effect<void>) => Effect.Effect<Way.Played>
}

/** A step with waves: plays them from the same moment, with what is to happen meanwhile, and compares. */
const playStep = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
  const parts = yield* partsOf(stage, step, `script[${index}]`)
  const pending = stage.pending.splice(0)
  const running: Array<Fiber.Fiber<WaveReport>> = []
  for (const part of parts) {
    running.push(yield* Effect.forkChild(play(part, pending, index), { startImmediately: true }))
  }
  const reports = yield* Fiber.joinAll(running)
  for (const [place, report] of reports.entries()) {
    const { expect } = parts[place]!
    stage.waves.push(report)
    if (expect !== undefined) stage.differences.push(...Comparison.compare(expect, report, stage.classes))
  }
})

const partsOf = Effect.fnUntraced(function*(stage: Stage, step: Step, where: string) {
  const { exitRequirements, expect, startConstraints, wave, waves } = step
  if (waves !== undefined) {
    const parts: Array<Part> = []
    for (const [place, { expect, principal, process, wave }] of waves.entries()) {
      const player = stage.players.get(keyOf(process, principal)) ?? (yield* begin(stage, process, principal))
      const execute: Part["execute"] = (gone) => player.entered.play(wave, gone)
      parts.push({ player, where: `${where}.waves[${place}]`, expect, execute })
    }
    return parts
  }
  const player = yield* current(stage)
  const { process } = player
  const execute: Part["execute"] = wave !== undefined
    ? (gone) => player.entered.play(wave, gone)
    // the calls that the host makes because rules demand them
    : startConstraints === undefined
    ? (gone) => Way.observe(process, process.exitRequirements(argumentsOf(exitRequirements)), gone)
    : (gone) => Way.observe(process, process.startConstraints(argumentsOf(startConstraints)), gone)
  return [{ player, where, expect, execute }] satisfies ReadonlyArray<Part>
})

const argumentsOf = (value: unknown): { readonly [tool: string]: Readonly<Record<string, unknown>> } =>
  Predicate.isObject(value)
    ? Object.fromEntries(
      Object.entries(value).filter((it): it is [string, Record<string, unknown>] => Predicate.isObject(it[1]))
    )
    : {}

const play = Effect.fnUntraced(function*(
  { execute, player, where }: Part,
  pending: ReadonlyArray<Pending>,
  step: number
) {
  const began = yield* Clock.currentTimeMillis
  const gone = yield* Deferred.make<void>()
  const running = yield* Effect.forkChild(execute(Deferred.await(gone)), { startImmediately: true })
  const timers: Array<Fiber.Fiber<void>> = []
  for (const { at, run } of pending) {
    const action = run(player, Effect.asVoid(Deferred.succeed(gone, undefined)))
    const timed = at === undefined ? action : Effect.andThen(Effect.sleep(at as Duration.Input), action)
    timers.push(yield* Effect.forkChild(timed, { startImmediately: true }))
  }
  const { events, result } = yield* Fiber.join(running)
  const elapsed = (yield* Clock.currentTimeMillis) - began
  yield* Fiber.interruptAll(timers)
  return reportOf({ step, where, elapsed, events }, result, began)
})

const reportOf = (
  wave: Pick<WaveReport, "step" | "where" | "elapsed" | "events">,
  result: Way.Played["result"],
  began: number
): WaveReport => {
  const outcomes = wave.events.flatMap((event) => event._tag === "ToolsEnd" ? event.executionResults : [])
  const ends = new Map(
    wave.events.flatMap((event) => event._tag === "ToolCallComplete" ? [[event.index, event.at]] : [])
  )
  return {
    ...wave,
    ...(result === undefined
      ? {}
      : { needsContinuation: result.needsContinuation, shouldExit: result.shouldExit }),
    outcomes: outcomes.map((outcome) => ({
      ...(outcome.startedAt === undefined ? {} : { start: outcome.startedAt - began }),
      end: (ends.get(outcome.index) ?? began) - began,
      outcome
    }))
  }
}

const expectProcess = Effect.fnUntraced(function*(
  stage: Stage,
  expected: NonNullable<Step["expectProcess"]>,
  index: number
) {
  const { executor, process } = yield* current(stage)
  const { lateWritesBlocked, running } = yield* executor.orphans
  const is: Required<typeof expected> = {
    lateWritesBlocked,
    orphans: running.length,
    shouldExit: yield* process.shouldExit,
    exitPending: yield* process.exitPending,
    startPending: yield* process.startPending,
    allowedNext: yield* process.allowedNext
  }
  for (const key of Object.keys(expected) as ReadonlyArray<keyof typeof is>) {
    if (Equal.equals(inOrder(expected[key]), inOrder(is[key]))) continue
    stage.differences.push({ where: `script[${index}].expectProcess.${key}`, expected: expected[key], got: is[key] })
  }
})

/** The order of names says nothing. */
const inOrder = (value: unknown): unknown => Array.isArray(value) ? value.toSorted() : value

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
  const { guards = [], permissionTimeout: _, ...same } = config
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
