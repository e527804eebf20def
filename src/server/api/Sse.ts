/**
 * Responses of server-sent events: the position to continue from, content negotiation, and failures without internals.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"
import { noteNames } from "./ApiModels.ts"

/** The position to continue after. The header of a reconnecting browser wins over the query of the page. */
export const placeOf = (
  { headers, query }: {
    readonly headers: { readonly "last-event-id"?: string }
    readonly query: { readonly after?: string }
  }
): string | undefined => {
  const id = headers["last-event-id"]
  // browsers that have not received an id send no header; some clients send an empty one
  return id === undefined || id === "" ? query.after : id
}

/**
 * Tells whether a client prefers events to JSON, by its `Accept` header (RFC 9110, 12.5.1): the more specific range
 * decides.
 */
export const prefersEvents = (accept: string | undefined): boolean =>
  accept !== undefined && weightOf(accept, "text", "event-stream") > weightOf(accept, "application", "json")

/** Tells whether a client does not want to wait, by its `Prefer` header (RFC 7240). */
export const prefersAsync = (prefer: string | undefined): boolean =>
  prefer?.toLowerCase().split(/[,;]/).some((it) => it.trim() === "respond-async") ?? false

/** A heartbeat. */
export interface Beat {
  readonly event: string
  readonly data: { readonly _tag: "Heartbeat"; readonly at: number }
}

/**
 * Prepares a stream for a response: no proxy buffers it, and a defect ends it and goes to the log.
 *
 * It waits for a turn before each piece. A heartbeat comes first: Node sends headers with the first bytes, and clients
 * wait for them.
 */
export const respond = <A>(
  stream: Stream.Stream<A>,
  turn: Effect.Effect<void>
): Effect.Effect<Stream.Stream<A | Beat>, never, HttpServerRequest.HttpServerRequest> =>
  Effect.as(
    HttpEffect.appendPreResponseHandler((_, response) =>
      Effect.succeed(HttpServerResponse.setHeaders(response, {
        "cache-control": "no-store",
        // nginx buffers responses unless this header is set
        "x-accel-buffering": "no"
      }))
    ),
    Stream.concat(
      Stream.fromEffect(beat),
      Stream.catchCause(
        Stream.mapArrayEffect(stream, (items) => Effect.as(turn, items)),
        (cause) => Stream.drain(Stream.fromEffect(Effect.logError("A stream of events failed", cause)))
      )
    )
  )

const beat = Effect.map(Clock.currentTimeMillis, (at): Beat => ({
  event: noteNames.Heartbeat,
  data: { _tag: "Heartbeat", at }
}))

/** The weight of a media type, from 0 to 1. */
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
