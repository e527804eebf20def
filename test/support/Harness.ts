/**
 * An executor over a handful of tools written in place, in virtual time.
 *
 * Tools are dynamic unless a test gives one of its own: parameters are any
 * object, outputs and failures anything.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Artifacts, Kept } from "../../src/core/engine/ports/TimedPorts.ts"
import type * as ShadowPolicy from "../../src/core/gates/ShadowPolicy.ts"
import * as StateStore from "../../src/core/store/StateStore.ts"
import {
  Approvals,
  ArtifactStore,
  Checkpoints,
  type ConfigurationError,
  Journal,
  LocalExecutor,
  type Permissions,
  type Pools,
  ToolAnnotations,
  ToolCall,
  ToolExecutor,
  ToolHandlers,
  type ToolOutcome,
  type ToolProcess,
  type TurnBudget
} from "../../src/index.ts"
import * as Reviewer from "../../src/review/Reviewer.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

export type Handler = (params: { readonly [key: string]: unknown }) => Effect.Effect<unknown, unknown>

export interface ToolSpec {
  readonly handler: Handler
  readonly class?: "ReadOnly" | "ConcurrentMut" | "SerialMut"
  readonly annotate?: (tool: Tool.Any) => Tool.Any
  /** A tool of one's own instead of a dynamic one. */
  readonly tool?: Tool.Any
}

export interface Options extends Omit<LocalExecutor.Options, "pools"> {
  readonly pools?: Pools.Options | Layer.Layer<Pools.Pools>
  readonly store?: StateStore.StateStore["Service"]
  readonly journal?: Journal.Journal["Service"]
  readonly artifacts?: Artifacts | false
  /** Who is asked; nobody if left out. */
  readonly approvals?: Approvals.Approvals["Service"]
  /** Who looks at calls before people; nobody if left out. */
  readonly reviewer?: Reviewer.Reviewer["Service"]
  /** A second policy that decides nothing. */
  readonly shadow?: Layer.Layer<ShadowPolicy.ShadowPolicy, ConfigurationError.ConfigurationError>
  readonly checkpoints?: Kept
  /** Instead of `turn`. */
  readonly turns?: Layer.Layer<TurnBudget.TurnBudget>
  /** Instead of `policy`. */
  readonly permissions?: Layer.Layer<Permissions.Permissions>
  /** Gates of a test's own, in the place of those that the options give; these may be required. */
  readonly swap?: Layer.Layer<never, never, ToolExecutor.Gates>
}

type AnyToolkit = Toolkit.Toolkit<Record<string, Tool.Any>>

/** Declares a dynamic tool that takes any object. */
export const declare = (name: string, spec: Omit<ToolSpec, "handler"> = {}): Tool.Any => {
  const plain = spec.tool ??
    Tool.dynamic(name, { parameters: { type: "object" }, success: Schema.Unknown, failure: Schema.Unknown })
      .annotate(Tool.Readonly, (spec.class ?? "ReadOnly") === "ReadOnly")
      .annotate(Tool.OpenWorld, false)
      .annotate(ToolAnnotations.Promoted, spec.class === "ConcurrentMut")
  return spec.annotate === undefined ? plain : spec.annotate(plain)
}

export const toolkit = (tools: { readonly [name: string]: ToolSpec | Handler }) => {
  const specs = Object.entries(tools).map(([name, it]) =>
    [name, typeof it === "function" ? { handler: it } : it] as const
  )
  const kit = Toolkit.make(...specs.map(([name, spec]) => declare(name, spec))) as AnyToolkit
  const handlers = Object.fromEntries(specs.map(([name, spec]) => [name, spec.handler]))
  return {
    kit,
    handlers: kit.toLayer(handlers as never) as Layer.Layer<Tool.HandlersFor<Record<string, Tool.Any>>>
  }
}

/** An executor prunes nothing. */
const unpruned = { prune: Effect.succeed(0) }

