/**
 * Plays a law run against an executor, in virtual time, and gives what happened.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Service as Executor } from "../../../src/core/contract/Executor.ts"
import type { Service as ToolContext } from "../../../src/core/contract/ToolContext.ts"
import type { ToolProcess } from "../../../src/core/contract/ToolProcess.ts"
import { ToolExecutor } from "../../../src/core/engine/ToolExecutor.ts"
import type { ToolEvent } from "../../../src/core/facts/ToolEvent.ts"
import type { ConfigurationError } from "../../../src/core/vocabulary/ConfigurationError.ts"
import * as ToolCall from "../../../src/core/vocabulary/ToolCall.ts"
import type { RegisteredTool } from "../../../src/core/vocabulary/ToolHandlers.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import type { History, Start, WaveSeen } from "./LawHistory.ts"
import type { Call, Params, Run, Wave, World } from "./LawRun.ts"
import * as LawWorld from "./LawWorld.ts"

/**
 * An executor that laws are tried on. What it requires of an executor's parts is the
 * kit's.
 *
 * @category models
 * @since 0.1.0
 */
export type ExecutorLayer<E = never> = Layer.Layer<ToolExecutor, E, LawWorld.Environment>

/**
 * Plays a run. `plain` is for an executor with tools of its own: without the rules and
 * the policy that are about the kit's.
 *
 * @category running
 * @since 0.1.0
 */
export const play = <E>(
  layer: ExecutorLayer<E>,
  run: Run,
  plain: boolean
): Effect.Effect<History, E | ConfigurationError> =>
  Effect.suspend(() => {
    const witness = new LawWorld.Witness()
    const stage = new Stage(run.world, witness)
    return VirtualTime.run(Effect.scoped(perform(layer, run, plain, stage)), { limit: "1 hour" }).pipe(
      Effect.result,
      Effect.flatMap((ended) =>
        Result.isSuccess(ended)
          ? Effect.succeed(stage.history(ended.success))
          : ended.failure instanceof VirtualTime.Stuck
          ? Effect.succeed(stage.history({ ...unknown, stuck: ended.failure.message }))
          : Effect.fail(ended.failure)
      )
    )
  })

/**
 * The tools of an executor, by their names.
 *
 * @category accessors
 * @since 0.1.0
 */
export const toolsOf = <E>(
  layer: ExecutorLayer<E>,
  world: World
): Effect.Effect<ReadonlyArray<RegisteredTool>, E | ConfigurationError> =>
  VirtualTime.run(Effect.scoped(Effect.gen(function*() {
    const stage = new Stage(world, new LawWorld.Witness())
    return yield* (yield* open(layer, true, stage)).tools
  }))).pipe(
    Effect.catch((error) => error instanceof VirtualTime.Stuck ? Effect.die(error) : Effect.fail(error))
  )

// Utilities

/** What is known once a run has come to its end. */
type End = Pick<History, "orphans" | "probes" | "stuck">

const unknown: End = { orphans: { running: [], known: [] }, probes: [], stuck: undefined }

/** Where a run is played: who is there, and what was seen. */
class Stage {
  readonly world: World
  readonly witness: LawWorld.Witness
  readonly events: Array<ToolEvent> = []
  readonly declared = new Map<string, { readonly class: string; readonly cap: number | undefined }>(
    Object.entries(LawWorld.tools).map(([name, tool]) => [
      name,
      { class: tool.class, cap: "cap" in tool ? tool.cap : undefined }
    ])
  )
  isForeign = false

  constructor(world: World, witness: LawWorld.Witness) {
    this.world = world
    this.witness = witness
  }

  history(end: End): History {
    const { asked, cancelled, forbidden, revoked, starts, used, waves } = this.witness
    const seen = byWave(this.events)
    for (const wave of waves) {
      const first = wave.calls[0]
      if (wave.events.length === 0 && first !== undefined) {
        wave.events = seen.find((events) => events.some((it) => "callId" in it && it.callId === first.id)) ?? []
      }
    }
    return {
      ...end,
      world: this.world,
      used,
      tools: this.declared,
      waves,
      starts: this.isForeign ? startsOf(waves) : starts,
      asked,
      revoked,
      cancelled,
      forbidden
    }
  }
}

/** The events of each wave, in the order in which its process told them. */
const byWave = (events: ReadonlyArray<ToolEvent>): ReadonlyArray<ReadonlyArray<ToolEvent>> => {
  const waves = new Map<string, Array<ToolEvent>>()
  for (const event of events) {
    const key = JSON.stringify([event.process, event.wave])
    const wave = waves.get(key)
    if (wave === undefined) waves.set(key, [event])
    else wave.push(event)
  }
  return Array.from(waves.values())
}

