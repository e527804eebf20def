/** A process as the host sees it, on top of the engine. */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { OptionReader } from "../../../internal/OptionReader.ts"
import { ResumeError } from "../../contract/ResumeError.ts"
import type {
  ExecuteOptions,
  HostArguments,
  HostOptions,
  HostRun,
  Phase,
  RequestOptions,
  ResumeOptions,
  ToolProcess
} from "../../contract/ToolProcess.ts"
import { isEnd, type ToolEvent } from "../../facts/ToolEvent.ts"
import type { RuleHistory } from "../../rules/RuleHistory.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import { type ConfigurationError, readOptions } from "../../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../../vocabulary/ToolCall.ts"
import { type Of, orFail, toError, type ToolExecutionError, type WaveResult } from "../../vocabulary/ToolOutcome.ts"
import type { Caller, Engine } from "../call/Engine.ts"
import * as SharedHistory from "../call/SharedHistory.ts"
import type { Resumption, WaveOptions } from "../call/WaveOptions.ts"
import * as Received from "../data/Received.ts"
import { EventHub } from "../report/EventHub.ts"
import { hasTool, type ProcessState, record } from "../state/State.ts"
import { Wave } from "../wave/Wave.ts"
import * as Guarded from "./Guarded.ts"
import * as HostCalls from "./HostCalls.ts"
import * as ModelSteps from "./ModelSteps.ts"
import * as NextTools from "./NextTools.ts"
import * as ProvidedTools from "./ProvidedTools.ts"
import * as ShownTools from "./ShownTools.ts"

