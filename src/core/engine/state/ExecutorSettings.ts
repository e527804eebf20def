/**
 * The settings of an executor: timeouts, modes and limits.
 *
 * Precedence, per field: the layer's own options, then the surrounding context, then the defaults. Executors read and
 * check the settings when they are built; one `ConfigurationError` lists every invalid value. Settings of a gate, such
 * as the sizes of pools, are options of the gate's own layer.
 *
 * **Example** (Settings for every executor of a program)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { ExecutorSettings, LocalExecutor } from "effect-tool-executor"
 * import { Toolkit } from "effect/ai"
 *
 * export const Executor = LocalExecutor.layer(Toolkit.make(), { onExecutionError: "stop" }).pipe(
 *   Layer.provide(ExecutorSettings.layer({ executionTimeout: "30 seconds", output: { maxChars: 20_000 } }))
 * )
 * ```
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Mode } from "../../contract/ToolProcess.ts"
import * as OutputPolicy from "../../output/OutputPolicy.ts"

/** Settings of an executor. Every field has a default (`defaults`). */
export interface Options {
  /**
   * The principal that owns the executor. Default: `ToolExecutor.Principal` from the context, which defaults to
   * `"default"`.
   */
  readonly principal?: string | undefined
  /**
   * The roles of the principal, for clauses of the policy with `roles`. Default: unknown, so that such clauses deny and
   * ask, and do not allow.
   */
  readonly roles?: ReadonlyArray<string> | undefined
  /** How a wave is cut into runs: by concurrency class, as one run, or call by call. Default `"classes"`. */
  readonly mode?: Mode | undefined
  /** Whether a refused or timed out call ends its wave. Default `"continue"`. */
  readonly onExecutionError?: "continue" | "stop" | undefined
  /**
   * When approval is requested, if there are `Approvals`: for each call in its turn, or for a whole wave first. Default
   * `"perCall"`.
   */
  readonly approval?: "perCall" | "upfront" | undefined
  /**
   * Whether agents continue only if the model requests it. Default false.
   *
   * If true, the tools that need a heartbeat show the argument `request_heartbeat` in their JSON Schema. The argument
   * is removed from every call either way.
   */
  readonly heartbeats?: boolean | undefined
  /**
   * How many waves a missing required tool may delay the end of the loop. After that, the loop may end; `exitPending`
   * still names the missing tools. Default 5.
   */
  readonly exitAttempts?: number | undefined
  /** How long a call may run if its tool sets no limit. Default 120 seconds. */
  readonly executionTimeout?: Duration.Input | undefined
  /** How long an outcome waits for an open commit. Default 5 seconds. */
  readonly commitTimeout?: Duration.Input | undefined
  /** How long an interrupted caller waits for handlers to clean up. Default 5 seconds. */
  readonly cleanupGrace?: Duration.Input | undefined
  /** Timeout of all guards of a call together. Default 10 seconds. */
  readonly guardTimeout?: Duration.Input | undefined
  /** Timeout of the state store. A call that gets no answer in time is refused. Default 5 seconds. */
  readonly storePatience?: Duration.Input | undefined
  /**
   * Delay before a failed report of a call's end to the state store is retried. It doubles each time, up to a minute.
   * Default 1 second.
   */
  readonly storeRetry?: Duration.Input | undefined
  /** Whether events that tools emit are delivered. Default true. */
  readonly toolEvents?: boolean | undefined
  /** How many events a reader may leave unread before it misses events of tools. Default 1,024. */
  readonly eventBuffer?: number | undefined
  /**
   * Whether calls have spans and metrics: `"auto"` records them if the caller has a span or its own tracer. Default
   * `"auto"`.
   */
  readonly telemetry?: "auto" | "on" | "off" | undefined
  /** Whether spans include the arguments and results of calls, with secrets redacted. Default false. */
  readonly telemetryContent?: boolean | undefined
  /**
   * What becomes of text that a model reads and a person does not see, such as Unicode tag characters, in results:
   * `"show"` passes it on and reports it, `"remove"` takes it out and reports it, `"refuse"` withholds the result and
   * refuses arguments that contain it. Characters that emoji and scripts need are never affected. Default `"show"`.
   */
  readonly invisible?: "show" | "remove" | "refuse" | undefined
  /** How much of an output the model sees. Default: 10,000 characters. */
  readonly output?: OutputPolicy.Options | undefined
}

/** The settings in the context of an executor that is built. */
export const ExecutorSettings = Context.Reference<Options>("effect-tool-executor/ExecutorSettings", {
  defaultValue: () => ({})
})

/** Default options. The principal's default comes from the context. */
export const defaults = {
  mode: "classes",
  onExecutionError: "continue",
  approval: "perCall",
  heartbeats: false,
  exitAttempts: 5,
  executionTimeout: "120 seconds",
  commitTimeout: "5 seconds",
  cleanupGrace: "5 seconds",
  guardTimeout: "10 seconds",
  storePatience: "5 seconds",
  storeRetry: "1 second",
  toolEvents: true,
  eventBuffer: 1_024,
  telemetry: "auto",
  telemetryContent: false,
  invisible: "show",
  output: OutputPolicy.defaults
} as const satisfies Omit<Complete, "principal" | "roles">

/** Layer of settings. Fields that are not set keep their value from the context. */
export const layer = (options: Options): Layer.Layer<never> => Layer.effect(ExecutorSettings, over(options))

/** Merges settings, field by field: `options` win over `around`. */
export const merge = (options: Options, around: Options): Options => ({
  ...around,
  ...given(Object.keys(names), options),
  output: { ...around.output, ...given(outputNames, options.output ?? {}) }
})

/** Settings with every field set. */
export type Complete = { readonly [K in Exclude<keyof Options, "output" | "roles">]-?: NonNullable<Options[K]> } & {
  readonly roles?: ReadonlyArray<string> | undefined
  readonly output: { readonly [K in keyof OutputPolicy.Options]-?: NonNullable<OutputPolicy.Options[K]> }
}

/** Fills in the defaults, and the principal if none is set. */
export const complete = (options: Options, principal: string): Complete =>
  merge(options, { principal, ...defaults }) as Complete

const over = (options: Options) => Effect.map(ExecutorSettings, (around) => merge(options, around))

/** Every setting. */
export const names = {
  principal: true,
  roles: true,
  mode: true,
  onExecutionError: true,
  approval: true,
  heartbeats: true,
  exitAttempts: true,
  executionTimeout: true,
  commitTimeout: true,
  cleanupGrace: true,
  guardTimeout: true,
  storePatience: true,
  storeRetry: true,
  toolEvents: true,
  eventBuffer: true,
  telemetry: true,
  telemetryContent: true,
  invisible: true,
  output: true
} as const satisfies { readonly [K in keyof Required<Options>]: true }

const outputNames = Object.keys(OutputPolicy.defaults)

/** Returns only the settings among these options. Undefined counts as not set, so that code may pass it. */
const given = <A extends object>(names: ReadonlyArray<string>, options: A): Partial<A> =>
  Object.fromEntries(
    Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name))
  ) as Partial<A>
