/**
 * The steps of a script, one after the other: processes begun, waves played alone
 * or side by side, with what is to happen during them, and what is expected.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import type { ConfigurationError } from "../ConfigurationError.ts"
import { isEnd } from "../ToolEvent.ts"
import type * as ToolExecutor from "../ToolExecutor.ts"
import type { ToolProcess } from "../ToolProcess.ts"
import * as Comparison from "./Comparison.ts"
import type { Difference, WaveReport } from "./Report.ts"
import type { Expected, Step } from "./Scenario.ts"
import * as Way from "./Way.ts"

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

/**
 * What the steps of a script work on.
 *
 * @category models
 * @since 0.1.0
 */
export class Stage {
  readonly scope: Scope.Scope
  readonly classes: ReadonlyMap<string, string>
  readonly waves: Array<WaveReport> = []
  readonly differences: Array<Difference> = []
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

/**
 * Does what a step says.
 *
 * @category running
 * @since 0.1.0
 */
export const perform = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
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

// Utilities

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
  const process = yield* batch.process()
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
  const outcomes = wave.events.flatMap((event) => isEnd(event) ? event.executionResults : [])
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
