/**
 * Plain JSON out of any value that a tool may have made; it never throws.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type * as ToolOutcome from "../ToolOutcome.ts"
import * as Shape from "./Shape.ts"

/** Levels below this one are cut off, before the stack ends. */
const deepest = 200

/**
 * Turns any value into plain JSON.
 *
 * **Details**
 *
 * As `JSON.stringify` does it, and where that would throw or lose the value: a
 * `bigint` becomes its digits, an error its name, message and own properties, a
 * map its pairs, a set its members, a loop `"[circular]"`, what lies more than
 * 200 levels deep `"[too deep]"`, what throws when read `"[unreadable]"`, and
 * lone surrogates U+FFFD.
 *
 * @category conversions
 * @since 0.1.0
 */
export const from = (value: unknown): unknown => plain(value, [], false) ?? null

/**
 * Gives the value of a success, where the model is shown all of it.
 *
 * @category conversions
 * @since 0.1.0
 */
export const inline = (outcome: ToolOutcome.ToolOutcome): Schema.Json | undefined =>
  outcome._tag === "Succeeded" && outcome.output._tag === "Inline" && outcome.output.value !== undefined
    ? from(outcome.output.value) as Schema.Json
    : undefined

// Utilities

/** Gives `undefined` for what JSON leaves out. */
const plain = (value: unknown, above: ReadonlyArray<unknown>, unwrapped: boolean): unknown => {
  switch (typeof value) {
    case "string":
      return Shape.wellFormed(value)
    case "number":
      return Number.isFinite(value) ? value : null
    case "bigint":
      return String(value)
    case "boolean":
      return value
    case "object":
      break
    default:
      return undefined
  }
  if (value === null) return null
  if (above.includes(value)) return "[circular]"
  if (above.length >= deepest) return "[too deep]"
  try {
    return members(value, [...above, value], unwrapped)
  } catch {
    // a proxy or a toJSON of the tool's own
    return "[unreadable]"
  }
}

const members = (value: object, above: ReadonlyArray<unknown>, unwrapped: boolean): unknown => {
  const toJSON: unknown = unwrapped ? undefined : Reflect.get(value, "toJSON")
  // once only, as JSON does it: what it gives may be the object itself
  if (typeof toJSON === "function") return plain(Reflect.apply(toJSON, value, []), above.slice(0, -1), true)
  if (value instanceof Map || value instanceof Set) return list(Array.from(value), above)
  if (Array.isArray(value)) return list(value, above)
  const named = value instanceof Error ? [["name", value.name], ["message", value.message]] as const : []
  // built from entries, so that a key such as `__proto__` is a key like any other
  return Object.fromEntries(
    [...named, ...Object.keys(value).map((key) => [key, member(value, key)] as const)].flatMap(([key, it]) => {
      const kept = plain(it, above, false)
      return kept === undefined ? [] : [[Shape.wellFormed(key), kept]]
    })
  )
}

const member = (value: object, key: string): unknown => {
  try {
    return Reflect.get(value, key)
  } catch {
    return "[unreadable]"
  }
}

const list = (values: ReadonlyArray<unknown>, above: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  Array.from(values, (value) => plain(value, above, false) ?? null)
