/** What all formats share: looking into untrusted JSON, and saying in a bounded text what was found there. */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"

/** What is wrong with a message: where, what, and what would be right. */
export interface Mistake {
  /** Path from the root, such as `tool_calls[2].function.name`; empty for the whole. */
  readonly path: string
  /** Begins with a verb: `is missing`. */
  readonly problem: string
  readonly expected: string
}

/** What a reader gives. */
export type Read<A> = Result.Result<A, Mistake>

/** A JSON object of the model's or the provider's. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Fails with a mistake. */
export const wrong = (path: string, problem: string, expected: string): Read<never> =>
  Result.fail({ path, problem, expected })

/** Tells whether the value is an object and no array. */
export const isObject: (value: unknown) => value is JsonObject = Predicate.isReadonlyObject

/** Tells whether the value is an array, of what is not known. */
export const isArray = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/** Gives an own property and never one of a prototype. */
export const own = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined

/** Gives the path of a property. */
export const at = (path: string, key: string): string => path === "" ? key : `${path}.${key}`

/** Cuts a text that is not ours to a length that an error message can bear. */
export const clip = (text: string, length = 60): string =>
  wellFormed(text.length > length ? `${text.slice(0, length)}…` : text)

/** Says what the value is, in a few words: `is missing`, `is an array`, `is "user"`. */
export const is = (value: unknown): string => {
  if (value === undefined) return "is missing"
  if (isArray(value)) return "is an array"
  if (typeof value === "string") return `is ${JSON.stringify(clip(value))}`
  return typeof value === "object" && value !== null ? "is an object" : `is ${clip(String(value))}`
}

/** Replaces lone surrogates, which strict readers of JSON refuse even when they are escaped. */
export const wellFormed = (text: string): string =>
  // every supported engine has the method; the declared language level (ES2023) does not
  (text as string & { toWellFormed(): string }).toWellFormed()

/** Reads a property that must be an object. */
export const object = (value: unknown, path: string, expected: string): Read<JsonObject> =>
  isObject(value) ? Result.succeed(value) : wrong(path, is(value), expected)

/** Reads a property that must be a string. */
export const string = (parent: JsonObject, key: string, path: string, expected = "a string"): Read<string> => {
  const value = own(parent, key)
  return typeof value === "string" ? Result.succeed(value) : wrong(at(path, key), is(value), expected)
}

/** Reads every entry of an array; the first mistake wins. */
export const entries = <A>(
  array: ReadonlyArray<unknown>,
  path: string,
  read: (entry: unknown, path: string, index: number) => Read<A>
): Read<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for (const [index, entry] of array.entries()) {
    const result = read(entry, `${path}[${index}]`, index)
    if (Result.isFailure(result)) return Result.fail(result.failure)
    found.push(result.success)
  }
  return Result.succeed(found)
}

/** Reads the entries of an array and leaves out those that are passed over. */
export const found = <A>(
  array: ReadonlyArray<unknown>,
  path: string,
  read: (entry: unknown, path: string, index: number) => Read<A | undefined>
): Read<ReadonlyArray<A>> =>
  Result.map(entries(array, path, read), (all) => all.filter((it): it is A & {} => it !== undefined))

/** The parts of an assistant message or of an array of them, with their path; empty for plain text. */
export const content = (
  input: unknown,
  expected: string,
  call: string
): Read<{ readonly parts: ReadonlyArray<unknown>; readonly path: string }> => {
  if (isArray(input)) return Result.succeed({ parts: input, path: "" })
  if (!isObject(input)) return wrong("", is(input), expected)
  const role = own(input, "role")
  const parts = own(input, "content")
  if (role !== undefined && role !== "assistant") return wrong("role", is(role), `"assistant"`)
  if (isArray(parts)) return Result.succeed({ parts, path: "content" })
  if (role === undefined) return wrong("", "is not a message", expected)
  return typeof parts === "string"
    ? Result.succeed({ parts: [], path: "content" })
    : wrong("content", is(parts), `an array with ${call}`)
}

/**
 * Reads the arguments of a call: text is parsed, other values are kept.
 *
 * The model wrote the arguments. Invalid ones are reported to the model for this call, and do not affect the rest of
 * the wave.
 */
export const call = (id: string, name: string, params: unknown): ToolCall.ToolCall =>
  typeof params === "string" ? ToolCall.fromText(id, name, params) : ToolCall.make(id, name, params)
