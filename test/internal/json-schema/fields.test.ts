import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { field, narrow, without } from "../../../src/internal/json-schema/fields.ts"
import { compile, fits } from "../../../src/internal/json-schema/validator.ts"

const plain = {
  type: "object",
  properties: { op: { $ref: "#/$defs/Op" }, n: { type: "integer" } },
  required: ["n"],
  additionalProperties: false,
  $defs: { Op: { enum: ["read", "write", "drop"] } }
}

const union = {
  anyOf: [{ $ref: "#/$defs/Read" }, { $ref: "#/$defs/Write" }],
  $defs: {
    Read: { type: "object", properties: { op: { const: "read" }, path: { type: "string" } }, required: ["op"] },
    Write: { type: "object", properties: { op: { const: "write" }, text: { type: "string" } }, required: ["op"] }
  }
}

const accepts = (schema: object, value: unknown) => Result.getOrThrow(compile(schema as never))(value).length === 0

describe("a field of a schema", () => {
  it("is found at the top and in every branch", () => {
    assert.lengthOf(field(plain, "op") ?? [], 1)
    assert.lengthOf(field(union, "op") ?? [], 2)
    assert.deepStrictEqual(field({ type: "object" }, "any"), [])
    assert.isUndefined(field(plain, "nope"))
    assert.deepStrictEqual(field(plain, "constructor"), undefined)
  })

  it("is fitted by a value with the definitions of the whole", () => {
    const [op] = field(plain, "op") ?? []
    assert.isTrue(fits(plain, op!, "read"))
    assert.isFalse(fits(plain, op!, "other"))
    assert.isTrue(fits({ type: "wrong" }, op!, "other"))
  })
})

describe("a narrowed schema", () => {
  it("takes the allowed values of the field, no others, and not without it", () => {
    const narrowed = narrow(plain, "op", ["read", "write"])
    assert.isTrue(accepts(narrowed, { n: 1, op: "read" }))
    assert.isFalse(accepts(narrowed, { n: 1, op: "drop" }))
    assert.isFalse(accepts(narrowed, { n: 1 }))
    assert.isFalse(accepts(narrowed, { op: "read" }))
    assert.isTrue(accepts(plain, { n: 1, op: "drop" }), "the schema itself stays as it is")
  })

  it("keeps the branches that an allowed value leads to", () => {
    const narrowed = narrow(union, "op", ["read"])
    assert.isTrue(accepts(narrowed, { op: "read", path: "a" }))
    assert.isFalse(accepts(narrowed, { op: "write", text: "a" }))
  })

  it("limits a field that any object may have", () => {
    const narrowed = narrow({ type: "object" }, "op", [1])
    assert.isTrue(accepts(narrowed, { op: 1, x: 2 }))
    assert.isFalse(accepts(narrowed, { op: 2 }))
  })
})

describe("a schema without a field", () => {
  it("neither shows nor needs it", () => {
    const rest = without({ ...plain, required: ["n", "op"] }, ["n"])
    assert.isTrue(accepts(rest, { op: "read" }))
    assert.notProperty(rest.properties, "n")
    assert.notInclude(JSON.stringify(without(union, ["op"]).anyOf), "\"op\"")
  })
})
