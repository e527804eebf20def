import { assert, describe, it } from "@effect/vitest"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { spawnSync } from "node:child_process"
import { compile } from "../../../src/internal/json-schema/validator.ts"

const validatorOf = (schema: unknown) =>
  Result.getOrThrowWith(compile(schema as JsonSchema.JsonSchema), (problem) => new Error(problem))

const issuesOf = (schema: unknown, value: unknown) => validatorOf(schema)(value)

/** The same of a stranger's schema. */
const foreignIssuesOf = (schema: unknown, value: unknown) =>
  Result.getOrThrow(compile(schema as JsonSchema.JsonSchema, "foreign"))(value)

const problemOf = (schema: unknown): string | undefined =>
  Result.match(compile(schema as JsonSchema.JsonSchema), { onFailure: (it) => it, onSuccess: () => undefined })

const takes = (schema: unknown, value: unknown): boolean => issuesOf(schema, value).length === 0

const repeat = <A>(times: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: times }, (_, index) => make(index))

const draft = {
  6: "http://json-schema.org/draft-06/schema#",
  7: "http://json-schema.org/draft-07/schema#",
  2019: "https://json-schema.org/draft/2019-09/schema",
  2020: "https://json-schema.org/draft/2020-12/schema"
}

/** A schema, what fits it, what does not. */
const cases: ReadonlyArray<
  readonly [what: string, schema: unknown, right: ReadonlyArray<unknown>, wrong: ReadonlyArray<unknown>]
