/**
 * One pass of an agent over its work: takes waves of calls and answers every
 * call.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { ConfigurationError } from "./ConfigurationError.ts"
import type { Engine, ProcessState } from "./execution/Engine.ts"
import { EventHub } from "./execution/EventHub.ts"
import * as Forks from "./execution/Forks.ts"
import * as HostCalls from "./execution/HostCalls.ts"
import type { LiveContext } from "./execution/LiveContext.ts"
import * as NextTools from "./execution/NextTools.ts"
import * as Received from "./execution/Received.ts"
import type { Settings } from "./execution/Settings.ts"
import * as Steps from "./execution/Steps.ts"
import { Wave } from "./execution/Wave.ts"
import * as GuardedToolkit from "./GuardedToolkit.ts"
import type { RuleHistory } from "./policy/RuleHistory.ts"
import * as RuleSet from "./policy/RuleSet.ts"
import type { ToolCall } from "./ToolCall.ts"
import type { ToolEvent } from "./ToolEvent.ts"
import type { RegisteredTool } from "./ToolHandlers.ts"
import { type Of, orFail, toError, type ToolExecutionError, type ToolOutcome, type WaveResult } from "./ToolOutcome.ts"

/**
 * Options of one execution.
 *
 * @category options
 * @since 0.1.0
 */
export interface ExecuteOptions {
  /** How long each call may run at most; a tool's own shorter limit still holds. */
  readonly timeout?: Duration.Input | undefined
}

/**
 * Options of calls that the host makes because rules demand them.
 *
 * @category options
 * @since 0.1.0
 */
export interface HostOptions extends ExecuteOptions {
  /** How often a tool that fails in a way worth a retry is called. Default 1. */
  readonly attempts?: number | undefined
}

/**
 * Where a process stands: start tools are missing, it works, the exit is wanted
 * but something is required first, it is over.
 *
 * @category models
 * @since 0.1.0
 */
export type Phase = "starting" | "working" | "exiting" | "done"

/**
 * One model step, whose calls a loop hands over one by one.
 *
 * @category models
 * @since 0.1.0
 */
export type Step = Steps.Step

