import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { compile } from "../../../src/internal/json-schema/validator.ts"
import { fieldOf, initial, jsonOf, numberOf, pointer, removed, replaced } from "../../../src/page/parts/fields.ts"
import { problemsOf } from "../../../src/page/parts/fits.ts"

const schema = {
  type: "object",
  properties: {
    path: { type: "string", minLength: 1 },
    count: { type: "integer", minimum: 1 },
    ratio: { type: "number" },
    force: { type: "boolean" },
    mode: { enum: ["append", "replace"] },
    edits: { type: "array", items: { $ref: "#/$defs/edit" } },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
    any: {}
  },
  required: ["path"],
  additionalProperties: false,
  $defs: { edit: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } }
}

const kindOf = (part: unknown, value: unknown) => fieldOf(part, value, schema).kind

const words = (value: unknown) => problemsOf(schema, value).map(({ message, path }) => `${path}: ${message}`)

/** Schemas and values that meet in many ways. */
const Schemas = Schema.Literals([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
const schemas: ReadonlyArray<Record<string, unknown>> = [
  schema,
  { type: ["string", "null"], maxLength: 1 },
  { oneOf: [{ type: "string" }, { type: "integer", exclusiveMinimum: 0 }] },
  { allOf: [{ type: "object", required: ["a"] }, { properties: { a: { const: 1 } } }] },
  { type: "array", items: { type: "number", maximum: 1 }, minItems: 1 },
  {
    $ref: "#/$defs/a",
    properties: { b: { type: "string" } },
    $defs: { a: { properties: { a: {} }, additionalProperties: false } }
  },
  { $ref: "#/$defs/a", minLength: 2, $defs: { a: { type: "string", minLength: 1 } } },
  {
    $schema: "http://json-schema.org/draft-07/schema#",
    $ref: "#/definitions/a",
    minLength: 2,
    definitions: { a: { type: "string" } }
  },
  { properties: { a: { $ref: "#" } }, additionalProperties: { type: "string" } },
  { patternProperties: { "^a": { type: "number" } }, additionalProperties: false },
  { enum: [{ a: 1, b: 2 }, [1], null, 1] },
  { prefixItems: [{ type: "string" }], items: { type: "number" } }
]
const Values = Schema.Literals([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
const values: ReadonlyArray<unknown> = [
  { path: "x" },
  { path: "", edits: [{ text: 1 }, {}] },
  "a",
  "😀",
  "ab",
  1,
  0,
  1.5,
  null,
  [1, 2],
  ["a", 1],
  { a: 1, b: 2 },
  { b: 2, a: 1 },
  { a: { a: { path: 1 } } },
  { a: 1 }
]

describe("problemsOf", () => {
  it.prop("refuses nothing that the schema takes", [Schemas, Values], ([at, there]) => {
    const found = problemsOf(schemas[at], values[there])
    const all = Result.getOrThrow(compile(schemas[at]!))(values[there])
    if (all.length === 0) assert.deepStrictEqual(found, [])
  })

  it("says at which field what is wrong", () => {
    assert.deepStrictEqual(words({ path: "x", count: 2 }), [])
    assert.deepStrictEqual(words({}), [`: "path" is missing.`])
    assert.deepStrictEqual(
      words({ path: 1, count: 1.5, edits: [{ text: "" }, { text: 1 }, {}] }),
      [
        "path: Enter a text.",
        "count: Enter a whole number.",
        "edits.1.text: Enter a text.",
        `edits.2: "text" is missing.`
      ]
    )
  })

  it("comes to an end with a schema that is about itself", () => {
    const deep = { $ref: "#" }
    assert.deepStrictEqual(problemsOf(deep, 1), [])
    const wide = { anyOf: Array.from({ length: 50 }, () => ({ $ref: "#" })) }
    assert.deepStrictEqual(problemsOf(wide, 1), [])
  })
})

describe("fieldOf", () => {
  it("chooses by the value and its schema", () => {
    const { properties } = schema
    assert.strictEqual(kindOf(properties.path, "x"), "text")
    assert.deepStrictEqual(fieldOf(properties.count, 1, schema), { kind: "number", isInteger: true })
    assert.deepStrictEqual(fieldOf(properties.ratio, 1, schema), { kind: "number", isInteger: false })
    assert.strictEqual(kindOf(properties.force, false), "boolean")
    assert.strictEqual(kindOf(properties.mode, "append"), "choice")
    assert.strictEqual(kindOf(properties.edits, []), "list")
    assert.strictEqual(kindOf(properties.edits.items, { text: "" }), "object")
    assert.strictEqual(kindOf(properties.note, "x"), "text")
  })

  it("takes JSON for what it does not understand, and for what does not fit", () => {
    const { properties } = schema
    assert.strictEqual(kindOf(properties.any, "x"), "json")
    assert.strictEqual(kindOf(properties.path, 1), "json")
    assert.strictEqual(kindOf(properties.note, null), "json")
    assert.strictEqual(kindOf(properties.mode, "other"), "json")
    assert.strictEqual(kindOf({ $ref: "https://example.org/a" }, "x"), "json")
    assert.strictEqual(kindOf({ type: "array", prefixItems: [{}] }, [1]), "json")
    assert.strictEqual(kindOf(false, 1), "json")
  })

  it("has a value to begin with for what is put in", () => {
    assert.deepStrictEqual(initial(schema, schema), { path: "" })
    assert.strictEqual(initial(schema.properties.mode, schema), "append")
    assert.deepStrictEqual(initial(schema.properties.edits.items, schema), { text: "" })
    assert.strictEqual(initial(schema.properties.note, schema), "")
    assert.strictEqual(initial({ type: "string", default: "a" }, schema), "a")
  })
})

const Json = Schema.Literals([0, 1, 2, 3])
const documents: ReadonlyArray<unknown> = [
  { a: { b: [1, { c: 2 }] }, d: null },
  { a: 1, "": 2, "a/b": { "~": 3 }, __proto__x: 1 },
  [[1], [2, [3]]],
  JSON.parse(`{"__proto__": {"x": 1}, "a": 2}`)
]

/** Every way into a value. */
const pathsOf = (value: unknown): ReadonlyArray<ReadonlyArray<string | number>> =>
  Array.isArray(value)
    ? [[], ...value.flatMap((it, at) => pathsOf(it).map((path) => [at, ...path]))]
    : typeof value === "object" && value !== null
    ? [[], ...Object.entries(value).flatMap(([name, it]) => pathsOf(it).map((path) => [name, ...path]))]
    : [[]]

const at = (value: unknown, path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>((it, key) => (it as Readonly<Record<string, unknown>>)[key], value)

describe("replaced and removed", () => {
  it.prop("touch nothing but the part they are for", [Json, Schema.Int], ([index, salt]) => {
    const value = documents[index]
    const paths = pathsOf(value)
    const path = paths[Math.abs(salt) % paths.length]!
    const before = JSON.stringify(value)
    const after = replaced(value, path, "new")
    assert.strictEqual(at(after, path), "new")
    assert.strictEqual(JSON.stringify(replaced(after, path, at(value, path))), before)
    assert.strictEqual(JSON.stringify(value), before)
    if (path.length > 0) assert.strictEqual(pathsOf(removed(value, path)).length < paths.length, true)
  })

  it("keep the order of names", () => {
    assert.strictEqual(JSON.stringify(replaced({ b: 1, a: 2 }, ["b"], 3)), `{"b":3,"a":2}`)
    assert.strictEqual(JSON.stringify(removed([1, 2, 3], [1])), "[1,3]")
  })
})

describe("what is typed", () => {
  it("is a number, or is told why it is none", () => {
    assert.strictEqual(numberOf(" 1.50 ", false), 1.5)
    assert.strictEqual(numberOf("-2e3", true), -2000)
    assert.strictEqual(numberOf("1.5", true), "Enter a whole number.")
    assert.strictEqual(numberOf("12345678901234567890", true), "This number is too large to be stored exactly.")
    assert.strictEqual(numberOf("1e999", false), "This number is too large.")
    for (const text of ["", "0x10", "1,5", "one", "NaN", "Infinity"]) {
      assert.strictEqual(numberOf(text, false), "This is not a number.")
    }
  })

  it("is JSON, or is told why it is none", () => {
    assert.deepStrictEqual(jsonOf("[1]"), { value: [1] })
    assert.include(JSON.stringify(jsonOf("[1")), "This is not valid JSON")
  })
})

describe("pointer", () => {
  it("names each place apart", () => {
    assert.notStrictEqual(pointer(["a/b"]), pointer(["a", "b"]))
  })
})
