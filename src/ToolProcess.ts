/**
 * One pass of an agent over its work: takes waves of calls and answers every
 * call.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Engine, ProcessState } from "./execution/Engine.ts"
import { EventHub } from "./execution/EventHub.ts"
import { Wave } from "./execution/Wave.ts"
import type { ToolCall } from "./ToolCall.ts"
import type { ToolEvent } from "./ToolEvent.ts"
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
  readonly executeBatch: (calls: ReadonlyArray<ToolCall>, options?: ExecuteOptions) => Effect.Effect<WaveResult>
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
  /** What happens from now on, for observers; ends with the batch. Observing changes nothing. */
  readonly events: Stream.Stream<ToolEvent>
  /** Ends every call that has no outcome yet; later calls of this process are `Cancelled`, too. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Ends the calls of an id in the waves under way; their siblings go on. */
  readonly cancelCall: (id: string, reason?: string) => Effect.Effect<void>
}

/**
 * Creates a process on an engine.
 *
 * @category constructors
 * @internal
 */
export const make = (engine: Engine, state: ProcessState): ToolProcess => {
  const runWave = (
    calls: ReadonlyArray<ToolCall>,
    options?: ExecuteOptions,
    wave?: { readonly hub?: EventHub; readonly wholeOutputs?: boolean }
  ) =>
    Effect.suspend(() =>
      new Wave(engine, state, calls, {
        timeoutMillis: options?.timeout === undefined
          ? Infinity
          : Duration.toMillis(Duration.fromInputUnsafe(options.timeout)),
        wholeOutputs: wave?.wholeOutputs ?? false,
        hub: wave?.hub ?? state.hub
      }).run
    )

  let hostCalls = 0
  return {
    id: state.id,
    batch: state.batch.id,
    executeBatch: (calls, options) => runWave(calls, options),
    execute: (call, options) => Effect.map(runWave([call], options), (wave) => wave.outcomes[0]!),
    stream: (calls, options) => streamOf(state.hub, (hub) => runWave(calls, options, { hub })),
    call: Effect.fnUntraced(function*<T extends Tool.Any>(
      tool: T,
      params: Tool.Parameters<T>,
      options?: ExecuteOptions
    ): Effect.fn.Return<Tool.Success<T>, Tool.Failure<T> | ToolExecutionError | Schema.SchemaError> {
      const schemas = codecs(tool)
      const call = { id: `host_${++hostCalls}`, name: tool.name, params: yield* schemas.encode(params) }
      const wave = yield* runWave([call], options, { wholeOutputs: true })
      const outcome = yield* orFail(wave.outcomes[0]!)
      if (outcome._tag === "Failed") return yield* failWith<T>(schemas, outcome)
      const { output } = outcome
      if (output._tag !== "Artifact") return (yield* schemas.success(output.value)) as Tool.Success<T>
      // only another call's outcome can be an artifact here, and the value is no longer there
      const reason = { _tag: "DuplicateCall", of: outcome.replayOf ?? "", running: false } as const
      return yield* toError({ ...outcome, _tag: "Denied", reason })
    }),
    events: state.hub.stream,
    cancel: (reason) =>
      Effect.sync(() => {
        state.cancelled ??= reason
        for (const wave of state.waves) wave.cancel(reason)
      }),
    cancelCall: (id, reason = "it was cancelled") =>
      Effect.sync(() => {
        for (const wave of state.waves) wave.cancelId(id, reason)
      })
  }
}

// Utilities

/** The stream of one wave: a reader of its own beside the process's observers. */
const streamOf = (
  observers: EventHub,
  run: (hub: EventHub) => Effect.Effect<WaveResult>
): Stream.Stream<ToolEvent> =>
  Stream.unwrap(Effect.gen(function*() {
    const hub = new EventHub(observers.capacity, observers)
    const events = yield* hub.open
    const fiber = yield* Effect.forkScoped(run(hub), { startImmediately: true })
    return events.pipe(
      Stream.takeUntil((event) => event._tag === "ToolsEnd"),
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
