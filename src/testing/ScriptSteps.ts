/** Performs the steps of a script and compares the results with what they expect. */
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
import * as AgentPlay from "./AgentRun.ts"
import * as Comparison from "./Comparison.ts"
import type { Expected, Step } from "./Scenario.ts"
import type { AgentReport, WaveReport } from "./ScenarioReport.ts"
import { callsOf, observe, type PlayedWave } from "./ScenarioTransport.ts"
import {
  begin,
  current,
  executorOf,
  keyOf,
  type Pending,
  type Player,
  type ScriptProgress,
  type Submitted
} from "./ScriptProgress.ts"
import { crashPointOf } from "./SimulatedProcess.ts"

export const perform = Effect.fnUntraced(function*(progress: ScriptProgress, step: Step, index: number) {
  const { at, cancelCall, principal } = step
  if (step.process !== undefined) progress.current = yield* begin(progress, step.process, principal)
  else if (step.advance !== undefined) yield* Effect.sleep(step.advance as Duration.Input)
  else if (step.completeBatch !== undefined) {
    yield* (yield* executorOf(progress, principal)).completeBatch(step.completeBatch)
    progress.batches.delete(keyOf(step.completeBatch, principal))
    progress.players.delete(keyOf(step.completeBatch, principal))
  } else if (step.interrupt !== undefined) progress.pending.push({ at, run: (_, leave) => leave })
  else if (step.cancel !== undefined) {
    progress.pending.push({ at, run: (player) => player?.process.cancel("the user stopped it") ?? Effect.void })
  } else if (cancelCall !== undefined) {
    progress.pending.push({ at, run: (player) => player?.connected.cancelCall(cancelCall) ?? Effect.void })
  } else if (step.revoke !== undefined) {
    const executor = yield* executorOf(progress, principal)
    const revoke = Effect.asVoid(Effect.orDie(executor.revoke({ tool: step.revoke })))
    if (at === undefined) yield* revoke
    else progress.pending.push({ at, run: () => revoke })
  } else if (step.crash !== undefined) {
    progress.crash = step.crash === true ? "at" : crashPointOf(step.crash)
    if (step.crash === true) progress.pending.push({ at, run: () => progress.parts.simulated!.end })
  } else if (step.expectProcess !== undefined) yield* expectProcess(progress, step.expectProcess, index)
  else if (step.expectRuns !== undefined) expectRuns(progress, step.expectRuns, index)
  else yield* playStep(progress, step, index)
})

/** One wave of a step, or an agent operation. */
interface Part {
  /** Absent for agents, which begin their own processes. */
  readonly player: Player | undefined
  readonly where: string
  readonly expect: Expected | undefined
  readonly execute: (gone: Effect.Effect<void>, seen: Array<ToolEvent>) => Effect.Effect<Played>
}

interface Played extends PlayedWave {
  readonly agent?: AgentReport
}

/** Runs the waves of a step concurrently, with the pending actions, and compares. */
const playStep = Effect.fnUntraced(function*(progress: ScriptProgress, step: Step, index: number) {
  if (step.resume === true) yield* outlast(progress)
  const parts = yield* partsOf(progress, step, `script[${index}]`)
  const pending = progress.pending.splice(0)
  const { crash } = progress
  const { simulated } = progress.parts
  if (crash !== undefined && crash !== "at") {
    // records of earlier waves come first
    yield* Effect.sleep(moment)
    simulated?.expect(crash)
  }
  const running: Array<Fiber.Fiber<WaveReport>> = []
  for (const part of parts) {
    running.push(yield* Effect.forkChild(play(progress, part, pending, index), { startImmediately: true }))
  }
  const reports = yield* Fiber.joinAll(running)
  for (const [place, report] of reports.entries()) {
    const { expect } = parts[place]!
    progress.log.waves.push(report)
    if (expect !== undefined) {
      progress.log.differences.push(...Comparison.compare(expect, report, progress.log.classes))
    }
  }
  if (crash === undefined || simulated === undefined) return
  progress.dying = undefined
  // the last records are written a moment later
  yield* Effect.sleep(1)
  progress.log.differences.push({
    where: `script[${index}]`,
    expected: "a process that dies meanwhile",
    got: "its end"
  })
  return yield* simulated.end
})

/** The shortest sleep: everything ready runs before it ends. */
const moment = Duration.nanos(1n)

