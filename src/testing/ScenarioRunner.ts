/**
 * Runs a scenario in virtual time against the real executor and compares what
 * happened with what it expects.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ConfigurationError } from "../ConfigurationError.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import * as Approvals from "../policy/Approvals.ts"
import type { ToolEvent } from "../ToolEvent.ts"
import { type Batch, ToolExecutor } from "../ToolExecutor.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolProcess } from "../ToolProcess.ts"
import type { ToolRule } from "../ToolRule.ts"
import * as Comparison from "./Comparison.ts"
import type { Scenario, Step } from "./Scenario.ts"
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
  readonly outcomes: ReadonlyArray<TimedOutcome>
  /** Virtual milliseconds till the wave ended. */
  readonly elapsed: number
  readonly events: ReadonlyArray<ToolEvent>
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
 * Runs a scenario.
 *
 * **Details**
 *
 * Fails with `ConfigurationError` if its tools or rules cannot be built, and
 * with `VirtualTime.Stuck` if a wave waits for something that never comes.
 *
 * @category running
 * @since 0.1.0
 */
export const run = (
  scenario: Scenario,
  way: Way.Way = Way.directly
): Effect.Effect<Report, ConfigurationError | VirtualTime.Stuck> => VirtualTime.run(playAll(scenario, way))

// Utilities

const playAll = Effect.fnUntraced(function*(scenario: Scenario, way: Way.Way) {
  const tools = ScriptedTools.make(scenario.tools)
  const options = optionsOf(scenario)
  const scope = yield* Scope.make()
  const people = yield* peopleOf(scenario, scope)
  if (people !== undefined) yield* Scope.provide(way.answer(people), scope)
  const layer = LocalExecutor.layer(tools.toolkit, options).pipe(
    Layer.provide(tools.handlers),
    Layer.provide(people === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, people.approvals))
  )
  const context = yield* Layer.buildWithScope(layer, scope)
  const stage = new Stage(
    Context.get(context, ToolExecutor),
    scope,
    classesOf(scenario),
    (executor, process) => Scope.provide(way.enter({ executor, process, people }), scope)
  )
  for (const [index, step] of scenario.script.entries()) yield* perform(stage, step, index)
  yield* Scope.close(scope, Exit.void)
  const { differences, waves } = stage
  return { name: scenario.name, rules: options.rules ?? [], waves, differences }
})

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

/** What the steps of a script work on. */
class Stage {
  readonly executor: ToolExecutor["Service"]
  readonly scope: Scope.Scope
  readonly classes: ReadonlyMap<string, string>
  readonly waves: Array<WaveReport> = []
  readonly differences: Array<Comparison.Difference> = []
  readonly batches = new Map<string, Batch>()
  readonly enter: (executor: ToolExecutor["Service"], process: ToolProcess) => Effect.Effect<Way.Entered>
  process: ToolProcess | undefined
  /** How the waves of the process are run. */
  entered: Way.Entered | undefined
  /** What is to happen during the wave that follows. */
  pending: Array<
    {
      readonly at: string | undefined
      readonly run: (process: ToolProcess, entered: Way.Entered) => Effect.Effect<void>
    }
  > = []

  constructor(
    executor: ToolExecutor["Service"],
    scope: Scope.Scope,
    classes: ReadonlyMap<string, string>,
    enter: Stage["enter"]
  ) {
    this.executor = executor
    this.scope = scope
    this.classes = classes
    this.enter = enter
  }
}

const perform = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
  if (step.process !== undefined) yield* begin(stage, step.process)
  else if (step.advance !== undefined) yield* Effect.sleep(step.advance as Duration.Input)
  else if (step.completeBatch !== undefined) {
    yield* stage.executor.completeBatch(step.completeBatch)
    stage.batches.delete(step.completeBatch)
  } else if (step.cancel !== undefined) {
    stage.pending.push({ at: step.at, run: (process) => process.cancel("the user stopped it") })
  } else if (step.cancelCall !== undefined) {
    const id = step.cancelCall
    stage.pending.push({ at: step.at, run: (_, entered) => entered.cancelCall(id) })
  } else if (step.wave !== undefined) yield* wave(stage, step, index)
  else if (step.expectProcess !== undefined) yield* expectProcess(stage, step, index)
  else if (step.revoke !== undefined) {
    const tool = step.revoke
    const revoke = Effect.asVoid(Effect.orDie(stage.executor.revoke({ tool })))
    if (step.at === undefined) yield* revoke
    else stage.pending.push({ at: step.at, run: () => revoke })
  } else yield* hostWave(stage, step, index)
})

const begin = Effect.fnUntraced(function*(stage: Stage, id: string) {
  let batch = stage.batches.get(id)
  if (batch === undefined) {
    batch = yield* Scope.provide(stage.executor.batch(id), stage.scope)
    stage.batches.set(id, batch)
  }
  const process = yield* batch.process
  stage.process = process
  stage.entered = yield* stage.enter(stage.executor, process)
})

