/**
 * An in-memory executor with safe defaults, in one line.
 *
 * Uses surrounding layers: settings (`ExecutorSettings`), gates (`Rules`, `Permissions`, `Dedupe`, `Pools`,
 * `TurnBudget`, `Guards`), stores (`StateStore`, `Journal`, `ArtifactStore`, `Checkpoints`) and `Approvals`.
 *
 * If something is given both as an option and by a layer:
 *
 * - permissions: the stricter decision applies;
 * - rules: this is an error;
 * - guards: all run;
 * - settings and turn budget: the option wins, field by field;
 * - dedupe, pools and provenance: the option wins as a whole.
 */
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ExecutorSettings from "../core/engine/state/ExecutorSettings.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as Dedupe from "../core/gates/Dedupe.ts"
import * as Guards from "../core/gates/Guards.ts"
import * as Permissions from "../core/gates/Permissions.ts"
import type * as Policy from "../core/gates/Policy.ts"
import * as Pools from "../core/gates/Pools.ts"
import * as Rules from "../core/gates/Rules.ts"
import * as TurnBudget from "../core/gates/TurnBudget.ts"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import * as StateStore from "../core/store/StateStore.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import type { NamesIn } from "../internal/toolkitTypes.ts"
import * as Provenance from "../provenance/Provenance.ts"

/** Options of a local executor. Every field has a safe default. */
export interface Options<Name extends string = string> extends ExecutorSettings.Options {
  /** The host's rules. An error together with a surrounding `Rules` layer. Default: none. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /**
   * Who may call what, as one policy or in tiers, the uppermost first. With a surrounding `Permissions` layer the
   * stricter decision applies. Default: ReadOnly, closed-world tools run, others need approval.
   */
  readonly policy?: Policy.Policy | ReadonlyArray<Policy.Tier> | undefined
  /** Host settings by tool name. */
  readonly tools?: ToolHandlers.Options<Name>["tools"]
  /** Requests approval where neither the user nor a trusted output named a target. Default: off. */
  readonly provenance?: Provenance.Options | undefined
  /** Whether equal calls are refused, replayed or joined; `false` lets them run. Default: refused for 5 minutes. */
  readonly dedupe?: Dedupe.Options | false | undefined
  /** Sizes of the pools. Default: 20 reads, 10 concurrent writers, 1 serial writer. */
  readonly pools?: Pools.Options | undefined
  /** Time and calls of a turn. Default: no limit. */
  readonly turn?: TurnBudget.Options | undefined
  /** The host's own checks, in order. */
  readonly guards?: ReadonlyArray<Guards.Guard> | undefined
}

/**
 * Creates an in-memory executor for one or more toolkits; requires their handlers.
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

/** Creates an in-memory executor that runs only ReadOnly, closed-world tools. */
export const layerReadOnly = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options<NamesIn<T>>, "policy"> = {}
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  layerWith(readOnly(), toolkits, options)

/**
 * All gates, in-memory stores and settings for a custom registry: what `ToolExecutor.layer` and `ToolExecutors.layer`
 * require besides the tools.
 */
export const layerGates = (
  options: Omit<Options, "tools"> = {}
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> => gatesWith(policyOf(options), options)

export type Gates =
  | Rules.Rules
  | Permissions.Permissions
  | Dedupe.Dedupe
  | Pools.Pools
  | StateStore.StateStore
  | ArtifactStore.ArtifactStore
  | TurnBudget.TurnBudget

const layerWith = <T extends Toolkit.Any>(
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  toolkits: T | ReadonlyArray<T>,
  options: Omit<Options<NamesIn<T>>, "policy">
): Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, ToolHandlers.HandlersOf<T>> =>
  // a new layer each time: `ToolExecutor.layer` is one value and would be built only once
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
    options.provenance === undefined ? Layer.empty : Provenance.layer(options.provenance),
    options.guards === undefined ? Layer.empty : Guards.layer(options.guards)
  )

/** The surrounding service, or the default. */
const foundOr = <I, S, E, R>(key: Context.Key<I, S>, fallback: Layer.Layer<I, E, R>): Layer.Layer<I, E, R> =>
  Layer.unwrap(Effect.map(
    Effect.serviceOption(key),
    Option.match({ onNone: () => fallback, onSome: (found) => Layer.succeed(key, found) })
  ))

/** Fails if both an option and a surrounding service are given. */
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

/** Restricts the surrounding service. */
const stricter = (
  permissions: Effect.Effect<Permissions.Permissions["Service"], ConfigurationError>
): Layer.Layer<Permissions.Permissions, ConfigurationError> =>
  Layer.effect(
    Permissions.Permissions,
    Effect.zipWith(permissions, Effect.serviceOption(Permissions.Permissions), (own, found) =>
      Option.isNone(found) ? own : Permissions.both(own, found.value))
  )