/** The layer of an executor over tools: what is not given is as `LocalExecutor` has it, but for the policy. */
export const layer = (tools: { readonly [name: string]: ToolSpec | Handler }, options: Options = {}) => {
  const { handlers, kit } = toolkit(tools)
  const { artifacts, permissions, policy, pools, ...rest } = options
  const given = Layer.mergeAll(
    permissions ?? Layer.empty,
    isLayer(pools) ? pools : Layer.empty,
    options.turns ?? Layer.empty,
    service(Approvals.Approvals, options.approvals),
    service(Reviewer.Reviewer, options.reviewer),
    options.shadow ?? Layer.empty,
    service(Checkpoints.Checkpoints, options.checkpoints && { ...unpruned, ...options.checkpoints }),
    service(StateStore.StateStore, options.store),
    service(Journal.Journal, options.journal),
    service(
      ArtifactStore.ArtifactStore,
      artifacts === false ? undefined : artifacts && { ...unpruned, ...artifacts }
    )
  )
  const gates = LocalExecutor.layerGates({
    ...rest,
    policy: permissions === undefined ? policy ?? { default: "allow" } : undefined,
    pools: isLayer(pools) ? undefined : pools
  }).pipe(Layer.provideMerge(ToolHandlers.layer(kit, { tools: options.tools }).pipe(Layer.provide(handlers))))
  const without = (context: Context.Context<LocalExecutor.Gates | ToolHandlers.ToolHandlers>) =>
    artifacts === false ? Context.omit(ArtifactStore.ArtifactStore)(context) : context
  return ToolExecutor.layer.pipe(
    Layer.provide(options.swap ?? Layer.empty),
    Layer.provide(Layer.effectContext(Effect.map(Layer.build(gates), without))),
    Layer.provide(given)
  )
}

const service = <I, S>(key: Context.Key<I, S>, given: S | undefined): Layer.Layer<never> =>
  given === undefined ? Layer.empty : Layer.succeed(key, given) as Layer.Layer<never>

const isLayer = (pools: Options["pools"]): pools is Layer.Layer<Pools.Pools> => Layer.isLayer(pools)

export interface Env {
  readonly executor: ToolExecutor.ToolExecutor["Service"]
  readonly batch: ToolExecutor.Batch
  readonly process: ToolProcess.ToolProcess
}

/** Builds one more executor for the rest of the scope. */
export const open = Effect.fnUntraced(function*(
  tools: { readonly [name: string]: ToolSpec | Handler },
  options?: Options
): Effect.fn.Return<Env, never, Scope.Scope> {
  const context = yield* Effect.orDie(Layer.build(Layer.fresh(layer(tools, options))))
  const executor = Context.get(context, ToolExecutor.ToolExecutor)
  const batch = yield* executor.batch()
  return { executor, batch, process: yield* batch.process() }
})

/** Runs a program with an executor over tools, in virtual time. */
export const run = <A, E>(
  tools: { readonly [name: string]: ToolSpec | Handler },
  options: Options,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>
): Effect.Effect<A, E | VirtualTime.Stuck> =>
  VirtualTime.run(Effect.scoped(Effect.flatMap(open(tools, options), program)), { limit: "1 day" })

export const call = ToolCall.make

/** A wave of calls `1`, `2`, … of the given tools, with different parameters unless given. */
export const calls = (...names: ReadonlyArray<string | readonly [name: string, params: unknown]>) =>
  names.map((it, index) =>
    typeof it === "string"
      ? ToolCall.make(String(index + 1), it, { n: index + 1 })
      : ToolCall.make(String(index + 1), it[0], it[1])
  )

/** One word per outcome. */
export const tag = (outcome: ToolOutcome.ToolOutcome): string =>
  outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag

export const tags = (wave: ToolOutcome.WaveResult): ReadonlyArray<string> => wave.outcomes.map(tag)

/** The value of a success. */
export const value = (outcome: ToolOutcome.ToolOutcome | undefined): unknown =>
  outcome?._tag === "Succeeded" && outcome.output._tag !== "Artifact" ? outcome.output.value : undefined
