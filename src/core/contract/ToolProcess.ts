/**
 * A process: one pass of an agent, which takes waves of calls and answers each call. Types only; see `engine/Process`.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { ToolEvent } from "../facts/ToolEvent.ts"
import type { Options as DedupeOptions } from "../gates/Dedupe.ts"
import type { TurnState } from "../gates/TurnState.ts"
import type { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { ToolContent } from "../vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { For, ToolExecutionError, ToolOutcome, WaveResult } from "../vocabulary/ToolOutcome.ts"
import type { GuardedToolkit, ResultPart } from "./GuardedToolkit.ts"
import type { ResumeError } from "./ResumeError.ts"

/**
 * How a wave is divided into runs.
 *
 * `classes`: calls that may overlap run concurrently, writers one by one, and a read after a write sees it.
 * `sequential`: one call after another. `parallel`: all calls concurrently, with writers in the pool of concurrent
 * writers. Writes to the same thing may then overlap unless their tools declare resource keys, and a read may miss an
 * earlier write.
 */
export type Mode = "classes" | "parallel" | "sequential"

/** Options of one execution. */
export interface ExecuteOptions {
  /** Time limit per call; a tool's shorter limit still applies. */
  readonly timeout?: Duration.Input | undefined
  /** Overrides the `mode` of the settings. */
  readonly mode?: Mode | undefined
}

/** Options of calls submitted again after a crash. */
export interface ResumeOptions extends ExecuteOptions {
  /**
   * How to treat a call that may have happened: as `Unknown` (`tell`), or by asking an approver whether to run it again
   * (`ask`). Default `tell`.
   */
  readonly onUnknown?: "tell" | "ask" | undefined
}

/** Options of calls the host makes because rules require them. */
export interface HostOptions extends ExecuteOptions {
  /** Attempts per tool after retryable failures. Default 1. */
  readonly attempts?: number | undefined
}

/** Options of a model's requests. */
export interface RequestOptions {
  /** The scope in which equal calls are compared if the policy (`Dedupe`) names none. Default `"batch"`. */
  readonly dedupeScope?: DedupeOptions["scope"] | undefined
}

/** Encoded arguments by tool; the default is `{}`. */
export interface HostArguments {
  readonly [tool: string]: Readonly<Record<string, unknown>>
}

/**
 * Where a process stands: start tools are missing, it works, something is required before the exit, or it has ended.
 */
export type Phase = "starting" | "working" | "exiting" | "done"

/** One model step whose calls a loop submits one by one. */
export interface Step {
  /**
   * Runs a call once earlier ones let it; it arrives when the effect starts. Interruption ends the call or gives up its
   * place.
   */
  readonly execute: (call: ToolCall) => Effect.Effect<Answer>
}

/** The outcome of a call of a step, with the parts a loop passes on. */
export interface Answer {
  readonly outcome: ToolOutcome
  /** The full encoded output of a successful call; for a replay of an output stored as an artifact, its text. */
  readonly value: unknown
  /** What the model reads, within the executor's limits. */
  readonly text: string
  /** The same with files such as images, for models that support them. */
  readonly content: ToolContent
}

/** Calls required tools, with arguments by tool. */
export interface HostRun {
  (args?: HostArguments): Effect.Effect<WaveResult>
  (args: HostArguments | undefined, options: HostOptions | undefined): Effect.Effect<WaveResult, ConfigurationError>
}

/** The result of an earlier call. */
export interface RecalledResult {
  readonly id: string
  readonly name: string
  readonly output: unknown
}

/** A call that the model's provider executed. */
export interface ProvidedCall extends RecalledResult {
  /** It failed, or its result is unknown. */
  readonly isFailure: boolean
}

/** The result of a call that ended before the process began. */
export interface EarlierResult {
  readonly name: string
  readonly output: unknown
  readonly isFailure: boolean
  /** The model's provider ran it, and not the host. */
  readonly providerExecuted: boolean
}

/**
 * One pass of an agent over its work.
 *
 * A call never makes a method fail: it gets an outcome. Invalid options fail with `ConfigurationError` before anything
 * runs. Interrupting the caller ends the wave's calls and waits for their clean-up within `cleanupGrace` of the
 * settings.
 */
