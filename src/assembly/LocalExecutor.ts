/**
 * An in-memory executor with safe defaults, in one line.
 *
 * Uses surrounding layers: settings (`ExecutorSettings`), gates (`Rules`, `Permissions`, `Dedupe`, `Pools`,
 * `TurnBudget`, `Guards`), stores (`StateStore`, `Journal`, `ArtifactStore`, `Checkpoints`) and `Approvals`.
 *
 * A gate's layer around the executor replaces that gate, whatever the options say of it. So a test can swap any gate
 * of the executor that the program uses. Settings are no gates: an option wins over the surrounding settings, field by
 * field.
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
import { Provenance as ProvenanceGate } from "../core/gates/Provenance.ts"
import * as Rules from "../core/gates/Rules.ts"
import * as TurnBudget from "../core/gates/TurnBudget.ts"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import * as StateStore from "../core/store/StateStore.ts"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import type { NamesIn } from "../internal/toolkitTypes.ts"
import * as Provenance from "../provenance/Provenance.ts"

/** Options of a local executor. Every field has a safe default. */
export interface Options<Name extends string = string> extends ExecutorSettings.Options {
  /** The host's rules. A surrounding `Rules` layer replaces them. Default: none. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /**
   * Who may call what, as one policy or in tiers, the uppermost first. A surrounding `Permissions` layer replaces it.
   * Default: ReadOnly, closed-world tools run, others need approval.
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
  layerWith(Layer.fresh(readOnly), toolkits, options)

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
    Layer.provide(Layer.effectDiscard(readOptions("LocalExecutor", (reader) => reader.known("", options, names)))),
    Layer.provide(gatesWith(permissions, options)),
    Layer.provide(ToolHandlers.layer(toolkits, { tools: options.tools }))
  )

const gatesWith = (
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError>,
  options: Omit<Options, "policy" | "tools">
): Layer.Layer<Gates, ConfigurationError, ToolHandlers.ToolHandlers> =>
  Layer.mergeAll(
    foundOr(Rules.Rules, Rules.layer(options.rules ?? [])),
    permissions,
    foundOr(Dedupe.Dedupe, options.dedupe === false ? Dedupe.layerNoop : Dedupe.layer(options.dedupe)),
    foundOr(Pools.Pools, Pools.layer(options.pools)),
    foundOr(StateStore.StateStore, StateStore.layerMemory()),
    foundOr(ArtifactStore.ArtifactStore, ArtifactStore.layerMemory()),
    foundOr(TurnBudget.TurnBudget, TurnBudget.layer(options.turn)),
    ExecutorSettings.layer(options),
    options.provenance === undefined ? Layer.empty : foundOr(ProvenanceGate, Provenance.layer(options.provenance)),
    options.guards === undefined ? Layer.empty : Guards.layer(options.guards)
  )

/** Every option. */
const names: { readonly [K in keyof Required<Options>]: true } = {
  ...ExecutorSettings.names,
  rules: true,
  policy: true,
  tools: true,
  provenance: true,
  dedupe: true,
  pools: true,
  turn: true,
  guards: true
}

/** The surrounding service, or the default. */
const foundOr = <I, S, E, R>(key: Context.Key<I, S>, fallback: Layer.Layer<I, E, R>): Layer.Layer<I, E, R> =>
  Layer.unwrap(Effect.map(
    Effect.serviceOption(key),
    Option.match({ onNone: () => fallback, onSome: (found) => Layer.succeed(key, found) })
  ))

const policyOf = ({ policy = {} }: Options): Layer.Layer<Permissions.Permissions, ConfigurationError> =>
  foundOr(Permissions.Permissions, Layer.effect(Permissions.Permissions, Permissions.make(policy)))

/** Restricts the surrounding service: the name of the layer is its promise. */
const readOnly: Layer.Layer<Permissions.Permissions> = Layer.effect(
  Permissions.Permissions,
  Effect.map(
    Effect.serviceOption(Permissions.Permissions),
    Option.match({
      onNone: () => Permissions.readOnly,
      onSome: (found) => Permissions.both(Permissions.readOnly, found)
    })
  )
)