/**
 * What became of a call of a step, with what a loop passes on of it.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer = Steps.Answer

/**
 * One pass of an agent over its work.
 *
 * **Details**
 *
 * No method fails for a reason of a call: whatever happens to it is its
 * outcome. Interrupting the caller ends all calls of the wave; it waits for
 * their clean-up within `Attempt.Limits.cleanupGrace`.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolProcess {
  readonly id: string
  readonly batch: string
  /** Runs the calls of one model turn. */
  readonly executeWave: (calls: ReadonlyArray<ToolCall>, options?: ExecuteOptions) => Effect.Effect<WaveResult>
  /** Another name of `executeWave`. */
  readonly executeBatch: ToolProcess["executeWave"]
  /** Runs one call. */
  readonly execute: (call: ToolCall, options?: ExecuteOptions) => Effect.Effect<ToolOutcome>
  /**
   * Runs the calls of one model turn as a stream of what happens; `ToolsEnd` is
   * last. The stream owns its wave: ending it early cancels the wave.
   */
  readonly stream: (calls: ReadonlyArray<ToolCall>, options?: ExecuteOptions) => Stream.Stream<ToolEvent>
  /**
   * Calls a tool from the host, typed in and out, through the same gates. Fails
   * with the tool's own failure, or with `ToolExecutionError` if it did not run
   * to its own end.
   */
  readonly call: <T extends Tool.Any>(
    tool: T,
    params: Tool.Parameters<T>,
    options?: ExecuteOptions
  ) => Effect.Effect<Tool.Success<T>, Tool.Failure<T> | ToolExecutionError | Schema.SchemaError>
  /**
   * Calls the start tools that have not succeeded, in one wave; of those with
   * mode `any` the ones that have arguments, else the first. `args` are encoded
   * arguments by tool.
   */
  readonly startConstraints: (args?: HostCalls.Arguments, options?: HostOptions) => Effect.Effect<WaveResult>
  /** Calls the tools that are required before exit and have not succeeded, in one wave. */
  readonly exitRequirements: (args?: HostCalls.Arguments, options?: HostOptions) => Effect.Effect<WaveResult>
  /**
   * Puts a toolkit behind this process, for `LanguageModel`, `Chat` and
   * `McpServer`: every call the model makes goes through the gates. Fails where the
   * executor does not have one of its tools, and, like `step`, where people are to
   * be asked up front.
   */
  readonly guard: <Tools extends Record<string, Tool.Any>>(
    toolkit: { readonly tools: Tools }
  ) => Effect.Effect<GuardedToolkit.GuardedToolkit<Tools>, ConfigurationError>
  /**
   * Runs the tool calls of a response as one wave and gives their results as
   * parts of it, in the order of the calls. What the provider executed itself is
   * left alone; of a response that was cut off nothing runs.
   */
  readonly answer: (
    toolkit: { readonly tools: Record<string, Tool.Any> },
    content: ReadonlyArray<Response.AnyPart>
  ) => Effect.Effect<ReadonlyArray<GuardedToolkit.ResultPart>>
  /**
   * Begins a model step for a loop that hands its calls over one by one, all at
   * once: reads go side by side, a write alone, in order of arrival. In stop mode
   * what comes behind a refused or timed out call is skipped. Fails where people
   * are to be asked up front: nobody knows a whole step before its last call.
   */
  readonly step: Effect.Effect<Step, ConfigurationError>
  /** The text that a model is shown of a value from elsewhere, such as an earlier conversation: as it is, or cut. */
  readonly shown: (value: unknown) => string
  /** The tools that the executor shows: see `ToolExecutor.tools`. */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  readonly phase: Effect.Effect<Phase>
  /** The loop is over: an `ExitLoop` tool succeeded, and nothing is required before the exit any more. */
  readonly shouldExit: Effect.Effect<boolean>
  /** Start tools that have to succeed yet. */
  readonly startPending: Effect.Effect<ReadonlyArray<string>>
  /** Tools that have to succeed before the exit. */
  readonly exitPending: Effect.Effect<ReadonlyArray<string>>
  /** The tools that no gate would refuse by name now; empty means none. */
  readonly allowedNext: Effect.Effect<ReadonlyArray<string>>
  /** The tools of which one has to be called next; empty if nothing is forced. */
  readonly forcedNext: Effect.Effect<ReadonlyArray<string>>
  /** `allowedNext` and `forcedNext` as the `toolChoice` of `LanguageModel`. */
  readonly toolChoice: Effect.Effect<LanguageModel.ToolChoice<string>>
  /** What happens from now on, for observers; ends with the batch. Observing changes nothing. */
  readonly events: Stream.Stream<ToolEvent>
  /** Ends every call that has no outcome yet; later calls of this process are `Cancelled`, too. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Ends the calls of an id in the waves under way; their siblings go on. */
  readonly cancelCall: (id: string, reason?: string) => Effect.Effect<void>
}

/**
 * Creates a process on an engine; `handle` is the call whose handler made it, which
 * it ends with.
 *
 * @category constructors
 * @internal
 */