export interface ToolProcess {
  readonly id: string
  readonly batch: string
  /** It works for a call, whose handler began it: what its agent is told are the words of a model. */
  readonly isForCall: boolean
  /**
   * Adds what the user says while the process runs, for `Provenance` and reviewers: the user's own messages, not those
   * of models, agents or the host. `foreign`: text that the user pasted.
   */
  readonly heard: (text: string, from?: "user" | "foreign") => Effect.Effect<void>
  /**
   * Adds results in a stored conversation that goes on, for `Provenance`. Those that are on record in the journal, or
   * that this executor returned, count as they are known; all others may be from anywhere.
   */
  readonly recalled: (results: ReadonlyArray<RecalledResult>) => Effect.Effect<void>
  /**
   * Adds the results of calls before the process, in order, for rules of order in every scope. Limits do not count
   * them. Failures do not count, nor do results of this executor's tools that a provider claims to have run. Pass only
   * results that the host itself has recorded.
   */
  readonly earlier: (results: ReadonlyArray<EarlierResult>) => Effect.Effect<void>
  /** Runs the calls of one model turn. */
  readonly executeWave: {
    <const Calls extends ReadonlyArray<ToolCall>>(calls: Calls): Effect.Effect<WaveResult<Calls>>
    <const Calls extends ReadonlyArray<ToolCall>>(
      calls: Calls,
      options: ExecuteOptions | undefined
    ): Effect.Effect<WaveResult<Calls>, ConfigurationError>
  }
  /**
   * Resumes calls submitted before that may have no end, for example after the host stopped.
   *
   * A recorded outcome is returned. Calls that never started run. Calls that started run again only if their tool
   * allows it. If two resumes compete for a call, one fails. Requires the earlier `Journal` and the same batch.
   */
  readonly resume: <const Calls extends ReadonlyArray<ToolCall>>(
    calls: Calls,
    options?: ResumeOptions
  ) => Effect.Effect<WaveResult<Calls>, ResumeError | ConfigurationError>
  /** Runs one call. */
  readonly execute: {
    <const Call extends ToolCall>(call: Call): Effect.Effect<For<Call>>
    <const Call extends ToolCall>(
      call: Call,
      options: ExecuteOptions | undefined
    ): Effect.Effect<For<Call>, ConfigurationError>
  }
  /**
   * Runs the calls of one model turn as a stream of events that ends with `ToolsEnd`. Ending the stream early cancels
   * the wave.
   */
  readonly stream: {
    (calls: ReadonlyArray<ToolCall>): Stream.Stream<ToolEvent>
    (
      calls: ReadonlyArray<ToolCall>,
      options: ExecuteOptions | undefined
    ): Stream.Stream<ToolEvent, ConfigurationError>
  }
  /**
   * Calls a tool from the host with types, through the same gates. Fails with the tool's failure, or with
   * `ToolExecutionError` if it did not run to its end.
   */
  readonly call: {
    <T extends Tool.Any>(
      tool: T,
      params: Tool.Parameters<T>
    ): Effect.Effect<Tool.Success<T>, Tool.Failure<T> | ToolExecutionError | Schema.SchemaError>
    <T extends Tool.Any>(
      tool: T,
      params: Tool.Parameters<T>,
      options: ExecuteOptions | undefined
    ): Effect.Effect<
      Tool.Success<T>,
      Tool.Failure<T> | ToolExecutionError | Schema.SchemaError | ConfigurationError
    >
  }
  /**
   * Calls the start tools that have not succeeded, in one wave. With mode `any`: those with arguments in `args`, else
   * the first.
   */
  readonly startConstraints: HostRun
  /** Calls the tools still required before exit, in one wave. */
  readonly exitRequirements: HostRun
  /**
   * Returns a toolkit for `LanguageModel`, `Chat` and `McpServer` whose calls go through the gates. Fails if the
   * executor lacks one of its tools or, like `step`, if approval is requested up front.
   */
  readonly guard: <Tools extends Record<string, Tool.Any>>(
    toolkit: { readonly tools: Tools },
    options?: RequestOptions
  ) => Effect.Effect<GuardedToolkit<Tools>, ConfigurationError>
  /**
   * Runs the tool calls of a response as one wave and returns their results as parts, in order. Provider-executed calls
   * are only counted by the rules. A response that was cut off runs nothing.
   */
  readonly answer: (
    toolkit: { readonly tools: Record<string, Tool.Any> },
    content: ReadonlyArray<Response.AnyPart>,
    options?: RequestOptions
  ) => Effect.Effect<ReadonlyArray<ResultPart>>
  /**
   * Reports provider-executed calls, so that rules count them. `isKnown`: an earlier process of the request reported
   * them, so limits have counted them already.
   */
  readonly provided: (calls: ReadonlyArray<ProvidedCall>, isKnown?: boolean) => Effect.Effect<void>
  /**
   * Starts a model step for a loop that submits its calls one by one, concurrently. Reads overlap, and a write runs
   * alone, in order of arrival. In stop mode, calls after one that is refused or times out are skipped. Fails if
   * approval is requested up front, because the step's calls are not known in advance.
   */
  readonly step: Effect.Effect<Step, ConfigurationError>
  /**
   * Returns the text a model sees of an outside value, such as one from an earlier conversation; long texts are cut.
   */
  readonly shown: (value: unknown) => string
  /** The tools of the process that the executor shows: see `ToolExecutor.tools`. */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  /** The process's memory between waves, as plain data from which another process can continue (option `state`). */
  readonly state: Effect.Effect<TurnState>
  readonly phase: Effect.Effect<Phase>
  /** The loop ends: an `ExitLoop` tool succeeded, and nothing else is required first. */
  readonly shouldExit: Effect.Effect<boolean>
  /** Start tools that have not succeeded yet. */
  readonly startPending: Effect.Effect<ReadonlyArray<string>>
  /** Tools that must succeed before the exit. */
  readonly exitPending: Effect.Effect<ReadonlyArray<string>>
  /** The tools no gate would refuse by name now; empty means none. */
  readonly allowedNext: Effect.Effect<ReadonlyArray<string>>
  /** Exactly one of these must be called next; empty if nothing is forced. */
  readonly forcedNext: Effect.Effect<ReadonlyArray<string>>
  /** `allowedNext` and `forcedNext` as the `toolChoice` of `LanguageModel`. */
  readonly toolChoice: Effect.Effect<LanguageModel.ToolChoice<string>>
  /** Events from now until the batch ends, for observers. */
  readonly events: Stream.Stream<ToolEvent>
  /**
   * Calls a function synchronously for every event from now on, until the scope closes. It must be fast and return
   * whether it took the event; a throw counts as false. Tool events not taken are counted (`ToolCallComplete.dropped`).
   */
  readonly listen: (tell: (event: ToolEvent) => boolean) => Effect.Effect<void, never, Scope.Scope>
  /** The number of its waves if all of them wait for nothing but approvals, otherwise 0. */
  readonly waiting: () => number
  /** Cancels every call without an outcome, and all later calls of this process. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Cancels the running calls with this id; other calls continue. */
  readonly cancelCall: (id: string, reason?: string) => Effect.Effect<void>
}
