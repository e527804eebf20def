/**
 * The one-line start: everything in memory, safe defaults.
 *
 * What is provided around it is used: settings (`ExecutorSettings`), gates (`Rules`, `Permissions`, `Dedupe`, `Pools`,
 * `TurnBudget`, `Guards`), stores (`StateStore`, `Journal`, `ArtifactStore`, `Checkpoints`) and people (`Approvals`).
 *
 * Said twice, as an option and by a layer around:
 *
 * - permissions: the stricter of both decisions holds;
 * - rules: an error, since neither may be lost;
 * - guards: all of them are asked;
 * - settings and the budget of a turn: the option wins, field by field;
 * - dedupe and pools: the option wins as a whole.
 */
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { NamesIn } from "../../internal/toolkitTypes.ts"
import * as ExecutorSettings from "../engine/ExecutorSettings.ts"
import * as ToolExecutor from "../engine/ToolExecutor.ts"
import * as Dedupe from "../gates/Dedupe.ts"
import * as Guards from "../gates/Guards.ts"
import * as Permissions from "../gates/Permissions.ts"
import type * as Policy from "../gates/Policy.ts"
import * as Pools from "../gates/Pools.ts"
import * as Rules from "../gates/Rules.ts"
import * as TurnBudget from "../gates/TurnBudget.ts"
import * as ArtifactStore from "../output/ArtifactStore.ts"
import type { ToolRule } from "../rules/ToolRule.ts"
import * as StateStore from "../store/StateStore.ts"
import { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../vocabulary/ToolHandlers.ts"

/** Options of a local executor. Every field has a safe default. */
export interface Options<Name extends string = string> extends ExecutorSettings.Options {
  /** The rules of the host. An error beside a `Rules` layer around the executor. Default: none. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /**
   * Who may call what. Beside a `Permissions` layer around the executor the stricter decision holds. Default: ReadOnly,
   * closed-world tools run, others are asked about.
   */
  readonly policy?: Policy.Policy | undefined
  /** What the host says about tools, by name. */
  readonly tools?: ToolHandlers.Options<Name>["tools"]
  /** Whether and how equal calls are refused, replayed or joined; `false` lets them run. Default: refused for 5 minutes. */
  readonly dedupe?: Dedupe.Options | false | undefined
  /** Sizes of the pools. Default: 20 reads, 10 concurrent writers, 1 serial writer. */
  readonly pools?: Pools.Options | undefined
  /** Time and calls of a turn. Default: no limit. */
  readonly turn?: TurnBudget.Options | undefined
  /** The host's own checks, asked in order. */
  readonly guards?: ReadonlyArray<Guards.Guard> | undefined
}

/**
 * Layer of an executor in memory for one or more toolkits, whose handlers it requires.
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
 *   const process = yield* executor.process()
 *   const wave = yield* process.executeWave([ToolCall.make("1", "add", { a: 1, b: 2 })])
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
 */
export const layer = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options: Options<NamesIn<T>> = {}
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  layerWith(policyOf(options), toolkits, options)

/** Layer of an executor in memory that lets only ReadOnly, closed-world tools run. */
export const layerReadOnly = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options<NamesIn<T>>, "policy"> = {}
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  layerWith(readOnly(), toolkits, options)

/**
 * Layer of all gates, stores in memory and settings, for a registry of one's own: what `ToolExecutor.layer` and
 * `ToolExecutors.layer` require beside the tools.
 */
export const layerGates = (
  options: Omit<Options, "tools"> = {}
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> => gatesWith(policyOf(options), options)

/** What the gates of an executor are. */
export type Gates =
  | Rules.Rules
  | Permissions.Permissions
  | Dedupe.Dedupe
  | Pools.Pools
  | StateStore.StateStore
  | ArtifactStore.ArtifactStore
  | TurnBudget.TurnBudget

// Utilities

const layerWith = <T extends Toolkit.Any>(
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options<NamesIn<T>>, "policy">
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  // one layer for each: `ToolExecutor.layer` is one value, and would be built for the first alone
  Layer.effect(ToolExecutor.ToolExecutor, ToolExecutor.make).pipe(
    Layer.provide(gatesWith(permissions, options)),
    Layer.provide(ToolHandlers.layer(toolkits, { tools: options.tools }))
  )

const gatesWith = (
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  options: Omit<Options, "policy" | "tools">
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> =>
  Layer.mergeAll(
    rulesOf(options),
    permissions,
    options.dedupe === undefined
      ? foundOr(Dedupe.Dedupe, Dedupe.layer())
      : options.dedupe === false
      ? Dedupe.layerNoop
      : Dedupe.layer(options.dedupe),
    options.pools === undefined ? foundOr(Pools.Pools, Pools.layer()) : Pools.layer(options.pools),
    foundOr(StateStore.StateStore, StateStore.layerMemory()),
    foundOr(ArtifactStore.ArtifactStore, ArtifactStore.layerMemory()),
    options.turn === undefined
      ? foundOr(TurnBudget.TurnBudget, TurnBudget.layerNoop)
      : TurnBudget.layer(options.turn),
    ExecutorSettings.layer(options),
    options.guards === undefined ? Layer.empty : Guards.layer(options.guards)
  )

/** What the host has provided, or the default. */
const foundOr = <I, S, E, R>(key: Context.Key<I, S>, fallback: Layer.Layer<I, E, R>): Layer.Layer<I, E, R> =>
  Layer.unwrap(Effect.map(
    Effect.serviceOption(key),
    Option.match({ onNone: () => fallback, onSome: (found) => Layer.succeed(key, found) })
  ))

/** Neither the option nor what the host has provided may be lost. */
const rulesOf = ({ rules }: Options): Layer.Layer<Rules.Rules, ConfigurationError, ToolHandlers.ToolHandlers> =>
  rules === undefined
    ? foundOr(Rules.Rules, Rules.layer([]))
    : Layer.unwrap(Effect.flatMap(Effect.serviceOption(Rules.Rules), (found) =>
      Option.isNone(found)
        ? Effect.succeed(Rules.layer(rules))
        : new ConfigurationError({
          subject: "LocalExecutor",
          problems: [{
            path: "rules",
            problem: "a Rules layer around the executor has rules as well",
            expected: "all rules in one place: either the option or the layer"
          }]
        })))

const policyOf = ({ policy }: Options): Layer.Layer<Permissions.Permissions, ConfigurationError> =>
  policy === undefined
    ? foundOr(Permissions.Permissions, Permissions.layer({}))
    : stricter(Permissions.make(policy))

const readOnly = (): Layer.Layer<Permissions.Permissions, ConfigurationError> =>
  stricter(Effect.succeed(Permissions.readOnly))

/** What the host has provided, narrowed. */
const stricter = (
  permissions: Effect.Effect<Permissions.Permissions["Service"], ConfigurationError>
): Layer.Layer<Permissions.Permissions, ConfigurationError> =>
  Layer.effect(
    Permissions.Permissions,
    Effect.zipWith(permissions, Effect.serviceOption(Permissions.Permissions), (own, found) =>
      Option.isNone(found) ? own : Permissions.both(own, found.value))
  )
