/** Finds problems in functions that are to become tools. */
import * as Context from "effect/Context"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import { type Problem, unknownKey } from "../core/vocabulary/ConfigurationError.ts"
import { clip } from "../internal/clip.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import type { Declared } from "./PlainTool.ts"

/** Finds unknown keys and wrong values in a function's settings. */
export const ofDeclared = (
  at: string,
  declared: unknown,
  more: { readonly [key: string]: "any" | "string" | "function" }
): ReadonlyArray<Problem> => {
  if (typeof declared !== "object" || declared === null) {
    return [{ path: at, problem: `it is ${brief(declared)}`, expected: "an object" }]
  }
  const kinds: { readonly [key: string]: string } = { ...kindOf, ...more }
  return Object.entries(declared).flatMap(([key, value]) => {
    const kind = Object.hasOwn(kinds, key) ? kinds[key]! : undefined
    const path = `${at}.${key}`
    if (kind === undefined) {
      return [{ path, problem: unknownKey, expected: `one of ${Object.keys(kinds).join(", ")}` }]
    }
    if (value === undefined || kind === "any" || typeof value === kind) return []
    if (kind === "context" && Context.isContext(value)) return []
    return [{ path, problem: `it is ${brief(value)}`, expected: expectedOf[kind]! }]
  })
}

/** Finds problems in settings by tool name. */
export const ofSettings = (
  settings: { readonly [name: string]: unknown },
  names: ReadonlySet<string>
): ReadonlyArray<Problem> =>
  Object.entries(settings).flatMap(([name, said]) =>
    said === undefined
      ? []
      : names.has(name)
      ? ofDeclared(`tools.${name}`, said, {})
      : [{ path: `tools.${name}`, problem: "settings for a tool that does not exist", expected: "the name of a tool" }]
  )

/** Finds names that several tools have. */
export const ofSame = (names: ReadonlyArray<string>): ReadonlyArray<Problem> =>
  Array.from(new Set(names.filter((it, index) => names.indexOf(it) !== index)), (name) => ({
    path: `tools.${name}`,
    problem: "several tools have this name",
    expected: "one tool of this name"
  }))

/** Finds problems in a tool name. */
export const ofName = (name: string): ReadonlyArray<Problem> =>
  /^[a-zA-Z0-9_-]{1,64}$/.test(name) && name !== "__proto__" ? [] : [{
    path: `tools.${clip(name, 100)}`,
    problem: "providers reject this name",
    expected: "1 to 64 of a-z A-Z 0-9 _ -"
  }]

/** Whether a value can be the JSON Schema of arguments. */
export const isArguments = (schema: unknown): schema is JsonSchema.JsonSchema =>
  Predicate.isObject(schema) && (schema.type === undefined || schema.type === "object")

/** Finds obvious problems in a JSON Schema of arguments. */
export const ofSchema = (path: string, schema: unknown): ReadonlyArray<Problem> =>
  isArguments(schema) ? [] : [{
    path,
    problem: `it is ${brief(schema)}`,
    expected: "a JSON Schema of an object"
  }]

/** Describes a value briefly. */
export const brief = (value: unknown): string =>
  typeof value === "function" ? "a function" : clip(JSON.stringify(PlainJson.from(value)), 60)

const kindOf = {
  readOnly: "boolean",
  idempotent: "boolean",
  destructive: "boolean",
  openWorld: "boolean",
  promoted: "boolean",
  // the registry checks these
  maxConcurrent: "any",
  timeout: "any",
  resources: "function",
  targets: "function",
  annotations: "context"
} satisfies { readonly [K in keyof Declared]-?: string }

const expectedOf: { readonly [kind: string]: string } = {
  boolean: "true or false",
  string: "a text",
  function: "a function",
  context: "a Context of annotations"
}
