/**
 * The settings of an executor: its times, modes and bounds, in one reference.
 *
 * What is around a layer holds where its own options say nothing, and the defaults where neither does, field by field.
 * Executors read and check the settings when they are built: one `ConfigurationError` lists every value that is wrong.
 * What a gate needs, such as the sizes of pools, is an option of the gate's own layer.
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
import type { Mode } from "../contract/ToolProcess.ts"
import * as OutputPolicy from "../output/OutputPolicy.ts"

/** The settings that one may give. Every field has a default (`defaults`). */
export interface Options {
  /** Whose executor it is. Default: the `ToolExecutor.Principal` around it, which is `"default"` unless somebody says more. */
  readonly principal?: string | undefined
  /** How a wave is cut into runs: by concurrency class, as one run, or call by call. Default `"classes"`. */
  readonly mode?: Mode | undefined
  /** Whether a refused or timed out call ends its wave. Default `"continue"`. */
  readonly onExecutionError?: "continue" | "stop" | undefined
  /** When people are asked, if `Approvals` are there: about each call in its turn, or about a whole wave first. Default `"perCall"`. */
  readonly approval?: "perCall" | "upfront" | undefined
  /**
   * Whether agents go on only if the model asks for it. Then the tools that need a heartbeat show the argument
   * `request_heartbeat` in their JSON Schema. The argument is taken out of every call, on or off. Default false.
   */
  readonly heartbeats?: boolean | undefined
  /**
   * How many waves a required tool may hold up the end of the loop. After so many the exit is let through;
   * `exitPending` still names what is missing. Default 5.
   */
  readonly exitAttempts?: number | undefined
  /** How long a call may run if its tool says nothing else. Default 120 seconds. */
  readonly executionTimeout?: Duration.Input | undefined
  /** How long an outcome waits for a commit that is under way. Default 5 seconds. */
  readonly commitTimeout?: Duration.Input | undefined
  /** How long an interrupted caller waits for handlers that clean up. Default 5 seconds. */
  readonly cleanupGrace?: Duration.Input | undefined
  /** Time that all guards of a call have together. Default 10 seconds. */
  readonly guardTimeout?: Duration.Input | undefined
  /** How long the state store has for an answer; a call that gets none is refused. Default 5 seconds. */
  readonly storePatience?: Duration.Input | undefined
  /**
   * How long after a failure the state store is told again what became of a call; twice as long each time, up to a
   * minute. Default 1 second.
   */
  readonly storeRetry?: Duration.Input | undefined
  /** Whether events that tools emit are passed on. Default true. */
  readonly toolEvents?: boolean | undefined
  /** How many events a reader may leave unread before events of tools are dropped for it. Default 1,024. */
  readonly eventBuffer?: number | undefined
  /**
   * Whether there are spans and metrics of calls: where the caller has a span or a tracer of its own, always, or never.
   * Default `"auto"`.
   */
  readonly telemetry?: "auto" | "on" | "off" | undefined
  /** Whether spans have the arguments and results of calls, too, without secrets. Default false. */
  readonly telemetryContent?: boolean | undefined
  /** How much of an output the model sees. Default: 10,000 characters. */
  readonly output?: OutputPolicy.Options | undefined
}

/** The settings around an executor that is built. */
export const ExecutorSettings = Context.Reference<Options>("effect-tool-executor/ExecutorSettings", {
  defaultValue: () => ({})
})

/** What holds where nobody says anything. The principal is that of the context. */
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
  output: OutputPolicy.defaults
} as const satisfies Omit<Complete, "principal">

/** Layer of settings. What they leave open is as it is around them. */
export const layer = (options: Options): Layer.Layer<never> => Layer.effect(ExecutorSettings, over(options))

/** Gives settings over others: field by field, what the first leave open is as the second have it. */
export const merge = (options: Options, around: Options): Options => ({
  ...around,
  ...given(names, options),
  output: { ...around.output, ...given(outputNames, options.output ?? {}) }
})

/** Settings with none left open. */
export type Complete = { readonly [K in Exclude<keyof Options, "output">]-?: NonNullable<Options[K]> } & {
  readonly output: { readonly [K in keyof OutputPolicy.Options]-?: NonNullable<OutputPolicy.Options[K]> }
}

/** Fills in the defaults, and the principal where none is said. */
export const complete = (options: Options, principal: string): Complete =>
  merge(options, { principal, ...defaults }) as Complete

// Utilities

const over = (options: Options) => Effect.map(ExecutorSettings, (around) => merge(options, around))

const names = ["principal", ...Object.keys(defaults)]
const outputNames = Object.keys(OutputPolicy.defaults)

/** Of options that say more, the settings; code may leave a field undefined where a file leaves it out. */
const given = <A extends object>(names: ReadonlyArray<string>, options: A): Partial<A> =>
  Object.fromEntries(
    Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name))
  ) as Partial<A>
