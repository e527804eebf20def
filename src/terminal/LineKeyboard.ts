/** The keyboard where there is no terminal: lines of a pipe, one for each answer. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ReadStream } from "node:fs"
import type { Readable, Writable } from "node:stream"
import { type Keyboard, onEnd, type Take, untilQuiet, writeTo } from "./Keyboard.ts"

/** Acquires the pipe for the rest of the scope; `None` if it has ended, or is a file, which was written before. */
export const take = (input: Readable, output: Writable): Take =>
  Effect.gen(function*() {
    if (input instanceof ReadStream) return Option.none()
    yield* Effect.addFinalizer(() => Effect.sync(() => input.pause()))
    if (!(yield* untilQuiet(input))) return Option.none()
    const nextLine = yield* linesOf(input)
    const keyboard: Keyboard = {
      columns: 100,
      rows: 40,
      color: false,
      write: writeTo(output),
      key: (prompt) => Effect.map(nextLine(() => output.write(prompt)), Option.map(keyOf)),
      line: (prompt) => nextLine(() => output.write(prompt))
    }
    return Option.some(keyboard)
  })

/** The key that a line stands for. Every other line is a no. */
const keyOf = (line: string): string => {
  const word = line.trim().toLowerCase()
  return word === "yes" ? "y" : /^[yhsdev1-9]$/.test(word) ? word : "n"
}

/** Gives the next whole line, or `None` at the end of the input; lines count from the first prompt on. */
const linesOf = Effect.fnUntraced(function*(input: Readable) {
  const decoder = new TextDecoder()
  let text = ""
  let isReading = false
  let isOver = false
  let wake = () => {}
  const onData = (chunk: string | Uint8Array) => {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true })
    wake()
  }
  const forget = onEnd(input, () => {
    isOver = true
    wake()
  })
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      forget()
      input.off("data", onData)
    })
  )
  return (prompt: () => void) =>
    Effect.callback<Option.Option<string>>((resume) => {
      wake = () => {
        const end = text.indexOf("\n")
        if (end < 0 && !isOver) return
        const line = end < 0 ? Option.none() : Option.some(text.slice(0, end))
        text = end < 0 ? "" : text.slice(end + 1)
        wake = () => {}
        resume(Effect.succeed(line))
      }
      prompt()
      if (!isReading) input.on("data", onData)
      isReading = true
      wake()
      return Effect.sync(() => wake = () => {})
    })
})
