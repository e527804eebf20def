/**
 * The last gate before a handler: limits how many calls of a tool or a principal may start in a window, by
 * `effect/persistence/RateLimiter`.
 *
 * A token cannot be given back, so the gate takes it last, when only the limit can still refuse the call. Calls that
 * are refused elsewhere, and duplicates, take none. A call is also refused before approval if no token is left. That
 * check takes no token, so some approved calls may still be refused.
 *
 * Counts live in a `RateLimiterStore`, which processes can share, or in memory.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type * as Scope from "effect/Scope"
import { within } from "../../internal/detached.ts"
import { serviceOr } from "../../internal/serviceOr.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import * as ToolLimits from "../vocabulary/ToolLimits.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Gate from "./Gate.ts"

/**
 * Options of the rate limits. `ToolAnnotations.RateLimit` or the `tools` option of the host set the limit of a tool.
 */
export interface Options {
  /** How many calls of each principal may start in a window, over all tools. Default: no limit. */
  readonly perPrincipal?: ToolLimits.Rate | undefined
  /** How long a call waits for the store. Default 2 seconds. */
  readonly storeTimeout?: Duration.Input | undefined
}

export const defaults = { storeTimeout: "2 seconds" } as const

/** Name of the gate. A gate layer with the same name replaces it. */
export const name = "RateLimits"

/** The store in the context, or one in memory. */
export const store = serviceOr(RateLimiter.RateLimiterStore, RateLimiter.layerStoreMemory)

/** Creates the gate. Every executor has one unless a layer replaces it. */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<Gate.Gate, ConfigurationError, Scope.Scope> {
  const { millis, perPrincipal } = yield* readOptions(name, (read) => ({
    millis: read.millis("storeTimeout", options.storeTimeout ?? defaults.storeTimeout),
    perPrincipal: options.perPrincipal && ToolLimits.rate(read, "perPrincipal", options.perPrincipal)
  }))
  const limiter = yield* Effect.provideService(RateLimiter.make, RateLimiter.RateLimiterStore, yield* store)
  const taken = new WeakSet<ToolCall>()

  const limitsOf = ({ principal, tool }: Gate.GateCall): ReadonlyArray<Limit> => [
    ...tool.rate === undefined ? [] : [{
      rate: tool.rate,
      key: keyOf("tool", tool.name, ...tool.rate.per === "principal" ? [principal] : [])
    }],
    ...perPrincipal === undefined ? [] : [{ rate: perPrincipal, key: keyOf("principal", principal) }]
  ]

  /** Takes a token of a limit; with 0 tokens only checks whether one is left. */
  const consume = ({ key, rate }: Limit, tokens: 0 | 1): Effect.Effect<void, ToolRefusal> => {
    const { algorithm, limit, windowMillis: window } = rate
    const consumed = Effect.suspend(() => limiter.consume({ algorithm, limit, window, key, tokens }))
    return Effect.flatMap(within(consumed, millis), (exit) => {
      if (exit === undefined) return inTrouble(rate)
      if (Exit.isSuccess(exit)) return tokens === 0 ? verdictOn(exit.value, rate) : Effect.void
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      return error?.reason._tag === "RateLimitExceeded" ? limited(error.reason.retryAfter) : inTrouble(rate)
    })
  }

  const look = (limits: ReadonlyArray<Limit>) => Effect.forEach(limits, (it) => consume(it, 0), { discard: true })

  return {
    name,
    concerns: (tool) => perPrincipal !== undefined || tool.rate !== undefined,
    admit: (call) => taken.has(call.call) ? Effect.void : look(limitsOf(call)),
    recheck: Effect.fnUntraced(function*(call) {
      // the call may have waited for its permits twice
      if (taken.has(call.call)) return
      const limits = limitsOf(call)
      // do not take a token of one limit if the other refuses
      yield* look(limits.slice(1))
      yield* Effect.forEach(limits, (it) => consume(it, 1), { discard: true })
      taken.add(call.call)
    })
  }
})

/** Layer of the gate with a store (`RateLimiterStore`), a limit per principal, or other options. */
export const layer = (options?: Options): Layer.Layer<never, ConfigurationError> => Gate.layer(make(options))

/** Layer that turns rate limits off, even for tools that declare one. */
export const layerNoop: Layer.Layer<never> = Gate.layer({ name, concerns: () => false })

/** A limit and its key in the store. */
interface Limit {
  readonly key: string
  readonly rate: ToolLimits.CheckedRate
}

/** JSON keeps keys of different names apart. */
const keyOf = (...parts: ReadonlyArray<string>): string => JSON.stringify(parts)

const limited = (retryAfter: Duration.Duration): Effect.Effect<never, ToolRefusal> =>
  Effect.fail({ _tag: "RateLimited", retryAfterMillis: Math.ceil(Duration.toMillis(retryAfter)) })

/** Tells whether a token is left. */
const verdictOn = (
  { remaining, resetAfter }: RateLimiter.ConsumeResult,
  { algorithm, limit, windowMillis }: ToolLimits.CheckedRate
): Effect.Effect<void, ToolRefusal> => {
  if (remaining >= 1) return Effect.void
  // a fixed window restores all tokens together, a bucket one after the other
  const others = algorithm === "fixed-window" ? 0 : (windowMillis / limit) * (limit - 1)
  return limited(Duration.millis(Math.max(0, Duration.toMillis(resetAfter) - others)))
}

/** The store failed, died or timed out. */
const inTrouble = ({ onStoreError }: ToolLimits.CheckedRate): Effect.Effect<void, ToolRefusal> =>
  onStoreError === "allow" ? Effect.void : Effect.fail({ _tag: "StoreUnavailable", operation: "rateLimit" })
