/** What holds for every path into a JSON value. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { isPath, valueAt } from "../../src/internal/valuePath.ts"

type Keys = ReadonlyArray<string | number>

/** Every way into a value, with what is there. */
const ways = (value: Schema.Json, keys: Keys = []): ReadonlyArray<readonly [keys: Keys, found: Schema.Json]> => [
  [keys, value],
  ...Array.isArray(value)
    ? value.flatMap((it: Schema.Json, index) => ways(it, [...keys, index]))
    : typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([key, it]) => ways(it as Schema.Json, [...keys, key]))
    : []
]

const pointer = (keys: Keys): string =>
  keys.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

const dotted = (keys: Keys): string =>
  keys.map((key, index) => typeof key === "number" ? `[${key}]` : `${index === 0 ? "" : "."}${key}`).join("")

/** Keys that need no JSON Pointer. */
const isPlain = (keys: Keys): boolean =>
  keys.every((key, index) => typeof key === "number" || (/^[^.[\]]+$/.test(key) && !(index === 0 && /^[/$]/.test(key))))

const Tame = Schema.Record(
  Schema.Literals(["a", "rows", "kind", "x y", "__proto__", "constructor", "ä", "0"]),
  Schema.Array(Schema.Record(Schema.Literals(["a", "kind", "toString"]), Schema.Json))
)

describe("a path into any JSON", () => {
  it.prop("as a JSON Pointer finds whatever is there, whatever its keys are called", [Schema.Json], ([json]) => {
    for (const [keys, found] of ways(json)) {
      assert.isTrue(isPath(pointer(keys)), pointer(keys))
      assert.deepStrictEqual(valueAt(json, pointer(keys)), found, pointer(keys))
    }
  })

  it.prop("with dots and brackets finds the same, also as JSONPath writes it", [Tame], ([json]) => {
    for (const [keys, found] of ways(json)) {
      if (!isPlain(keys)) continue
      const path = dotted(keys)
      const written = keys.length === 0 ? "$" : typeof keys[0] === "number" ? `$${path}` : `$.${path}`
      for (const it of [path, written]) {
        assert.isTrue(isPath(it), it)
        assert.deepStrictEqual(valueAt(json, it), found, it)
      }
    }
  })

  it.prop(
    "never throws, and finds nothing where it is no path at all",
    [Schema.String, Schema.Json],
    ([path, json]) => {
      const found = valueAt(json, path)
      // what is found is somewhere in the value, or it is the whole
      if (found !== undefined) assert.isTrue(ways(json).some(([, it]) => it === found) || found === json)
    }
  )

  it.prop("leads from a part to what it leads to from the whole", [Tame], ([json]) => {
    for (const [keys, found] of ways(json)) {
      for (const key of ["a", "kind", "0", "nope"]) {
        assert.deepStrictEqual(valueAt(json, `${pointer(keys)}/${key}`), valueAt(found, `/${key}`))
      }
    }
  })
})

describe("a path", () => {
  it("leads into nothing but objects and arrays", () => {
    for (const value of ["text", 3, true, null, undefined]) {
      for (const path of ["a", "[0]", "length", "/0", "/length", "$.a"]) {
        assert.isUndefined(valueAt(value, path), `${path} of ${value}`)
      }
    }
  })

  it("leads into an array by its indices alone", () => {
    assert.strictEqual(valueAt({ rows: ["x"] }, "rows[0]"), "x")
    for (const path of ["rows.length", "/rows/length", "rows[1]", "rows[00]", "/rows/-"]) {
      assert.isUndefined(valueAt({ rows: ["x"] }, path), path)
    }
  })

  it("leads to nothing that an object inherits", () => {
    for (const path of ["__proto__", "constructor", "/hasOwnProperty", "a.__proto__.b", "rows[0].constructor"]) {
      assert.isUndefined(valueAt({ a: {}, rows: [{}] }, path), path)
    }
    assert.strictEqual(valueAt(JSON.parse(`{"__proto__":{"constructor":1}}`), "__proto__.constructor"), 1)
  })

  it("is none where JSONPath asks for more than one value", () => {
    for (const path of ["$..kind", "a..kind", "$.rows[*]", "rows[*].kind", "rows[0:2]", "rows[-1]", "rows[?(@.a)]"]) {
      assert.isFalse(isPath(path), path)
    }
  })

  it("is none that begins or ends with a dot", () => {
    for (const path of [".", ".a", "a.", "$.", "$.a.", "..", "[0].", ".[0]"]) assert.isFalse(isPath(path), path)
  })

  it("takes a key that looks like an index for one where there is an object", () => {
    assert.strictEqual(valueAt({ rows: { 0: "x" } }, "rows[0]"), "x")
    assert.strictEqual(valueAt({ rows: ["x"] }, "rows.0"), "x")
  })
})
