/**
 * The steps of a script, one after the other: processes begun, waves and agents played
 * alone or side by side, with what is to happen during them, and what is expected.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import { isOwn } from "../agent/AgentEvent.ts"
import { isEnd, type ToolEvent } from "../core/facts/ToolEvent.ts"
import * as AgentPlay from "./AgentPlay.ts"
import * as Comparison from "./Comparison.ts"
import { momentOf } from "./Life.ts"
import type { AgentReport, WaveReport } from "./Report.ts"
import type { Expected, Step } from "./Scenario.ts"
import { begin, current, executorOf, type Handed, keyOf, type Pending, type Player, type Stage } from "./Stage.ts"
import * as Way from "./Way.ts"

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
    stage.pending.push({ at, run: (player) => player?.process.cancel("the user stopped it") ?? Effect.void })
  } else if (cancelCall !== undefined) {
    stage.pending.push({ at, run: (player) => player?.entered.cancelCall(cancelCall) ?? Effect.void })
  } else if (step.revoke !== undefined) {
    const executor = yield* executorOf(stage, principal)
    const revoke = Effect.asVoid(Effect.orDie(executor.revoke({ tool: step.revoke })))
    if (at === undefined) yield* revoke
    else stage.pending.push({ at, run: () => revoke })
  } else if (step.crash !== undefined) {
    stage.crash = step.crash === true ? "at" : momentOf(step.crash)
    if (step.crash === true) stage.pending.push({ at, run: () => stage.parts.life!.end })
  } else if (step.expectProcess !== undefined) yield* expectProcess(stage, step.expectProcess, index)
  else if (step.expectRuns !== undefined) expectRuns(stage, step.expectRuns, index)
  else yield* playStep(stage, step, index)
})

// Utilities

/** One wave of a step, or the operation of an agent: whose it is, what runs, and what is expected. */
interface Part {
  /** Whose waves they are, where that is not the agent's own affair. */
  readonly player: Player | undefined
  readonly where: string
  readonly expect: Expected | undefined
  readonly execute: (gone: Effect.Effect<void>, seen: Array<ToolEvent>) => Effect.Effect<Played>
}

interface Played extends Way.Played {
  readonly agent?: AgentReport
}

/** A step with waves: plays them from the same moment, with what is to happen meanwhile, and compares. */
const playStep = Effect.fnUntraced(function*(stage: Stage, step: Step, index: number) {
  if (step.resume === true) yield* outlast(stage)
  const parts = yield* partsOf(stage, step, `script[${index}]`)
  const pending = stage.pending.splice(0)
  const { crash } = stage
  const { life } = stage.parts
  if (crash !== undefined && crash !== "at") {
    // what was noted of earlier waves is on record before
    yield* Effect.sleep(moment)
    life?.expect(crash)
  }
  const running: Array<Fiber.Fiber<WaveReport>> = []
  for (const part of parts) {
    running.push(yield* Effect.forkChild(play(stage, part, pending, index), { startImmediately: true }))
  }
  const reports = yield* Fiber.joinAll(running)
  for (const [place, report] of reports.entries()) {
    const { expect } = parts[place]!
    stage.host.waves.push(report)
    if (expect !== undefined) {
      stage.host.differences.push(...Comparison.compare(expect, report, stage.host.classes))
    }
  }
  if (crash === undefined || life === undefined) return
  stage.dying = undefined
  // what was noted at the end comes on record a moment later
  yield* Effect.sleep(1)
  stage.host.differences.push({ where: `script[${index}]`, expected: "a process that dies meanwhile", got: "its end" })
  return yield* life.end
})

/** The least there is: all that is ready runs before it is over. */
const moment = Duration.nanos(1n)

/** What those had who are gone is held for its time. */
const outlast = Effect.fnUntraced(function*({ host }: Stage) {
  const until = Math.max(0, ...host.gone.map((it) => it.until))
  const left = until - (yield* Clock.currentTimeMillis)
  if (left > 0) yield* Effect.sleep(left)
})

const partsOf = Effect.fnUntraced(function*(stage: Stage, step: Step, where: string) {
  const { agent, exitRequirements, expect, resume, startConstraints, wave, waves } = step
  if (waves !== undefined) {
    const parts: Array<Part> = []
    for (const [place, { expect, principal, process, wave }] of waves.entries()) {
      const player = stage.players.get(keyOf(process, principal)) ?? (yield* begin(stage, process, principal))
      const execute: Part["execute"] = (gone) => player.entered.play(wave, gone)
      parts.push({ player, where: `${where}.waves[${place}]`, expect, execute })
    }
    return parts
  }
  if (agent !== undefined) {
    const handed: Handed = { _tag: "Agent", agent, session: agent.session ?? where, answered: { count: 0 } }
    stage.host.handed = handed
    return [agentPart(stage, handed, where, expect, false)]
  }
  if (resume === true) {
    const handed = stage.host.handed!
    if (handed._tag === "Agent") return [agentPart(stage, handed, where, expect, true)]
    const { batch, principal, state, wave } = handed
    const player = stage.current = yield* Effect.orDie(begin(stage, batch, principal, state))
    const { process } = player
    const { onUnknown } = stage.host
    const execute: Part["execute"] = (gone) =>
      Way.observe(process, process.resume(Way.callsOf(wave), { onUnknown }), gone)
    return [{ player, where, expect, execute }]
  }
  const player = yield* current(stage)
  const { executor, process } = player
  if (wave !== undefined) {
    const state = yield* process.state
    stage.host.handed = { _tag: "Wave", batch: process.batch, principal: executor.principal, wave, state }
  }
  const execute: Part["execute"] = wave !== undefined
    ? (gone) => player.entered.play(wave, gone)
    // the calls that the host makes because rules demand them
    : startConstraints === undefined
    ? (gone) => Way.observe(process, process.exitRequirements(argumentsOf(exitRequirements)), gone)
    : (gone) => Way.observe(process, process.startConstraints(argumentsOf(startConstraints)), gone)
  return [{ player, where, expect, execute }] satisfies ReadonlyArray<Part>
})