/** Of tools that are not the kit's only events tell when they ran. */
const startsOf = (waves: ReadonlyArray<WaveSeen>): ReadonlyArray<Start> => {
  const events = waves.flatMap((it) => it.events)
  const moment = ({ at }: ToolEvent) => ({ at, order: undefined })
  return events.flatMap((event) => {
    if (event._tag !== "ToolCallStart" || event.attempt > 1) return []
    const { agentPath, batch, callId, process, tool } = event
    const end = events.find((it) => it._tag === "ToolCallComplete" && it.callId === callId && it.process === process)
    return [{
      callId,
      tool,
      params: {},
      agentPath,
      process,
      batch,
      begin: moment(event),
      end: end && moment(end),
      commits: []
    }]
  })
}

const open = Effect.fnUntraced(function*<E>(
  layer: ExecutorLayer<E>,
  plain: boolean,
  stage: Stage
): Effect.fn.Return<Executor, E | ConfigurationError, Scope.Scope> {
  const context = yield* LawWorld.build(
    stage.world,
    stage.witness,
    (executor, params, context) => nested(stage, executor, params, context),
    plain
  )
  const built = yield* Layer.build(Layer.fresh(layer).pipe(Layer.provide(Layer.succeedContext(context))))
  return Context.get(built, ToolExecutor)
})

const perform = Effect.fnUntraced(function*<E>(
  layer: ExecutorLayer<E>,
  run: Run,
  plain: boolean,
  stage: Stage
): Effect.fn.Return<End, E | ConfigurationError, Scope.Scope> {
  const { witness } = stage
  const executor = yield* open(layer, plain, stage)
  if (plain) {
    stage.isForeign = true
    for (const it of yield* executor.tools) stage.declared.set(it.name, { class: it.class, cap: it.maxConcurrent })
  }
  const [shared, own] = [yield* executor.batch(), yield* executor.batch()]
  const processes = [yield* shared.process(), yield* shared.process(), yield* own.process()]
  for (const process of processes) yield* Effect.forkScoped(observe(stage, process), { startImmediately: true })
  const running: Array<Fiber.Fiber<void>> = []
  for (const [index, step] of run.steps.entries()) {
    if (step._tag === "sleep") yield* Effect.sleep(step.millis)
    else if (step._tag === "revoke") {
      const revoked = yield* Effect.result(executor.revoke({ tool: step.tool }))
      if (Result.isSuccess(revoked)) witness.revoked.push({ tool: step.tool, moment: yield* witness.now })
    } else {
      const wave = yield* Effect.forkChild(
        playStep(stage, processes[step.process]!, step, `${index}`),
        { startImmediately: true }
      )
      if (step.waits) yield* Fiber.join(wave)
      else running.push(wave)
    }
  }
  yield* Fiber.joinAll(running)
  const orphans = {
    running: witness.starts.filter((it) => it.end === undefined && it.agentPath.length === 0).map((it) => it.callId),
    known: (yield* executor.orphans).running.map((it) => it.callId)
  }
  // whatever is deaf comes to its end, and whatever is late comes
  yield* Effect.sleep("2 seconds")
  const probes = plain ? [] : yield* probe(stage, executor)
  return { orphans, probes, stuck: undefined }
})

const observe = (stage: Stage, process: ToolProcess) =>
  Stream.runForEach(process.events, (event) => Effect.sync(() => stage.events.push(event)))

const callsOf = (calls: ReadonlyArray<Call>, prefix: string): ReadonlyArray<ToolCall.ToolCall> =>
  calls.map(({ params, tool }, index) => ToolCall.make(`${prefix}.${index}`, tool, params))

