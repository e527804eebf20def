/**
 * How much there may be at once, and how often: requests of an address and of a user, requests that are open, streams,
 * what is being sent, and what is being answered at length; and whose turn it is at the work on them.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { TooMany } from "./ApiProblems.ts"
import { type Bounds, Capacity } from "./Capacity.ts"
import { FairTurns } from "./FairTurns.ts"
import { type Rate, TokenBuckets } from "./TokenBuckets.ts"

/**
 * The limits. What is taken is given back when the request's scope closes: once its response, or its
 * stream, has ended.
 *
 * @category services
 * @since 0.1.0
 */
export class Limits extends Context.Service<Limits, {
  /**
   * A request of an address. One that turns out to be a user's counts as theirs alone: whoever sends much from behind a
   * proxy takes nothing from others there.
   */
  readonly arrive: (address: string) => Taking
  /** A request of an address that is listened to although nobody knows whose it is: one to log in. */
  readonly knock: (address: string) => Taking
  /** A request of a user. */
  readonly enter: (user: string) => Taking
  /** A stream of a user. */
  readonly stream: (user: string) => Taking
  /**
   * So many bytes that a user sends, from before they are read until the request is answered; waits for room, and gives a
   * way to keep only as many as there were.
   */
  readonly body: (
    user: string,
    bytes: number
  ) => Effect.Effect<(kept: number) => Effect.Effect<void>, never, Scope.Scope>
  /** An answer to a user that may be long, from before it is made until it is with its reader; waits for room. */
  readonly answer: (user: string) => Effect.Effect<void, never, Scope.Scope>
  /** The turn of a user at work that holds the thread: before what was sent is read, and before each piece of a stream. */
  readonly turn: (user: string) => Effect.Effect<void>
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
  /** Bytes of what is being sent, or was and is not answered: what is more waits, within the time that a body has. */
  readonly bodies?: Partial<Bounds> | undefined
  /** Answers that may be long and are not with their readers: more wait in line. */
  readonly answers?: Partial<Bounds> | undefined
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
  open: { perUser: 400, ofAll: 4_000 },
  strangers: { perAddress: 20, ofAll: 500 },
  streams: { perUser: 100, ofAll: 2_000 },
  bodies: { perUser: 6_000_000, ofAll: 48_000_000 },
  answers: { perUser: 2, ofAll: 16 }
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
    const bounds = (name: "open" | "streams" | "bodies" | "answers"): Bounds => ({
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
      streams: bounds("streams"),
      bodies: bounds("bodies"),
      answers: bounds("answers")
    }
  })
  const bodies = new Capacity(rates.bodies)
  const answers = new Capacity(rates.answers)
  const turns = new FairTurns(yield* Clock.Clock, Effect.runForkWith(yield* Effect.context<never>()))
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
  const often = (buckets: TokenBuckets) => (key: string): Taking =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const wait = buckets.take(key, now)
      return wait === 0 ? Effect.void : refuse(Math.ceil(wait / 1_000), "Too many requests. Send them more slowly.")
    })
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
  const addresses = new TokenBuckets(rates.perAddress)
  const [address, user] = [often(addresses), often(new TokenBuckets(rates.perUser))]
  /** Addresses of requests of which nobody knows yet whose they are. */
  const arrived = new WeakMap<object, string>()
  const all = atOnce(rates.open.ofAll, "Too many requests are open. Try again later.")
  const ofUser = atOnce(rates.open.perUser, "Too many of your requests are open. Let some end first.")
  const strangers = atOnce(rates.strangers.ofAll, "Too many requests are open. Try again later.")
  const ofAddress = atOnce(rates.strangers.perAddress, "Too many requests of yours are open. Let some end first.")
  const streams = atOnce(rates.streams.ofAll, "Too many streams are open. Try again later.")
  const streamsOfUser = atOnce(rates.streams.perUser, "Too many of your streams are open. Close some first.")
  return Limits.of({
    arrive: (key) =>
      Effect.andThen(
        address(key),
        Effect.andThen(
          all.take(""),
          Effect.map(HttpServerRequest.HttpServerRequest, ({ source }) => void arrived.set(source, key))
        )
      ),
    knock: (key) => Effect.andThen(ofAddress.take(key), strangers.take("")),
    enter: (key) =>
      Effect.andThen(
        Effect.map(HttpServerRequest.HttpServerRequest, ({ source }) => {
          const from = arrived.get(source)
          if (arrived.delete(source)) addresses.giveBack(from!)
        }),
        Effect.andThen(user(key), ofUser.take(key))
      ),
    stream: (key) => Effect.andThen(streamsOfUser.take(key), streams.take("")),
    body: (key, bytes) => bodies.take(key, bytes),
    answer: (key) => Effect.asVoid(answers.take(key, 1)),
    turn: (key) => turns.turn(key),
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
