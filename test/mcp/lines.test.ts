import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { lines } from "../../src/mcp/lines.ts"

const read = (maxBytes: number, chunks: ReadonlyArray<Buffer>) => {
  const seen: Array<string> = []
  const push = lines(maxBytes, (line) => void seen.push(line))
  return { within: chunks.map(push), seen }
}

/** Cuts bytes into pieces of so many. */
const cut = (bytes: Buffer, length: number) =>
  Array.from({ length: Math.ceil(bytes.length / length) }, (_, n) => bytes.subarray(n * length, (n + 1) * length))

const Lines = Schema.Array(Schema.String.check(Schema.isPattern(/^[a-zé€😀]{0,12}$/u)))

const Length = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 }))

describe("lines", () => {
  it.prop("are whole however they come", [Lines, Length], ([texts, length]) => {
    const bytes = Buffer.from(texts.map((text) => `${text}\n`).join("") + "open")
    const { seen, within } = read(100, cut(bytes, length))
    assert.deepStrictEqual(seen, texts)
    assert.isTrue(within.every((it) => it))
  })

  it.prop("that are too long are left out, and told of", [Lines, Length], ([texts, length]) => {
    const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(""))
    const short = texts.filter((text) => Buffer.byteLength(text) <= 5)
    const { seen, within } = read(5, cut(bytes, length))
    assert.deepStrictEqual(seen, short)
    assert.strictEqual(within.every((it) => it), short.length === texts.length)
  })

  it("tells of one that has no end", () => {
    assert.deepStrictEqual(read(5, [Buffer.from("abc"), Buffer.from("de"), Buffer.from("f")]).within, [
      true,
      true,
      false
    ])
  })
})
