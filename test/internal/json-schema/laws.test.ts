/**
 * Random schemas and values: ajv is the oracle of what fits, but for `unevaluated…`, which it has
 * wrong, and the size of a value alone is never a reason not to check it.
 */
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import { compile } from "../../../src/internal/json-schema/validator.ts"
import { randomFrom } from "../../support/randomCase.ts"
import { seeds, timeout } from "../../support/seeds.ts"

type SeededRandom = ReturnType<typeof randomFrom>

const names = ["a", "b", "c", "dd"]

const scalar = ({ int, pick }: SeededRandom): unknown =>
  pick([null, true, 0, int(9), -int(9), 2.5, 0.1, "", "a", "bb", "ccc", "🙂", "2024"])

const valueOf = (random: SeededRandom, depth: number): unknown => {
  const { chance, int, pick } = random
  if (depth === 0 || chance(0.4)) return scalar(random)
  if (chance(0.4)) return Array.from({ length: int(4) }, () => valueOf(random, depth - 1))
  return Object.fromEntries(Array.from({ length: int(4) }, () => [pick(names), valueOf(random, depth - 1)]))
}

const schemaOf = (random: SeededRandom, depth: number): unknown => {
  const { chance, int, pick } = random
  const inner = () => schemaOf(random, depth - 1)
  const several = () => Array.from({ length: 1 + int(2) }, inner)
  const some = <A>(make: () => A) => Object.fromEntries(names.filter(() => chance(0.4)).map((name) => [name, make()]))
  const plain: ReadonlyArray<() => object> = [
    () => ({ type: pick(["object", "array", "string", "number", "integer", "null", ["string", "object"]]) }),
    () => ({ enum: Array.from({ length: 1 + int(3) }, () => valueOf(random, 1)) }),
    () => ({ const: valueOf(random, 1) }),
    () => ({ minimum: int(5), exclusiveMaximum: 5 + int(5) }),
    () => ({ multipleOf: pick([1, 2, 2.5]) }),
    () => ({ minLength: int(2), maxLength: 1 + int(3) }),
    () => ({ pattern: pick(["^a", "b+$", "^(?:a|b)*$", "\\d{4}"]) }),
    () => ({ minItems: int(2), uniqueItems: chance(0.5) }),
    () => ({ required: names.filter(() => chance(0.2)), maxProperties: 1 + int(3) }),
    () => ({ $ref: `#/$defs/${pick(["one", "two"])}` })
  ]
  const nested: ReadonlyArray<() => object> = [
    () => ({ properties: some(inner), ...(chance(0.3) ? { additionalProperties: inner() } : {}) }),
    () => ({ patternProperties: { "^a|b$": inner() }, propertyNames: { maxLength: 1 + int(2) } }),
    () => ({ items: inner(), ...(chance(0.3) ? { prefixItems: several() } : {}) }),
    () => ({ contains: inner(), minContains: int(2), maxContains: 1 + int(2) }),
    () => ({ allOf: several() }),
    () => ({ anyOf: several() }),
    () => ({ oneOf: several() }),
    () => ({ not: inner() }),
    () => ({ if: inner(), then: inner(), else: inner() }),
    () => ({ dependentSchemas: some(inner), dependentRequired: some(() => [pick(names)]) })
  ]
  if (chance(0.05)) return chance(0.7)
  const kinds = depth === 0 ? plain : [...plain, ...nested, ...nested]
  return Object.assign({}, ...Array.from({ length: 1 + int(2) }, () => pick(kinds)()))
}

/** A whole schema; its definitions lead to each other below a property or an item alone. */
const documentOf = (random: SeededRandom) => ({
  ...Object(schemaOf(random, 3)) as object,
  $defs: {
    one: { anyOf: [{ type: ["string", "number"] }, { properties: { a: { $ref: "#/$defs/two" } } }] },
    two: { type: ["array", "object", "null"], items: { $ref: "#/$defs/one" } }
  }
})

const oursOf = (schema: unknown) => Result.getOrThrow(compile(schema as JsonSchema.JsonSchema))

describe("a compiled JSON Schema", () => {
  it("takes what ajv takes, and nothing else", () => {
    for (const seed of seeds(100)) {
      const at = randomFrom(seed)
      const schema = documentOf(at)
      const ours = oursOf(schema)
      const theirs = new Ajv2020({ strict: false, validateFormats: false, logger: false }).compile(schema)
      for (let n = 0; n < 20; n++) {
        const value = valueOf(at, 3)
        assert.strictEqual(ours(value).length === 0, theirs(value), JSON.stringify({ seed, schema, value }))
      }
    }
  }, timeout)

  it("is checked however large a value is", () => {
    for (const seed of seeds(40)) {
      const at = randomFrom(seed)
      const { $defs, ...items } = documentOf(at)
      // what has to be left over is looked at anew each time
      const left = seed % 2 === 0 ? { unevaluatedItems: {}, unevaluatedProperties: {} } : {}
      const check = oursOf({ items: { ...items, ...left }, $defs })
      const values = Array.from({ length: 20 }, () => valueOf(at, 3))
      for (const { message } of check(Array.from({ length: 5_000 }, (_, index) => values[index % 20]))) {
        assert.notInclude(message, "cannot be checked", `seed ${seed}`)
      }
    }
  })
})
