import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { found, mark, without } from "../../../src/internal/secrets/texts.ts"

/** Each position of a text on its own: whether it belongs to a secret, or to twelve characters at an end of a long one. */
const plainly = (text: string, secrets: ReadonlyArray<string>): string => {
  const spans: Array<readonly [start: number, end: number]> = []
  for (const secret of secrets.filter((it) => it.length >= 4)) {
    const parts = [secret]
    for (let length = 12; secret.length >= 24 && length < secret.length; length++) {
      parts.push(secret.slice(0, length), secret.slice(-length))
    }
    for (const part of parts) {
      for (let at = 0; at < text.length; at++) if (text.startsWith(part, at)) spans.push([at, at + part.length])
    }
  }
  let left = ""
  for (let at = 0; at < text.length;) {
    if (!spans.some(([start]) => start === at)) left += text[at++]!
    else {
      left += mark
      let end = at
      for (let last = at; last <= end; last++) {
        for (const [start, until] of spans) {
          if (start === last && (start < end || last === at)) end = Math.max(end, until)
        }
      }
      at = end
    }
  }
  const words = secrets.filter((it) => it.length < 4).sort((one, other) => other.length - one.length)
  return words.reduce(
    (text, word) => text.replace(new RegExp(`(?<![\\p{L}\\p{N}])${word}(?![\\p{L}\\p{N}])`, "gu"), mark),
    left
  )
}

const joined = (pieces: ReadonlyArray<string>, least: number, most: number) =>
  Schema.Array(Schema.Literals(pieces)).check(Schema.isMinLength(least), Schema.isMaxLength(most))

describe("known secrets in a text", () => {
  const letters = ["a", "b", "é", "ab", "aab", "𝒜"]
  const blocks = ["aaaaaaaaaaaa", "abababababab", "aabaabaabaab", "b"]
  const secrets = Schema.Array(Schema.Union([joined(letters, 1, 5), joined(blocks, 1, 4)])).check(
    Schema.isMinLength(1),
    Schema.isMaxLength(4)
  )
  const pieces = joined([...letters, ...blocks, " ", "-", "𝒜"], 0, 12)

  it.prop("are redacted in one pass as by looking for each at each position", [secrets, pieces], ([all, pieces]) => {
    const known = all.map((it) => it.join(""))
    // a text that consists of parts of secrets has more to find
    const text = pieces.join("") + known[0]!.slice(1) + pieces.join("-") + known.at(-1)!.slice(0, -1)
    assert.strictEqual(without(text, known), plainly(text, known))
  }, { arbitrary: { runs: 2_000 } })

  it("are one mark where they overlap, and one each where they touch", () => {
    assert.strictEqual(without("abcdefg", ["abcde", "defg"]), mark)
    assert.strictEqual(without("abcdefgh", ["abcd", "efgh"]), `${mark}${mark}`)
  })

  it("hide a whole text where they are too many or too long to be searched for", { tags: ["E7"] }, () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => `secret-${index}`)
    assert.strictEqual(without("a secret-1 b", many(10_000)), `a ${mark} b`)
    assert.strictEqual(without("a secret-1 b", many(10_001)), mark)
    assert.strictEqual(without("a", ["a".repeat(1_000_000)]), "a")
    assert.strictEqual(without("a", ["a".repeat(1_000_001)]), mark)
  })
})

describe("a private key in a text", () => {
  const [begin, end] = ["-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"]
  const withoutKeys = (text: string) => found(text, () => false, true).text

  it("ends where it says so, or where the text was cut", () => {
    assert.strictEqual(withoutKeys(`a ${begin}x${end} b ${begin}y${end}`), `a ${mark} b ${mark}`)
    assert.strictEqual(withoutKeys(`a ${begin}${begin}x`), `a ${mark}`)
  })

  it("has no more than 20,000 characters", () => {
    const far = `${begin}${" ".repeat(20_001)}`
    assert.strictEqual(withoutKeys(`${far}b`), `${far}b`)
    assert.strictEqual(withoutKeys(`${far}${begin}x${end}`), `${far}${mark}`)
    assert.strictEqual(withoutKeys(`${begin}-----BEGIN PRIVATE KEY-----`), mark)
  })
})