> = [
  ["type", { type: "integer" }, [1, 1.0, -0], [1.5, "1", null, true, [], {}]],
  ["type, several", { type: ["string", "null"] }, ["a", null], [1, {}]],
  ["type of objects and arrays", { type: "object" }, [{}], [[], null, "a"]],
  ["type with nullable of OpenAPI", { type: "string", nullable: true }, ["a", null], [1]],
  ["enum", { enum: [1, "1", null, { a: [1] }] }, [1, "1", null, { a: [1] }], [true, "a", { a: [2] }, { a: [1], b: 1 }]],
  ["const", { const: { a: 1, b: 2 } }, [{ b: 2, a: 1 }], [{ a: 1 }, 1]],
  ["const of 0 and false", { const: 0 }, [0, -0], [false, "0", null]],
  ["minimum, maximum", { minimum: 1, maximum: 3 }, [1, 3, "0"], [0.9, 3.1, JSON.parse("1e999"), -Infinity, NaN]],
  ["exclusiveMaximum of what has no end", { exclusiveMaximum: 3 }, [2, -Infinity], [Infinity]],
  ["exclusiveMinimum, exclusiveMaximum", { exclusiveMinimum: 1, exclusiveMaximum: 3 }, [2], [1, 3]],
  ["multipleOf", { multipleOf: 0.01 }, [19.99, 0, 2, -0.07, 1e300], [19.995, Infinity, NaN]],
  ["multipleOf of what is larger", { multipleOf: 1_073_741_824 }, [0, 2_147_483_648], [5, 1, 1e-9]],
  ["multipleOf of what is tiny", { multipleOf: 1e-300 }, [1e-300, 5, 0.1], [1e-301, 1.5e-300]],
  ["multipleOf of what is huge", { multipleOf: 1e300 }, [2e300], [1e299, 1e300 + 1e290]],
  ["minLength, maxLength count characters", { minLength: 2, maxLength: 2 }, ["ab", "🙂🙂", 1], ["a", "🙂", "abc"]],
  ["pattern", { pattern: "^[a-z]+\\d$" }, ["ab1", 1], ["AB1", "ab", "xab"]],
  ["pattern, anywhere", { pattern: "b" }, ["abc"], ["ac"]],
  ["pattern, spaces as in JavaScript", { pattern: "^\\S$" }, ["a"], ["\u00a0", " "]],
  ["pattern, spaces in a class", { pattern: "^[\\s.]$" }, ["\u00a0", "."], ["a"]],
  ["pattern, a dot is no line end", { pattern: "^.$" }, ["a"], ["\n", "\u2028"]],
  ["pattern of the older syntax", { pattern: "^[\\w-.]+$" }, ["a-b.c"], ["a b"]],
  ["minItems, maxItems", { minItems: 1, maxItems: 2 }, [[1], [1, 2], "a"], [[], [1, 2, 3]]],
  ["uniqueItems", { uniqueItems: true }, [[1, "1", true], [{ a: 1 }, { a: 2 }]], [[1, 1], [{ a: 1, b: 2 }, {
    b: 2,
    a: 1
  }]]],
  ["uniqueItems false", { uniqueItems: false }, [[1, 1]], []],
  ["minProperties, maxProperties", { minProperties: 1, maxProperties: 2 }, [{ a: 1 }, []], [{}, { a: 1, b: 2, c: 3 }]],
  ["required", { required: ["a", "constructor"] }, [{ a: 1, constructor: 1 }, "a"], [{ a: 1 }, {}]],
  ["required __proto__", { required: ["__proto__"] }, [JSON.parse(`{"__proto__":1}`)], [{}]],
  [
    "properties",
    { properties: { a: { type: "string" }, toString: { type: "number" } } },
    [{ a: "b" }, {}, { b: 1 }, []],
    [{ a: 1 }, { toString: "a" }]
  ],
  [
    "a property __proto__",
    JSON.parse(`{"properties":{"__proto__":{"type":"string"}},"additionalProperties":false}`),
    [{}],
    [JSON.parse(`{"__proto__":1}`), { constructor: 1 }]
  ],
  [
    "patternProperties and additionalProperties",
    { properties: { a: {} }, patternProperties: { "^x-": { type: "number" } }, additionalProperties: { type: "null" } },
    [{ a: 1, "x-b": 1, c: null }],
    [{ "x-b": null }, { c: 1 }]
  ],
  ["propertyNames", { propertyNames: { maxLength: 2 } }, [{ ab: 1 }, [1]], [{ abc: 1 }]],
  ["dependentRequired", { dependentRequired: { a: ["b"] } }, [{ a: 1, b: 1 }, { b: 1 }, 1], [{ a: 1 }]],
  ["dependentSchemas", { dependentSchemas: { a: { required: ["b"] } } }, [{ a: 1, b: 1 }, {}, 1], [{ a: 1 }]],
  [
    "dependencies of draft 7",
    { $schema: draft[7], dependencies: { a: ["b"], c: { required: ["d"] } } },
    [{ a: 1, b: 1 }, { c: 1, d: 1 }, {}],
    [{ a: 1 }, { c: 1 }]
  ],
  ["items", { items: { type: "number" } }, [[], [1, 2], "a"], [[1, "a"]]],
  ["prefixItems and items", { prefixItems: [{ const: 1 }], items: { const: 2 } }, [[], [1], [1, 2, 2]], [[2], [1, 1]]],
  ["prefixItems and no others", { prefixItems: [{}], items: false }, [[], [1]], [[1, 2]]],
  [
    "items and additionalItems of draft 7",
    { $schema: draft[7], items: [{ const: 1 }], additionalItems: { const: 2 } },
    [[1, 2]],
    [[2], [1, 1]]
  ],
  ["contains", { contains: { const: 1 } }, [[1], [2, 1], {}], [[], [2]]],
  [
    "minContains, maxContains",
    { contains: { const: 1 }, minContains: 2, maxContains: 3 },
    [[1, 1], [1, 2, 1, 1]],
    [[1], [1, 1, 1, 1]]
  ],
  ["minContains 0", { contains: { const: 1 }, minContains: 0 }, [[], [2]], []],
  ["allOf", { allOf: [{ minimum: 1 }, { maximum: 3 }] }, [2], [0, 4]],
  ["anyOf", { anyOf: [{ type: "string" }, { minimum: 3 }] }, ["a", 3], [1]],
  ["oneOf", { oneOf: [{ minimum: 1 }, { maximum: 3 }] }, [0, 4], [2]],
  ["not", { not: { type: "string" } }, [1], ["a"]],
  ["if, then, else", { if: { minimum: 10 }, then: { multipleOf: 10 }, else: { maximum: 5 } }, [20, 4], [15, 6]],
  ["then without if", { then: false, else: false }, [1], []],
  [
    "$dynamicRef beside an equal $ref",
    {
      $id: "https://example.com/root",
      $ref: "list",
      $defs: {
        item: { $dynamicAnchor: "item", type: "string" },
        list: {
          $id: "list",
          items: { $ref: "#item", $dynamicRef: "#item" },
          $defs: { item: { $dynamicAnchor: "item", maxLength: 1 } }
        }
      }
    },
    [["a"]],
    [["ab"], [1]]
  ],
  [
    "definitions that loop and are not used",
    {
      $ref: "#/$defs/used",
      $defs: { used: { type: "string" }, loop: { $ref: "#/$defs/loop" }, ring: { allOf: [{ $ref: "#/$defs/loop" }] } }
    },
    ["a"],
    [1]
  ],
  ["$ref beside other keywords", { $ref: "#/$defs/a", maximum: 3, $defs: { a: { minimum: 1 } } }, [2], [0, 4]],
  [
    "$ref with escapes",
    { $ref: "#/$defs/a~1b%25~0c", $defs: { "a/b%~c": { type: "number" } } },
    [1],
    ["a"]
  ],
  [
    "$ref to the whole",
    { properties: { child: { $ref: "#" } }, additionalProperties: false },
    [{ child: { child: {} } }],
    [{ child: { other: 1 } }]
  ],
  [
    "$ref into an unknown keyword",
    { $ref: "#/x/y/0", x: { y: [{ type: "string" }] } },
    ["a"],
    [1]
  ],
  [
    "$ref into an unknown keyword of another resource",
    {
      $id: "https://example.com/root",
      $ref: "#/$defs/a/x/y",
      $defs: { a: { $id: "inner", x: { y: { $ref: "#z" } }, $defs: { z: { $anchor: "z", type: "string" } } } }
    },
    ["a"],
    [1]
  ],
  ["$anchor", { $ref: "#name", $defs: { a: { $anchor: "name", type: "string" } } }, ["a"], [1]],
  [
    "$id and relative references",
    {
      $id: "https://example.com/root",
      properties: { b: { $ref: "a/b" } },
      $defs: { x: { $id: "a/b", items: { $ref: "#/$defs/y" }, $defs: { y: { type: "string" } } } }
    },
    [{ b: ["a"] }],
    [{ b: [1] }]
  ],
  [
    "an $id that is an anchor in draft 6",
    { $schema: draft[6], items: { $ref: "#item" }, definitions: { a: { $id: "#item", type: "null" } } },
    [[null]],
    [[1]]
  ],
  [
    "$dynamicRef",
    {
      $id: "https://example.com/strict",
      $dynamicAnchor: "node",
      $ref: "tree",
      unevaluatedProperties: false,
      $defs: {
        tree: {
          $id: "tree",
          $dynamicAnchor: "node",
          type: "object",
          properties: { data: true, children: { items: { $dynamicRef: "#node" } } }
        }
      }
    },
    [{ children: [{ data: 1 }] }],
    [{ children: [{ daat: 1 }] }, { daat: 1 }]
  ],
  [
    "$recursiveRef of 2019-09",
    {
      $schema: draft[2019],
      $id: "https://example.com/strict",
      $recursiveAnchor: true,
      $ref: "tree",
      unevaluatedProperties: false,
      $defs: {
        tree: {
          $id: "tree",
          $recursiveAnchor: true,
          properties: { data: true, children: { items: { $recursiveRef: "#" } } }
        }
      }
    },
    [{ children: [{ data: 1 }] }],
    [{ children: [{ daat: 1 }] }]
  ],
  [
    "unevaluatedProperties",
    {
      properties: { a: {} },
      anyOf: [{ properties: { b: { const: 1 } }, required: ["b"] }, { patternProperties: { "^c": {} } }],
      if: { required: ["d"] },
      then: { properties: { d: {} } },
      unevaluatedProperties: false
    },
    [{ a: 1, b: 1, c: 1, d: 1 }, { c: 1 }],
    [{ b: 2 }, { e: 1 }, { b: 1, e: 1 }]
  ],
  [
    "unevaluatedProperties with a schema",
    { properties: { a: {} }, unevaluatedProperties: { type: "number" } },
    [{ a: "b", c: 1 }],
    [{ c: "d" }]
  ],
  [
    "unevaluatedItems after the longest of several starts",
    { allOf: [{ prefixItems: [{}, {}] }, { prefixItems: [{}] }], unevaluatedItems: false },
    [[1, 2]],
    [[1, 2, 3]]
  ],
  [
    "unevaluatedProperties after an alternative that did not fit",
    { anyOf: [{ properties: { a: {} }, not: {} }, {}], unevaluatedProperties: false },
    [{}],
    [{ a: 1 }]
  ],
  [
    "unevaluated parts that another schema has looked at",
    {
      allOf: [{ unevaluatedItems: {}, unevaluatedProperties: {} }],
      unevaluatedItems: false,
      unevaluatedProperties: false
    },
    [[1], { a: 1 }],
    []
  ],
  ["unevaluatedItems after all are seen", { allOf: [{ items: {} }], unevaluatedItems: false }, [[1, 2]], []],
  ["boolean schemas", { properties: { a: true, b: false } }, [{ a: 1 }, {}], [{ b: 1 }]],
  ["no object at all", true, [1, null], []],
  ["nothing", false, [], [1, {}]],
  ["format, which is a note", { format: "email" }, ["nobody"], []],
  ["unknown keywords", { "x-note": 1, contentEncoding: "base64", default: 1 }, ["%", 1], []]
]