export const make = (engine: Engine, state: ProcessState, handle?: LiveContext): ToolProcess => {
  const caller = Forks.callingWith(handle)
  const runWave = (
    calls: ReadonlyArray<Received.Received>,
    options?: ExecuteOptions,
    wave?: Partial<Pick<Settings, "hub" | "wholeOutputs" | "told" | "step">>
  ) =>
    Effect.flatMap(caller, (caller) =>
      new Wave(engine, state, calls, {
        timeoutMillis: options?.timeout === undefined
          ? Infinity
          : Duration.toMillis(Duration.fromInputUnsafe(options.timeout)),
        wholeOutputs: wave?.wholeOutputs ?? false,
        told: wave?.told ?? state.fires === undefined,
        hub: wave?.hub ?? state.hub,
        caller,
        step: wave?.step
      }).run)
  const runWhole: Steps.Run = (call, hub, step) =>
    Effect.map(runWave([call], undefined, { hub, wholeOutputs: true, step }), (wave) => wave.outcomes[0]!)

  const executeWave: ToolProcess["executeWave"] = (calls, options) =>
    Effect.suspend(() => runWave(Received.wave(calls), options))
  let hostCalls = 0
  const hostId = () => `host_${++hostCalls}`
  const hostRun = (tools: ReadonlyArray<string>, args: HostCalls.Arguments = {}, options: HostOptions = {}) =>
    HostCalls.run(tools, args, options.attempts ?? 1, hostId, (calls) => runWave(calls, options))
  const ask = <A>(question: (set: RuleSet.RuleSet, history: RuleHistory) => A) =>
    Effect.sync(() => question(engine.rules.current(), state.history))
  return {
    id: state.id,
    batch: state.batch.id,
    executeWave,
    executeBatch: executeWave,
    execute: (call, options) =>
      Effect.suspend(() => Effect.map(runWave([Received.one(call)], options), (wave) => wave.outcomes[0]!)),
    stream: (calls, options) =>
      streamOf(state.hub, (hub) => Effect.suspend(() => runWave(Received.wave(calls), options, { hub }))),
    call: Effect.fnUntraced(function*<T extends Tool.Any>(
      tool: T,
      params: Tool.Parameters<T>,
      options?: ExecuteOptions
    ): Effect.fn.Return<Tool.Success<T>, Tool.Failure<T> | ToolExecutionError | Schema.SchemaError> {
      const schemas = codecs(tool)
      const id = hostId()
      // what dies of its own getters is no less refused than what fails to be encoded
      const encoded = yield* Effect.catchDefect(schemas.encode(params), () => Effect.succeed(unreadable))
      const call = Received.one({ id, name: tool.name, params: encoded })
      const wave = yield* runWave([call], options, { wholeOutputs: true, told: false })
      const outcome = yield* orFail(wave.outcomes[0]!)
      if (outcome._tag === "Failed") return yield* failWith<T>(schemas, outcome)
      const { output } = outcome
      if (output._tag !== "Artifact") return (yield* schemas.success(output.value)) as Tool.Success<T>
      // only another call's outcome can be an artifact here, and the value is no longer there
      const reason = { _tag: "DuplicateCall", of: outcome.replayOf ?? "", running: false } as const
      return yield* toError({ ...outcome, _tag: "Denied", reason })
    }),
    guard: (toolkit) => GuardedToolkit.make(engine, state, toolkit, runWhole),
    answer: ({ tools }, content) =>
      GuardedToolkit.answer(
        engine,
        state,
        tools,
        content,
        (calls) => Effect.map(runWave(calls, undefined, { wholeOutputs: true }), (wave) => wave.outcomes)
      ),
    step: Effect.suspend(() => Steps.make(engine, state, runWhole)),
    shown: (value) => Steps.shown(engine, state, value),
    tools: Effect.suspend(() => engine.service().tools),
    startConstraints: (args, options) =>
      Effect.suspend(() => hostRun(startTools(engine.rules.current(), state.history, args), args, options)),
    exitRequirements: (args, options) =>
      Effect.suspend(() => hostRun(RuleSet.exitPending(engine.rules.current(), state.history), args, options)),
    phase: ask(phaseOf),
    shouldExit: ask((set, history) => history.shouldExit(set)),
    startPending: ask(RuleSet.startPending),
    exitPending: ask(RuleSet.exitPending),
    allowedNext: NextTools.allowed(engine, state),
    forcedNext: NextTools.forced(engine, state),
    toolChoice: NextTools.choice(engine, state),
    events: state.hub.stream,
    cancel: (reason) =>
      Effect.sync(() => {
        if (handle?.isOver) return
        state.cancelled ??= said(reason)
        for (const wave of Array.from(state.waves)) wave.cancel(said(reason))
      }),
    cancelCall: (id, reason) =>
      Effect.sync(() => {
        if (handle?.isOver) return
        // who waits for one of them may begin the next at once
        for (const wave of Array.from(state.waves)) wave.cancelId(id, said(reason))
      })
  }
}

// Utilities

/** No JSON: whoever reads it says so. */
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

/** The start tools that the host calls: of alternatives one is enough. */
const startTools = (
  set: RuleSet.RuleSet,
  history: RuleHistory,
  args: HostCalls.Arguments = {}
): ReadonlyArray<string> => {
  const pending = RuleSet.startPending(set, history)
  const any = pending.filter((tool) => set.forTool(tool).start?.mode === "any")
  const given = any.filter((tool) => HostCalls.has(args, tool))
  const chosen = given.length > 0 ? given : any.slice(0, 1)
  return pending.filter((tool) => !any.includes(tool) || chosen.includes(tool))
}

/** The stream of one wave: a reader of its own beside the process's observers. */
const streamOf = (
  observers: EventHub,
  run: (hub: EventHub) => Effect.Effect<WaveResult>
): Stream.Stream<ToolEvent> =>
  Stream.unwrap(Effect.gen(function*() {
    const hub = new EventHub(observers.capacity, observers)
    const events = yield* hub.open
    // a wave that never began has no end that it could tell
    const wave = Effect.ensuring(run(hub), Effect.sync(() => hub.end()))
    const fiber = yield* Effect.forkScoped(wave, { startImmediately: true })
    return events.pipe(
      Stream.takeUntil((event) => event._tag === "ToolsEnd"),
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