/** The process of the step before, or the first. */
const current = Effect.fnUntraced(function*(stage: Stage) {
  if (stage.process === undefined) yield* begin(stage, "batch")
  return { process: stage.process!, entered: stage.entered! }
})

/** The calls of a model's turn. */
const wave = (stage: Stage, step: Step, index: number) =>
  play(stage, step, index, (_, entered) => entered.play(step.wave!))

/** The calls that the host makes because rules demand them. */
const hostWave = (stage: Stage, step: Step, index: number) =>
  play(stage, step, index, (process) =>
    Effect.gen(function*() {
      const seen = Stream.runCollect(Stream.takeUntil(process.events, (event) => event._tag === "ToolsEnd"))
      const observer = yield* Effect.forkChild(seen, { startImmediately: true })
      yield* step.startConstraints === undefined
        ? process.exitRequirements(argumentsOf(step.exitRequirements))
        : process.startConstraints(argumentsOf(step.startConstraints))
      return yield* Fiber.join(observer)
    }))

const argumentsOf = (value: unknown): { readonly [tool: string]: Readonly<Record<string, unknown>> } =>
  Predicate.isObject(value)
    ? Object.fromEntries(
      Object.entries(value).filter((it): it is [string, Record<string, unknown>] => Predicate.isObject(it[1]))
    )
    : {}

/** One wave: plays it, with what is to happen during it, and compares. */
const play = Effect.fnUntraced(function*(
  stage: Stage,
  step: Step,
  index: number,
  execute: (process: ToolProcess, entered: Way.Entered) => Effect.Effect<ReadonlyArray<ToolEvent>>
) {
  const { entered, process } = yield* current(stage)
  const began = yield* Clock.currentTimeMillis
  const running = yield* Effect.forkChild(execute(process, entered), { startImmediately: true })
  const timers: Array<Fiber.Fiber<void>> = []
  for (const { at, run } of stage.pending.splice(0)) {
    const action = at === undefined
      ? run(process, entered)
      : Effect.andThen(Effect.sleep(at as Duration.Input), run(process, entered))
    timers.push(yield* Effect.forkChild(action, { startImmediately: true }))
  }
  // what sub-agents do is theirs
  const events = (yield* Fiber.join(running)).filter((event) => event.process === process.id)
  const elapsed = (yield* Clock.currentTimeMillis) - began
  yield* Fiber.interruptAll(timers)
  const outcomes = events.flatMap((event) => event._tag === "ToolsEnd" ? event.executionResults : [])
  const ends = new Map(events.flatMap((event) => event._tag === "ToolCallComplete" ? [[event.index, event.at]] : []))
  const report: WaveReport = {
    step: index,
    elapsed,
    events,
    outcomes: outcomes.map((outcome) => ({
      ...(outcome.startedAt === undefined ? {} : { start: outcome.startedAt - began }),
      end: (ends.get(outcome.index) ?? began) - began,
      outcome
    }))
  }
  stage.waves.push(report)
  if (step.expect !== undefined) {
    stage.differences.push(...Comparison.compare(step.expect, report, stage.classes, `script[${index}]`))
  }
})

const expectProcess = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
  const { process } = yield* current(stage)
  const { lateWritesBlocked, running } = yield* stage.executor.orphans
  const is: Required<NonNullable<Step["expectProcess"]>> = {
    lateWritesBlocked,
    orphans: running.length,
    shouldExit: yield* process.shouldExit,
    exitPending: yield* process.exitPending,
    startPending: yield* process.startPending,
    allowedNext: yield* process.allowedNext
  }
  for (const key of Object.keys(step.expectProcess!) as ReadonlyArray<keyof typeof is>) {
    const expected = step.expectProcess![key]
    if (Equal.equals(inOrder(expected), inOrder(is[key]))) continue
    stage.differences.push({ where: `script[${index}].expectProcess.${key}`, expected, got: is[key] })
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

const optionsOf = (scenario: Scenario): LocalExecutor.Options => {
  const { config = {}, policy = {} } = scenario
  const rules: Array<ToolRule> = [...scenario.rules ?? []]
  for (const [tool, { dedupe }] of Object.entries(scenario.tools)) {
    if (dedupe === undefined) continue
    rules.push({ _tag: dedupe === true || dedupe === "always" ? "AlwaysDedupe" : "NeverDedupe", tool })
  }
  const { executionTimeout, turn, ...same } = config
  return {
    rules,
    policy: { default: "allow", ...policy },
    executionTimeout: executionTimeout as Duration.Input | undefined,
    turn: turn as LocalExecutor.Options["turn"],
    approval: same.approval,
    mode: same.mode,
    onExecutionError: same.onExecutionError,
    pools: same.pools,
    output: same.output,
    dedupe: same.dedupe as LocalExecutor.Options["dedupe"]
  }
}
