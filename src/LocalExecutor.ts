/**
 * The one-line start: everything in memory, safe defaults.
 *
 * For a part of one's own, compose `ToolExecutor.layer` from the layers of its
 * gates instead.
 *
 * @since 0.1.0
 */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Layer from "effect/Layer"
import type { ConfigurationError } from "./ConfigurationError.ts"
import * as Attempt from "./execution/Attempt.ts"
import * as EventHub from "./execution/EventHub.ts"
import * as Waves from "./execution/Waves.ts"
import * as ArtifactStore from "./output/ArtifactStore.ts"
import * as OutputPolicy from "./output/OutputPolicy.ts"
import * as Approvals from "./policy/Approvals.ts"
import * as Dedupe from "./policy/Dedupe.ts"
import * as Guards from "./policy/Guards.ts"
import * as Permissions from "./policy/Permissions.ts"
import type * as Policy from "./policy/Policy.ts"
import * as Pools from "./policy/Pools.ts"
import * as Rules from "./policy/Rules.ts"
import * as TurnBudget from "./policy/TurnBudget.ts"
import * as StateStore from "./store/StateStore.ts"
import * as ToolExecutor from "./ToolExecutor.ts"
import * as ToolHandlers from "./ToolHandlers.ts"
import type { ToolRule } from "./ToolRule.ts"

/**
 * Options of a local executor. Every field has a safe default.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options extends Attempt.Options {
  /** The rules of the host. Default: none. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /** Who may call what. Default: ReadOnly, closed-world tools run, others are asked about. */
  readonly policy?: Policy.Policy | undefined
  /** What the host says about tools, by name. */
  readonly tools?: ToolHandlers.Options["tools"]
  /** Whether and how equal calls are refused, replayed or joined; `false` lets them run. Default: refused for 5 minutes. */
  readonly dedupe?: Dedupe.Options | false | undefined
  /** Sizes of the pools. Default: 20 reads, 10 concurrent writers, 1 serial writer. */
  readonly pools?: Pools.Options | undefined
  /** How much of an output the model sees. Default: 10,000 characters. */
  readonly output?: OutputPolicy.Options | undefined
  /** Time and calls of a turn. Default: no limit. */
  readonly turn?: TurnBudget.Options | undefined
  /** The host's own checks, asked in order. */
  readonly guards?: ReadonlyArray<Guards.Guard> | undefined
  /** How a wave is cut into runs. Default `"classes"`. */
  readonly mode?: "classes" | "parallel" | "sequential" | undefined
  /** Whether a refused or timed out call ends its wave. Default `"continue"`. */
  readonly onExecutionError?: "continue" | "stop" | undefined
  /** Whether events that tools emit are passed on. Default true. */
  readonly toolEvents?: boolean | undefined
  /** Whether agents go on only if the model asks for it (`request_heartbeat`). Default false. */
  readonly heartbeats?: boolean | undefined
  /** How many waves a required tool may hold up the end of the loop. Default 5. */
  readonly exitAttempts?: number | undefined
  /** When people are asked, if `Approvals` are there: about each call in its turn, or about a whole wave first. Default `"perCall"`. */
  readonly approval?: "perCall" | "upfront" | undefined
  /** Whose executor it is. Default `"default"`. */
  readonly principal?: string | undefined
}

/**
 * Layer of an executor in memory for one or more toolkits, whose handlers it
 * requires.
 *
 * **Example** (Running a wave)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { LocalExecutor, ToolCall, ToolExecutor } from "effect-tool-executor"
 *
 * const Add = Tool.make("add", { parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }), success: Schema.Finite })
 *   .annotate(Tool.Readonly, true)
 * const kit = Toolkit.make(Add)
 *
 * const program = Effect.gen(function*() {
 *   const executor = yield* ToolExecutor.ToolExecutor
 *   const batch = yield* executor.batch()
 *   const process = yield* batch.process
 *   const wave = yield* process.executeBatch([ToolCall.make("1", "add", { a: 1, b: 2 })])
 *   return wave.toolMessages.map((it) => it.text)
 * }).pipe(
 *   Effect.scoped,
 *   Effect.provide(LocalExecutor.layer(kit).pipe(
 *     Layer.provide(kit.toLayer({ add: ({ a, b }) => Effect.succeed(a + b) }))
 *   ))
 * )
 *
 * await Effect.runPromise(program) // => ["3"]
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options: Options = {}
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  layerWith(Permissions.layer(options.policy ?? {}), toolkits, options)

/**
 * Layer of an executor in memory that lets only ReadOnly, closed-world tools run.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerReadOnly = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options, "policy"> = {}
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  layerWith(Permissions.layerReadOnly, toolkits, options)

/**
 * Layer of all gates, stores in memory and settings, for a registry of one's own:
 * what `ToolExecutor.layer` and `ToolExecutors.layer` require beside the tools.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerGates = (
  options: Omit<Options, "tools"> = {}
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> =>
  gatesWith(Permissions.layer(options.policy ?? {}), options)

/**
 * What the gates of an executor are.
 *
 * @category models
 * @since 0.1.0
 */
export type Gates =
  | Rules.Rules
  | Permissions.Permissions
  | Dedupe.Dedupe
  | Pools.Pools
  | StateStore.StateStore
  | ArtifactStore.ArtifactStore

// Utilities

const layerWith = <T extends Toolkit.Any>(
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options, "policy">
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  ToolExecutor.layer.pipe(
    Layer.provide(gatesWith(permissions, options)),
    Layer.provide(ToolHandlers.layer(toolkits, { tools: options.tools }))
  )

const gatesWith = (
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  options: Omit<Options, "policy" | "tools">
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> =>
  Layer.mergeAll(
    Rules.layer(options.rules ?? []),
    permissions,
    options.dedupe === false ? Dedupe.layerNoop : Dedupe.layer(options.dedupe),
    Pools.layer(options.pools),
    StateStore.layerMemory(),
    ArtifactStore.layerMemory(),
    settings(options)
  )

const settings = (options: Options) =>
  Layer.mergeAll(
    Layer.succeed(Attempt.Limits, options),
    Layer.succeed(OutputPolicy.Limits, options.output ?? {}),
    Layer.succeed(TurnBudget.Turn, options.turn ?? {}),
    Layer.succeed(Guards.Guards, options.guards ?? []),
    Layer.succeed(Waves.Mode, options.mode ?? "classes"),
    Layer.succeed(Waves.OnExecutionError, options.onExecutionError ?? "continue"),
    Layer.succeed(EventHub.ToolEvents, options.toolEvents ?? true),
    Layer.succeed(Approvals.Mode, options.approval ?? "perCall"),
    Layer.succeed(Rules.ExitAttempts, options.exitAttempts ?? 5),
    Layer.succeed(ToolExecutor.Heartbeats, options.heartbeats ?? false),
    Layer.succeed(ToolExecutor.Principal, options.principal ?? "default")
  )
