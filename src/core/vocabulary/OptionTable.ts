/** Options as a table: each with its default and what it may be, in one place. */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { OptionReader } from "../../internal/OptionReader.ts"
import { type ConfigurationError, readOptions } from "./ConfigurationError.ts"

/** An option: what may be given, its default, and what is read of it. */
export interface Row<Input, Read> {
  readonly default: Input
  readonly read: (reader: OptionReader, name: string, given: Input) => Read
}

/** A whole number of at least so much. */
export const count = (it: number, least = 1, most?: number): Row<number, number> => ({
  default: it,
  read: (reader, name, given) => reader.count(name, given, least, most)
})

/** A duration, in milliseconds; with `isZeroAllowed`, of one that may be none at all. */
export const millis = (it: Duration.Input, isZeroAllowed = false): Row<Duration.Input, number> => ({
  default: it,
  read: (reader, name, given) => reader.millis(name, given, isZeroAllowed)
})

export const flag = (it: boolean): Row<boolean, boolean> => ({
  default: it,
  read: (reader, name, given) => reader.flag(name, given)
})

export const text = (it: string): Row<string, string> => ({
  default: it,
  read: (reader, name, given) => reader.text(name, given)
})

/** Options by name, whatever each of them is: `read` is given what its own row says. */
interface Table {
  readonly [name: string]: {
    readonly default: unknown
    readonly read: (reader: OptionReader, name: string, given: never) => unknown
  }
}

/** What may be given; each option has its description in the table. */
export type Options<T extends Table> = { readonly [K in keyof T]?: T[K]["default"] | undefined }

/** What is read. */
export type Checked<T extends Table> = { readonly [K in keyof T]: ReturnType<T[K]["read"]> }

/** The defaults of a table. */
export const defaultsOf = <T extends Table>(table: T): { readonly [K in keyof T]: T[K]["default"] } =>
  Object.fromEntries(Object.entries(table).map(([name, it]) => [name, it.default])) as never

/** Reads options; fails with all that are invalid. */
export const read = <T extends Table>(
  subject: string,
  table: T,
  options: Options<T>
): Effect.Effect<Checked<T>, ConfigurationError> =>
  readOptions(subject, (reader) => {
    reader.known("", options, table)
    return Object.fromEntries(
      Object.entries(table).map(([name, it]) => [name, it.read(reader, name, (options[name] ?? it.default) as never)])
    ) as Checked<T>
  })
