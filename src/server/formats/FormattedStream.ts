/** Streams an operation in another format, as server-sent events without names. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type { AgentSse } from "../api/ApiOperations.ts"
import type { Unavailable } from "../api/ApiProblems.ts"
import type { FormattedOperation } from "./FormattedOperation.ts"

/** What a stream is made of. */
export interface Source<Chunk> {
  /** All events of the operation. */
  readonly events: Stream.Stream<AgentSse>
  readonly formatted: FormattedOperation<Chunk>
  /** Hashes of the pending approval requests that the user may answer, by id. */
  readonly hashes: Effect.Effect<ReadonlyMap<string, string>, Unavailable>
}

/** Answers with a stream, in pieces; `turn` is awaited before each. */
export const respond = <Chunk>(
  source: Source<Chunk>,
  turn: Effect.Effect<void>,
  headers: { readonly [name: string]: string } = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(
    stream(source).pipe(
      Stream.mapArrayEffect((texts) => Effect.as(turn, texts)),
      Stream.catchCause((cause) =>
        Stream.drain(Stream.fromEffect(Effect.logError("A stream of events failed", cause)))
      ),
      Stream.encodeText
    ),
    {
      contentType: "text/event-stream",
      headers: {
        "cache-control": "no-store",
        // nginx buffers responses unless this header is set
        "x-accel-buffering": "no",
        ...headers
      }
    }
  )

/**
 * Streams the texts of an answer. It ends with the operation, or once its approval requests have been pending for a
 * moment: calls that run meanwhile are continued with, like everything else, when the client has answered.
 */
export const stream = <Chunk>({ events, formatted, hashes }: Source<Chunk>): Stream.Stream<string, Unavailable> =>
  Stream.unwrap(Effect.gen(function*() {
    // what follows a reset comes again: clients read it in another answer
    const pull = yield* Stream.toPull(Stream.takeWhile(events, ({ data }) => data._tag !== "Reset"))
    const clock = yield* Clock.Clock
    let asked: ReadonlyArray<string> = []
    let pausesAt = 0
    const read = (items: ReadonlyArray<AgentSse>): ReadonlyArray<string> => {
      const texts = items.flatMap(({ data, id }) => {
        if (data._tag === "Heartbeat") return [comment]
        if (data._tag === "Gap") formatted.gap()
        if (data._tag === "Gap" || data._tag === "Reset" || data._tag === "Stopping") return []
        return formatted.next(data, placeOf(id)).map(text)
      })
      const { pending } = formatted
      if (pending.some((it) => !asked.includes(it))) pausesAt = clock.currentTimeMillisUnsafe() + longestMillis
      asked = pending
      return texts
    }
    const pause = Effect.map(hashes, (known) => formatted.pause(known).map(text))
    // requests survive a stop of the server
    const end = Effect.suspend(() =>
      formatted.pending.length > 0 ? pause : Effect.sync(() => formatted.stop().map(text))
    )
    const more = Pull.catchDone(Effect.map(pull, read), () => end)
    const next = Effect.suspend(() => {
      if (formatted.pending.length === 0) return more
      const wait = Math.min(quietMillis, pausesAt - clock.currentTimeMillisUnsafe())
      return wait <= 0 ? pause : Effect.flatMap(
        Effect.timeoutOption(more, wait),
        Option.match({ onNone: () => pause, onSome: Effect.succeed })
      )
    })
    return Stream.paginate<undefined, string, Unavailable>(
      undefined,
      () => Effect.map(next, (texts) => [texts, formatted.isOver ? Option.none() : Option.some(undefined)])
    )
  }))

/** Events that follow requests sooner belong to the same pause. */
const quietMillis = 100

/** The answer ends then, also if other calls still report. */
const longestMillis = 2_000

const text = (chunk: unknown): string => `data: ${JSON.stringify(chunk)}\n\n`

/** Keeps the connection open. Clients ignore it. */
const comment = ":\n\n"

const placeOf = (id: string | undefined): number => id === undefined ? 0 : Number(id.slice(id.lastIndexOf("-") + 1))
