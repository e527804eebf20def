/**
 * JSON Schemas of others, such as MCP servers, made harmless before they are compiled: a pattern that cannot be matched
 * in linear time is left out. Who sent the schema checks its own arguments anyway.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import { at } from "./document.ts"
import { linearPattern } from "./linearPattern.ts"
import { heldBy, isKeys, type Keys, references } from "./positions.ts"

/**
 * Copies a schema without the patterns that cannot be matched in linear time. The copy may accept more than the schema,
 * never less: what would turn around, such as `not` or `unevaluatedProperties` over such a pattern, is left out with
 * it. Fails if the schema is deeper or larger than any that is meant.
 */
export const withoutSlowPatterns = (schema: JsonSchema.JsonSchema): Result.Result<JsonSchema.JsonSchema, string> =>
  Result.try({
    try: () => {
      const context: Context = { referenced: referencedIn(schema), linear: new Map(), size: 0, dropped: false }
      const first = copySchema(schema, context)
      // that what a reference leads to has lost a pattern is known only at the end
      return (context.dropped ? copySchema(schema, context) : first).copy as JsonSchema.JsonSchema
    },
    catch: (error) => error instanceof Error ? error.message : String(error)
  })

const maxDepth = 100
const maxNodes = 10_000

/** So many characters of pointers may be followed. */
const maxLookups = 500_000

interface Context {
  /** What is referred to, and so is a schema wherever it stands. */
  readonly referenced: ReadonlySet<unknown>
  /** Whether a pattern is linear, by its source. */
  readonly linear: Map<string, boolean>
  /** The size of all linear patterns. */
  size: number
  /** Whether a pattern was left out anywhere. */
  dropped: boolean
}

interface Copied {
  readonly copy: unknown
  /** Whether the copy may accept more. */
  readonly loose: boolean
}

const unevaluated = ["unevaluatedItems", "unevaluatedProperties"]

const names = ["$id", "$anchor", "$dynamicAnchor"]

/** Gives what the references of a schema lead to; throws if it is too deep or too large. */
const referencedIn = (root: unknown): ReadonlySet<unknown> => {
  const pointers = new Set<string>()
  const resources = new Set([root])
  let nodes = 0
  const walk = (value: unknown, depth: number): void => {
    if (depth > maxDepth) throw new Error(`it is nested more than ${maxDepth} deep`)
    if (++nodes > maxNodes) throw new Error(`it has more than ${maxNodes} parts`)
    if (isKeys(value)) {
      if (typeof value.$id === "string") resources.add(value)
      for (const key of references) {
        const reference = value[key]
        if (typeof reference === "string" && reference.includes("#/")) pointers.add(reference.split("#/")[1]!)
      }
    }
    if (typeof value === "object" && value !== null) {
      for (const inner of Object.values(value)) {
        walk(inner, depth + 1)
      }
    }
  }
  walk(root, 0)
  const all = [...resources]
  // each is looked for in each
  const lookups = all.length * [...pointers].reduce((sum, it) => sum + it.length, pointers.size)
  if (lookups > maxLookups) throw new Error("it has too many references and ids")
  return new Set([...pointers].flatMap((pointer) => all.map((resource) => at(`/${pointer}`, resource))).filter(isKeys))
}

const isLinear = (source: string, context: Context): boolean => {
  const known = context.linear.get(source)
  if (known !== undefined) return known
  const pattern = linearPattern(source)
  context.linear.set(source, pattern !== undefined)
  context.size += pattern?.size ?? 1
  if (context.size > maxNodes) throw new Error("its patterns are too large together")
  return pattern !== undefined
}

const copySchema = (schema: unknown, context: Context): Copied => {
  if (!isKeys(schema)) return { copy: schema, loose: false }
  const loose = new Set<string>()
  const entries = Object.entries(schema).flatMap(([key, value]) => {
    const copied = copyKeyword(key, value, context)
    if (copied === undefined || copied.loose) loose.add(key)
    return copied === undefined ? [] : [[key, copied.copy] as const]
  })
  if (loose.size > 0) context.dropped = true
  // what it refers to may be looser, and the rest is no longer checked
  const isLeft = context.dropped && [...references, ...unevaluated].some((key) => Object.hasOwn(schema, key))
  return {
    copy: Object.fromEntries(entries.flatMap(([key, value]) => loosened(key, value, schema, loose, context))),
    loose: loose.size > 0 || isLeft
  }
}

/** Gives what a keyword becomes next to others that accept more now. */
const loosened = (
  key: string,
  value: unknown,
  schema: Keys,
  loose: ReadonlySet<string>,
  context: Context
): ReadonlyArray<readonly [string, unknown]> => {
  const goes = unevaluated.includes(key)
    ? context.dropped
    : key === "additionalProperties"
    // names that a pattern stood for would be additional now
    ? isKeys(schema.patternProperties) &&
      Object.keys(schema.patternProperties).some((source) => !isLinear(source, context))
    : key === "if" || key === "then" || key === "else"
    ? loose.has("if")
    : key === "maxContains"
    ? loose.has("contains")
    : (key === "not" || key === "oneOf") && loose.has(key)
  if (!goes) return [[key, value]]
  return key === "oneOf" && !Object.hasOwn(schema, "anyOf") ? [["anyOf", value]] : []
}

/** Copies what a keyword says; `undefined` for a pattern that is left out. */
const copyKeyword = (key: string, value: unknown, context: Context): Copied | undefined => {
  if (key === "pattern" && typeof value === "string") {
    return isLinear(value, context) ? { copy: value, loose: false } : undefined
  }
  const held = heldBy(key, value)
  if (held === "map" && isKeys(value)) {
    const kept = Object.entries(value).filter(([name]) => key !== "patternProperties" || isLinear(name, context))
    const copied = kept.map(([name, inner]) => [name, copySchema(inner, context)] as const)
    return {
      copy: Object.fromEntries(copied.map(([name, { copy }]) => [name, copy])),
      loose: kept.length < Object.keys(value).length || copied.some(([, { loose }]) => loose)
    }
  }
  if (held === "list" && Array.isArray(value)) {
    const copied = value.map((inner) => copySchema(inner, context))
    return { copy: copied.map(({ copy }) => copy), loose: copied.some(({ loose }) => loose) }
  }
  if (held === "schema") return copySchema(value, context)
  return { copy: copyData(value, held === "value", context), loose: false }
}

/** Copies a value that is not a schema, unless a reference leads to it or it has a name for one. */
const copyData = (data: unknown, isValue: boolean, context: Context): unknown => {
  if (Array.isArray(data)) return data.map((inner) => copyData(inner, isValue, context))
  if (!isKeys(data)) return data
  const referenced = context.referenced.has(data)
  if (referenced && isValue) throw new Error("a reference in it leads to a value that is not a schema")
  if (referenced || !isValue && names.some((key) => typeof data[key] === "string")) {
    return copySchema(data, context).copy
  }
  return Object.fromEntries(Object.entries(data).map(([key, inner]) => [key, copyData(inner, isValue, context)]))
}
