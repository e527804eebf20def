/**
 * Chooses the fields of a form for a value and its JSON Schema, and applies their edits. Values without a fitting field
 * are shown as JSON, and the rest of the value is never changed. Pure.
 */

import { allows, isKeys, type Keys, resolved, same } from "./fits.ts"

/** The path to a part of the value. */
export type Path = ReadonlyArray<string | number>

/** The kind of field that edits a part of the value. */
export type Field =
  | { readonly kind: "text" | "boolean" | "json" }
  | { readonly kind: "number"; readonly isInteger: boolean }
  | { readonly kind: "choice"; readonly options: ReadonlyArray<unknown> }
  | { readonly kind: "list"; readonly item: unknown }
  | { readonly kind: "object"; readonly properties: ReadonlyArray<Property> }

/** A property that an object has or may have. */
export interface Property {
  readonly name: string
  readonly schema: unknown
  readonly isRequired: boolean
  readonly isThere: boolean
}

/** Chooses the field for a part of the value by its type and its schema. */
export const fieldOf = (schema: unknown, value: unknown, root: unknown): Field => {
  const said = schemaFor(schema, value, root, 0)
  const options = optionsOf(said)
  if (options !== undefined && options.some((it) => same(it, value))) return { kind: "choice", options }
  if (typeof value === "string" && allows(said, "string")) return { kind: "text" }
  if (typeof value === "boolean" && allows(said, "boolean")) return { kind: "boolean" }
  if (typeof value === "number" && (allows(said, "number") || allows(said, "integer"))) {
    return { kind: "number", isInteger: !allows(said, "number") }
  }
  if (Array.isArray(value) && allows(said, "array") && !Array.isArray(said.items) && said.prefixItems === undefined) {
    return { kind: "list", item: said.items ?? true }
  }
  if (
    isKeys(value) && !Array.isArray(value) && allows(said, "object") &&
    (isKeys(said.properties) || Object.keys(value).length > 0)
  ) {
    return { kind: "object", properties: propertiesOf(said, value) }
  }
  return { kind: "json" }
}

/** Returns the initial value of a part that is added. */
export const initial = (schema: unknown, root: unknown): unknown => {
  const said = schemaFor(schema, undefined, root, 0)
  if (said.default !== undefined) return said.default
  const options = optionsOf(said)
  if (options !== undefined) return options[0]
  const type = Array.isArray(said.type) ? said.type[0] : said.type
  switch (type) {
    case "string":
      return ""
    case "number":
    case "integer":
      return 0
    case "boolean":
      return false
    case "array":
      return []
    case "object":
      return Object.fromEntries(
        propertiesOf(said, {}).flatMap(({ isRequired, name, schema }) =>
          isRequired ? [[name, initial(schema, root)]] : []
        )
      )
    default:
      return null
  }
}

/** Gives the value with another one in the place of a part of it, and all else as it was. */
export const replaced = (value: unknown, path: Path, by: unknown): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return by
  if (Array.isArray(value)) return value.map((it, at) => at === key ? replaced(it, rest, by) : it)
  const whole = isKeys(value) ? value : {}
  const inner = replaced(Object.hasOwn(whole, key) ? whole[key] : undefined, rest, by)
  if (Object.hasOwn(whole, key)) {
    return Object.fromEntries(Object.entries(whole).map(([name, it]) => [name, name === key ? inner : it]))
  }
  return Object.fromEntries([...Object.entries(whole), [key, inner]])
}

/** Gives the value without a part of it. */
export const removed = (value: unknown, path: Path): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return undefined
  if (rest.length > 0) {
    const inner = Array.isArray(value) ? value[Number(key)] : isKeys(value) ? value[key] : undefined
    return replaced(value, [key], removed(inner, rest))
  }
  if (Array.isArray(value)) return value.filter((_, at) => at !== key)
  return isKeys(value) ? Object.fromEntries(Object.entries(value).filter(([name]) => name !== key)) : value
}

/** The place of a part as problems name it, such as `edits.0.text`. */
export const placeOf = (path: Path): string => path.join(".").slice(0, 200)

/** The JSON Pointer of a part: no two have the same. */
export const pointer = (path: Path): string =>
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

/** Reads what was typed for a number. */
export const numberOf = (text: string, isInteger: boolean): number | string => {
  const trimmed = text.trim()
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(trimmed)) return "This is not a number."
  const number = Number(trimmed)
  if (!Number.isFinite(number)) return "This number is too large."
  if (isInteger && !Number.isInteger(number)) return "Enter a whole number."
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    return "This number is too large to be stored exactly."
  }
  return number
}

/** Reads what was typed as JSON. */
export const jsonOf = (text: string): { readonly value: unknown } | { readonly problem: string } => {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    return { problem: `This is not valid JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** Title and description of a part, where its schema has them. */
export const wordsOf = (
  schema: unknown,
  root: unknown
): { readonly title: string | undefined; readonly description: string | undefined } => {
  const said = resolved(schema, root, 0)
  return {
    title: typeof said.title === "string" ? said.title : undefined,
    description: typeof said.description === "string" ? said.description : undefined
  }
}

const maxSteps = 20

/** What a schema says of a value, by way of references and, where there is a choice, of the first that is meant. */
const schemaFor = (schema: unknown, value: unknown, root: unknown, steps: number): Keys => {
  const said = resolved(schema, root, steps)
  const choices = [said.anyOf, said.oneOf].find((it): it is ReadonlyArray<unknown> => Array.isArray(it))
  if (choices === undefined || steps > maxSteps) return said
  const rest = { ...said, anyOf: undefined, oneOf: undefined }
  const all = choices.map((it): Keys => ({ ...rest, ...schemaFor(it, value, root, steps + 1) }))
  const type = typeOf(value)
  return all.find((it) =>
    value === undefined ? it.type !== "null" : optionsOf(it)?.some((option) => same(option, value)) ?? allows(it, type)
  ) ?? said
}

const typeOf = (value: unknown): string =>
  value === null
    ? "null"
    : Array.isArray(value)
    ? "array"
    : typeof value === "number" && Number.isInteger(value)
    ? "integer"
    : typeof value

const optionsOf = (said: Keys): ReadonlyArray<unknown> | undefined =>
  Array.isArray(said.enum) ? said.enum : Object.hasOwn(said, "const") ? [said.const] : undefined

const propertiesOf = (said: Keys, value: Keys): ReadonlyArray<Property> => {
  const properties = isKeys(said.properties) ? said.properties : {}
  const required = Array.isArray(said.required) ? said.required : []
  const other = said.additionalProperties ?? true
  const names = [...new Set([...Object.keys(properties), ...Object.keys(value)])]
  return names.map((name) => ({
    name,
    schema: Object.hasOwn(properties, name) ? properties[name] : other,
    isRequired: required.includes(name),
    isThere: Object.hasOwn(value, name)
  }))
}