/** Waits until the leases of crashed processes expire, if the journal says that they had calls. */
const outlast = Effect.fnUntraced(function*({ log }: ScriptProgress) {
  const until = Math.max(0, ...log.gone.map((it) => it.isUnrecorded ? 0 : it.until))
  const left = until - (yield* Clock.currentTimeMillis)
  if (left > 0) yield* Effect.sleep(left)
})

const partsOf = Effect.fnUntraced(function*(progress: ScriptProgress, step: Step, where: string) {
  const { agent, exitRequirements, expect, resume, startConstraints, wave, waves } = step
  if (waves !== undefined) {
    const parts: Array<Part> = []
    for (const [place, { expect, principal, process, wave }] of waves.entries()) {
      const player = progress.players.get(keyOf(process, principal)) ?? (yield* begin(progress, process, principal))
      const execute: Part["execute"] = (gone) => player.connected.play(wave, gone)
      parts.push({ player, where: `${where}.waves[${place}]`, expect, execute })
    }
    return parts
  }
  if (agent !== undefined) {
    const submitted: Submitted = { _tag: "Agent", agent, session: agent.session ?? where, answered: { count: 0 } }
    progress.log.submitted = submitted
    return [agentPart(progress, submitted, where, expect, false)]
  }
  if (resume === true) {
    const submitted = progress.log.submitted!
    if (submitted._tag === "Agent") return [agentPart(progress, submitted, where, expect, true)]
    const { batch, principal, state, wave } = submitted
    const player = progress.current = yield* Effect.orDie(begin(progress, batch, principal, state))
    const { process } = player
    const { onUnknown } = progress.log
    const execute: Part["execute"] = (gone) => observe(process, process.resume(callsOf(wave), { onUnknown }), gone)
    return [{ player, where, expect, execute }]
  }
  const player = yield* current(progress)
  const { executor, process } = player
  if (wave !== undefined) {
    const state = yield* process.state
    progress.log.submitted = { _tag: "Wave", batch: process.batch, principal: executor.principal, wave, state }
  }
  const execute: Part["execute"] = wave !== undefined
    ? (gone) => player.connected.play(wave, gone)
    // calls that the host makes because rules require them
    : startConstraints === undefined
    ? (gone) => observe(process, process.exitRequirements(argumentsOf(exitRequirements)), gone)
    : (gone) => observe(process, process.startConstraints(argumentsOf(startConstraints)), gone)
  return [{ player, where, expect, execute }] satisfies ReadonlyArray<Part>
})

const agentPart = (
  progress: ScriptProgress,
  submitted: Extract<Submitted, { readonly _tag: "Agent" }>,
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
    const operation = Stream.runForEach(AgentPlay.play(progress, submitted, isResumed), tell)
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
  progress: ScriptProgress,
  { execute, player, where }: Part,
  pending: ReadonlyArray<Pending>,
  step: number
) {
  const began = yield* Clock.currentTimeMillis
  const seen: Array<ToolEvent> = []
  const { simulated, scope } = progress.parts
  if (progress.crash !== undefined && simulated !== undefined) {
    progress.dying = () =>
      reportOf({ step, where, elapsed: simulated.until - began, events: seen, began, died: true }, {})
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
  // a timed crash interrupts this
  yield* progress.crash === "at" ? Effect.never : Fiber.interruptAll(timers)
  if (played.problem !== undefined) {
    progress.log.differences.push({ where, expected: "something that can be run", got: played.problem })
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
  // other transports may join waves
  const ends = new Map([
    ...complete.map((event) => [String(event.index), event.at] as const),
    ...complete.map((event) => [keyOf(event, event), event.at] as const)
  ])
  // a crashed wave has the outcomes so far
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

const expectRuns = ({ log }: ScriptProgress, expected: Readonly<Record<string, number>>, index: number): void => {
  for (const [tool, runs] of Object.entries(expected)) {
    const got = log.runs.get(tool) ?? 0
    if (got !== runs) log.differences.push({ where: `script[${index}].expectRuns.${tool}`, expected: runs, got })
  }
}

const expectProcess = Effect.fnUntraced(function*(
  progress: ScriptProgress,
  expected: NonNullable<Step["expectProcess"]>,
  index: number
) {
  const { executor, process } = yield* current(progress)
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
    progress.log.differences.push({
      where: `script[${index}].expectProcess.${key}`,
      expected: expected[key],
      got: is[key]
    })
  }
})

/** Names are compared in any order. */
const inOrder = (value: unknown): unknown => Array.isArray(value) ? value.toSorted() : value