describe("a compiled JSON Schema", () => {
  for (const [what, schema, right, wrong] of cases) {
    it(`checks ${what}`, () => {
      for (const value of right) assert.deepStrictEqual(issuesOf(schema, value), [], JSON.stringify(value))
      for (const value of wrong) assert.isNotEmpty(issuesOf(schema, value), JSON.stringify(value))
    })
  }

  it("is of the draft that it names, and of 2020-12 if it names none", () => {
    const tuple = { items: [{ type: "string" }] }
    for (const year of [6, 7, 2019] as const) {
      assert.isFalse(takes({ $schema: draft[year], ...tuple }, [1]), draft[year])
      assert.isTrue(takes({ $schema: draft[year], ...tuple }, ["a"]), draft[year])
    }
    assert.isUndefined(problemOf({ $schema: ` ${draft[7].slice(0, -1)} ` }))
    for (const $schema of [undefined, draft[2020]]) {
      assert.match(problemOf({ $schema, ...tuple })!, /^#\/items must be object or boolean/)
      assert.isFalse(takes({ $schema, prefixItems: tuple.items }, [1]))
    }
  })

  it("leaves its schema as it was", () => {
    const schema = {
      $id: "https://example.com/a",
      properties: { a: { $ref: "#/$defs/a" } },
      $defs: { a: { type: "null" } }
    }
    const before = JSON.stringify(schema)
    for (const it of [schema, schema.properties, schema.properties.a, schema.$defs, schema.$defs.a]) Object.freeze(it)
    assert.isFalse(takes(schema, { a: 1 }))
    assert.strictEqual(JSON.stringify(schema), before)
  })

  it.prop(
    "never throws, whatever JSON is the schema and whatever the value",
    [Schema.Json, Schema.Json],
    ([json, value]) => {
      const names = [
        "type",
        "required",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$id",
        "pattern",
        "enum",
        "if",
        "not",
        "$schema"
      ]
      for (const schema of [json, ...names.map((name) => ({ [name]: json })), { properties: { a: json } }]) {
        const compiled = compile(schema as JsonSchema.JsonSchema)
        if (Result.isFailure(compiled)) assert.isNotEmpty(compiled.failure)
        else assert.isArray(compiled.success(value))
      }
    }
  )
})

describe("what is wrong with a value", () => {
  const tool = {
    type: "object",
    properties: {
      path: { type: "string", minLength: 2 },
      mode: { enum: ["read", "write"] },
      lines: { type: "array", items: { type: ["integer", "null"] } }
    },
    required: ["path"],
    additionalProperties: false
  }

  it("is told with its place, and what would be right", () => {
    assert.deepStrictEqual(issuesOf(tool, { path: 1, mode: "append", lines: [1, "2"], recursive: true }), [
      { path: "", message: `property "recursive" is not allowed; the known ones are "path", "mode", "lines"` },
      { path: "path", message: "must be string, got 1" },
      { path: "mode", message: `must be "read" or "write", got "append"` },
      { path: "lines.1", message: `must be integer or null, got "2"` }
    ])
    assert.deepStrictEqual(issuesOf(tool, {}), [{ path: "", message: `the required property "path" is missing` }])
    assert.deepStrictEqual(issuesOf(tool, []), [{ path: "", message: "must be object, got an array" }])
    assert.deepStrictEqual(issuesOf({ properties: { "a/b~": { type: "null" } } }, { "a/b~": {} }), [
      { path: "a/b~", message: "must be null, got an object" }
    ])
  })

  const messages: ReadonlyArray<readonly [schema: unknown, value: unknown, message: string]> = [
    [{ minimum: 1 }, 0, "must be >= 1, got 0"],
    [{ const: { a: 1 } }, 0, `must be {"a":1}, got 0`],
    [{ maxItems: 1 }, [1, 2], "must NOT have more than 1 items, got an array"],
    [{ pattern: "^a$" }, "b", `must match the pattern "^a$", got "b"`],
    [{ dependentRequired: { a: ["b"] } }, { a: 1 }, `the required property "b" is missing: it is required with "a"`],
    [
      { $schema: draft[7], dependencies: { a: ["b"] } },
      { a: 1 },
      `the required property "b" is missing: it is required with "a"`
    ],
    [
      { propertyNames: { maxLength: 1 } },
      { ab: 1 },
      `the property name "ab" must NOT have more than 1 characters, got "ab"`
    ],
    [{ anyOf: [{ type: "string" }, { const: 1 }] }, 2, "must be string or 1, got 2"],
    [
      { anyOf: [{ anyOf: [{ type: "string" }, { type: "null" }] }, { const: 1 }] },
      2,
      "must be string or null or 1, got 2"
    ],
    [{ anyOf: [{ minimum: 3 }, { const: 1 }] }, 2, "must be >= 3, got 2, or must be 1, got 2"],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 2, "must fit exactly one of 2 alternatives, fits 1 and 2"],
    [
      { oneOf: [{ minimum: 1 }, { type: "null" }, { minimum: 2 }] },
      2,
      "must fit exactly one of 3 alternatives, fits 1 and 3"
    ],
    [{ not: { const: 1 } }, 1, "must not fit #/not of the schema, got 1"],
    [{ contains: { const: 1 } }, [2], "must contain at least 1 valid item(s), got an array"],
    [{ if: true, then: { minimum: 3 } }, 1, "must be >= 3, got 1"],
    [
      { properties: { a: {} }, unevaluatedProperties: false },
      { b: 1 },
      `property "b" is not allowed; the known ones are "a"`
    ],
    [{ additionalProperties: false }, { b: 1 }, `property "b" is not allowed`],
    [false, 1, "must be left out, got 1"]
  ]
  for (const [schema, value, message] of messages) {
    it(`is worded: ${message}`, () => {
      assert.deepStrictEqual(issuesOf(schema, value), [{ path: "", message }])
    })
  }

  it("is told of the alternative that was meant", () => {
    const $defs = {
      add: { properties: { op: { const: "add" }, text: { type: "string" } }, required: ["op", "text"], type: "object" },
      remove: { properties: { op: { const: "remove" }, at: { $ref: "#/$defs/at" } }, required: ["op", "at"] },
      at: { required: ["line"] }
    }
    const closest = {
      path: "edit",
      message: "must match one of 2 alternatives but matches none of them; this is what is wrong with the closest:"
    }
    for (
      const edit of [{ anyOf: [$defs.add, $defs.remove] }, {
        oneOf: [{ $ref: "#/$defs/add" }, { $ref: "#/$defs/remove" }]
      }]
    ) {
      const schema = { required: ["path"], properties: { edit }, $defs }
      assert.deepStrictEqual(issuesOf(schema, { edit: { op: "remove", at: {} } }), [
        { path: "", message: `the required property "path" is missing` },
        closest,
        { path: "edit.at", message: `the required property "line" is missing` }
      ])
      assert.deepStrictEqual(issuesOf(schema, { path: "", edit: { op: "add" } }), [
        closest,
        { path: "edit", message: `the required property "text" is missing` }
      ])
    }
    const tree = {
      not: { required: ["dead"] },
      anyOf: [{ required: ["leaf"] }, { properties: { child: { $ref: "#" } }, required: ["child"] }]
    }
    assert.sameMembers(issuesOf(tree, { dead: 1 }).map(({ message }) => message), [
      "must not fit #/not of the schema, got an object",
      `the required property "leaf" is missing, or the required property "child" is missing`
    ])
    assert.deepStrictEqual(
      issuesOf({ minimum: 5, anyOf: [{ $ref: "#/x" }, { minimum: 9 }], x: { minimum: 7 } }, 1).map((it) => it.message),
      [
        "must be >= 7, got 1, or must be >= 9, got 1",
        "must be >= 5, got 1"
      ]
    )
  })

  it("is told once, of the first alternative that is as close as any", () => {
    const message = "must match one of 2 alternatives but matches none of them; this is what is wrong with the closest:"
    const told = (schema: unknown, value: unknown) => issuesOf(schema, value).map(({ message }) => message)
    const missing = (name: string) => `the required property "${name}" is missing`
    const two = { anyOf: [{ required: ["a", "b"] }, { required: ["c", "d"] }] }
    assert.deepStrictEqual(told(two, {}), [message, missing("a"), missing("b")])
    const far = { anyOf: [{ type: "string" }, { required: ["a", "b", "c"] }] }
    assert.deepStrictEqual(told(far, {}), [message, missing("a"), missing("b"), missing("c")])
    const strings = { anyOf: [{ type: "string", minLength: 1 }, { type: "string", maxLength: 0 }, { type: "null" }] }
    assert.deepStrictEqual(told(strings, 1), ["must be string or null, got 1"])
    const tree = { anyOf: [{ required: ["leaf"] }, { properties: { child: { $ref: "#" } }, required: ["child"] }] }
    assert.deepStrictEqual(told(tree, { child: {} }), [message, missing("leaf")])
    const text = { $ref: "#/$defs/text" }
    const beside = {
      properties: { ab: text, a: { anyOf: [text, { type: "null" }] } },
      $defs: { text: { type: "string" } }
    }
    assert.deepStrictEqual(issuesOf(beside, { ab: 1, a: 1 }), [
      { path: "ab", message: "must be string, got 1" },
      { path: "a", message: "must be string or null, got 1" }
    ])
    const long = { anyOf: repeat(10, (i) => ({ pattern: `${"a".repeat(90)}${i}` })) }
    assert.isAtMost(told(long, "b")[0]!.length, 501)
  })

  it("is told briefly, however long the schema, the value and the list are", () => {
    const issues = issuesOf(
      { items: { enum: repeat(1_000, (i) => `value ${i}`) } },
      repeat(1_000, () => "x".repeat(100_000))
    )
    assert.lengthOf(issues, 10)
    for (const { message } of issues) assert.isBelow(message.length, 500)
    assert.lengthOf(issuesOf({ required: repeat(30, String) }, {}), 10)
    assert.lengthOf(issuesOf({ anyOf: repeat(2, () => ({ required: repeat(30, String) })) }, {}), 10)
    assert.match(issuesOf({ enum: ["x".repeat(1_000), "y"] }, 1)[0]!.message, /… or "y", got 1$/)
    const deep = repeat(500, () => "key".repeat(10)).reduce<unknown>((value, key) => ({ [key]: value }), 1)
    const [issue] = issuesOf({ additionalProperties: { $ref: "#" }, type: "object" }, deep)
    assert.isAtMost(issue!.path.length, 200)
    assert.isBelow(problemOf({ $ref: "x".repeat(10_000) })!.length, 600)
  })
})