const agentPart = (
  stage: Stage,
  handed: Extract<Handed, { readonly _tag: "Agent" }>,
  where: string,
  expect: Expected | undefined,
  isResumed: boolean
): Part => ({
  player: undefined,
  where,
  expect,
  execute: Effect.fnUntraced(function*(gone, seen) {
    let agent: AgentReport | undefined
    const tell = (event: AgentEvent) =>
      Effect.sync(() => {
        if (!isOwn(event)) seen.push(event)
        else if (event._tag === "OperationEnd") {
          const { reason, text, turns } = event
          agent = { reason: reason._tag, turns, text }
        }
      })
    const operation = Stream.runForEach(AgentPlay.play(stage, handed, isResumed), tell)
    const exit = yield* Effect.exit(Effect.raceFirst(operation, gone))
    return {
      events: seen,
      ...agent === undefined ? {} : { agent },
      ...Exit.isFailure(exit) ? { problem: Cause.pretty(exit.cause) } : {}
    }
  })
})

const argumentsOf = (value: unknown): { readonly [tool: string]: Readonly<Record<string, unknown>> } =>
  Predicate.isObject(value)
    ? Object.fromEntries(
      Object.entries(value).filter((it): it is [string, Record<string, unknown>] => Predicate.isObject(it[1]))
    )
    : {}

const play = Effect.fnUntraced(function*(
  stage: Stage,
  { execute, player, where }: Part,
  pending: ReadonlyArray<Pending>,
  step: number
) {
  const began = yield* Clock.currentTimeMillis
  const seen: Array<ToolEvent> = []
  const { life, scope } = stage.parts
  if (stage.crash !== undefined && life !== undefined) {
    stage.dying = () => reportOf({ step, where, elapsed: life.until - began, events: seen, began, died: true }, {})
    const isOurs = (event: ToolEvent) => event.process === player?.process.id
    yield* Scope.provide(
      player?.process.listen((event) => isOurs(event) && seen.push(event) > 0) ?? Effect.void,
      scope
    )
  }
  const gone = yield* Deferred.make<void>()
  const running = yield* Effect.forkChild(execute(Deferred.await(gone), seen), { startImmediately: true })
  const timers: Array<Fiber.Fiber<void>> = []
  for (const { at, run } of pending) {
    const action = run(player, Effect.asVoid(Deferred.succeed(gone, undefined)))
    const timed = at === undefined ? action : Effect.andThen(Effect.sleep(at as Duration.Input), action)
    timers.push(yield* Effect.forkChild(timed, { startImmediately: true }))
  }
  const { events, ...played } = yield* Fiber.join(running)
  const elapsed = (yield* Clock.currentTimeMillis) - began
  // of what dies at a certain time the time comes
  yield* stage.crash === "at" ? Effect.never : Fiber.interruptAll(timers)
  if (played.problem !== undefined) {
    stage.host.differences.push({ where, expected: "something that can be run", got: played.problem })
  }
  return reportOf({ step, where, elapsed, events, began }, played)
})

const reportOf = (
  wave: Pick<WaveReport, "step" | "where" | "elapsed" | "events" | "began" | "died">,
  { agent, result }: Omit<Played, "events">
): WaveReport => {
  const { began, died, events } = wave
  const keyOf = ({ process, wave }: ToolEvent, { index }: { readonly index: number }) => `${process} ${wave} ${index}`
  const complete = events.flatMap((event) => event._tag === "ToolCallComplete" ? [event] : [])
  // another way than the executor's own may put waves together
  const ends = new Map([
    ...complete.map((event) => [String(event.index), event.at] as const),
    ...complete.map((event) => [keyOf(event, event), event.at] as const)
  ])
  // a wave that has no end has the outcomes that there are
  const found = died === true
    ? complete.toSorted((a, b) => a.index - b.index).map((event) => ({
      outcome: event.outcome,
      key: keyOf(event, event)
    }))
    : events.flatMap((event) =>
      isEnd(event) ? event.executionResults.map((outcome) => ({ outcome, key: keyOf(event, outcome) })) : []
    )
  return {
    ...wave,
    ...result === undefined ? {} : { needsContinuation: result.needsContinuation, shouldExit: result.shouldExit },
    ...agent === undefined ? {} : { agent },
    outcomes: found.map(({ key, outcome }) => ({
      ...outcome.startedAt === undefined ? {} : { start: outcome.startedAt - began },
      end: (ends.get(key) ?? ends.get(String(outcome.index)) ?? began) - began,
      outcome
    }))
  }
}

const expectRuns = ({ host }: Stage, expected: Readonly<Record<string, number>>, index: number): void => {
  for (const [tool, runs] of Object.entries(expected)) {
    const got = host.runs.get(tool) ?? 0
    if (got !== runs) host.differences.push({ where: `script[${index}].expectRuns.${tool}`, expected: runs, got })
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
    stage.host.differences.push({
      where: `script[${index}].expectProcess.${key}`,
      expected: expected[key],
      got: is[key]
    })
  }
})

/** The order of names says nothing. */
const inOrder = (value: unknown): unknown => Array.isArray(value) ? value.toSorted() : value
