/** The person at a terminal, as a program that asks sees them. */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { Readable, Writable } from "node:stream"

/** A terminal with a person. It belongs to the program while a scope is open; earlier input is discarded. */
export interface Keyboard {
  /** Columns of the terminal. */
  readonly columns: number
  /** Rows of the terminal. */
  readonly rows: number
  readonly color: boolean
  /** Writes a text, unchanged. */
  readonly write: (text: string) => Effect.Effect<void>
  /**
   * Writes a text and gives the next key, in lower case; other keys than letters by their names. Keys count from the
   * moment at which the text is written. `None` at the end of the input.
   */
  readonly key: (prompt: string) => Effect.Effect<Option.Option<string>>
  /** A line that the person types; what is given may be edited. `None` if they think better of it. */
  readonly line: (prompt: string, given: string) => Effect.Effect<Option.Option<string>>
}

/** Acquires a terminal, if there is one. */
export type Take = Effect.Effect<Option.Option<Keyboard>, never, Scope.Scope>

/** The terminal of a command. Default: none. */
export const Terminal = Context.Reference<Take>("effect-tool-executor/terminal/Keyboard/Terminal", {
  defaultValue: () => Effect.succeedNone
})

/** Tells whether somebody sits at a terminal. */
export const isThere: Effect.Effect<boolean> = Effect.scoped(
  Effect.map(Effect.flatten(Terminal), Option.isSome)
)

/** Tells whether `NO_COLOR` is unset. */
export const allowsColor = Effect.map(
  Effect.orElseSucceed(Config.option(Config.String("NO_COLOR")), Option.none<string>),
  (refused) => Option.getOrElse(refused, () => "") === ""
)

/** Writes a text to a stream. */
export const writeTo = (output: Writable) => (text: string): Effect.Effect<void> =>
  Effect.callback((resume) => void output.write(text, () => resume(Effect.void)))

/** Calls a function when an input has ended, and returns how to stop that. */
export const onEnd = (input: Readable, ended: () => void): () => void => {
  for (const event of ends) input.on(event, ended)
  return () => {
    for (const event of ends) input.off(event, ended)
  }
}

const ends = ["end", "close", "error"] as const

/**
 * Discards input until it pauses: a person answers what they see, not what they could not see yet. False if the input
 * has ended, or never pauses.
 */
export const untilQuiet = (input: Readable): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    let isTyped = false
    const discard = () => {
      isTyped = true
    }
    input.on("data", discard)
    input.resume()
    return Effect.gen(function*() {
      for (let pause = 0; pause < maxPauses; pause++) {
        isTyped = false
        yield* Effect.sleep(pauseMillis)
        if (input.readableEnded || input.destroyed) return false
        // between two timers, everything that had arrived before the first one was read
        if (!isTyped && pause > 0) return true
      }
      return false
    }).pipe(Effect.ensuring(Effect.sync(() => input.off("data", discard))))
  })

const pauseMillis = 50

/** Five seconds. */
const maxPauses = 100
