/** The keyboard of the controlling terminal: there also where standard input and output are files or pipes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { closeSync, constants, openSync } from "node:fs"
import process from "node:process"
import { createInterface, emitKeypressEvents, type Key } from "node:readline"
import { isatty, ReadStream, WriteStream } from "node:tty"
import * as EventLines from "../agent/EventLines.ts"
import type { Keyboard } from "./Keyboard.ts"

/** Milliseconds in which what was typed ahead arrives, and is thrown away. */
const settleMillis = 50

/**
 * Acquires the terminal for the rest of the scope; `None` if there is no terminal.
 *
 * Control-C there is the same wish to stop as anywhere else. The terminal gets its modes back when the scope closes.
 */
export const take: Effect.Effect<Option.Option<Keyboard>, never, Scope.Scope> = Effect.gen(function*() {
  const opened = yield* Effect.option(Effect.acquireRelease(Effect.try(open), ({ input, output }) =>
    Effect.sync(() => {
      input.setRawMode(false)
      input.destroy()
      output.destroy()
    })))
  if (Option.isNone(opened)) return Option.none()
  const { input, output } = opened.value
  emitKeypressEvents(input)
  input.setRawMode(true)
  input.resume()
  // a person answers what they see, not what they could not see yet
  yield* Effect.sleep(settleMillis)
  const keyboard: Keyboard = {
    columns: output.columns > 0 ? output.columns : 80,
    rows: output.rows > 0 ? output.rows : 24,
    color: yield* EventLines.allowsColor,
    write: (text) => Effect.callback<void>((resume) => void output.write(text, () => resume(Effect.void))),
    key: nextKey(input),
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

const nextKey = (input: ReadStream): Effect.Effect<string> =>
  Effect.callback((resume) => {
    const onKey = (text: string | undefined, key: Key) => {
      if (key.ctrl === true && key.name === "c") return interrupt()
      // a letter with Control or Alt is not that letter
      if (key.ctrl === true || key.meta === true) return
      input.off("keypress", onKey)
      resume(Effect.succeed((key.name ?? text ?? "").toLowerCase()))
    }
    input.on("keypress", onKey)
    return Effect.sync(() => input.off("keypress", onKey))
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
      lines.close()
      // the interface gives the terminal's modes back and stops reading when it closes
      input.setRawMode(true)
      input.resume()
      resume(Effect.succeed(line))
    }
    const onKey = (_: string | undefined, key: Key) => {
      if (key.name === "escape") end(Option.none())
    }
    input.on("keypress", onKey)
    lines.on("SIGINT", () => end(Option.none()))
    lines.question(prompt, (line) => end(Option.some(line)))
    lines.write(given)
    return Effect.sync(() => {
      input.off("keypress", onKey)
      lines.close()
    })
  })
