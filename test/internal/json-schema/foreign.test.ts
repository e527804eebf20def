import { assert, describe, it } from "@effect/vitest"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { withoutSlowPatterns } from "../../../src/internal/json-schema/foreign.ts"
import { compile } from "../../../src/internal/json-schema/validator.ts"

const linearOf = (schema: unknown) =>
  Result.getOrThrowWith(withoutSlowPatterns(schema as JsonSchema.JsonSchema), (problem) => new Error(problem))

const problemOf = (schema: unknown): string | undefined =>
  Result.match(withoutSlowPatterns(schema as JsonSchema.JsonSchema), {
    onFailure: (it) => it,
    onSuccess: () => undefined
  })

const takes = (schema: unknown, value: unknown): boolean =>
  Result.getOrThrowWith(compile(schema as JsonSchema.JsonSchema), (it) => new Error(it))(value).length === 0

/** A pattern that is not linear. */
const p = "^(?=a)(a+)+$"

describe("a foreign schema", () => {
  const cases: ReadonlyArray<readonly [what: string, schema: unknown, expected: unknown]> = [
    ["without its pattern", { type: "string", pattern: p, minLength: 1 }, { type: "string", minLength: 1 }],
    ["with a linear pattern", { pattern: "^(a+)+$" }, { pattern: "^(a+)+$" }],
    [
      "with properties of that name",
      { properties: { pattern: { type: "string", pattern: p }, patternProperties: { [p]: { pattern: p } } } },
      { properties: { pattern: { type: "string" }, patternProperties: { [p]: { pattern: p } } } }
    ],
    [
      "with its values",
      { const: { pattern: p }, enum: [{ pattern: p }], default: { pattern: p }, examples: [{ pattern: p }] },
      { const: { pattern: p }, enum: [{ pattern: p }], default: { pattern: p }, examples: [{ pattern: p }] }
    ],
    ["with what no keyword says", { "x-ui": { pattern: p } }, { "x-ui": { pattern: p } }],
    [
      "wherever its schemas are",
      {
        items: { pattern: p },
        prefixItems: [{ pattern: p }, true],
        $defs: { a: { pattern: p }, b: false },
        dependencies: { a: ["b"], c: { pattern: p } },
        additionalProperties: { allOf: [{ pattern: p }] }
      },
      {
        items: {},
        prefixItems: [{}, true],
        $defs: { a: {}, b: false },
        dependencies: { a: ["b"], c: {} },
        additionalProperties: { allOf: [{}] }
      }
    ],
    ["with items of an older draft", { items: [{ pattern: p }] }, { items: [{}] }],
    [
      "without what a lost name would make additional",
      { patternProperties: { [p]: {}, "^b": { pattern: p } }, additionalProperties: false },
      { patternProperties: { "^b": {} } }
    ],
    [
      "with what a lost pattern leaves alone",
      { patternProperties: { "^b": { pattern: p } }, additionalProperties: false },
      { patternProperties: { "^b": {} }, additionalProperties: false }
    ],
    [
      "without what would ask for the lost names",
      {
        allOf: [{ patternProperties: { [p]: {} } }],
        unevaluatedProperties: false,
        items: { unevaluatedItems: false }
      },
      { allOf: [{ patternProperties: {} }], items: {} }
    ],
    ["without a turn of it", { not: { pattern: p }, allOf: [{ not: { type: "null" } }] }, {
      allOf: [{ not: { type: "null" } }]
    }],
    ["without a turn of what it refers to", { not: { $ref: "#/$defs/a" }, $defs: { a: { pattern: p } } }, {
      $defs: { a: {} }
    }],
    ["with any of what one of", { oneOf: [{ pattern: p }, {}] }, { anyOf: [{}, {}] }],
    ["with one any of", { anyOf: [true], oneOf: [{ pattern: p }, {}] }, { anyOf: [true] }],
    ["without a turn of its parts", { not: { properties: { a: { pattern: p } } } }, {}],
    ["without its condition", { if: { pattern: p }, then: false, else: false, maximum: 1 }, { maximum: 1 }],
    ["with its condition", { if: { maximum: 1 }, then: { pattern: p } }, { if: { maximum: 1 }, then: {} }],
    ["with at least so many", { contains: { pattern: p }, minContains: 1, maxContains: 2 }, {
      contains: {},
      minContains: 1
    }],
    ["with a reference into what no keyword says", { $ref: "#/x/y%7A~1/0", x: { "yz/": [{ pattern: p }] } }, {
      $ref: "#/x/y%7A~1/0",
      x: { "yz/": [{}] }
    }],
    [
      "with a reference within another document of it",
      { $ref: "b#/x/a", $defs: { b: { $id: "b", x: { a: { pattern: p } } } } },
      { $ref: "b#/x/a", $defs: { b: { $id: "b", x: { a: {} } } } }
    ],
    ["with a name in what no keyword says", { $ref: "#a", x: { y: { $anchor: "a", pattern: p } } }, {
      $ref: "#a",
      x: { y: { $anchor: "a" } }
    }]
  ]
  for (const [what, schema, expected] of cases) {
    it(`is copied ${what}`, () => {
      const before = JSON.stringify(schema)
      const copy = linearOf(schema)
      assert.deepStrictEqual(copy, expected as JsonSchema.JsonSchema)
      assert.strictEqual(JSON.stringify(schema), before)
      assert.notStrictEqual(copy as unknown, schema)
    })
  }

  it("accepts all that the schema accepts, also where what is left over is not asked for", () => {
    const schema = { not: { unevaluatedProperties: false }, $defs: { lost: { pattern: p } } }
    for (const value of [{ a: 1 }, { a: { b: 2 } }]) {
      assert.isTrue(takes(schema, value))
      assert.isTrue(takes(linearOf(schema), value))
    }
  })

  it("keeps a property called __proto__", () => {
    const copy = linearOf(JSON.parse(`{"properties":{"__proto__":{"type":"string"}}}`))
    assert.strictEqual(JSON.stringify(copy), `{"properties":{"__proto__":{"type":"string"}}}`)
  })

  it("is no more than a copy where it is no schema", () => {
    for (const schema of [true, false, 1, null, [], "a"]) assert.deepStrictEqual(linearOf(schema) as unknown, schema)
  })

  it("fails if it refers to one of its values", () => {
    assert.strictEqual(
      problemOf({ $ref: "#/default", default: { pattern: p } }),
      "a reference in it leads to a value that is not a schema"
    )
  })

  it("fails if it is too deep or too large", () => {
    const deep = (depth: number) => Array.from({ length: depth }).reduce<unknown>((items) => ({ items }), {})
    assert.isUndefined(problemOf(deep(100)))
    assert.strictEqual(problemOf(deep(101)), "it is nested more than 100 deep")
    assert.strictEqual(problemOf(deep(50_000)), "it is nested more than 100 deep")
    const circle: Record<string, unknown> = {}
    circle.items = circle
    assert.strictEqual(problemOf(circle), "it is nested more than 100 deep")
    assert.isUndefined(problemOf({ enum: Array.from({ length: 9_990 }, (_, i) => i) }))
    assert.strictEqual(problemOf({ enum: Array.from({ length: 10_000 }, (_, i) => i) }), "it has more than 10000 parts")
    const doubling = Array.from({ length: 60 }).reduce<unknown>((a) => ({ allOf: [a, a] }), {})
    assert.isString(problemOf(doubling))
    assert.strictEqual(
      problemOf({ allOf: Array.from({ length: 100 }, (_, i) => ({ pattern: `a{900}${i}` })) }),
      "its patterns are too large together"
    )
    assert.strictEqual(
      problemOf({ allOf: Array.from({ length: 300 }, (_, i) => ({ $id: `i${i}`, $ref: `#/a/${i}` })) }),
      "it has too many references and ids"
    )
    // each reference is looked for in each resource, part by part
    const long = (i: number) => ({ $id: `i${i}`, $ref: `#/${i}/${"a/".repeat(500)}` })
    assert.strictEqual(
      problemOf({ allOf: Array.from({ length: 90 }, (_, i) => long(i)) }),
      "it has too many references and ids"
    )
    assert.isUndefined(
      problemOf({ allOf: Array.from({ length: 90 }, (_, i) => ({ $id: `i${i}`, $ref: "#/allOf/0" })) })
    )
  })

  it.prop("never fails of itself, whatever JSON it is", [Schema.Json], ([json]) => {
    for (const key of ["pattern", "properties", "patternProperties", "not", "oneOf", "$ref", "default", "x", "items"]) {
      assert.isUndefined(problemOf({ [key]: json }))
    }
  })

  it.prop("accepts all that the schema accepts", [Schema.Json, Schema.Json], ([json, other]) => {
    const schema = { ...schemaFor(json), $defs: { a: { pattern: "(?=b)", not: { pattern: "^(?=a)a" } } } }
    const copy = linearOf(schema)
    for (const value of [json, other, [json], { a: json }, { "0": "a" }, ["a", "b"], "a", "b", 1]) {
      if (takes(schema, value)) assert.isTrue(takes(copy, value), JSON.stringify({ schema, value }))
    }
  })
})

// Utilities

/** Makes a schema with such patterns in it out of any JSON. */
const schemaFor = (json: unknown): Record<string, unknown> => {
  if (typeof json !== "object" || json === null) {
    return typeof json === "string"
      ? { pattern: json.length % 2 === 0 ? "^(?!a)" : "[a-m]" }
      : typeof json === "number"
      ? { $ref: "#/$defs/a" }
      : { type: ["object", "array", "boolean"] }
  }
  const inner = Object.values(json).map(schemaFor)
  const [first = {}, second = {}] = inner
  switch (Object.keys(json).length % 5) {
    case 0:
      return {
        patternProperties: { "(?!a)": {} },
        additionalProperties: false,
        contains: { pattern: "(?=a)" },
        maxContains: 1
      }
    case 1:
      return { not: first, properties: { a: first } }
    case 2:
      return { oneOf: [first, second, { pattern: "^(?=a)" }], unevaluatedItems: false }
    case 3:
      return { if: first, then: second, else: { type: "string" }, unevaluatedProperties: false }
    default:
      return { anyOf: inner, items: first }
  }
}