describe("a schema that is none", () => {
  const elsewhere = "is not in this schema; nothing is fetched, so write it under $defs"
  const problems: ReadonlyArray<readonly [schema: unknown, problem: string]> = [
    [1, "# must be object or boolean, got 1"],
    [null, "# must be object or boolean, got null"],
    [{ properties: { "a/b": "string" } }, `#/properties/a~1b must be object or boolean, got "string"`],
    [{ required: true }, "#/required must be array, got true"],
    [{ maxLength: -1 }, "#/maxLength must be >= 0, got -1"],
    [{ $schema: draft[7], multipleOf: 0 }, "#/multipleOf must be > 0, got 0"],
    [{ $schema: draft[2019], minimum: "1" }, `#/minimum must be number, got "1"`],
    [{ $ref: "#/$defs/a" }, `"#/$defs/a" ${elsewhere}`],
    [{ $ref: "other.json" }, `"other.json" ${elsewhere}`],
    [{ items: { $ref: "https://example.com/a" } }, `"https://example.com/a" ${elsewhere}`],
    [{ $ref: draft[2020] }, `"${draft[2020]}" ${elsewhere}`],
    [{ $ref: "#" }, "a reference in it leads back to itself without end"],
    [
      {
        properties: { x: { $ref: "#/$defs/a" } },
        $defs: { a: { anyOf: [{ $ref: "#/$defs/b" }] }, b: { not: { $ref: "#/$defs/a" } } }
      },
      "a reference in it leads back to itself without end"
    ],
    [{ pattern: "(" }, "Invalid regular expression: /(/: Unterminated group"],
    ...[
      "http://json-schema.org/draft-04/schema#",
      "https://example.com/mine",
      "http://json-schema.org/constructor/schema",
      7
    ].map((
      $schema
    ) =>
      [
        { $schema },
        `$schema is ${JSON.stringify($schema)}; known are drafts 6, 7, 2019-09 and 2020-12 of json-schema.org`
      ] as const
    )
  ]
  for (const [schema, problem] of problems) {
    it(`is refused: ${problem}`, () => {
      assert.strictEqual(problemOf(schema), problem)
    })
  }
})

