/**
 * Entries of a journal as texts, for drivers that write them: one line of JSON each.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { JournalEntry } from "./JournalEntry.ts"

/**
 * The text of an entry; what JSON has no word for is left out of it.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (entry: JournalEntry): string => {
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

/**
 * The entry of a text, or what is wrong with it.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (text: string): Result.Result<JournalEntry, Error> => {
  try {
    return Result.mapError(decodeEntry(JSON.parse(text)), (it) => new Error(it.message))
  } catch (cause) {
    return Result.fail(new Error("it is not JSON", { cause }))
  }
}

// Utilities

const decodeEntry = Schema.decodeUnknownResult(JournalEntry)
