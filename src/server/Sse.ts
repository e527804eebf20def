/**
 * Server-sent events as responses: where a client goes on, which form it prefers, and what
 * it learns when something breaks, which is nothing.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"
import { noteNames } from "./ApiModels.ts"

/**
 * The place that a client goes on behind: what its browser sends when it connects again wins
 * over what the page said at first.
 */
export const placeOf = (
  { headers, query }: {
    readonly headers: { readonly "last-event-id"?: string }
    readonly query: { readonly after?: string }
  }
): string | undefined => {
  const id = headers["last-event-id"]
  // a browser that was told no id yet sends none; some clients send an empty one
  return id === undefined || id === "" ? query.after : id
}

/**
 * Tells whether a client would rather have events than JSON, by its `Accept` header
 * (RFC 9110, 12.5.1): the more exact range says how much each is wanted.
 */
export const prefersEvents = (accept: string | undefined): boolean =>
  accept !== undefined && weightOf(accept, "text", "event-stream") > weightOf(accept, "application", "json")

/** A heartbeat, as every stream has it. */
export interface Beat {
  readonly event: string
  readonly data: { readonly _tag: "Heartbeat"; readonly at: number }
}

/**
 * Prepares a stream for a response: no proxy keeps it or waits for more of it, and a
 * defect ends it, since what it says is for the log.
 *
 * Before each piece that is made ready it waits for its turn.
 *
 * A heartbeat comes first: Node sends the head of a response with the first of its body, and
 * a client would not know before that it is connected.
 */
export const respond = <A>(
  stream: Stream.Stream<A>,
  turn: Effect.Effect<void>
): Effect.Effect<Stream.Stream<A | Beat>, never, HttpServerRequest.HttpServerRequest> =>
  Effect.as(
    HttpEffect.appendPreResponseHandler((_, response) =>
      Effect.succeed(HttpServerResponse.setHeaders(response, {
        "cache-control": "no-store",
        // nginx holds a response back until it has some of it, unless it is told not to
        "x-accel-buffering": "no"
      }))
    ),
    Stream.concat(
      Stream.fromEffect(beat),
      Stream.catchCause(
        Stream.mapArrayEffect(stream, (items) => Effect.as(turn, items)),
        (cause) => Stream.drain(Stream.fromEffect(Effect.logError("A stream of events broke", cause)))
      )
    )
  )

// Utilities

const beat = Effect.map(Clock.currentTimeMillis, (at): Beat => ({
  event: noteNames.Heartbeat,
  data: { _tag: "Heartbeat", at }
}))

/** How much a type is wanted, from 0 to 1. */
const weightOf = (accept: string, type: string, subtype: string): number => {
  let exactness = -1
  let weight = 0
  for (const range of accept.toLowerCase().split(",")) {
    const [name = "", ...parameters] = range.split(";").map((it) => it.trim())
    const found = [`*/*`, `${type}/*`, `${type}/${subtype}`].indexOf(name)
    if (found <= exactness) continue
    exactness = found
    const q = parameters.find((it) => it.startsWith("q="))
    const given = q === undefined ? 1 : Number(q.slice(2))
    weight = given >= 0 && given <= 1 ? given : 0
  }
  return weight
}
