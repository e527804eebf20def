import { assert, describe, it } from "@effect/vitest"
import { linearPattern, nativePattern } from "../../../src/internal/json-schema/linearPattern.ts"

describe("a linear pattern", () => {
  const patterns = [
    "^[a-z]+\\d$",
    "^\\S+$",
    "^[\\s.]$",
    "^.$",
    "^[\\w-.]+$",
    "a{2,3}b",
    "\\p{L}",
    "[^\\n]x|\\bword\\b",
    "^\\[.\\]$",
    "^\\d{4}-\\d{2}$"
  ]
  const texts = ["ab1", "a b", "\u00a0", "\n", "\u2028", ".", "a-b.c", "aab", "é", "a word", "[x]", "2024-05", ""]
  it("matches what JavaScript matches", () => {
    for (const source of patterns) {
      const linear = linearPattern(source)
      assert.isDefined(linear, source)
      for (const text of texts) {
        assert.strictEqual(linear!.test(text), nativePattern(source).test(text), `${source} ${JSON.stringify(text)}`)
      }
    }
  })

  it("is none with look-around, back references, or no meaning", () => {
    for (const source of ["(?=a)", "(?<!a)b", "(a)\\1", "(", "(?i)a", "[", "a{2000}"]) {
      assert.isUndefined(linearPattern(source), source)
    }
  })

  it("is none if its engine would be too large", () => {
    for (
      const source of [
        "a{900}".repeat(10),
        "a{1,900}".repeat(10),
        "a".repeat(10_000),
        `(${"ab".repeat(50)}){100}`,
        `(a{70}){80}`,
        // JavaScript takes long to make a set of so many
        `[${"\\p{L}".repeat(1_000)}]`,
        "\\P{Lu}\\p{L}".repeat(60)
      ]
    ) {
      assert.isUndefined(linearPattern(source), source.slice(0, 40))
    }
    assert.isBelow(linearPattern("^[a-z]{1,63}$")!.size, linearPattern("^([a-z]{1,63}\\.){5}$")!.size)
    assert.isDefined(linearPattern("(ab){1,900}[{](\\(x){2,}"))
  })
})
