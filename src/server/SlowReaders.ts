/**
 * Streams to readers that nobody knows: one that takes nothing is cut, never waited for with a
 * growing buffer.
 *
 * The server writes a piece and asks for the next once the connection has taken it (`drain` in Node). What is
 * measured is that time. A stream that has nothing to say is not slow: it is asked for more, and waits itself.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { ClientAbort } from "effect/http/HttpServerError"
import * as Stream from "effect/Stream"

/**
 * Cuts a body whose reader takes nothing for a while, as if the reader had closed the connection. It is handed on in
 * pieces of at most 16 kB, so that one that is slow but reads is told from one that does not.
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
            // the server is waiting for the connection in this fiber: there is no other way to tell it
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

// Utilities

interface Reader {
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  /** When it was handed a piece; `undefined`: it waits for one. */
  since: number | undefined
}

const pieceBytes = 16 * 1024

/** The same bytes in as few pieces as there may be. */
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
