import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { bytesOf, keyOf, textOf, widthOf } from "../../src/internal/textBytes.ts"

describe("texts as bytes", () => {
  it.prop("lose no character, whole or in part", { text: Schema.String, from: Schema.Int }, ({ from, text }) => {
    // no two halves of a character belong together
    const broken = text.split("").reverse().join("")
    for (const one of [text, broken, `${text}\ud800`]) {
      const width = widthOf(one)
      const bytes = bytesOf(one, width)
      assert.strictEqual(bytes.length, one.length * width)
      assert.strictEqual(textOf(bytes, width), one)
      const at = Math.abs(from) % (one.length + 1)
      assert.strictEqual(textOf(bytes.subarray(at * width), width), one.slice(at))
    }
  })

  it("take one byte for each character where they can", () => {
    assert.deepStrictEqual(["", "a", "ÿ", "Ā", "🙂"].map(widthOf), [1, 1, 1, 2, 2])
    const long = "é".repeat(100_000)
    assert.strictEqual(textOf(bytesOf(long, 1), 1), long)
  })

  it("have a key that no other text has", () => {
    const texts = ["", "a", "a\0", "\0a", "\ud83d", "\ude42", "\ufffd", "🙂", "á", "a\u0301"]
    assert.strictEqual(new Set(texts.map(keyOf)).size, texts.length)
    for (const text of texts) assert.match(keyOf(text), /^[0-9a-f]{64}$/)
  })
})
