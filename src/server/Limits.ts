/**
 * How much there may be at once, and how often: requests of an address and of a user, requests that are open, and
 * streams.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { type ConfigurationError, readOptions } from "../ConfigurationError.ts"
import { TooMany } from "./ApiProblems.ts"
import { Buckets, type Rate } from "./Buckets.ts"

/**
 * The limits. What is taken is given back when the request's scope closes: once its response, or its
 * stream, has ended.
 *
 * @category services
 * @since 0.1.0
 */
export class Limits extends Context.Service<Limits, {
  /** A request of an address. */
  readonly arrive: (address: string) => Taking
  /** A request of an address that is listened to although nobody knows whose it is: one to log in. */
  readonly knock: (address: string) => Taking
  /** A request of a user. */
  readonly enter: (user: string) => Taking
  /** A stream of a user. */
  readonly stream: (user: string) => Taking
  readonly counts: Effect.Effect<{ readonly requests: number; readonly streams: number; readonly refused: number }>
}>()("effect-tool-executor/server/Limits") {}

/**
 * Takes one, or refuses with the seconds after which to try again.
 *
 * @category models
 * @since 0.1.0
 */
export type Taking = Effect.Effect<void, TooMany, Scope.Scope | HttpServerRequest.HttpServerRequest>

/**
 * The limits.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Requests of one address: so many at once, and so many a second in the long run. */
  readonly perAddress?: Partial<Rate> | undefined
  /** Requests of one user. */
  readonly perUser?: Partial<Rate> | undefined
  /** Requests that are open, streams among them. */
  readonly open?: Partial<Bounds> | undefined
  /** Requests to log in that are open: they are a part of those, so that strangers do not take the places of users. */
  readonly strangers?: Partial<Strangers> | undefined
  /** Streams that are open. */
  readonly streams?: Partial<Bounds> | undefined
}

/**
 * How many at once, of one user and of all together.
 *
 * @category options
 * @since 0.1.0
 */
export interface Bounds {
  readonly perUser: number
  readonly ofAll: number
}

/**
 * How many at once, of one address and of all together.
 *
 * @category options
 * @since 0.1.0
 */
export interface Strangers {
  readonly perAddress: number
  readonly ofAll: number
}

/**
 * What holds unless it is said otherwise.
 *
 * @category options
 * @since 0.1.0
 */
export const defaults = {
  perAddress: { burst: 2_000, perSecond: 500 },
  perUser: { burst: 1_000, perSecond: 200 },
  open: { perUser: 1_000, ofAll: 4_000 },
  strangers: { perAddress: 20, ofAll: 500 },
  streams: { perUser: 600, ofAll: 2_000 }
} as const

/**
 * Creates limits; fails with every one that is none.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options?: Options
): Effect.fn.Return<Limits["Service"], ConfigurationError> {
  const rates = yield* readOptions("Limits", (read) => {
    const rate = (name: "perAddress" | "perUser"): Rate => ({
      burst: read.count(`${name}.burst`, options?.[name]?.burst ?? defaults[name].burst, 1),
      perSecond: read.atLeast(`${name}.perSecond`, options?.[name]?.perSecond ?? defaults[name].perSecond, 0.001)
    })
    const bounds = (name: "open" | "streams"): Bounds => ({
      perUser: read.count(`${name}.perUser`, options?.[name]?.perUser ?? defaults[name].perUser, 1),
      ofAll: read.count(`${name}.ofAll`, options?.[name]?.ofAll ?? defaults[name].ofAll, 1)
    })
    const given = { ...defaults.strangers, ...options?.strangers }
    return {
      perAddress: rate("perAddress"),
      perUser: rate("perUser"),
      open: bounds("open"),
      strangers: {
        perAddress: read.count("strangers.perAddress", given.perAddress, 1),
        ofAll: read.count("strangers.ofAll", given.ofAll, 1)
      },
      streams: bounds("streams")
    }
  })
  const counted = { refused: 0 }
  const refuse = (seconds: number, detail: string) => {
    counted.refused++
    return Effect.andThen(
      HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", String(seconds)))
      ),
      Effect.fail(new TooMany({ detail }))
    )
  }
  const often = (rate: Rate) => {
    const buckets = new Buckets(rate)
    return (key: string): Taking =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const wait = buckets.take(key, now)
        return wait === 0 ? Effect.void : refuse(Math.ceil(wait / 1_000), "Too many requests. Send them more slowly.")
      })
  }
  const atOnce = (bound: number, detail: string) => {
    const held = new Map<string, number>()
    const take = (key: string): Taking =>
      Effect.flatMap(Effect.scope, (scope) => {
        const count = held.get(key) ?? 0
        if (count >= bound) return refuse(5, detail)
        held.set(key, count + 1)
        return Scope.addFinalizer(
          scope,
          Effect.sync(() => {
            const left = (held.get(key) ?? 1) - 1
            if (left === 0) held.delete(key)
            else held.set(key, left)
          })
        )
      })
    return { take, count: (key: string) => held.get(key) ?? 0 }
  }
  const address = often(rates.perAddress)
  const user = often(rates.perUser)
  const all = atOnce(rates.open.ofAll, "Too many requests are open. Try again later.")
  const ofUser = atOnce(rates.open.perUser, "Too many of your requests are open. Let some end first.")
  const strangers = atOnce(rates.strangers.ofAll, "Too many requests are open. Try again later.")
  const ofAddress = atOnce(rates.strangers.perAddress, "Too many requests of yours are open. Let some end first.")
  const streams = atOnce(rates.streams.ofAll, "Too many streams are open. Try again later.")
  const streamsOfUser = atOnce(rates.streams.perUser, "Too many of your streams are open. Close some first.")
  return Limits.of({
    arrive: (key) => Effect.andThen(address(key), all.take("")),
    knock: (key) => Effect.andThen(ofAddress.take(key), strangers.take("")),
    enter: (key) => Effect.andThen(user(key), ofUser.take(key)),
    stream: (key) => Effect.andThen(streamsOfUser.take(key), streams.take("")),
    counts: Effect.sync(() => ({ requests: all.count(""), streams: streams.count(""), refused: counted.refused }))
  })
})

/**
 * Takes one; gives the response to send where there is none to take.
 *
 * @category combinators
 * @internal
 */
export const refusal = (taking: Taking) =>
  Effect.matchEffect(taking, {
    onFailure: (problem) => Effect.orDie(HttpServerRespondable.toResponse(problem)),
    onSuccess: () => Effect.void
  })

/**
 * Layer of limits.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Limits, ConfigurationError> => Layer.effect(Limits, make(options))
