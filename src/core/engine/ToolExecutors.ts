/**
 * One executor per session or user, for a backend with many of them.
 *
 * Sessions share tools, rules, resource keys and the concurrency limits of tools. Answers, results, dedupe keys,
 * cooldowns and the pools of the classes are separate: one user's answer, result or slow write never affects another
 * user.
 *
 * **Example** (An executor for each user)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolCall, ToolExecutors } from "effect-tool-executor"
 *
 * export const handle = (user: string, calls: ReadonlyArray<ToolCall.ToolCall>) =>
 *   Effect.gen(function*() {
 *     const executors = yield* ToolExecutors.ToolExecutors
 *     const executor = yield* executors.get(user)
 *     const process = yield* executor.process()
 *     return yield* process.executeWave(calls)
 *   }).pipe(Effect.scoped)
 * ```
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LayerMap from "effect/LayerMap"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type * as Scope from "effect/Scope"
import * as CircuitBreakers from "../gates/CircuitBreakers.ts"
import * as Permissions from "../gates/Permissions.ts"
import type * as Policy from "../gates/Policy.ts"
import { Pools } from "../gates/Pools.ts"
import * as RateLimits from "../gates/RateLimits.ts"
import * as ShadowPolicy from "../gates/ShadowPolicy.ts"
import * as StateStore from "../store/StateStore.ts"
import type { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import { RolesOf } from "./data/Principal.ts"
import * as ExecutorSettings from "./state/ExecutorSettings.ts"
import * as ToolExecutor from "./ToolExecutor.ts"

/** The executors of all sessions. */
export class ToolExecutors extends Context.Service<ToolExecutors, {
  /** The executor of a session, shared by all scopes that hold it. It ends some time after the last of them closes. */
  readonly get: (session: string) => Effect.Effect<ToolExecutor.Service, ConfigurationError, Scope.Scope>
  /** The same as a layer, for a program that serves one session. */
  readonly layer: (session: string) => Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError>
  /** The sessions that have an executor now, held or still within its time to live. */
  readonly active: Effect.Effect<ReadonlyArray<string>>
  /** How many sessions have an executor, as in the metric `tool_executor.executors`. */
  readonly size: Effect.Effect<number>
  /** Ends the executor of a session once no scope holds it; the next `get` makes a new one. */
  readonly invalidate: (session: string) => Effect.Effect<void>
  /**
   * Ends the executor of a session now, even if it is held. Waiting calls never start, running handlers are
   * interrupted, and waves and their streams end with an outcome for each call. The next `get` makes a new one.
   */
  readonly end: (session: string, reason?: string) => Effect.Effect<void>
  /** Ends the executors of all sessions, and any created later: for a program that shuts down. */
  readonly close: (reason?: string) => Effect.Effect<void>
}>()("effect-tool-executor/ToolExecutors") {}

export interface Options {
  /**
   * How long an executor stays after the last scope that holds it has closed. Default 1 hour. The state of a session in
   * the `StateStore`, such as its grants, is kept longer.
   */
  readonly idleTimeToLive?: Duration.Input | undefined
  /** Limits what a session may do, in addition to the policy for all. */
  readonly policy?: ((session: string) => Policy.Policy | Effect.Effect<Policy.Policy>) | undefined
  /** The roles of a session's principal, read when its executor is created. Default: unknown. */
  readonly roles?: ((session: string) => Effect.Effect<ReadonlyArray<string> | undefined>) | undefined
}

/**
 * Layer of the executors of all sessions. They share one `StateStore`, in memory if none is provided, and the circuits
 * and rate limits of tools.
 */
export const layer = (options: Options = {}): Layer.Layer<
  ToolExecutors,
  never,
  ToolExecutor.Gates
> =>
  Layer.effect(
    ToolExecutors,
    Effect.gen(function*() {
      const found = yield* Effect.serviceOption(StateStore.StateStore)
      const store = Option.getOrElse(found, () => StateStore.makeMemory())
      const circuits = yield* CircuitBreakers.store
      const counted = yield* RateLimits.store
      const live = new Map<ToolExecutor.Open, string>()
      let over: string | undefined
      const open = (session: string) =>
        Effect.gen(function*() {
          const opened = yield* ToolExecutor.open
          live.set(opened, session)
          yield* Metric.modify(executorsGauge, 1)
          yield* Effect.addFinalizer(() =>
            Effect.andThen(Effect.sync(() => live.delete(opened)), Metric.modify(executorsGauge, -1))
          )
          return opened
        })
      // fresh: the same layer value would otherwise be built once for all
      const executors = yield* LayerMap.make(
        (session: string) =>
          Layer.fresh(Layer.effect(Opened, open(session))).pipe(
            Layer.provide(Layer.mergeAll(
              ExecutorSettings.layer({ principal: session }),
              options.roles === undefined ? Layer.empty : Layer.succeed(RolesOf, options.roles),
              Layer.succeed(StateStore.StateStore, store),
              Layer.succeed(CircuitBreaker.CircuitBreakerStore, circuits),
              Layer.succeed(RateLimiter.RateLimiterStore, counted),
              Layer.fresh(Layer.effect(Pools, Effect.map(Pools, (pools) => pools.session()))),
              Layer.fresh(Layer.effectContext(permissionsOf(session, options)))
            ))
          ),
        { idleTimeToLive: options.idleTimeToLive ?? "1 hour" }
      )
      const get = Effect.fnUntraced(function*(session: string) {
        const { end, executor } = Context.get(yield* executors.contextEffect(session), Opened)
        if (over !== undefined) yield* end(over)
        return executor
      })
      const endAll = (ends: (session: string) => boolean, reason: string) =>
        Effect.suspend(() =>
          Effect.forEach(
            Array.from(live).filter(([, session]) => ends(session)),
            // a `get` in the meantime makes a new one
            ([{ end }, session]) => Effect.andThen(executors.invalidate(session), end(reason)),
            { concurrency: "unbounded", discard: true }
          )
        )
      return ToolExecutors.of({
        get,
        layer: (session) => Layer.effect(ToolExecutor.ToolExecutor, get(session)),
        active: Effect.sync(() => Array.from(new Set(live.values()))),
        size: Effect.sync(() => new Set(live.values()).size),
        invalidate: (session) => executors.invalidate(session),
        end: (session, reason = "the session has ended") => endAll((it) => it === session, reason),
        close: (reason = "the executors are closed") =>
          Effect.suspend(() => {
            over ??= reason
            return endAll(() => true, reason)
          })
      })
    })
  )

const executorsGauge = Metric.gauge("tool_executor.executors", { description: "Sessions that have an executor" })

/** The executor of a session, which can be ended. */
class Opened extends Context.Service<Opened, ToolExecutor.Open>()("effect-tool-executor/ToolExecutors/Opened") {}

const permissionsOf = Effect.fnUntraced(function*(session: string, { policy }: Options) {
  const all = yield* Permissions.Permissions
  if (policy === undefined) return Context.make(Permissions.Permissions, all)
  const given = policy(session)
  const own = yield* Permissions.make(Effect.isEffect(given) ? yield* given : given)
  const permissions = Context.make(Permissions.Permissions, Permissions.both(all, own))
  const shadow = yield* Effect.serviceOption(ShadowPolicy.ShadowPolicy)
  if (Option.isNone(shadow)) return permissions
  return Context.add(
    permissions,
    ShadowPolicy.ShadowPolicy,
    ShadowPolicy.narrowed(shadow.value, own)
  ) as typeof permissions
})
