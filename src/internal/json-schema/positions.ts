/** Where the schemas in a JSON Schema stand, of any draft. */
import * as Predicate from "effect/Predicate"

/** A schema that is an object. */
export type Keys = Readonly<Record<string, unknown>>

/** What stands under a keyword. */
export type Held = "schema" | "list" | "map" | "value" | "data"

export const isKeys: (value: unknown) => value is Keys = Predicate.isReadonlyObject

export const references = ["$ref", "$dynamicRef", "$recursiveRef"] as const

/** Tells what a keyword holds; `data` of one that is not known. */
export const heldBy = (key: string, said: unknown): Held => {
  const held = known.get(key) ?? "data"
  if (held === "list") return Array.isArray(said) ? held : key === "items" ? "schema" : "data"
  return held === "map" && !isKeys(said) ? "data" : held
}

/** A schema in another: the keyword it stands under, and the rest of the way to it. */
export type Inner = readonly [key: string, rest: string | undefined, inner: unknown]

/** Gives the schemas right inside a schema. */
export const schemasIn = (schema: Keys): ReadonlyArray<Inner> =>
  Object.entries(schema).flatMap(([key, said]): ReadonlyArray<Inner> => {
    const held = heldBy(key, said)
    if (held === "schema") return [[key, undefined, said]]
    if (held !== "list" && held !== "map") return []
    // a dependency may be a list of names
    return Object.entries(said as object).flatMap(([rest, it]: [string, unknown]): ReadonlyArray<Inner> =>
      key === "dependencies" && Array.isArray(it) ? [] : [[key, rest, it]]
    )
  })

/** The keywords whose schemas are about the value itself, not a part of it. */
export const inPlace: ReadonlySet<string> = new Set([
  "allOf",
  "anyOf",
  "dependencies",
  "dependentSchemas",
  "else",
  "if",
  "not",
  "oneOf",
  "then"
])

/** The keywords whose schemas are about nothing until something refers to them. */
export const unused: ReadonlySet<string> = new Set(["$defs", "contentSchema", "definitions"])

const known: ReadonlyMap<string, Held> = new Map([
  ...[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties"
  ].map((key) => [key, "schema"] as const),
  ...["allOf", "anyOf", "items", "oneOf", "prefixItems"].map((key) => [key, "list"] as const),
  ...["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"].map((key) =>
    [key, "map"] as const
  ),
  ...["const", "default", "enum", "examples"].map((key) => [key, "value"] as const)
])