/** Creates a process on an engine. `handle` is the call whose handler created it; the process ends with that call. */
export const make = (engine: Engine, state: ProcessState, handle?: Caller): ToolProcess => {
  const runWave = (
    calls: ReadonlyArray<Received.Received>,
    wave?: Partial<Omit<WaveOptions, "handle">>
  ) =>
    Wave.run(engine, state, calls, {
      timeoutMillis: wave?.timeoutMillis ?? Infinity,
      mode: wave?.mode,
      wholeOutputs: wave?.wholeOutputs ?? false,
      told: wave?.told ?? state.fires === undefined,
      hub: wave?.hub ?? state.hub,
      handle,
      step: wave?.step,
      resume: wave?.resume,
      dedupeScope: wave?.dedupeScope
    })
  const runWhole = (options?: RequestOptions): ModelSteps.Run => (call, hub, step) =>
    Effect.map(
      runWave([call], { hub, wholeOutputs: true, step, dedupeScope: options?.dedupeScope }),
      (wave) => wave.outcomes[0]!
    )

  // the compiler cannot know that the outcomes belong to these tools, nor that missing options cannot be invalid
  const executeWave =
    ((calls: ReadonlyArray<ToolCall>, options?: ExecuteOptions) =>
      options === undefined ? Effect.suspend(() => runWave(Received.wave(calls))) : Effect.flatMap(
        executing("executeWave", options),
        (wave) => runWave(Received.wave(calls), wave)
      )) as ToolProcess["executeWave"]
  let hostCalls = 0
  const hostId = () => `host_${++hostCalls}`
  const hostRun = (method: string, toolsOf: (args: HostArguments) => ReadonlyArray<string>) =>
    ((args: HostArguments = {}, options?: HostOptions) =>
      Effect.flatMap(
        Effect.andThen(SharedHistory.upToDate(engine, state), hostLimits(method, options)),
        ({ attempts, ...wave }) => HostCalls.run(toolsOf(args), args, attempts, hostId, (calls) => runWave(calls, wave))
      )) as HostRun
  const ask = <A>(question: (set: RuleSet.RuleSet, history: RuleHistory) => A) =>
    Effect.map(SharedHistory.upToDate(engine, state), () => question(engine.rules.current(), state.history))
  return {
    id: state.id,
    batch: state.batch.id,
    isForCall: state.isForCall,
    heard: (text, from = "user") => Effect.sync(() => engine.conversations?.heard(state, text, from)),
    recalled: (results) => Effect.sync(() => engine.conversations?.recalled(state, results)),
    earlier: (results) =>
      Effect.sync(() => {
        const set = engine.rules.current()
        const registry = engine.handlers.current()
        const successes = results.filter((it) => !it.isFailure && !(it.providerExecuted && registry.has(it.name)))
        state.history.recall(successes.map(({ name, output }) => RuleSet.success(set, name, output)))
      }),
    executeWave,
    resume: Effect.fnUntraced(function*(calls: ReadonlyArray<ToolCall>, options?: ResumeOptions) {
      const { asks, ...own } = yield* resumption(engine, options)
      const resume: Resumption = { asks, problem: undefined }
      const wave = yield* runWave(Received.wave(calls), { ...own, resume })
      if (resume.problem !== undefined) return yield* new ResumeError(resume.problem)
      return wave
    }) as ToolProcess["resume"],
    execute:
      ((call: ToolCall, options?: ExecuteOptions) =>
        Effect.flatMap(executing("execute", options), (wave) =>
          Effect.map(
            runWave([Received.one(call)], wave),
            (wave) => wave.outcomes[0]!
          ))) as ToolProcess["execute"],
    stream: ((calls: ReadonlyArray<ToolCall>, options?: ExecuteOptions) =>
      streamOf(
        state.hub,
        (hub) => Effect.flatMap(executing("stream", options), (wave) => runWave(Received.wave(calls), { ...wave, hub }))
      )) as ToolProcess["stream"],
    call: Effect.fnUntraced(function*<T extends Tool.Any>(
      tool: T,
      params: Tool.Parameters<T>,
      options?: ExecuteOptions
    ): Effect.fn.Return<
      Tool.Success<T>,
      Tool.Failure<T> | ToolExecutionError | Schema.SchemaError | ConfigurationError
    > {
      const own = yield* executing("call", options)
      const schemas = codecs(tool)
      const id = hostId()
      // parameters whose getters throw are refused like those that cannot be encoded
      const encoded = yield* Effect.catchDefect(schemas.encode(params), () => Effect.succeed(unreadable))
      const call = Received.one({ id, name: tool.name, params: encoded })
      const wave = yield* runWave([call], { ...own, wholeOutputs: true, told: false })
      const outcome = yield* orFail(wave.outcomes[0]!)
      if (outcome._tag === "Failed") return yield* failWith<T>(schemas, outcome)
      const { output } = outcome
      if (output._tag !== "Artifact") return (yield* schemas.success(output.value)) as Tool.Success<T>
      // only a replayed outcome can be an artifact here, and its value is gone
      const reason = { _tag: "DuplicateCall", of: outcome.replayOf ?? "", running: false } as const
      return yield* toError({ ...outcome, _tag: "Denied", reason })
    }) as ToolProcess["call"],
    guard: (toolkit, options) => Guarded.make(engine, state, toolkit, runWhole(options)),
    answer: ({ tools }, content, options) =>
      Effect.andThen(
        ProvidedTools.note(engine, state, ProvidedTools.callsIn(content), false),
        Guarded.answer(
          engine,
          state,
          tools,
          content,
          (calls) =>
            Effect.map(
              runWave(calls, { wholeOutputs: true, dedupeScope: options?.dedupeScope }),
              (wave) => wave.outcomes
            )
        )
      ),
    provided: (calls, isKnown = false) => ProvidedTools.note(engine, state, calls, isKnown),
    step: Effect.suspend(() => ModelSteps.make(engine, state, runWhole())),
    shown: (value) => ModelSteps.shown(engine, state, value),
    tools: Effect.map(ShownTools.all(engine), (all) => all.filter((it) => hasTool(state, it.name))),
    startConstraints: hostRun("startConstraints", (args) => startTools(engine.rules.current(), state.history, args)),
    exitRequirements: hostRun("exitRequirements", () => RuleSet.exitPending(engine.rules.current(), state.history)),
    state: Effect.sync(() => record(state, engine.rules.current())),
    phase: ask(phaseOf),
    shouldExit: ask((set, history) => history.shouldExit(set)),
    startPending: ask(RuleSet.startPending),
    exitPending: ask(RuleSet.exitPending),
    allowedNext: NextTools.allowed(engine, state),
    forcedNext: NextTools.forced(engine, state),
    toolChoice: NextTools.choice(engine, state),
    events: state.hub.stream,
    listen: (tell) => state.hub.listen(tell),
    waiting: () => {
      for (const wave of state.waves) if (!wave.rests()) return 0
      return state.waves.size
    },
    cancel: (reason) =>
      Effect.sync(() => {
        if (handle?.isOver) return
        state.cancelled ??= said(reason)
        for (const wave of Array.from(state.waves)) wave.drop(said(reason), () => true)
      }),
    cancelCall: (id, reason) =>
      Effect.sync(() => {
        if (handle?.isOver) return
        // copied: a caller that waits for one wave may begin the next one immediately
        for (const wave of Array.from(state.waves)) wave.drop(said(reason), (it) => it === id)
      })
  }
}

