/**
 * One pass of an agent over its work: takes waves of calls and answers every call. Types only; `engine/Process` does
 * it.
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
import type { TurnState } from "../gates/TurnState.ts"
import type { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { ToolContent } from "../vocabulary/ToolContent.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { For, ToolExecutionError, ToolOutcome, WaveResult } from "../vocabulary/ToolOutcome.ts"
import type { GuardedToolkit, ResultPart } from "./GuardedToolkit.ts"
import type { ResumeError } from "./ResumeError.ts"

/**
 * How a wave is cut into runs.
 *
 * **Details**
 *
 * `classes`: calls that may overlap run side by side, writers one by one, and a read behind a write sees it.
 * `sequential`: one call after the other. `parallel`: all calls side by side, writers included, in the pool of
 * concurrent writers. Two writes to one thing then meet unless their tool declares its resource keys, and a read may
 * miss a write before it.
 */
export type Mode = "classes" | "parallel" | "sequential"

/** Options of one execution. */
export interface ExecuteOptions {
  /** How long each call may run at most; a tool's own shorter limit still holds. */
  readonly timeout?: Duration.Input | undefined
  /** How these calls are cut into runs, instead of the `mode` of the settings. */
  readonly mode?: Mode | undefined
}

/** Options of calls that are handed over again after a crash. */
export interface ResumeOptions extends ExecuteOptions {
  /**
   * What becomes of a call that may have happened, and of which nothing can tell: it is `Unknown` (`tell`), or a person
   * is asked whether it runs again (`ask`). Default `tell`.
   */
  readonly onUnknown?: "tell" | "ask" | undefined
}

/** Options of calls that the host makes because rules demand them. */
export interface HostOptions extends ExecuteOptions {
  /** How often a tool that fails in a way worth a retry is called. Default 1. */
  readonly attempts?: number | undefined
}

/**
 * The arguments of calls that the host makes, by tool, in their encoded form; a tool without any is called with `{}`.
 */
export interface HostArguments {
  readonly [tool: string]: Readonly<Record<string, unknown>>
}

/**
 * Where a process stands: start tools are missing, it is working, the exit is wanted but something is required first,
 * it is over.
 */
export type Phase = "starting" | "working" | "exiting" | "done"

/** One model step, whose calls a loop hands over one by one. */
export interface Step {
  /**
   * Runs a call once those that arrived before it let it; it arrives when the effect begins. Interrupting it ends the
   * call, or gives up its place.
   */
  readonly execute: (call: ToolCall) => Effect.Effect<Answer>
}

/** What became of a call of a step, and the parts of it that a loop passes on. */
export interface Answer {
  readonly outcome: ToolOutcome
  /**
   * The encoded output, whole, of a call that succeeded. Of an equal call whose output is kept as an artifact, which is
   * replayed, the text.
   */
  readonly value: unknown
  /** What the model is told, within the limits of the executor. */
  readonly text: string
  /** The same for models that can be shown files, such as images: parts in their order. */
  readonly content: ToolContent
}

/** Calls the tools that rules demand, with arguments by tool. */
export interface HostRun {
  (args?: HostArguments): Effect.Effect<WaveResult>
  (args: HostArguments | undefined, options: HostOptions | undefined): Effect.Effect<WaveResult, ConfigurationError>
}

/** A call that the provider of a model has executed itself. */
export interface ProvidedCall {
  readonly id: string
  readonly name: string
  /** Whether it failed, or nobody knows how it ended. */
  readonly isFailure: boolean
  readonly output: unknown
}

/**
 * One pass of an agent over its work.
 *
 * **Details**
 *
 * No method fails because of a call: whatever happens to a call is its outcome. Options may be wrong: then nothing
 * runs, and what takes them fails with `ConfigurationError`. Interrupting the caller ends all calls of the wave; it
 * waits for their clean-up within `cleanupGrace` of the settings.
 */
