/** One text for equal parameters: what makes two calls duplicates of each other. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import { fromCodec } from "../../src/internal/toolSchemas.ts"

/** The texts of some arguments, as a tool of these parameters compares them. */
const texts = (schema: Schema.Codec<unknown, unknown>, ...all: ReadonlyArray<unknown>) => {
  const { canonical, decode } = fromCodec(schema, { onExcessProperty: "ignore" })
  return Effect.forEach(all, (args) => Effect.map(decode(args), (params) => canonical(params, args)))
}

const same = (what: string, schema: Schema.Codec<unknown, unknown>, ...all: ReadonlyArray<unknown>) =>
  it.effect(what, () =>
    Effect.map(texts(schema, ...all), (found) => {
      assert.lengthOf(found, all.length)
      assert.strictEqual(new Set(found).size, 1)
    }))

const different = (what: string, schema: Schema.Codec<unknown, unknown>, ...all: ReadonlyArray<unknown>) =>
  it.effect(
    what,
    () => Effect.map(texts(schema, ...all), (found) => assert.strictEqual(new Set(found).size, all.length))
  )

describe("arguments are equal", () => {
  const Plain = Schema.Struct({ a: Schema.Finite, b: Schema.String })
  same("whatever the order of their keys is", Plain, { a: 1, b: "x" }, { b: "x", a: 1 })

  same("with what the tool does not declare, or without", Plain, { a: 1, b: "x" }, { b: "x", c: true, a: 1 })

  const Nested = Schema.Struct({ list: Schema.Array(Plain), on: Schema.optionalKey(Schema.Boolean) })
  same(
    "also further down",
    Nested,
    { on: true, list: [{ b: "x", a: 1 }] },
    { list: [{ a: 1, b: "x" }], on: true }
  )

  same(
    "whatever the order of a record is",
    Schema.Struct({ labels: Schema.Record(Schema.String, Schema.String) }),
    { labels: { x: "1", y: "2" } },
    { labels: { y: "2", x: "1" } }
  )

  same(
    "whatever the order of a struct with more keys is",
    Schema.StructWithRest(Schema.Struct({ a: Schema.Finite }), [Schema.Record(Schema.String, Schema.Unknown)]),
    { a: 1, x: { k: 1, l: 2 } },
    { x: { l: 2, k: 1 }, a: 1 }
  )

  same(
    "whatever the order of a struct without keys is",
    Schema.Struct({ any: Schema.Struct({}) }),
    { any: { x: 1, y: 2 } },
    { any: { y: 2, x: 1 } }
  )

  same(
    "whatever the order in one of several forms is",
    Schema.Struct({ it: Schema.Union([Plain, Schema.Record(Schema.String, Schema.Finite)]) }),
    { it: { x: 1, y: 2 } },
    { it: { y: 2, x: 1 } }
  )
})

describe("arguments are told apart", () => {
  // of tools that declare no finite ones
  const AnyNumber = Schema.make<Schema.Codec<number>>(SchemaAST.number)
  const Some = Schema.Struct({ n: AnyNumber })
  different("by numbers that JSON does not have", Some, { n: NaN }, { n: Infinity }, { n: -Infinity }, { n: 0 })

  const OrNull = Schema.Struct({ n: Schema.NullOr(AnyNumber) })
  different("by such a number and nothing", OrNull, { n: NaN }, { n: null })

  const Pair = Schema.String.pipe(Schema.decodeTo(Schema.ReadonlyMap(Schema.String, Schema.Finite), {
    decode: SchemaGetter.transform((text: string) => new Map([[text, 1]])),
    encode: SchemaGetter.transform((map: ReadonlyMap<string, number>) => Array.from(map.keys()).join())
  }))
  different("by what they are encoded to", Schema.Struct({ at: Pair }), { at: "x" }, { at: "y" })
})