/** A wave, and what happens to it meanwhile. */
const playStep = Effect.fnUntraced(function*(stage: Stage, process: ToolProcess, step: Wave, prefix: string) {
  const { witness } = stage
  const { cancelAfter, cancelCallAfter, interruptAfter } = step
  const wave = yield* waveOf(stage, process, [], callsOf(step.calls, prefix))
  const caller = yield* Effect.forkChild(playWave(stage, process, wave, step.by), { startImmediately: true })
  const meanwhile: Array<Fiber.Fiber<void>> = []
  const later = Effect.fnUntraced(function*(millis: number | undefined, action: Effect.Effect<void>) {
    if (millis !== undefined) meanwhile.push(yield* Effect.forkChild(Effect.delay(action, millis)))
  })
  const cancelled = Effect.map(witness.now, (moment) => void witness.cancelled.push({ process: process.id, moment }))
  yield* later(cancelAfter, Effect.andThen(process.cancel("the law says so"), cancelled))
  yield* later(cancelCallAfter, process.cancelCall(wave.calls[0]?.id ?? "", "the law says so"))
  yield* later(interruptAfter, Fiber.interrupt(caller))
  const exit = yield* Fiber.await(caller)
  // an interruption that is under way comes to its end
  yield* Exit.isFailure(exit) ? Fiber.awaitAll(meanwhile) : Fiber.interruptAll(meanwhile)
})

const waveOf = Effect.fnUntraced(function*(
  { witness }: Stage,
  { batch, id: process }: ToolProcess,
  agentPath: ReadonlyArray<string>,
  calls: ReadonlyArray<ToolCall.ToolCall>
) {
  const wave: WaveSeen = {
    process,
    batch,
    agentPath,
    calls,
    begin: yield* witness.now,
    outcomes: undefined,
    toolMessages: undefined,
    interrupted: undefined,
    events: []
  }
  witness.waves.push(wave)
  return wave
})

const playWave = (stage: Stage, process: ToolProcess, wave: WaveSeen, by: Wave["by"]): Effect.Effect<void> =>
  Effect.onInterrupt(
    outcomesOf(process, wave, by),
    () => Effect.map(stage.witness.now, (moment) => void (wave.interrupted = moment))
  )

const outcomesOf = Effect.fnUntraced(function*(process: ToolProcess, wave: WaveSeen, by: Wave["by"]) {
  if (by === "executeWave") {
    const { outcomes, toolMessages } = yield* process.executeWave(wave.calls)
    wave.outcomes = outcomes
    wave.toolMessages = toolMessages
    return
  }
  const events: Array<ToolEvent> = []
  yield* Stream.runForEach(process.stream(wave.calls), (event) =>
    Effect.sync(() => {
      if (event.process === process.id) events.push(event)
    }))
  wave.events = events
  const end = events.findLast((it) => it._tag === "ToolsEnd")
  wave.outcomes = end?.executionResults
  wave.toolMessages = end?.toolMessages
})

/** The wave of a sub-agent, in a fork of the executor that runs its call. */
const nested = Effect.fnUntraced(function*(
  stage: Stage,
  executor: Executor,
  { calls = [], forbids }: Params,
  { agentPath, callId = "" }: ToolContext
) {
  const name = `agent of ${callId}`
  if (forbids !== undefined) stage.witness.forbidden.set(name, forbids)
  const child = forbids === "changes"
    ? yield* executor.readOnly({ name })
    : yield* executor.fork({
      name,
      ...forbids === undefined ? {} : { policy: { default: "allow", deny: [forbids] } }
    })
  const process = yield* child.process()
  const wave = yield* waveOf(stage, process, [...agentPath, name], callsOf(calls, callId))
  yield* playWave(stage, process, wave, "executeWave")
})

/** As many calls at once as there is room for. */
const probe = Effect.fnUntraced(function*({ world }: Stage, executor: Executor) {
  const { concurrent, read } = world
  const many = (count: number, tool: string, params: (index: number) => Params = () => ({})) =>
    Array.from({ length: count }, (_, index) => ({ tool, params: { ...params(index), n: -1 - index, millis } }))
  const millis = 10
  const groups = [
    { what: `${read} reads`, calls: many(read, "read"), expected: millis },
    { what: "2 calls of a tool with a cap of 2", calls: many(2, "capped"), expected: millis },
    { what: `${concurrent} concurrent calls`, calls: many(concurrent, "promoted"), expected: millis },
    { what: "a serial call", calls: many(1, "write"), expected: millis },
    {
      what: "2 calls about 2 resources",
      calls: many(2, "promoted", (index) => ({ key: index === 0 ? "a" : "b" })),
      expected: concurrent > 1 ? millis : 2 * millis
    }
  ]
  const probes: Array<History["probes"][number]> = []
  for (const { calls, expected, what } of groups) {
    const process = yield* executor.process()
    const begin = yield* Clock.currentTimeMillis
    const { outcomes } = yield* process.executeWave(callsOf(calls, "probe"))
    const took = (yield* Clock.currentTimeMillis) - begin
    probes.push({ what, took, expected, tags: outcomes.map((it) => it._tag) })
  }
  return probes
})
