/**
 * Cuts off readers that stall, instead of buffering for them.
 *
 * The server writes a piece and asks for the next one once the connection has taken it (`drain` in Node). That time is
 * measured. An idle stream is not slow: it has been asked for the next piece.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { ClientAbort } from "effect/http/HttpServerError"
import * as Stream from "effect/Stream"

/**
 * Cuts off a body whose reader stalls, as if the reader had closed the connection. Pieces have at most 16 kB, so that a
 * slow reader makes progress.
 */
export const cut = (within: Duration.Input) => {
  const limit = Duration.toMillis(within)
  return <E, R>(self: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
    Stream.transformPull(self, (pull, scope) =>
      Effect.gen(function*() {
        const clock = yield* Clock.Clock
        const pieces: Array<Uint8Array> = []
        const reader: Reader = { fiber: undefined, since: undefined }
        const next = () => {
          reader.since = clock.currentTimeMillisUnsafe()
          return [pieces.shift()!] as const
        }
        yield* Effect.forkIn(
          Effect.gen(function*() {
            for (;;) {
              const passed = reader.since === undefined ? 0 : clock.currentTimeMillisUnsafe() - reader.since
              if (passed >= limit) break
              yield* Effect.sleep(limit - passed)
            }
            // the server waits for the connection in this fiber: interrupting it is the only way
            reader.fiber?.interruptUnsafe(undefined, ClientAbort.annotation)
          }),
          scope
        )
        return Effect.withFiber((fiber) => {
          reader.fiber = fiber
          if (pieces.length > 0) return Effect.sync(next)
          reader.since = undefined
          return Effect.map(pull, (chunks) => {
            pieces.push(...inPieces(chunks))
            return next()
          })
        })
      }))
}

interface Reader {
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  /** When the last piece was handed to the server; `undefined` while it waits for one. */
  since: number | undefined
}

const pieceBytes = 16 * 1024

/** Joins chunks to as few pieces as possible. */
const inPieces = (chunks: ReadonlyArray<Uint8Array>): ReadonlyArray<Uint8Array> => {
  const bytes = chunks.length === 1 ? chunks[0]! : joined(chunks)
  if (bytes.length <= pieceBytes) return [bytes]
  return Array.from(
    { length: Math.ceil(bytes.length / pieceBytes) },
    (_, index) => bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes)
  )
}

const joined = (chunks: ReadonlyArray<Uint8Array>): Uint8Array => {
  const bytes = new Uint8Array(chunks.reduce((sum, it) => sum + it.length, 0))
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}
