/** The keyboard of the controlling terminal: there also where standard input and output are files or pipes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { closeSync, constants, openSync } from "node:fs"
import process from "node:process"
import { createInterface, emitKeypressEvents, type Key } from "node:readline"
import { isatty, ReadStream, WriteStream } from "node:tty"
import { allowsColor, type Keyboard, onEnd, type Take, untilQuiet, writeTo } from "./Keyboard.ts"

/**
 * Acquires the terminal for the rest of the scope; `None` if there is no terminal, or its input has ended.
 *
 * Control-C there is the same wish to stop as anywhere else. The terminal gets its modes back when the scope closes.
 */
export const take: Take = Effect.gen(function*() {
  const opened = yield* Effect.option(Effect.acquireRelease(Effect.try(open), ({ input, output }) =>
    Effect.sync(() => {
      input.setRawMode(false)
      input.destroy()
      output.destroy()
    })))
  if (Option.isNone(opened)) return Option.none()
  const { input, output } = opened.value
  // a terminal may go away at any time
  input.on("error", () => {})
  emitKeypressEvents(input)
  input.setRawMode(true)
  if (!(yield* untilQuiet(input))) return Option.none()
  const keyboard: Keyboard = {
    columns: output.columns > 0 ? output.columns : 80,
    rows: output.rows > 0 ? output.rows : 24,
    color: yield* allowsColor,
    write: writeTo(output),
    key: (prompt) => nextKey(input, output, prompt),
    line: (prompt, given) => readLine(input, output, prompt, given)
  }
  return Option.some(keyboard)
})

const open = () => {
  const reading = openSync("/dev/tty", constants.O_RDONLY | constants.O_NOCTTY)
  try {
    if (!isatty(reading)) throw new Error("not a terminal")
    const writing = openSync("/dev/tty", constants.O_WRONLY | constants.O_NOCTTY)
    return { input: new ReadStream(reading), output: new WriteStream(writing) }
  } catch (error) {
    closeSync(reading)
    throw error
  }
}

const interrupt = () => void process.kill(process.pid, "SIGINT")

const nextKey = (input: ReadStream, output: WriteStream, prompt: string): Effect.Effect<Option.Option<string>> =>
  Effect.callback((resume) => {
    const stop = () => {
      input.off("keypress", onKey)
      forget()
    }
    const end = (key: Option.Option<string>) => {
      stop()
      resume(Effect.succeed(key))
    }
    const onKey = (text: string | undefined, key: Key) => {
      if (key.ctrl === true && key.name === "c") return interrupt()
      if (key.ctrl === true && key.name === "d") return end(Option.none())
      // a letter with Control or Alt is not that letter
      if (key.ctrl === true || key.meta === true) return
      end(Option.some((key.name ?? text ?? "").toLowerCase()))
    }
    const forget = onEnd(input, () => end(Option.none()))
    // keys count from here on: nothing is read between these two
    output.write(prompt)
    input.on("keypress", onKey)
    return Effect.sync(stop)
  })

const readLine = (
  input: ReadStream,
  output: WriteStream,
  prompt: string,
  given: string
): Effect.Effect<Option.Option<string>> =>
  Effect.callback((resume) => {
    const lines = createInterface({ input, output, terminal: true, historySize: 0 })
    const end = (line: Option.Option<string>) => {
      input.off("keypress", onKey)
      lines.off("close", onClose)
      lines.close()
      // the interface gives the terminal's modes back and stops reading when it closes
      input.setRawMode(true)
      input.resume()
      resume(Effect.succeed(line))
    }
    const onKey = (_: string | undefined, key: Key) => {
      if (key.name === "escape") end(Option.none())
    }
    // the end of the input
    const onClose = () => end(Option.none())
    input.on("keypress", onKey)
    lines.on("SIGINT", onClose)
    lines.on("close", onClose)
    lines.question(prompt, (line) => end(Option.some(line)))
    lines.write(given)
    return Effect.sync(() => {
      input.off("keypress", onKey)
      lines.off("close", onClose)
      lines.close()
    })
  })
