/** The drafts of JSON Schema, and what a schema of each has to look like. */
import { clip } from "../clip.ts"
import type { Keys } from "./positions.ts"

/** A draft. */
export interface Dialect {
  /** In older drafts, the siblings of a `$ref` have no effect. */
  readonly refAlone: boolean
  /** The schemas of the first items are in `prefixItems`, not in a list in `items`. */
  readonly prefixItems: boolean
  /** What 2019-09 brought: `unevaluatedItems`, `minContains`, `dependentRequired` and their like. */
  readonly isModern: boolean
  /** What one of its schemas looks like, not what is in it; written as one of its schemas. */
  readonly shape: Keys
}

/** Gives the draft that a schema names: 2020-12 if it names none. Throws if it is not known. */
export const dialectOf = (schema: unknown): Dialect => {
  const named: unknown = Object(schema).$schema ?? "https://json-schema.org/draft/2020-12/schema"
  const match = /^https?:\/\/json-schema\.org\/([a-z0-9/-]+)\/schema#?$/.exec(String(named).trim())
  const dialect = match === null ? undefined : dialects.get(match[1]!)
  if (dialect !== undefined) return dialect
  throw new Error(
    `$schema is ${clip(JSON.stringify(named), 200)}; known are drafts 6, 7, 2019-09 and 2020-12 of json-schema.org`
  )
}

const types = ["array", "boolean", "integer", "null", "number", "object", "string"]
const schema = { type: ["object", "boolean"] }
const schemas = { type: "array", minItems: 1, items: schema }
const schemaMap = { type: "object", additionalProperties: schema }
const count = { type: "integer", minimum: 0 }
const number = { type: "number" }
const string = { type: "string" }
const boolean = { type: "boolean" }
const strings = { type: "array", items: string }

const common = {
  $id: string,
  $ref: string,
  $defs: schemaMap,
  definitions: schemaMap,
  type: { anyOf: [{ enum: types }, { type: "array", items: { enum: types }, minItems: 1, uniqueItems: true }] },
  enum: { type: "array" },
  multipleOf: { type: "number", exclusiveMinimum: 0 },
  maximum: number,
  exclusiveMaximum: number,
  minimum: number,
  exclusiveMinimum: number,
  maxLength: count,
  minLength: count,
  pattern: string,
  additionalItems: schema,
  contains: schema,
  maxItems: count,
  minItems: count,
  uniqueItems: boolean,
  maxProperties: count,
  minProperties: count,
  required: strings,
  properties: schemaMap,
  patternProperties: schemaMap,
  additionalProperties: schema,
  dependencies: { type: "object", additionalProperties: { anyOf: [schema, strings] } },
  propertyNames: schema,
  if: schema,
  then: schema,
  else: schema,
  allOf: schemas,
  anyOf: schemas,
  oneOf: schemas,
  not: schema
}

const modern = {
  ...common,
  $anchor: string,
  $dynamicAnchor: string,
  $dynamicRef: string,
  $recursiveAnchor: boolean,
  $recursiveRef: string,
  dependentRequired: { type: "object", additionalProperties: strings },
  dependentSchemas: schemaMap,
  maxContains: count,
  minContains: count,
  unevaluatedItems: schema,
  unevaluatedProperties: schema
}

const listOrOne = { anyOf: [schema, { type: "array", items: schema }] }

const make = (of: Omit<Dialect, "shape">, properties: Keys): Dialect => ({ ...of, shape: { ...schema, properties } })

const older = make({ refAlone: true, prefixItems: false, isModern: false }, { ...common, items: listOrOne })

const dialects: ReadonlyMap<string, Dialect> = new Map([
  // draft 7 has all that draft 6 has
  ["draft-06", older],
  ["draft-07", older],
  ["draft/2019-09", make({ refAlone: false, prefixItems: false, isModern: true }, { ...modern, items: listOrOne })],
  [
    "draft/2020-12",
    make({ refAlone: false, prefixItems: true, isModern: true }, {
      ...modern,
      items: schema,
      prefixItems: schemas
    })
  ]
])
