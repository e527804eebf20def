/** The top-level fields of an object's JSON Schema: looked up, narrowed, taken out. */
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import { fits } from "./validator.ts"

type Fields = { readonly [name: string]: JsonSchema.JsonSchema }

const fieldsOf = (schema: JsonSchema.JsonSchema): Fields =>
  Predicate.isObject(schema.properties) ? schema.properties as Fields : {}

const requiredOf = (schema: JsonSchema.JsonSchema): ReadonlyArray<string> =>
  Array.isArray(schema.required) ? schema.required as ReadonlyArray<string> : []

/** What a local reference stands for. */
const resolve = (root: JsonSchema.JsonSchema, schema: JsonSchema.JsonSchema): JsonSchema.JsonSchema => {
  const match = typeof schema.$ref === "string" ? /^#\/(\$defs|definitions)\/([^/]+)$/.exec(schema.$ref) : null
  const definitions = match === null ? undefined : root[match[1]!]
  if (match === null || !Predicate.isObject(definitions) || !Object.hasOwn(definitions, match[2]!)) return schema
  return definitions[match[2]!] as JsonSchema.JsonSchema
}

/** The keys under which a schema lists alternatives. */
const unions = ["anyOf", "oneOf"] as const

const alternatives = (
  root: JsonSchema.JsonSchema
): ReadonlyArray<readonly [key: (typeof unions)[number], branches: ReadonlyArray<JsonSchema.JsonSchema>]> =>
  unions.flatMap((key) => {
    const branches = root[key]
    return Array.isArray(branches)
      ? [[key, (branches as ReadonlyArray<JsonSchema.JsonSchema>).map((it) => resolve(root, it))] as const]
      : []
  })

/** Gives what the schema says of a field; `undefined` if the field cannot be there. */
export const field = (
  root: JsonSchema.JsonSchema,
  name: string
): ReadonlyArray<JsonSchema.JsonSchema> | undefined => {
  const objects = [root, ...alternatives(root).flatMap(([, branches]) => branches)]
  const found = objects.flatMap((it) => Object.hasOwn(fieldsOf(it), name) ? [fieldsOf(it)[name]!] : [])
  return found.length === 0 && objects.some((it) => it.additionalProperties === false) ? undefined : found
}

/** Limits a field to some values, and requires it. */
export const narrow = (
  root: JsonSchema.JsonSchema,
  name: string,
  allowed: ReadonlyArray<unknown>
): JsonSchema.JsonSchema => {
  const limit = (schema: JsonSchema.JsonSchema, values: ReadonlyArray<unknown>): JsonSchema.JsonSchema => ({
    ...schema,
    properties: { ...fieldsOf(schema), [name]: { ...fieldsOf(schema)[name], enum: values } },
    required: Array.from(new Set([...requiredOf(schema), name]))
  })
  const inBranches = alternatives(root).map(([key, branches]) =>
    [
      key,
      branches.flatMap((branch) => {
        const part = fieldsOf(branch)[name]
        if (part === undefined) return [branch]
        const values = allowed.filter((value) => fits(root, part, value))
        return values.length === 0 ? [] : [limit(branch, values)]
      })
    ] as const
  )
  const declared = Object.hasOwn(fieldsOf(root), name) || inBranches.length === 0
  return { ...(declared ? limit(root, allowed) : root), ...Object.fromEntries(inBranches) }
}

/** Takes fields out. */
export const without = (root: JsonSchema.JsonSchema, names: ReadonlyArray<string>): JsonSchema.JsonSchema => {
  const strip = (schema: JsonSchema.JsonSchema): JsonSchema.JsonSchema => {
    const { properties, required } = schema
    return {
      ...schema,
      ...(Predicate.isObject(properties)
        ? { properties: Object.fromEntries(Object.entries(properties).filter(([key]) => !names.includes(key))) }
        : {}),
      ...(Array.isArray(required) ? { required: required.filter((key) => !names.includes(key)) } : {})
    }
  }
  const inBranches = alternatives(root).map(([key, branches]) => [key, branches.map(strip)] as const)
  return { ...strip(root), ...Object.fromEntries(inBranches) }
}
