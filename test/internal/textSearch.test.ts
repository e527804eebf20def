import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { indexIn, splitBy } from "../../src/internal/textSearch.ts"

describe("a search in a text", () => {
  const parts = Schema.Array(Schema.Literals(["a", "b", "a".repeat(125), "ab".repeat(130), "a".repeat(300)])).check(
    Schema.isMinLength(1),
    Schema.isMaxLength(6)
  )

  it.prop("finds what the language finds, also long patterns in texts like them", [parts, parts, parts], ([...all]) => {
    const [one, other, third] = all.map((it) => it.join("")) as [string, string, string]
    for (const text of [one + other + third + other, other + one, one]) {
      for (const pattern of [other, third, one.slice(1)].filter((it) => it !== "")) {
        for (const from of [0, 1, text.indexOf(pattern) + 1]) {
          assert.strictEqual(indexIn(text, pattern, from), text.indexOf(pattern, from))
        }
        assert.deepStrictEqual(splitBy(text, pattern), text.split(pattern))
      }
    }
  }, { arbitrary: { runs: 500 } })
})
