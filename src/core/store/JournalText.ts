/** Entries of a journal as texts, for drivers that write them: one line of JSON each, with its version in front. */
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Versioned from "../../internal/versioned.ts"
import { JournalEntry } from "./JournalEntry.ts"

/** The text of an entry, or of those of its fields that are not stored beside it. What JSON cannot hold is left out. */
export const encode = (entry: Partial<JournalEntry>): string => Versioned.encode(1, jsonOf(entry))

/** The entry of a text and of fields that are stored beside it, or what is wrong with it. */
export const decode = (text: string, beside?: object): Result.Result<JournalEntry, Error> =>
  Versioned.decode(beside === undefined ? readers : { 1: (rest) => read({ ...beside, ...Object(rest) }) }, text)

const read = Schema.decodeUnknownResult(JournalEntry)

const readers = { 1: read }

const jsonOf = (entry: Partial<JournalEntry>): string => {
  try {
    return JSON.stringify(entry)
  } catch {
    // an output of a handler may be anything; the rest of the entry must not be lost for it
    const above: Array<unknown> = []
    return JSON.stringify(entry, function(this: unknown, _, value: unknown) {
      if (typeof value === "bigint") return String(value)
      if (typeof value !== "object" || value === null) return value
      while (above.length > 0 && above.at(-1) !== this) above.pop()
      if (above.includes(value)) return "[circular]"
      above.push(value)
      return value
    })
  }
}
