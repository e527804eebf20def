/** The door of a gateway on standard input and output. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import type { McpDoor } from "./Door.ts"

/** Standard input as a server is to see it: without what may not go on, and at its end once nothing is left to answer. */
export const layer = (door: McpDoor): Layer.Layer<Stdio.Stdio, never, Stdio.Stdio> =>
  Layer.effect(
    Stdio.Stdio,
    Effect.map(Stdio.Stdio, (stdio) => Stdio.make({ ...stdio, stdin: guarded(door, stdio.stdin) }))
  )

// Utilities

const guarded = <E>(door: McpDoor, stdin: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array> => {
  const lines = Stream.concat(
    // an input that cannot be read is at its end
    Stream.catchCause(stdin, () => Stream.empty),
    Stream.drain(Stream.fromEffect(door.end("the client is gone")))
  ).pipe(Stream.interruptWhen(door.over), Stream.decodeText, Stream.splitLines)
  return Stream.callback<string>((admitted) =>
    Stream.runForEach(lines, (line) => {
      const message = line.length > maxLineChars ? undefined : parse(line)
      if (!Predicate.isObjectOrArray(message)) return line.trim() === "" ? Effect.void : leftOut
      const pass = Effect.asVoid(Queue.offer(admitted, `${line}\n`))
      const admission = door.admit("", message)
      return admission === undefined
        ? pass
        : Effect.asVoid(Effect.forkScoped(Effect.when(pass, admission), { startImmediately: true }))
    }).pipe(Effect.ensuring(Effect.andThen(Effect.yieldNow, Queue.end(admitted))))
  ).pipe(Stream.encodeText)
}

/** A server reads no more than this at once. */
const maxLineChars = 10 * 1024 * 1024

/** A server would read nothing after it. */
const leftOut = Effect.logWarning(
  "a line of standard input was left out: it is not a message, or it has too many characters"
)

const parse = (line: string): unknown => Result.getOrUndefined(Result.try((): unknown => JSON.parse(line)))
