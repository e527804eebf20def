import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { codePoint, countMarked, cutBefore, isMarked, pieces, spelled } from "../../../src/page/parts/pieces.ts"

/** What a person sees of a text: marks in the place of what is hidden, and behind what looks like other letters. */
const seen = (text: string): string =>
  pieces(text).map((piece) =>
    piece.kind === "hidden" ?
      piece.shown :
      piece.kind === "alike" ?
      piece.text + piece.shown :
      piece.kind === "backwards" ?
      `[${piece.text}]` :
      piece.text
  ).join("")

/** Texts of what deceives: controls, marks, letters of many scripts, halves of characters. */
const tricky = [
  "a",
  "B",
  "7",
  " ",
  "/",
  ".",
  "_",
  "\t",
  "\n",
  "\r",
  "\0",
  "\u001b",
  "\u202e",
  "\u2066",
  "\u200b",
  "\u200d"
]
  .concat([
    "\ud83d",
    "\ude00",
    "😀",
    "é",
    "e\u0301",
    "\u0301",
    "а",
    "рос",
    "Ж",
    "ο",
    "א",
    "ש",
    "ا",
    "漢",
    "ｒｍ",
    "𝐚",
    "⁄"
  ])
  .concat(["\u{e0041}", "\ufe0f", "\u2800", "\ufdd0", "\ue000", "\u00a0", "\u3164"])

const Tricky = Schema.Array(Schema.Literals(tricky))

describe("pieces", () => {
  it.prop("of a text are the text when they are put together", [Schema.String], ([text]) => {
    assert.strictEqual(pieces(text).map((piece) => piece.text).join(""), text)
  })

  it.prop("of what deceives are the text when they are put together, and none is empty", [Tricky], ([parts]) => {
    const text = parts.join("")
    assert.strictEqual(pieces(text).map((piece) => piece.text).join(""), text)
    assert.isTrue(pieces(text).every((piece) => piece.text !== ""))
  })

  it.prop("show nothing that is hidden, and nothing that turns the direction of text", [Tricky], ([parts]) => {
    assert.notMatch(
      seen(parts.join("")).replaceAll(/[\t\n]/g, ""),
      /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/u
    )
  })

  it("name what is hidden", () => {
    assert.strictEqual(seen("a\u202egpj.exe"), "a⟨U+202E⟩gpj.exe")
    assert.strictEqual(seen("\u061c\u200e\u200f\u2069"), "⟨U+061C⟩⟨U+200E⟩⟨U+200F⟩⟨U+2069⟩")
    assert.strictEqual(seen("\u200b".repeat(1000)), "⟨U+200B ×1000⟩")
    assert.strictEqual(seen("\ud800x\udc00"), "⟨U+D800⟩x⟨U+DC00⟩")
    assert.strictEqual(seen("\u001b[2J\0"), "⟨U+001B⟩[2J⟨U+0000⟩")
    const named = pieces("\u202e\u{e0041}").filter(isMarked).map((piece) => piece.name)
    assert.deepStrictEqual(named, [
      "U+202E, right-to-left override, changes the text direction",
      "U+E0041, invisible tag"
    ])
  })

  it("tell letters of other scripts in a word of Latin, and whole words of them", () => {
    assert.strictEqual(seen("pаypal.com"), "pа⟨Cyrillic U+0430⟩ypal.com")
    assert.strictEqual(seen("gοοgle"), "gοο⟨Greek U+03BF U+03BF⟩gle")
    assert.strictEqual(seen("/home/сасhe"), "/home/сас⟨Cyrillic U+0441 U+0430 U+0441⟩he")
    assert.strictEqual(seen("аррӏе.com"), "аррӏе⟨Cyrillic U+0430 U+0440 U+0440 …⟩.com")
    assert.strictEqual(seen("Жук сат аррӏе.com"), "Жук сат аррӏе⟨Cyrillic U+0430 U+0440 U+0440 …⟩.com")
    assert.strictEqual(seen("run сат now"), "run сат⟨Cyrillic U+0441 U+0430 U+0442⟩ now")
    assert.strictEqual(seen("ｒm"), "ｒ⟨U+FF52⟩m")
    assert.strictEqual(seen("𝐫m ∕etc"), "𝐫⟨U+1D42B⟩m ∕⟨U+2215⟩etc")
  })

  it("leave languages as they are", () => {
    for (
      const text of [
        "Привет, мир: это файл README.md",
        "Καλημέρα κόσμε",
        "naïve café Größe Łódź",
        "使用API的文件",
        "ありがとう",
        "Ünïcödé ß"
      ]
    ) assert.strictEqual(seen(text), text)
  })

  it("frame what runs from right to left, so that what is around stays in its place", () => {
    assert.strictEqual(seen("a/שלום עולם/b"), "a/[שלום עולם]/b")
    assert.strictEqual(seen("\"א\" + 1"), "\"[א]\" + 1")
  })

  it("of a part are marked by what is around it", () => {
    assert.isFalse(pieces("рас", "рас Жук").some(isMarked))
    assert.isTrue(pieces("рас").some(isMarked))
  })

  it("are few for a long text, however much of it is hidden", () => {
    assert.strictEqual(pieces("x".repeat(1_000_000)).length, 1)
    assert.strictEqual(pieces("\u200b".repeat(1_000_000)).length, 1)
  })
})

describe("codePoint and spelled", () => {
  it("name characters", () => {
    assert.strictEqual(codePoint("😀"), "U+1F600")
    assert.strictEqual(spelled("e\u0301!"), "e⟨U+0301⟩!")
  })
})

describe("countMarked", () => {
  it("counts characters, not runs", () => {
    assert.strictEqual(countMarked("a\u202e\u200b\u200bpаy"), 4)
  })
})

describe("cutBefore", () => {
  it("cuts no character in halves", () => {
    assert.strictEqual(cutBefore("a😀b", 2), 1)
    assert.strictEqual(cutBefore("a😀b", 3), 3)
    assert.strictEqual(cutBefore("ab", 9), 2)
  })
})
