/** What counts as text, and how its bytes are read. */
import { assert, describe, it } from "@effect/vitest"
import * as TextBody from "../../../src/tools/files/TextBody.ts"

const decode = (bytes: ReadonlyArray<number>, contentType?: string, truncated = false) =>
  TextBody.decode(Uint8Array.from(bytes), contentType, truncated)

const utf8 = (text: string) => Array.from(new TextEncoder().encode(text))

describe("a content type", () => {
  it("is text, binary, or says nothing", () => {
    const types = {
      text: [
        "text/html; charset=utf-8",
        "TEXT/Plain",
        " text/markdown ",
        "application/json",
        "application/problem+json",
        "application/ld+json; profile=x",
        "application/xml",
        "application/xhtml+xml",
        "application/atom+xml",
        "image/svg+xml",
        "application/javascript",
        "application/x-ndjson",
        "application/yaml",
        "application/x-www-form-urlencoded"
      ],
      binary: [
        "image/png",
        "application/pdf",
        "application/zip",
        "video/mp4",
        "font/woff2",
        "application/jsonish",
        "x-text/plain",
        "multipart/form-data",
        "nonsense"
      ],
      unknown: [undefined, "", "application/octet-stream", "Application/Octet-Stream; x=y", "; charset=utf-8"]
    }
    for (const [kind, all] of Object.entries(types)) {
      for (const type of all) assert.strictEqual(TextBody.kindOf(type), kind, type)
    }
  })
})

describe("a text", () => {
  for (
    const [what, bytes, contentType, text] of [
      ["UTF-8 where nothing is said", utf8("äЖ"), "text/plain", "äЖ"],
      ["Latin-1", [0xe4], "text/plain; charset=iso-8859-1", "ä"],
      ["a charset in quotes and capitals", [0xe4], "text/plain;Charset=\"ISO-8859-1\"; x=y", "ä"],
      ["Shift JIS", [0x83, 0x65], "text/html; charset=shift_jis", "テ"],
      ["UTF-16 by its charset, NULs and all", [0x61, 0, 0x62, 0], "text/plain; charset=utf-16le", "ab"],
      ["UTF-16 by its mark, whatever is said", [0xff, 0xfe, 0x61, 0], "text/plain; charset=utf-8", "a"],
      ["UTF-16 the other way round", [0xfe, 0xff, 0, 0x61], "text/plain", "a"],
      ["UTF-8 by its mark, whatever is said", [0xef, 0xbb, 0xbf, 0xc3, 0xa4], "text/plain; charset=latin1", "ä"],
      ["UTF-8 with wrong bytes marked", [0x61, 0xff], "text/plain", "a\ufffd"],
      ["UTF-8 of unknown type", utf8("äЖ"), undefined, "äЖ"],
      ["nothing", [], undefined, ""]
    ] as const
  ) {
    it(`is read as ${what}`, () => {
      assert.deepStrictEqual(decode(bytes, contentType), { text })
    })
  }

  it("of a charset that is not known is read as UTF-8, and that is said", () => {
    assert.deepStrictEqual(decode(utf8("ä"), "text/plain; charset=klingon"), { text: "ä", charset: "klingon" })
  })

  it("that is cut ends with a whole character", () => {
    assert.deepStrictEqual(decode(utf8("aä").slice(0, 2), "text/plain", true), { text: "a" })
    assert.deepStrictEqual(decode(utf8("aä").slice(0, 2), undefined, true), { text: "a" })
    assert.deepStrictEqual(decode(utf8("aä").slice(0, 2), "text/plain"), { text: "a\ufffd" })
  })

  it("holds no NUL, and is valid where no type says that it is text", () => {
    assert.isUndefined(decode([0x61, 0], "text/plain"))
    assert.isUndefined(decode([0x61, 0], undefined))
    assert.isUndefined(decode([0x89, 0x50, 0x4e, 0x47], undefined))
    assert.isUndefined(decode(utf8("ä").slice(0, 1), "application/octet-stream"))
  })
})