export interface ToolProcess {
  readonly id: string
  readonly batch: string
  /** Runs the calls of one model turn. */
  readonly executeWave: {
    <const Calls extends ReadonlyArray<ToolCall>>(calls: Calls): Effect.Effect<WaveResult<Calls>>
    <const Calls extends ReadonlyArray<ToolCall>>(
      calls: Calls,
      options: ExecuteOptions | undefined
    ): Effect.Effect<WaveResult<Calls>, ConfigurationError>
  }
  /**
   * Runs calls that were handed over before and may have no end, such as those of a turn in which the host stopped:
   * what has an outcome on record gets it, what never started runs, and what started and has no end runs again only if
   * its tool says that it may. Two resumes of one call never both run it: the other one fails. It needs a `Journal`
   * that was there before, and the same batch.
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
   * Runs the calls of one model turn as a stream of what happens; `ToolsEnd` is last. The stream owns its wave: ending
   * it early cancels the wave.
   */
  readonly stream: {
    (calls: ReadonlyArray<ToolCall>): Stream.Stream<ToolEvent>
    (
      calls: ReadonlyArray<ToolCall>,
      options: ExecuteOptions | undefined
    ): Stream.Stream<ToolEvent, ConfigurationError>
  }
  /**
   * Calls a tool from the host, typed in and out, through the same gates. Fails with the tool's own failure, or with
   * `ToolExecutionError` if it did not run to its own end.
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
   * Calls the start tools that have not succeeded, in one wave; of those with mode `any` the ones that have arguments,
   * else the first. `args` are encoded arguments by tool.
   */
  readonly startConstraints: HostRun
  /** Calls the tools that are required before exit and have not succeeded, in one wave. */
  readonly exitRequirements: HostRun
  /**
   * Puts a toolkit behind this process, for `LanguageModel`, `Chat` and `McpServer`: every call the model makes goes
   * through the gates. Fails where the executor does not have one of its tools, and, like `step`, where people are to
   * be asked up front.
   */
  readonly guard: <Tools extends Record<string, Tool.Any>>(
    toolkit: { readonly tools: Tools }
  ) => Effect.Effect<GuardedToolkit<Tools>, ConfigurationError>
  /**
   * Runs the tool calls of a response as one wave and gives their results as parts of it, in the order of the calls.
   * What the provider executed itself is left alone, and counted by rules that name its tool; of a response that was
   * cut off nothing runs.
   */
  readonly answer: (
    toolkit: { readonly tools: Record<string, Tool.Any> },
    content: ReadonlyArray<Response.AnyPart>
  ) => Effect.Effect<ReadonlyArray<ResultPart>>
  /**
   * Tells the rules of calls that the provider of the model has executed itself: rules that name their tools count
   * them. Where an earlier process of the same request was told of them, `isKnown`, limits have counted them already.
   */
  readonly provided: (calls: ReadonlyArray<ProvidedCall>, isKnown?: boolean) => Effect.Effect<void>
  /**
   * Begins a model step for a loop that hands its calls over one by one, all at once: reads go side by side, a write
   * alone, in order of arrival. In stop mode what comes behind a refused or timed out call is skipped. Fails where
   * people are to be asked up front: nobody knows a whole step before its last call.
   */
  readonly step: Effect.Effect<Step, ConfigurationError>
  /** The text that a model is shown of a value from elsewhere, such as an earlier conversation: as it is, or cut. */
  readonly shown: (value: unknown) => string
  /** The tools that the executor shows, and the process has: see `ToolExecutor.tools`. */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  /**
   * What the process remembers between its waves, as plain data: another one can be begun from it, elsewhere and later
   * (`state` of `ToolExecutor.process`).
   */
  readonly state: Effect.Effect<TurnState>
  readonly phase: Effect.Effect<Phase>
  /** The loop is over: an `ExitLoop` tool succeeded, and nothing more is required before the exit. */
  readonly shouldExit: Effect.Effect<boolean>
  /** Start tools that have to succeed yet. */
  readonly startPending: Effect.Effect<ReadonlyArray<string>>
  /** Tools that have to succeed before the exit. */
  readonly exitPending: Effect.Effect<ReadonlyArray<string>>
  /** The tools that no gate would refuse by name now; empty means none. */
  readonly allowedNext: Effect.Effect<ReadonlyArray<string>>
  /** One of these tools has to be called next; empty if nothing is forced. */
  readonly forcedNext: Effect.Effect<ReadonlyArray<string>>
  /** `allowedNext` and `forcedNext` as the `toolChoice` of `LanguageModel`. */
  readonly toolChoice: Effect.Effect<LanguageModel.ToolChoice<string>>
  /** What happens from now on, for observers; ends with the batch. Observing changes nothing. */
  readonly events: Stream.Stream<ToolEvent>
  /**
   * Has a function told of everything from now on, for the rest of the scope, in the very step in which it happens:
   * nothing is waited for, and nothing is missed at the end. It must not take long; it gives whether it took the event,
   * and one that throws has not. Those of tools that are not taken are counted (`ToolCallComplete.dropped`).
   */
  readonly listen: (tell: (event: ToolEvent) => boolean) => Effect.Effect<void, never, Scope.Scope>
  /** Ends every call that has no outcome yet; later calls of this process are `Cancelled`, too. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Ends the calls of an id in the waves under way; their siblings go on. */
  readonly cancelCall: (id: string, reason?: string) => Effect.Effect<void>
}
