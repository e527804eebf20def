/**
 * The last gate before a handler: how many calls may start within a time, of a tool
 * and of a principal, by `effect/persistence/RateLimiter`.
 *
 * A token cannot be given back. So it is taken as late as can be, when nothing but
 * the limit itself may still refuse the call: what a rule, a person, another gate or
 * another limit refuses takes none, nor does what gets an equal call's outcome. Where
 * none is left the call is refused before a person is asked; that look takes nothing,
 * so that of many calls that people have allowed some may still come too late.
 *
 * What was counted is in a `RateLimiterStore`, if one is there, so that processes
 * share it; else in memory.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type * as Scope from "effect/Scope"
import { within } from "../../internal/detached.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import * as ToolLimits from "../vocabulary/ToolLimits.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Gate from "./Gate.ts"

/**
 * Options of the rate limits; the limit of a tool is the tool's, or the host's for it
 * (`ToolAnnotations.RateLimit`, `tools`).
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How many calls of each principal may start within a time, whatever they call. Default: any number. */
  readonly perPrincipal?: ToolLimits.Rate | undefined
  /** How long a call waits for the store of what was counted. Default 2 seconds. */
  readonly storeTimeout?: Duration.Input | undefined
}

/**
 * What holds where nobody says anything.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = { storeTimeout: "2 seconds" } as const

/**
 * The name of the gate: a layer of a gate with this name takes its place.
 *
 * @category constants
 * @since 0.1.0
 */
export const name = "RateLimits"

/**
 * The store that counts, if one is there, or one in memory.
 *
 * @category getters
 * @internal
 */
export const store: Effect.Effect<RateLimiter.RateLimiterStore["Service"], never, Scope.Scope> = Effect.gen(
  function*() {
    const found = yield* Effect.serviceOption(RateLimiter.RateLimiterStore)
    if (Option.isSome(found)) return found.value
    return Context.get(yield* Layer.build(Layer.fresh(RateLimiter.layerStoreMemory)), RateLimiter.RateLimiterStore)
  }
)

/**
 * Creates the gate. Every executor has one where no layer gives another.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<Gate.Gate, ConfigurationError, Scope.Scope> {
  const { millis, perPrincipal } = yield* readOptions(name, (read) => ({
    millis: read.millis("storeTimeout", options.storeTimeout ?? defaults.storeTimeout),
    perPrincipal: options.perPrincipal && ToolLimits.rate(read, "perPrincipal", options.perPrincipal)
  }))
  const limiter = yield* Effect.provideService(RateLimiter.make, RateLimiter.RateLimiterStore, yield* store)
  const taken = new WeakSet<ToolCall>()

  /** What a call is counted by. */
  const limitsOf = ({ principal, tool }: Gate.GateCall): ReadonlyArray<Limit> => [
    ...tool.rate === undefined ? [] : [{
      rate: tool.rate,
      key: keyOf("tool", tool.name, ...tool.rate.per === "principal" ? [principal] : [])
    }],
    ...perPrincipal === undefined ? [] : [{ rate: perPrincipal, key: keyOf("principal", principal) }]
  ]

  /** Takes tokens of a limit, or looks whether there is one where it takes none. */
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
      // it may have had to wait for its permits once more
      if (taken.has(call.call)) return
      const limits = limitsOf(call)
      // the token of one is not to be lost to the other
      yield* look(limits.slice(1))
      yield* Effect.forEach(limits, (it) => consume(it, 1), { discard: true })
      taken.add(call.call)
    })
  }
})

/**
 * Layer of the rate limits: gives them a store (`RateLimiterStore`), a limit for each
 * principal, or other options than the executor's own gate has.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<never, ConfigurationError> => Gate.layer(make(options))

/**
 * Layer without rate limits, whatever tools declare.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<never> = Gate.layer({ name, concerns: () => false })

// Utilities

/** What is counted, and where. */
interface Limit {
  readonly key: string
  readonly rate: ToolLimits.CheckedRate
}

/** No name, whatever is in it, makes the key of another. */
const keyOf = (...parts: ReadonlyArray<string>): string => JSON.stringify(parts)

const limited = (retryAfter: Duration.Duration): Effect.Effect<never, ToolRefusal> =>
  Effect.fail({ _tag: "RateLimited", retryAfterMillis: Math.ceil(Duration.toMillis(retryAfter)) })

/** Whether a token is left. */
const verdictOn = (
  { remaining, resetAfter }: RateLimiter.ConsumeResult,
  { algorithm, limit, windowMillis }: ToolLimits.CheckedRate
): Effect.Effect<void, ToolRefusal> => {
  if (remaining >= 1) return Effect.void
  // all come back at once, or one after the other
  const others = algorithm === "fixed-window" ? 0 : (windowMillis / limit) * (limit - 1)
  return limited(Duration.millis(Math.max(0, Duration.toMillis(resetAfter) - others)))
}

/** The store fails, dies or takes too long. */
const inTrouble = ({ onStoreError }: ToolLimits.CheckedRate): Effect.Effect<void, ToolRefusal> =>
  onStoreError === "allow" ? Effect.void : Effect.fail({ _tag: "StoreUnavailable", operation: "rateLimit" })
