import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { matches } from "../../src/internal/wildcard.ts"
import { classesOf } from "../../src/policy/PatternClasses.ts"

const firsts = (chains: ReadonlyArray<ReadonlyArray<string>>, text: string) =>
  chains.map((chain) => chain.findIndex((it) => matches(it, text)))

describe("the classes of patterns", () => {
  const letter = Schema.Literals(["a", "b", "*", "?", "/", "🙂"])
  const pattern = Schema.Array(letter).check(Schema.isMinLength(1), Schema.isMaxLength(4))
  const chain = Schema.Array(pattern).check(Schema.isMaxLength(3))
  const text = Schema.Array(Schema.Literals(["a", "b", "c", "/", "🙂", "\n"])).check(Schema.isMaxLength(6))

  it.prop(
    "hold every text, and each example is of its class",
    [Schema.Array(chain).check(Schema.isMaxLength(3)), Schema.Array(text).check(Schema.isMaxLength(12))],
    ([given, texts]) => {
      const chains = given.map((it) => it.map((letters) => letters.join("")))
      const classes = Result.getOrThrow(classesOf(chains))
      for (const it of classes) assert.deepStrictEqual(firsts(chains, it.text), it.firsts)
      const keys = new Set(classes.map((it) => it.firsts.join()))
      assert.strictEqual(keys.size, classes.length)
      for (const letters of texts) assert.isTrue(keys.has(firsts(chains, letters.join("")).join()))
    },
    { arbitrary: { runs: 2_000 } }
  )

  it("have examples that people can read", () => {
    const classes = Result.getOrThrow(classesOf([["*.env*", "src/*"], ["npm test", "npm *"]]))
    assert.deepStrictEqual(classes.map((it) => it.text), [
      "example",
      "example.env",
      "src/example",
      "npm test",
      "npm example",
      "npm .env"
    ])
  })

  it("stay few where one list has many patterns", () => {
    const list = Array.from({ length: 30 }, (_, index) => `*word${10 + index}*`)
    assert.strictEqual(Result.getOrThrow(classesOf([list])).length, 31)
  })

  it("are not counted where they would be too many, and say so", () => {
    const chains = Array.from({ length: 20 }, (_, index) => [`*${String.fromCharCode(97 + index)}*`])
    assert.deepStrictEqual(classesOf(chains, 500), Result.fail("20 patterns overlap in more than 500 ways"))
  })
})
