import { assert, describe, it } from "@effect/vitest"
import * as CliOutput from "effect/cli/CliOutput"
import * as Schema from "effect/Schema"
import { escape, escapeJson } from "../../src/internal/escape.ts"
import { clip } from "../../src/terminal/clip.ts"

/** Any text, with much of what does something to a terminal. */
const Units = Schema.Array(
  Schema.Union([
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff })),
    Schema.Literals([0x07, 0x0a, 0x1b, 0x5b, 0x7f, 0x9b, 0xad, 0x200b, 0x202e, 0x2066, 0xd83d, 0xdc00, 0xfeff, 0x301])
  ])
)

const textOf = (units: ReadonlyArray<number>): string => String.fromCharCode(...units)

const visible = /^[^\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]*$/u

describe("escape", () => {
  it("shows what a terminal would obey or hide", () => {
    assert.strictEqual(escape("\u001b[31mred\u0007\u009b2J\u007f"), "\\u001b[31mred\\u0007\\u009b2J\\u007f")
    assert.strictEqual(escape("a\nb\r\tc"), "a\\nb\\r\\tc")
    assert.strictEqual(escape("\u202egpj.exe\u2066\u200f\u061c"), "\\u202egpj.exe\\u2066\\u200f\\u061c")
    assert.strictEqual(escape("r\u200bm\u00ad\ufeff\u2060\u3164"), "r\\u200bm\\u00ad\\ufeff\\u2060\\u3164")
    assert.strictEqual(escape("\u{e0041}\ud800\u2028\u00a0\u2800"), "\\u{e0041}\\ud800\\u2028\\u00a0\\u2800")
  })

  it("leaves letters, marks, symbols and spaces of any language alone", () => {
    const text = "naïve e\u0301 日本語 العربية 👍 — \"quoted\" \\ a b"
    assert.strictEqual(escape(text), text)
  })

  it("does not let marks pile up", () => {
    assert.strictEqual(escape("a\u0301\u0302\u0303\u0304"), "a\u0301\u0302\\u0303\\u0304")
  })

  it.prop("gives one visible line for any text", [Units], ([units]) => {
    assert.match(escape(textOf(units)), visible)
  })

  it.prop("changes nothing when it is applied again", [Units], ([units]) => {
    const once = escape(textOf(units))
    assert.strictEqual(escape(once), once)
  })

  it.prop(
    "cuts to the columns it is given",
    [Units, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30 }))],
    ([
      units,
      columns
    ]) => {
      const cut = clip(textOf(units), columns)
      assert.isAtMost(CliOutput.displayWidth(cut), columns)
      assert.match(cut, visible)
    }
  )

  it("cuts between characters and says so", () => {
    assert.strictEqual(clip("abcdef", 6), "abcdef")
    assert.strictEqual(clip("abcdefg", 6), "abcde…")
    assert.strictEqual(clip("日本語", 5), "日本…")
  })

  it("looks at no more of a huge text than it shows", () => {
    assert.strictEqual(clip("x".repeat(50_000_000), 4), "xxx…")
  })

  it.prop("keeps the value of JSON and shows all of it", [Units], ([units]) => {
    const value = { [textOf(units)]: [textOf(units)] }
    const json = escapeJson(JSON.stringify(value, undefined, 2))
    assert.deepStrictEqual(JSON.parse(json), value)
    for (const line of json.split("\n")) assert.match(line, visible)
  })
})
