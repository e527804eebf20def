/**
 * What a gate sees of a call, what it may answer, and how a host adds gates.
 *
 * The built-in gates (`Permissions`, `Rules`, `Dedupe`, …) are services. A host's gate is a `Gate`, provided by a layer
 * that may require services. It lists the moments of a call at which it runs.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import type { Sandboxing } from "../vocabulary/ToolAnnotations.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { Target } from "./PermissionPattern.ts"

/** A call as the gates see it: its tool is known and its parameters are decoded. */
export interface GateCall {
  /** The call as the model made it: the same object at every moment, even if a person edited its arguments. */
  readonly call: ToolCall
  readonly tool: RegisteredTool
  /** The encoded arguments, without control arguments and with those that the host prefills. */
  readonly args: unknown
  /** Decoded parameters. */
  readonly params: unknown
  /** What the call touches, if the policy depends on it; `undefined` if the tool could not say. */
  readonly targets: ReadonlyArray<Target> | undefined
  /** The tool itself wants a person to allow this call (`needsApproval`). */
  readonly needsApproval: boolean
  /** How the call would run, if its tool says so. */
  readonly sandbox?: Exclude<Sandboxing, { readonly _tag: "Unavailable" }> | undefined
  readonly principal: string
  /** The roles of the principal; absent: unknown. */
  readonly roles?: ReadonlyArray<string> | undefined
  /** Names of the sub-agents from the root down to the one that calls. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
}

/** What a gate answers: nothing, or why the call may not run. */
export type Verdict = ToolRefusal | undefined

/** The moments at which a gate of the host is asked, in their order. */
export type Moment = "arrive" | "guard" | "admit" | "recheck"

/**
 * A gate of the host.
 *
 * It refuses a call by failing, with a reason for the model or with a refusal such as `PolicyDenied`. A gate that dies
 * or exceeds `guardTimeout` (for all gates of a moment together) also refuses. It may wait. A gate can run several
 * times for one call: after a person edits the arguments, after a second wait for permits, and in waves that are
 * approved up front. If it takes something, it must take it once per `call`.
 */
export interface Gate<R = never> {
  /** Appears in refusals. An outer gate replaces an inner one of the same name, so tests can swap gates. */
  readonly name: string
  /** The tools that the gate guards. Default: all. Calls of other tools skip it. */
  readonly concerns?: ((tool: RegisteredTool) => boolean) | undefined
  /** On arrival, after the policy: before any call of the wave runs and before calls are grouped into runs. */
  readonly arrive?: Ask<R> | undefined
  /** On dispatch, when the run of the call begins: before anything is reserved. */
  readonly guard?: Ask<R> | undefined
  /** On dispatch, after rules and dedupe made their reservations and before approval. */
  readonly admit?: Ask<R> | undefined
  /** On start, holding all permits, right before the handler. */
  readonly recheck?: Ask<R> | undefined
  /**
   * Gives back what the gate took for the call. Runs once per call that the gate saw, however the call ended, before
   * its outcome is reported.
   */
  readonly settle?: ((call: GateCall, outcome: ToolOutcome) => Effect.Effect<void, never, R>) | undefined
}

/** A check of a gate: succeed to let the call pass, fail to refuse it. */
export type Ask<R = never> = (call: GateCall) => Effect.Effect<void, string | ToolRefusal, R>

/** The services that a gate requires at any of its moments. */
export type ServicesOf<G> = {
  [K in keyof G]-?: NonNullable<G[K]> extends (...args: never) => Effect.Effect<infer _A, infer _E, infer R> ? R : never
}[keyof G]

/**
 * Where a gate runs among the host's other gates of the same moment. By default gates run in the order in which they
 * are provided: outer layers first, then those of one `Layer.mergeAll` from left to right.
 */
export type Place = { readonly before: string } | { readonly after: string }

/**
 * Layer that adds a gate of the host, or replaces the one of its name that is provided further out. The services that
 * it requires are those of the layer.
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

/** Layer of several gates that take one place under one name. */
export const layerAll = <R = never>(name: string, gates: ReadonlyArray<Gate<R>>): Layer.Layer<never, never, R> =>
  entryLayer<R, never, never>(Effect.succeed({ name, gates, place: undefined }))

/** Gates that take one place under one name. */
export interface Entry<R = never> {
  readonly name: string
  readonly gates: ReadonlyArray<Gate<R>>
  readonly place: Place | undefined
}

/** Gives the entry of a gate of the executor's own, where the host provides none of its name. */
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

/** Gives the gates that a context provides, outer layers first. */
export const entriesIn = (context: Context.Context<never>): ReadonlyArray<Entry> =>
  Array.from(context.mapUnsafe).flatMap(([key, it]) => key.startsWith(prefix) ? [it as Entry] : [])

/** Each gate has a separate key, so that merged and nested layers add up. */
const prefix = "effect-tool-executor/policy/Gate/"

/** The layer of an entry, whose gates get their services from where it is built. */
const entryLayer = <R, E, R2>(entry: Effect.Effect<Entry<R>, E, R2>): Layer.Layer<
  never,
  E,
  R | Exclude<R2, Scope.Scope>
> =>
  Layer.effectContext(Effect.gen(function*() {
    const bound = yield* bind(entry)
    const key = Context.Reference<Entry | undefined>(prefix + bound.name, { defaultValue: () => undefined })
    return Context.make(key, (yield* key) ?? bound)
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
