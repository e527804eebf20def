/** What ajv found wrong, in words for a model: few of them, each with what would be right. */
import type { ErrorObject } from "ajv"
import * as JsonPointer from "effect/JsonPointer"
import { clip } from "./clip.ts"

/** One thing that is wrong with a value. */
export interface Finding {
  readonly pointer: string
  readonly message: string
}

/** So many are given at most. */
const maxFindings = 10

/** So many errors of ajv are looked at. */
const maxErrors = 1_000

/** Gives what is wrong in the eyes of a schema; what the alternatives of a union say becomes one finding, or the closest. */
export const findingsOf = (errors: ReadonlyArray<ErrorObject>, root: unknown): ReadonlyArray<Finding> => {
  const found: Array<Inner> = []
  for (const error of errors.slice(0, maxErrors)) {
    const { keyword } = error
    // the error inside it, which comes before, says more
    if (keyword === "if" || keyword === "propertyNames") continue
    if (keyword === "anyOf" || keyword === "oneOf") found.push(...union(error, takeInner(found, error, root)))
    else {
      if (keyword === "contains") takeInner(found, error, root)
      found.push({ ...simple(error), error })
    }
  }
  return found.slice(0, maxFindings).map(({ message, pointer }) => ({ pointer, message: clip(message, 500) }))
}

// Utilities

interface Inner extends Finding {
  readonly error: ErrorObject
  /** What the value should have been, where it is something else altogether. */
  readonly expected?: ReadonlyArray<string>
}

/** A value in a message: a text short, an object by its kind. */
const shown = (value: unknown): string => {
  if (typeof value === "string") return JSON.stringify(clip(value, 100))
  if (Array.isArray(value)) return "an array"
  return typeof value === "object" && value !== null ? "an object" : String(value)
}

const orElse = (expected: ReadonlyArray<string>, value: unknown): string =>
  `must be ${clip(Array.from(new Set(expected)).join(" or "), 300)}, got ${shown(value)}`

const literals = (values: ReadonlyArray<unknown>): ReadonlyArray<string> => {
  const texts = values.slice(0, 20).map((value) => clip(JSON.stringify(value) ?? "undefined", 100))
  return values.length > texts.length ? [...texts, "…"] : texts
}

const expectedBy = ({ keyword, params }: ErrorObject): ReadonlyArray<string> | undefined =>
  keyword === "type"
    ? [params.type as string | ReadonlyArray<string>].flat()
    : keyword === "enum"
    ? literals(params.allowedValues as ReadonlyArray<unknown>)
    : keyword === "const"
    ? literals([params.allowedValue])
    : undefined

const simple = (error: ErrorObject): Finding & { readonly expected?: ReadonlyArray<string> } => {
  const pointer = error.instancePath
  const expected = expectedBy(error)
  // the name itself was checked, and is the data
  const { propertyName } = error
  if (propertyName !== undefined) {
    return { pointer, message: `the property name ${shown(propertyName)} ${wordsOf({ ...error, data: propertyName })}` }
  }
  return { pointer, message: wordsOf(error), ...(expected !== undefined && { expected }) }
}

const wordsOf = (error: ErrorObject): string => {
  const { data, keyword, params, parentSchema } = error
  const expected = expectedBy(error)
  if (expected !== undefined) return orElse(expected, data)
  if (keyword === "required") return `the required property ${shown(params.missingProperty)} is missing`
  if (keyword === "dependentRequired" || keyword === "dependencies") {
    return `the required property ${shown(params.missingProperty)} is missing: it is required with ${
      shown(params.property)
    }`
  }
  if (keyword === "additionalProperties" || keyword === "unevaluatedProperties") {
    const known = Object.keys(parentSchema?.properties ?? {})
    return `property ${shown(params.additionalProperty ?? params.unevaluatedProperty)} is not allowed` +
      (known.length === 0 ? "" : `; known are ${clip(known.map((name) => shown(name)).join(", "), 300)}`)
  }
  if (keyword === "false schema") return `must be left out, got ${shown(data)}`
  if (keyword === "not") return `must not fit ${clip(error.schemaPath, 200)} of the schema, got ${shown(data)}`
  if (keyword === "pattern") return `must match the pattern ${shown(params.pattern)}, got ${shown(data)}`
  return `${error.message ?? keyword}, got ${shown(data)}`
}

/** Takes back what the schemas inside a keyword said, by schema. */
const takeInner = (
  found: Array<Inner>,
  outer: ErrorObject,
  root: unknown
): ReadonlyArray<ReadonlyArray<Inner>> => {
  const inside = [outer.schema].flat().map((schema) => reachable(schema, root))
  const taken = inside.map((): Array<Inner> => [])
  for (let last = found.at(-1); last !== undefined; last = found.at(-1)) {
    const { instancePath, parentSchema } = last.error
    const beside = instancePath === outer.instancePath && parentSchema === outer.parentSchema
    // of equal alternatives, which say the same, the first stands for all
    const index = beside || !`${instancePath}/`.startsWith(`${outer.instancePath}/`)
      ? -1
      : inside.findIndex((schemas) => schemas.has(parentSchema ?? last.error.schema))
    if (index < 0) break
    taken[index]!.unshift(last)
    found.pop()
  }
  return taken
}

/** The schemas that a schema is made of, those included that it refers to by a pointer. */
const reachable = (schema: unknown, root: unknown): ReadonlySet<unknown> => {
  const all = new Set([schema])
  for (const it of all) {
    if (typeof it !== "object" || it === null) continue
    if (all.size > maxErrors) break
    for (const inner of Object.values(it)) if (typeof inner === "object") all.add(inner)
    if ("$ref" in it && typeof it.$ref === "string") all.add(target(it.$ref, root))
  }
  return all
}

const target = (reference: string, root: unknown): unknown =>
  reference === "#" ? root : !reference.startsWith("#/") ? undefined : reference.slice(2).split("/").reduce<unknown>(
    (at, token) => Object(at)[JsonPointer.unescapeToken(token)],
    root
  )

/** Says why no alternative fits: in short where that is short, else what is wrong with the closest. */
const union = (error: ErrorObject, alternatives: ReadonlyArray<ReadonlyArray<Inner>>): ReadonlyArray<Inner> => {
  const { data, instancePath: pointer, params } = error
  const told = alternatives.filter((it) => it.length > 0)
  const passing = params.passingSchemas as ReadonlyArray<number> | null | undefined
  if (passing) {
    const numbers = passing.map((index) => index + 1).join(" and ")
    const message = `must fit exactly one of ${alternatives.length} alternatives, fits ${numbers}`
    return [{ pointer, message, error }]
  }
  if (told.length === 0) return [{ pointer, message: `${error.message}, got ${shown(data)}`, error }]
  if (told.every((it) => it.length === 1 && it[0]!.pointer === pointer)) {
    const each = told.map((it) => it[0]!)
    const expected = each.flatMap((it) => it.expected ?? [])
    return each.every((it) => it.expected !== undefined)
      ? [{ pointer, message: orElse(expected, data), error, expected }]
      : [{ pointer, message: Array.from(new Set(each.map((it) => it.message))).slice(0, 10).join(", or "), error }]
  }
  const distance = (found: ReadonlyArray<Inner>) =>
    found.reduce((sum, it) => sum + (it.expected === undefined ? 1 : it.pointer === pointer ? 100 : 10), 0)
  const closest = told.reduce((best, found) => distance(found) < distance(best) ? found : best)
  const message = `must fit one of ${alternatives.length} alternatives and fits none; the closest has this wrong:`
  return [{ pointer, message, error }, ...closest]
}