/** Not JSON, so reading the call reports it. */
const unreadable = Symbol("unreadable")

/** Why a call was cancelled. */
const said = (reason: unknown): string => typeof reason === "string" ? reason : "it was cancelled"

const phaseOf = (set: RuleSet.RuleSet, history: RuleHistory): Phase =>
  history.shouldExit(set)
    ? "done"
    : RuleSet.startPending(set, history).length > 0
    ? "starting"
    : history.exitWanted
    ? "exiting"
    : "working"

/** The start tools that the host calls. Of alternatives, one is enough. */
const startTools = (
  set: RuleSet.RuleSet,
  history: RuleHistory,
  args: HostArguments
): ReadonlyArray<string> => {
  const pending = RuleSet.startPending(set, history)
  const any = pending.filter((tool) => set.forTool(tool).start === "any")
  const given = any.filter((tool) => HostCalls.has(args, tool))
  const chosen = given.length > 0 ? given : any.slice(0, 1)
  return pending.filter((tool) => !any.includes(tool) || chosen.includes(tool))
}

/** Reads the options of a wave; fails before anything runs if one is invalid. */
const executing = (method: string, options: ExecuteOptions | undefined): Effect.Effect<Executing, ConfigurationError> =>
  options?.timeout === undefined && options?.mode === undefined
    ? asUsual
    : readOptions(`ToolProcess.${method}`, (read) => executingIn(read, options))

const resumption = (engine: Engine, options: ResumeOptions = {}) =>
  readOptions("ToolProcess.resume", (read) => {
    if (engine.journal === undefined) {
      read.problems.push({ path: "journal", problem: "there is no journal", expected: "a Journal around the executor" })
    }
    return {
      ...executingIn(read, options),
      asks: read.oneOf("onUnknown", options.onUnknown ?? "tell", ["tell", "ask"]) === "ask"
    }
  })

const hostLimits = (method: string, options: HostOptions = {}) =>
  readOptions(`ToolProcess.${method}`, (read) => ({
    ...executingIn(read, options),
    attempts: read.atLeast("attempts", options.attempts ?? 1, 1)
  }))

type Executing = Pick<WaveOptions, "timeoutMillis" | "mode">

const asUsual = Effect.succeed<Executing>({ timeoutMillis: Infinity })

const executingIn = (read: OptionReader, { mode, timeout }: ExecuteOptions): Executing => ({
  timeoutMillis: timeout === undefined ? Infinity : read.millis("timeout", timeout),
  mode: mode === undefined ? undefined : read.oneOf("mode", mode, ["classes", "parallel", "sequential"])
})

/** The stream of one wave: a separate reader next to the process's observers. */
const streamOf = (
  observers: EventHub,
  run: (hub: EventHub) => Effect.Effect<WaveResult, ConfigurationError>
): Stream.Stream<ToolEvent, ConfigurationError> =>
  Stream.unwrap(Effect.gen(function*() {
    const hub = new EventHub(observers.capacity, observers)
    const events = yield* hub.open
    // a wave that never began reports no end
    const wave = Effect.ensuring(run(hub), Effect.sync(() => hub.end()))
    const fiber = yield* Effect.forkScoped(wave, { startImmediately: true })
    return events.pipe(
      Stream.takeUntil(isEnd),
      Stream.concat(Stream.drain(Stream.fromEffect(Fiber.join(fiber)))),
      Stream.ensuring(Fiber.interrupt(fiber))
    )
  }))

const codecs = (tool: Tool.Any) => ({
  encode: Schema.encodeUnknownEffect(tool.parametersSchema as Schema.Codec<unknown, unknown>),
  success: Schema.decodeUnknownEffect(tool.successSchema as Schema.Codec<unknown, unknown>),
  failure: Schema.decodeUnknownOption(tool.failureSchema as Schema.Codec<unknown, unknown>)
})

const failWith = <T extends Tool.Any>(
  schemas: ReturnType<typeof codecs>,
  outcome: Of<"Failed">
): Effect.Effect<never, Tool.Failure<T> | ToolExecutionError> => {
  const failure = outcome.origin === "handler" ? schemas.failure(outcome.error) : Option.none()
  return Option.isSome(failure) ? Effect.fail(failure.value as Tool.Failure<T>) : Effect.fail(toError(outcome))
}
