/**
 * What every gate sees of a call, what it may answer, and how a host adds gates
 * of its own.
 *
 * The gates that are always there (`Permissions`, `Rules`, `Dedupe`, …) are
 * services with names of their own. A host's gate is a `Gate`: it names the
 * moments of a call at which it is asked, each of which is a place in the order,
 * and is provided by a layer that may require services.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { Target } from "./PermissionPattern.ts"

/**
 * A call as the gates see it: its tool is known and its parameters are decoded.
 *
 * @category models
 * @since 0.1.0
 */
export interface GateCall {
  /** The call as it was made: the same object at every moment, though a person may have edited its arguments since. */
  readonly call: ToolCall
  readonly tool: RegisteredTool
  /** The arguments as they were decoded: control arguments out, the host's own in. */
  readonly args: unknown
  /** Decoded parameters. */
  readonly params: unknown
  /**
   * What the call is about, where the policy asks for it; `undefined` if that
   * could not be found out.
   */
  readonly targets: ReadonlyArray<Target> | undefined
  /** The tool itself wants a person to allow this call (`needsApproval`). */
  readonly needsApproval: boolean
  readonly principal: string
  /** Names of the sub-agents from the root down to the one that calls. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
}

/**
 * What a gate answers: nothing, or why the call may not run.
 *
 * @category models
 * @since 0.1.0
 */
export type Verdict = ToolRefusal | undefined

/**
 * The moments at which a gate of the host is asked, in their order.
 *
 * @category models
 * @since 0.1.0
 */
export type Moment = "arrive" | "guard" | "admit" | "recheck"

/**
 * A gate of the host.
 *
 * It says no by failing, with the reason for the model or with a refusal of its
 * own (such as `PolicyDenied`). One that dies or takes too long (`guardTimeout`,
 * for all gates of a moment together) says no, too. It may wait. A call whose
 * arguments a person has edited is asked about again. So is a call that has to wait
 * for its permits a second time, and one in a wave that people are asked about up
 * front. A gate that takes something for a `call` therefore takes it only once.
 *
 * @category models
 * @since 0.1.0
 */
export interface Gate<R = never> {
  /** Named in the refusal. Of gates with one name the inner one counts, in the place of the outer: so a test swaps one. */
  readonly name: string
  /** The tools that it is asked about. Default: all. Where there is none of them, no call waits for it. */
  readonly concerns?: ((tool: RegisteredTool) => boolean) | undefined
  /** Arrival, behind the policy: before anything of the wave runs, and before its calls are put into runs. */
  readonly arrive?: Ask<R> | undefined
  /** Dispatch, when its run begins: before anything is reserved. */
  readonly guard?: Ask<R> | undefined
  /** Dispatch, once it has reserved what rules and dedupe want: before a person is asked. */
  readonly admit?: Ask<R> | undefined
  /** Start, holding all permits: right before the handler. */
  readonly recheck?: Ask<R> | undefined
  /**
   * The call has its outcome: gives back what the gate has taken for it. Called once
   * for every call that the gate was asked about, however it ended, and before the
   * outcome is told.
   */
  readonly settle?: ((call: GateCall, outcome: ToolOutcome) => Effect.Effect<void, never, R>) | undefined
}

/**
 * What a gate is asked.
 *
 * @category models
 * @since 0.1.0
 */
export type Ask<R = never> = (call: GateCall) => Effect.Effect<void, string | ToolRefusal, R>

/**
 * The services that a gate requires at any of its moments.
 *
 * @category models
 * @since 0.1.0
 */
export type ServicesOf<G> = {
  [K in keyof G]-?: NonNullable<G[K]> extends (...args: never) => Effect.Effect<infer _A, infer _E, infer R> ? R : never
}[keyof G]

/**
 * Where a gate stands among the host's others at the moments that they share.
 * Without one they are asked in the order in which they are provided: outer
 * layers first, those of one `Layer.mergeAll` from left to right.
 *
 * @category models
 * @since 0.1.0
 */
export type Place = { readonly before: string } | { readonly after: string }

/**
 * Layer that adds a gate of the host, or replaces the one of its name that is
 * provided further out. The services that it requires are those of the layer.
 *
 * **Example** (A quota of the tenant)
 *
 * ```ts
 * import { Context, Effect, Layer } from "effect"
 * import { Gate, type ToolCall } from "effect-tool-executor"
 *
 * class Quota extends Context.Service<Quota, {
 *   readonly take: (tenant: string) => Effect.Effect<boolean>
 *   readonly giveBack: (tenant: string) => Effect.Effect<void>
 * }>()("Quota") {}
 *
 * export const QuotaGate: Layer.Layer<never, never, Quota> = Gate.layer(Effect.gen(function*() {
 *   const quota = yield* Quota
 *   const taken = new WeakSet<ToolCall.ToolCall>()
 *   return {
 *     name: "quota",
 *     admit: ({ call, principal }) =>
 *       taken.has(call) ? Effect.void : Effect.flatMap(quota.take(principal), (isTaken) => {
 *         if (!isTaken) return Effect.fail("The quota is used up.")
 *         taken.add(call)
 *         return Effect.void
 *       }),
 *     settle: ({ call, principal }, outcome) =>
 *       taken.delete(call) && outcome.startedAt === undefined ? quota.giveBack(principal) : Effect.void
 *   }
 * }))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <const G extends Gate<unknown>, E = never, R = never>(
  gate: G | Effect.Effect<G, E, R>,
  place?: Place
): Layer.Layer<never, E, ServicesOf<G> | Exclude<R, Scope.Scope>> =>
  entryLayer<ServicesOf<G>, E, R>(
    Effect.map(
      Effect.isEffect(gate) ? gate : Effect.succeed(gate),
      (it) => ({ name: it.name, gates: [it as Gate<ServicesOf<G>>], place })
    )
  )

/**
 * Layer of several gates that take one place under one name.
 *
 * @category layers
 * @internal
 */
export const layerAll = <R = never>(name: string, gates: ReadonlyArray<Gate<R>>): Layer.Layer<never, never, R> =>
  entryLayer<R, never, never>(Effect.succeed({ name, gates, place: undefined }))

/**
 * Gates that take one place under one name.
 *
 * @category models
 * @internal
 */
export interface Entry<R = never> {
  readonly name: string
  readonly gates: ReadonlyArray<Gate<R>>
  readonly place: Place | undefined
}

/**
 * Gives the entry of a gate of the executor's own, where the host provides none of
 * its name.
 *
 * @category getters
 * @internal
 */
export const entryOr = <E, R>(
  name: string,
  make: Effect.Effect<Gate, E, R>
): Effect.Effect<Entry, E, R> =>
  Effect.flatMap(Effect.context<never>(), (context) => {
    const given = entriesIn(context).find((it) => it.name === name)
    return given === undefined
      ? bind(Effect.map(make, (gate) => ({ name, gates: [gate], place: undefined })))
      : Effect.succeed(given)
  })

/**
 * Gives the gates that a context provides, outer layers first.
 *
 * @category getters
 * @internal
 */
export const entriesIn = (context: Context.Context<never>): ReadonlyArray<Entry> =>
  Array.from(context.mapUnsafe).flatMap(([key, it]) => key.startsWith(prefix) ? [it as Entry] : [])

// Utilities

/** Each gate has a key of its own, so that layers beside and around each other add up. */
const prefix = "effect-tool-executor/policy/Gate/"

/** The layer of an entry, whose gates get their services from where it is built. */
const entryLayer = <R, E, R2>(entry: Effect.Effect<Entry<R>, E, R2>): Layer.Layer<
  never,
  E,
  R | Exclude<R2, Scope.Scope>
> =>
  Layer.effectContext(Effect.map(bind(entry), (bound) => {
    const key = Context.Reference<Entry | undefined>(prefix + bound.name, { defaultValue: () => undefined })
    return Context.add(Context.empty(), key, bound)
  })) as Layer.Layer<never, E, R | Exclude<R2, Scope.Scope>>

/** An entry whose gates have their services. */
const bind = Effect.fnUntraced(function*<R, E, R2>(
  entry: Effect.Effect<Entry<R>, E, R2>
): Effect.fn.Return<Entry, E, R | R2> {
  const { gates, name, place } = yield* entry
  // what a gate does belongs to the call that it is asked about, not to the layer that built it
  const context = withoutSpan(yield* Effect.context<R>())
  return { name, gates: gates.map((it) => boundTo(it, context)), place }
})

const withoutSpan = <R>(context: Context.Context<R>): Context.Context<R> =>
  Context.omit(Tracer.ParentSpan)(context) as Context.Context<R>

const boundTo = <R>(gate: Gate<R>, context: Context.Context<R>): Gate => {
  const bound = (ask: Ask<R> | undefined): Ask | undefined =>
    ask && ((call) => Effect.provideContext(Effect.suspend(() => ask.call(gate, call)), context))
  const { settle } = gate
  return {
    name: gate.name,
    concerns: gate.concerns && ((tool) => gate.concerns!(tool)),
    arrive: bound(gate.arrive),
    guard: bound(gate.guard),
    admit: bound(gate.admit),
    recheck: bound(gate.recheck),
    settle: settle &&
      ((call, outcome) => Effect.provideContext(Effect.suspend(() => settle.call(gate, call, outcome)), context))
  }
}
