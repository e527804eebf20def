/** Notifies listeners that something has changed. */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"

/** The listeners, and how to notify them. */
export interface Changes<A> {
  readonly tell: (change: A) => void
  /** Each change from now on, the last one at least; a slow reader may miss some. */
  readonly stream: Stream.Stream<A>
}

/** Nobody listens yet. */
export const make = <A>(): Changes<A> => {
  const readers = new Set<(change: A) => void>()
  return {
    tell: (change) => {
      for (const tell of readers) tell(change)
    },
    stream: Stream.callback<A>((queue) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const tell = (change: A) => void Queue.offerUnsafe(queue, change)
          readers.add(tell)
          return tell
        }),
        (tell) => Effect.sync(() => readers.delete(tell))
      ), { bufferSize: 1, strategy: "sliding" })
  }
}