/** Schemas of a foreign server that wants to harm. */
describe("a hostile JSON Schema", () => {
  const nested = (depth: number, inner: unknown, wrap: (inner: unknown) => unknown) =>
    repeat(depth, () => 0).reduce<unknown>((value) => wrap(value), inner)

  it("matches no pattern for longer than its text", () => {
    const text = `${"a".repeat(5_000)}!`
    for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(.*a){20}[bc]"]) {
      assert.isFalse(takes({ pattern }, text), pattern)
      assert.isFalse(takes({ patternProperties: { [pattern]: false }, additionalProperties: false }, { [text]: 1 }))
    }
  })

  it("has each of its patterns checked, linear or not", () => {
    const patterns = ["^a", "(?=b)b$", "^(.)x?.*\\1$"]
    const schema = { allOf: patterns.map((pattern) => ({ pattern })) }
    assert.lengthOf(issuesOf(schema, "c d"), 3)
    assert.lengthOf(issuesOf(schema, "ab"), 1)
    assert.isFalse(takes({ pattern: "^(?!a)" }, "a"))
  })

  it("is too deep, and so may a value be: a problem and an issue", () => {
    assert.match(problemOf(nested(20_000, {}, (a) => ({ properties: { a } })))!, /^it is nested too deeply/)
    const deep = nested(50_000, 1, (a) => ({ a }))
    const issue = { path: "", message: "is nested too deeply to be checked" }
    assert.deepStrictEqual(issuesOf({ properties: { a: { $ref: "#" } } }, deep), [issue])
    assert.deepStrictEqual(issuesOf({ uniqueItems: true }, [nested(50_000, 1, (a) => [a])]), [issue])
  })

  it("makes nothing throw by the names in a value", () => {
    assert.isTrue(takes({ uniqueItems: true }, [{ valueOf: 1 }, { valueOf: 2 }]))
    assert.isFalse(takes({ uniqueItems: true }, [{ toJSON: 1 }, { toJSON: 1 }]))
    assert.isFalse(takes({ required: ["constructor", "a"] }, { a: 1 }))
    assert.isFalse(takes({ properties: { "\ud800": { type: "string" } } }, { "\ud800": 1 }))
  })

  /** A schema in which each part refers twice to the next, forty times. */
  const doubling = (wrap: (next: unknown) => unknown, last: unknown = {}) => ({
    $ref: "#/$defs/a0",
    $defs: Object.fromEntries([
      ...repeat(40, (n) => [`a${n}`, wrap({ $ref: `#/$defs/a${n + 1}` })]),
      ["a40", last]
    ])
  })

  it("is refused unexpanded where its references double, whatever stands around them", () => {
    const wraps: ReadonlyArray<(next: unknown) => unknown> = [
      (next) => ({ allOf: [next, next] }),
      (next) => ({ anyOf: [next, next] }),
      (next) => ({ oneOf: [{ not: next }, { not: next }] }),
      (next) => ({ if: next, then: next, else: next }),
      (next) => ({ dependentSchemas: { a: next, b: next } }),
      (next) => ({ properties: { a: next, b: next } }),
      (next) => ({ items: next, contains: next }),
      (next) => ({ additionalProperties: { patternProperties: { a: next, b: next } } })
    ]
    for (const wrap of wraps) assert.match(problemOf(doubling(wrap))!, /are too many$/, JSON.stringify(wrap("next")))
    // also where the end leads back to the beginning
    const ring = doubling((next) => ({ allOf: [next, next] }), { properties: { again: { $ref: "#/$defs/a0" } } })
    assert.match(problemOf(ring)!, /are too many$/)
    const dynamic = {
      $dynamicRef: "#a0",
      $defs: Object.fromEntries(repeat(41, (n) => {
        const next = { $dynamicRef: `#a${n + 1}` }
        return [`a${n}`, { $dynamicAnchor: `a${n}`, ...n < 40 ? { allOf: [next, next] } : {} }]
      }))
    }
    assert.match(problemOf(dynamic)!, /are too many$/)
    // of a tree that leads to itself there is no end, and none is needed
    assert.isUndefined(problemOf({ properties: { left: { $ref: "#" }, right: { $ref: "#" } } }))
  })

  const tree = (depth: number, leaf: unknown) => nested(depth, leaf, (child) => ({ kind: "node", child }))

  it("looks at a value once, by how many ways it may be come to", () => {
    const both = { properties: { child: { allOf: [{ $ref: "#" }, { $ref: "#" }] } }, required: ["kind"] }
    assert.isTrue(takes(both, tree(100, { kind: "leaf" })))
    assert.lengthOf(issuesOf(both, tree(100, {})), 10)
    const any = {
      anyOf: repeat(5, (n) => ({ properties: { kind: { const: n === 4 ? "node" : `k${n}` }, child: { $ref: "#" } } }))
    }
    assert.isTrue(takes(any, tree(100, { kind: "node" })))
    assert.match(issuesOf(any, tree(100, { kind: "other" }))[0]!.message, /^must match one of 5 alternatives/)
  })

  it("is given up where a check takes too many steps: an issue that says so", () => {
    const left = { properties: { child: { allOf: [{ $ref: "#" }, { $ref: "#" }] } }, unevaluatedProperties: true }
    const objects = repeat(100_000, (n) => ({ n }))
    const wide = Object.fromEntries(repeat(10_000, (n) => [`p${n}`, {}]))
    const cases: ReadonlyArray<readonly [schema: unknown, value: unknown]> = [
      [left, tree(100, {})],
      [{ uniqueItems: true }, objects],
      [{ items: { enum: objects } }, objects],
      [{ items: { pattern: "(.*a){50}[bc]" } }, repeat(100, () => "a".repeat(10_000))],
      [
        { patternProperties: Object.fromEntries(repeat(1_000, (n) => [`^(a+)+${n}$`, {}])) },
        Object.fromEntries(repeat(1_000, (n) => [`${"a".repeat(50)}${n}`, 1]))
      ],
      [{ items: { allOf: repeat(1_000, () => ({ type: "number" })) } }, repeat(10_000, () => 1)],
      // what looks small is asked again and again of what is large
      ...["maxProperties", "minProperties"].map((key) =>
        [{ allOf: repeat(9_000, () => ({ [key]: key === "maxProperties" ? 1e9 : 0 })) }, wide] as const
      ),
      [{ allOf: repeat(9_000, () => ({ properties: {} })) }, wide],
      // a name that may mean any resource on the way
      [
        {
          $id: "https://example.com/a",
          properties: { child: { $ref: "b" }, list: { items: { $ref: "named" } } },
          $defs: {
            b: { $id: "b", properties: { child: { $ref: "a" } } },
            named: { $id: "named", $dynamicRef: "#name", $defs: { it: { $dynamicAnchor: "name" } } }
          }
        },
        repeat(200, () => 0).reduce<unknown>((child) => ({ child }), { list: repeat(5_000, (n) => n) })
      ],
      [{ items: { pattern: `^(${"ab".repeat(2_000)})?x$` } }, repeat(100_000, () => "x")],
      [
        {
          allOf: [repeat(300, () => 0).reduce<unknown>((it) => ({ allOf: [it] }), { properties: wide })],
          unevaluatedProperties: true
        },
        wide
      ]
    ]
    for (const [schema, value] of cases) {
      const [issue, ...others] = foreignIssuesOf(schema, value)
      assert.deepStrictEqual(others, [])
      assert.match(issue!.message, /^cannot be checked: that takes more than 500000 steps/)
    }
  })

  it("has a limit whatever the value, and every other schema one that grows with the value", () => {
    const rows = {
      type: "array",
      items: {
        type: "object",
        properties: { id: { type: "integer" }, name: { type: "string", maxLength: 99 }, at: { pattern: "^\\d{4}-" } },
        required: ["id", "name"],
        additionalProperties: false
      }
    }
    const base64 = { type: "string", pattern: "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" }
    const large: ReadonlyArray<readonly [schema: unknown, value: unknown]> = [
      [base64, "QUJD".repeat(50_000)],
      [rows, repeat(20_000, (id) => ({ id, name: `row ${id}`, at: "2026-01-01" }))],
      [{ uniqueItems: true }, repeat(50_000, (n) => ({ n, name: `object ${n}` }))],
      [{ items: { enum: repeat(30_000, (n) => ({ n })) } }, repeat(30_000, (n) => ({ n }))],
      [{ items: { pattern: "(.*a){50}$" } }, repeat(20, () => "a".repeat(1_000))],
      [{ items: { allOf: repeat(200, () => ({ type: "number" })) } }, repeat(5_000, (n) => n)],
      [{ patternProperties: Object.fromEntries(repeat(500, (n) => [`(7+)+x${n}$`, {}])) }, {
        [`a${"7".repeat(900)}`]: 1
      }]
    ]
    for (const [index, [schema, value]] of large.entries()) {
      assert.deepStrictEqual(issuesOf(schema, value), [], String(index))
      assert.match(foreignIssuesOf(schema, value)[0]?.message ?? "", /^cannot be checked/, String(index))
    }
    // what is large and plain is no trouble, whosever schema it is
    assert.deepStrictEqual(foreignIssuesOf({ items: rows.items.properties.name }, repeat(10_000, () => "x")), [])
    assert.deepStrictEqual(foreignIssuesOf({ type: "string", minLength: 1, pattern: "x$" }, "x".repeat(50_000)), [])
  })

  it("is given up where it takes more than the size of the value accounts for, whosever it is", () => {
    const left = { properties: { child: { allOf: [{ $ref: "#" }, { $ref: "#" }] } }, unevaluatedProperties: true }
    for (const depth of [100, 300]) {
      assert.match(issuesOf(left, tree(depth, {}))[0]!.message, /^cannot be checked: that takes more than \d+ steps/)
    }
    const itself: Record<string, unknown> = {}
    itself.child = itself
    assert.match(issuesOf(left, itself)[0]!.message, /^(?:cannot be checked|is nested too deeply)/)
  })

  it("says what is wrong with many values in no more time than with one", () => {
    const long = { a: "x".repeat(100_000) }
    assert.lengthOf(issuesOf({ items: { const: long } }, repeat(5_000, (n) => n)), 10)
    const properties = Object.fromEntries(repeat(9_000, (n) => [`p${n}`, {}]))
    const others = Object.fromEntries(repeat(9_000, (n) => [`q${n}`, 1]))
    assert.lengthOf(issuesOf({ properties, additionalProperties: false }, others), 10)
  })

  it("has no addresses that each reference would have to be read with", () => {
    const items = repeat(100, () => ({ $ref: "a" }))
    assert.match(
      problemOf({ $id: `https://example.com/${"x".repeat(5_000)}`, allOf: items })!,
      /^an address in it has more/
    )
    const id = `https://example.com/${"x".repeat(3_000)}`
    assert.match(
      problemOf({ $id: id, allOf: repeat(900, (n) => ({ $id: `${n}` })) })!,
      /^its addresses are too long together/
    )
  })

  it("is checked where no code may be made of texts", () => {
    const [schema, value] = [JSON.stringify({ items: { type: "string", pattern: "^a" } }), JSON.stringify(["a", "b"])]
    const module = JSON.stringify(new URL("../../../src/internal/json-schema/validator.ts", import.meta.url))
    const program =
      `import { compile } from ${module}; console.log(JSON.stringify(compile(${schema}).success(${value})))`
    const flags = ["--disallow-code-generation-from-strings", "--input-type=module", "--eval", program]
    const { stderr, stdout } = spawnSync(process.execPath, flags, { encoding: "utf8" })
    assert.strictEqual(stdout.trim(), `[{"path":"1","message":"must match the pattern \\"^a\\", got \\"b\\""}]`, stderr)
  })

  it("knows nothing of other schemas with its $id, be it that of a draft", () => {
    for (const $id of ["https://example.com/tool", draft[2020]]) {
      const text = validatorOf({ $id, $ref: "#/$defs/a", $defs: { a: { $id: "inner", type: "string" } } })
      const number = validatorOf({ $id, $ref: "inner", $defs: { a: { $id: "inner", type: "number" } } })
      assert.deepStrictEqual([text("a").length, text(1).length, number("a").length, number(1).length], [0, 1, 1, 0])
    }
    assert.isString(problemOf({ $ref: "https://example.com/tool" }))
  })

  it("runs nothing of what it says", () => {
    const code = "\"]);globalThis.harmed=true;//'`*/\u2028${globalThis.harmed=true}"
    const schema = {
      $id: `https://example.com/${encodeURIComponent(code)}`,
      $comment: code,
      description: code,
      properties: { [code]: { enum: [code], default: code } },
      required: [code],
      patternProperties: { "^[\"'`]": { const: code } }
    }
    assert.isTrue(takes(schema, { [code]: code }))
    assert.isFalse(takes(schema, { [code]: 1 }))
    assert.notProperty(globalThis, "harmed")
  })
})
