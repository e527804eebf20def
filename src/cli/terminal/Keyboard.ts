/** The person at the terminal, as a command that asks sees them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

/** A terminal with a person. It belongs to the command while a scope is open; earlier input is discarded. */
export interface Keyboard {
  /** Columns of the terminal. */
  readonly columns: number
  /** Rows of the terminal. */
  readonly rows: number
  readonly color: boolean
  /** Writes a text, unchanged. */
  readonly write: (text: string) => Effect.Effect<void>
  /** The next key, in lower case; other keys than letters by their names. */
  readonly key: Effect.Effect<string>
  /** A line that the person types; what is given may be edited. `None` if they think better of it. */
  readonly line: (prompt: string, given: string) => Effect.Effect<Option.Option<string>>
}

/** Acquires the terminal, if there is one. Default: none. */
export const Terminal = Context.Reference<Effect.Effect<Option.Option<Keyboard>, never, Scope.Scope>>(
  "effect-tool-executor/cli/Keyboard/Terminal",
  { defaultValue: () => Effect.succeedNone }
)

/** Tells whether somebody sits at a terminal. */
export const isThere: Effect.Effect<boolean> = Effect.scoped(
  Effect.map(Effect.flatten(Terminal), Option.isSome)
)
