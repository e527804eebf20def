/**
 * Limits of the server: rates of requests per address and user, open requests and streams, bytes in transit, long
 * answers, and fair turns on the main thread.
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
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import { TooMany } from "../api/ApiProblems.ts"
import { type Bounds, Capacity } from "./Capacity.ts"
import { FairTurns } from "./FairTurns.ts"
import { type Bounds as StrangerBounds, type Reading, Strangers } from "./Strangers.ts"
import { type Rate, TokenBuckets } from "./TokenBuckets.ts"

/** The limits. Each one is released when the scope of the request closes: after its response or stream has ended. */
export class Limits extends Context.Service<Limits, {
  /**
   * Admits a request of an address. Once its user is known, it counts for the user only, so that users behind one proxy
   * do not share a limit.
   */
  readonly arrive: (address: string) => Taking
  /**
   * Admits an unauthenticated request, such as a login. Its body is read by the result: meanwhile the oldest makes room
   * for newer requests.
   */
  readonly knock: (
    address: string
  ) => Effect.Effect<
    Reading<TooMany, HttpServerRequest.HttpServerRequest>,
    TooMany,
    Scope.Scope | HttpServerRequest.HttpServerRequest
  >
  /** Admits a request of a user. */
  readonly enter: (user: string) => Taking
  /** Admits a stream of a user. */
  readonly stream: (user: string) => Taking
  /** Reserves the bytes of a body until the request is answered. Waits for room; the result gives back the surplus. */
  readonly body: (
    user: string,
    bytes: number
  ) => Effect.Effect<(kept: number) => Effect.Effect<void>, never, Scope.Scope>
  /** Reserves room for a long answer until the client has it. Waits for room. */
  readonly answer: (user: string) => Effect.Effect<void, never, Scope.Scope>
  /** Waits for a turn of the user on the main thread: before a body is parsed and before each piece of a stream. */
  readonly turn: (user: string) => Effect.Effect<void>
  readonly counts: Effect.Effect<{ readonly requests: number; readonly streams: number; readonly refused: number }>
}>()("effect-tool-executor/server/Limits") {}

/** Admits, or fails with the seconds to wait. */
export type Taking = Effect.Effect<void, TooMany, Scope.Scope | HttpServerRequest.HttpServerRequest>

/** Options of the limits. */
export interface Options {
  /** Requests of one address: burst and rate per second. */
  readonly perAddress?: Partial<Rate> | undefined
  /** Requests of one user: burst and rate per second. */
  readonly perUser?: Partial<Rate> | undefined
  /** Open requests, including streams. */
  readonly open?: Partial<Bounds> | undefined
  /**
   * Open requests without a user: log-ins and links. They count as open requests, too, and have a lower limit, so that
   * strangers do not block users. One more takes the place of the oldest whose body is still to come.
   */
  readonly strangers?: Partial<StrangerBounds> | undefined
  /** Open streams. */
  readonly streams?: Partial<Bounds> | undefined
  /** Bytes of bodies that are being read or not yet answered. More bodies wait, within their time limit. */
  readonly bodies?: Partial<Bounds> | undefined
  /** Long answers that are not delivered yet. More of them wait in order. */
  readonly answers?: Partial<Bounds> | undefined
}

/** Default options. */
export const defaults = {
  perAddress: { burst: 2_000, perSecond: 500 },
  perUser: { burst: 1_000, perSecond: 200 },
  open: { perUser: 400, ofAll: 4_000 },
  strangers: { perAddress: 20, ofAll: 500 },
  streams: { perUser: 100, ofAll: 2_000 },
  bodies: { perUser: 6_000_000, ofAll: 48_000_000 },
  answers: { perUser: 2, ofAll: 16 }
} as const

/** Creates the limits. Fails with all invalid options. */
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
  /** Addresses of requests whose user is not known yet. */
  const arrived = new WeakMap<object, string>()
  const fullOfAll = "Too many requests are open. Try again later."
  const fullOfOne = "Too many of your requests are open. Wait until some have ended."
  const all = atOnce(rates.open.ofAll, fullOfAll)
  const ofUser = atOnce(rates.open.perUser, fullOfOne)
  const strangers = new Strangers(rates.strangers)
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
    knock: (key) => strangers.take(key, (isOfAddress) => refuse(5, isOfAddress ? fullOfOne : fullOfAll)),
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

/** Admits a request, or gives the response that refuses it. */
export const refusal = <E, R>(taking: Effect.Effect<void, E | TooMany, R>) =>
  Effect.matchEffect(taking, {
    onFailure: (problem) =>
      problem instanceof TooMany ? Effect.orDie(HttpServerRespondable.toResponse(problem)) : Effect.fail(problem),
    onSuccess: () => Effect.void
  })

/** Layer of the limits. */
export const layer = (options?: Options): Layer.Layer<Limits, ConfigurationError> => Layer.effect(Limits, make(options))
