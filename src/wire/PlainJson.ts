/** Plain JSON out of any value that a tool may have made; it never throws. */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Shape from "./Shape.ts"

/** Levels below this one are cut off, before the stack ends. */
const deepest = 200

/** Characters after which the rest is cut off: references to the same object multiply. */
const largest = 100_000_000

/** The same for one field of an event. */
const largestShown = 10_000_000

/** Characters that each value counts in addition to its own. */
const valueChars = 20

/**
 * Turns any value into plain JSON.
 *
 * As `JSON.stringify` does it, and where that would throw or lose the value: a `bigint` becomes its digits, an error
 * its name, message and own properties, a map its pairs, a set its members, a loop `"[circular]"`, what lies more than
 * 200 levels deep `"[too deep]"`, what comes after 100,000,000 characters `"[too large]"` (each value counts for 20
 * more), what throws when read `"[unreadable]"`, and lone surrogates U+FFFD.
 */
export const from = (value: unknown): unknown => plain(value, [], false, { left: largest, isShown: false }) ?? null

/**
 * Turns any value into plain JSON for clients: as `from` does it, but of errors their name and message alone, of a
 * cause nothing but that it is one, and no more than 10,000,000 characters.
 */
export const shown = (value: unknown): Schema.Json =>
  (plain(value, [], false, { left: largestShown, isShown: true }) ?? null) as Schema.Json

/**
 * Removes the `cause` and `stack` of encoded errors at every depth, and encoded causes of `effect`. Models and clients
 * see failures without them.
 */
export const withoutCauses = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(withoutCauses)
  if (!Shape.isObject(json)) return json
  if (isCauseJson(json)) return aCause
  const isHidden = (key: string, value: unknown) =>
    (key === "cause" || key === "stack") && (isErrorJson(json) || isErrorJson(value))
  return Object.fromEntries(
    Object.entries(json).flatMap(([key, value]) => isHidden(key, value) ? [] : [[key, withoutCauses(value)]])
  )
}

/** Gives the value of a success, where the model is shown all of it. */
export const inline = (outcome: ToolOutcome.ToolOutcome): Schema.Json | undefined =>
  outcome._tag === "Succeeded" && outcome.output._tag === "Inline" && outcome.output.value !== undefined
    ? from(outcome.output.value) as Schema.Json
    : undefined

interface Walk {
  left: number
  readonly isShown: boolean
}

const tooLarge = "[too large]"

const aCause = "[cause]"

/** Errors have a message or a tag: `Schema.TaggedError` has no message by default. */
const isErrorJson = (json: unknown): boolean =>
  typeof Shape.own(json, "message") === "string" || typeof Shape.own(json, "_tag") === "string"

/** The JSON of a cause of `effect`, alone or inside an exit. */
const isCauseJson = (json: object): boolean => {
  const id = Shape.own(json, "_id")
  return id === "Cause" || (id === "Exit" && Shape.own(json, "_tag") === "Failure")
}

/** Gives `undefined` for what JSON leaves out. */
const plain = (value: unknown, above: ReadonlyArray<unknown>, unwrapped: boolean, walk: Walk): unknown => {
  walk.left -= valueChars + (typeof value === "string" ? value.length : 0)
  if (walk.left < 0) return tooLarge
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
    return members(value, [...above, value], unwrapped, walk)
  } catch {
    // a proxy or a toJSON of the tool's own
    return "[unreadable]"
  }
}

const members = (value: object, above: ReadonlyArray<unknown>, unwrapped: boolean, walk: Walk): unknown => {
  if (walk.isShown) {
    if (value instanceof Error) return object(value, ["name", "message"], above, walk)
    if (Cause.isCause(value) || Cause.isReason(value) || (Exit.isExit(value) && Exit.isFailure(value))) return aCause
    if (isCauseJson(value)) return aCause
    const held = heldBy(value)
    if (held !== undefined) return object(held, Object.keys(held), above, walk)
  }
  const toJSON: unknown = unwrapped ? undefined : Reflect.get(value, "toJSON")
  // once only, as JSON does it: what it gives may be the object itself
  if (typeof toJSON === "function") return plain(Reflect.apply(toJSON, value, []), above.slice(0, -1), true, walk)
  if (value instanceof Map || value instanceof Set || Array.isArray(value) || isTyped(value)) {
    return list(value, above, walk)
  }
  const named = value instanceof Error ? ["name", "message"] : []
  return object(value, [...named, ...Object.keys(value)], above, walk)
}

/** What an option or a result of `effect` is in JSON, with the value itself, which may be an error. */
const heldBy = (value: object): object | undefined => {
  if (Option.isOption(value)) {
    return Option.isSome(value) ? { _id: "Option", _tag: "Some", value: value.value } : undefined
  }
  if (!Result.isResult(value)) return undefined
  return Result.isSuccess(value)
    ? { _id: "Result", _tag: "Success", value: value.success }
    : { _id: "Result", _tag: "Failure", failure: value.failure }
}

/** Built from entries, so that a key such as `__proto__` is a key like any other. */
const object = (value: object, keys: ReadonlyArray<string>, above: ReadonlyArray<unknown>, walk: Walk): unknown => {
  const entries: Array<readonly [key: string, value: unknown]> = []
  for (const key of keys) {
    walk.left -= key.length
    const kept = plain(member(value, key), above, false, walk)
    if (kept !== undefined) entries.push([Shape.wellFormed(key), kept])
    if (walk.left < 0) break
  }
  return Object.fromEntries(entries)
}

const member = (value: object, key: string): unknown => {
  try {
    return Reflect.get(value, key)
  } catch {
    return "[unreadable]"
  }
}

const list = (values: Iterable<unknown>, above: ReadonlyArray<unknown>, walk: Walk): ReadonlyArray<unknown> => {
  const kept: Array<unknown> = []
  for (const value of values) {
    kept.push(plain(value, above, false, walk) ?? null)
    if (walk.left < 0) break
  }
  return kept
}

const isTyped = (value: object): value is Uint8Array => ArrayBuffer.isView(value) && !(value instanceof DataView)
