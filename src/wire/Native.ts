/** The native shape: calls and outcomes as plain JSON. */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** Name of the shape, for people. */
export const title = "native"

/** What the reader takes, for people. */
export const expected = "an array of { id, name, params }, or an object with that array under calls"

/** Tells whether the input, which is of no provider's shape, can be meant to be of this one. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.length === 0 ||
      input.some((entry) => Shape.own(entry, "name") !== undefined && Shape.own(entry, "type") === undefined)
    : Shape.own(input, "calls") !== undefined

/**
 * Reads the calls.
 *
 * An `id` that is left out becomes `call_1`, `call_2`, … by its place; `params` that are left out become `{}`. A key
 * that a call does not have is a mistake, since a misspelt `params` would run the tool without its arguments.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const calls = Shape.isArray(input) ? input : Shape.own(input, "calls")
  const path = Shape.isArray(input) ? "" : "calls"
  if (!Shape.isArray(calls)) {
    return Shape.isObject(input) && calls !== undefined
      ? Shape.wrong(path, Shape.is(calls), "an array of { id, name, params }")
      : Shape.wrong("", Shape.isObject(input) ? "has no calls" : Shape.is(input), expected)
  }
  return Shape.entries(calls, path, readCall(judged))
}

/** Writes the outcomes as plain JSON: see `PlainJson.from` for what becomes of values that JSON does not have. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): ReadonlyArray<Shape.JsonObject> =>
  outcomes.map((outcome) =>
    Object.fromEntries(
      // an id is kept to the letter, so that it can be matched
      Object.entries(outcome).flatMap(([key, value]) =>
        value === undefined ? [] : [[key, key === "callId" ? value : PlainJson.from(value)]]
      )
    )
  )

const keys: ReadonlyArray<string> = ["id", "name", "params", "malformed"]

const readCall = (judged: Judged) => (entry: unknown, path: string, index: number): Shape.Read<ToolCall.ToolCall> =>
  Result.gen(function*() {
    const call = yield* Shape.object(entry, path, "an object with id, name and params")
    judged.add(call)
    const stranger = Object.keys(call).find((key) => !keys.includes(key))
    if (stranger !== undefined) {
      return yield* Shape.wrong(Shape.at(path, Shape.clip(stranger)), "is not a key of a call", "id, name or params")
    }
    const name = yield* Shape.string(call, "name", path)
    const id = Shape.own(call, "id") === undefined ? `call_${index + 1}` : yield* Shape.string(call, "id", path)
    const malformed = Shape.own(call, "malformed")
    if (malformed !== undefined) {
      const kept = yield* Shape.object(malformed, `${path}.malformed`, "an object with text and message")
      const text = yield* Shape.string(kept, "text", `${path}.malformed`)
      const message = yield* Shape.string(kept, "message", `${path}.malformed`)
      return { id, name, params: null, malformed: { text, message } }
    }
    const params = Shape.own(call, "params")
    return Shape.call(id, name, params === undefined ? {} : params)
  })
