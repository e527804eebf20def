import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { hintOf, hintsOf, linesOf, type Row, rowsOf } from "../../../src/page/parts/rows.ts"
import { changesIn, countsOf, pagesOf, type Shown, shownOf } from "../../../src/page/parts/shown.ts"
import { rowsOfDiff } from "../../../src/page/parts/unified.ts"

const Text = Schema.Array(
  Schema.Literals(
    ["a", "b", "foo bar", "foo baz", "}", "", "\t", " ", "é", "e\u0301", "😀"].flatMap((
      line
    ) => [`${line}\n`, `${line}\r\n`, line])
  )
)

const side = (rows: ReadonlyArray<Row>, of: "before" | "after"): string =>
  rows.map((row) => row[of] === undefined ? "" : row[of].text + row[of].end).join("")

/** What can be read of one side without opening anything, line by line; `…` for what is folded. */
const read = (shown: ReadonlyArray<Shown>, of: "before" | "after"): string =>
  shown.map((it) =>
    it.kind === "fold" ? `…${it.count}` : it.row[of] === undefined ? "" : it.marks().segments
      .filter(({ kind }) => kind === "same" || (kind === "removed") === (of === "before"))
      .map(({ text }) => text).join("") + (it.isLast ? it.row[of].end : "")
  ).join("")

/** Opens whatever is folded, as often as there is something. */
const allOf = (rows: ReadonlyArray<Row>): ReadonlyArray<Shown> => {
  const opened = new Set<string>()
  for (;;) {
    const shown = shownOf(rows, opened)
    const folds = shown.flatMap((it) => it.kind === "fold" ? [it.key] : [])
    if (folds.length === 0) return shown
    for (const key of folds) opened.add(key)
  }
}

const numbers = (count: number, edit: (line: string, at: number) => string = (line) => line): string =>
  Array.from({ length: count }, (_, at) => `${edit(`line ${at + 1}`, at)}\n`).join("")

describe("rowsOf", () => {
  it.prop("holds both texts whole", [Text, Text], ([before, after]) => {
    const { rows } = rowsOf(before.join(""), after.join(""))
    assert.strictEqual(side(rows, "before"), before.join(""))
    assert.strictEqual(side(rows, "after"), after.join(""))
    for (const row of rows) {
      if (row.kind === "same") {
        assert.deepStrictEqual([row.before.text, row.before.end], [row.after.text, row.after.end])
      }
    }
  })

  it("puts lines that are alike beside each other", () => {
    const { rows } = rowsOf("a\nconst x = 1\nb\n", "a\n// new\n// more\nconst x = 2\nb\n")
    assert.deepStrictEqual(rows.map(({ kind }) => kind), ["same", "added", "added", "changed", "same"])
  })

  it("knows a file that is new, and one that is gone", () => {
    assert.deepStrictEqual(rowsOf(null, "a\nb").rows.map(({ kind }) => kind), ["added", "added"])
    assert.deepStrictEqual(rowsOf("a\n", null).rows.map(({ kind }) => kind), ["removed"])
  })

  it("finds one line that moved on among 20,000", () => {
    const { isCoarse, rows } = rowsOf(
      numbers(20_000),
      numbers(20_000, (line, at) => at % 100 === 50 ? `${line} edited` : line)
    )
    assert.isFalse(isCoarse)
    assert.deepStrictEqual(countsOf(rows), { removed: 200, added: 200 })
  })
})

describe("what the eye does not see", () => {
  const hints = (before: string, after: string) => rowsOf(before, after).rows.flatMap((row) => hintOf(row) ?? [])

  it("is said of a line", () => {
    assert.deepStrictEqual(hints("a\n", "a \n"), ["Only whitespace changed"])
    assert.deepStrictEqual(hints("\ta\n", "  a\n"), ["Only whitespace changed"])
    assert.deepStrictEqual(hints("a\r\n", "a\n"), ["Only the line ending changed: CRLF before, LF after"])
    assert.deepStrictEqual(hints("a", "a\n"), ["Only the line ending changed: none before, LF after"])
    assert.deepStrictEqual(hints("é\n", "e\u0301\n"), ["Looks the same, but uses different characters"])
    assert.deepStrictEqual(hints("a\n", "b\r\n"), ["The line ending changed: LF before, CRLF after"])
    assert.deepStrictEqual(hints("a\n", "b\n"), [])
  })

  it("is said of a file", () => {
    assert.deepStrictEqual(hintsOf(rowsOf("a\r\nb\r\n", "a\nb\n").rows), [
      "Line endings changed in 2 lines: CRLF before, LF after"
    ])
    assert.deepStrictEqual(hintsOf(rowsOf("a\n b\n", "a\nb").rows), [
      "Only whitespace changed in 1 line",
      "The file does not end with a line break"
    ])
  })
})

describe("shownOf", () => {
  it.prop("can be opened until all of both texts is there", [Text, Text], ([before, after]) => {
    const { rows } = rowsOf(before.join(""), after.join(""))
    const shown = allOf(rows)
    assert.strictEqual(read(shown, "before"), before.join(""))
    assert.strictEqual(read(shown, "after"), after.join(""))
  })

  it.prop("folds nothing that differs", [Text, Text], ([before, after]) => {
    const { rows } = rowsOf(before.join(""), after.join(""))
    const there = new Set(shownOf(rows, new Set()).flatMap((it) => it.kind === "line" ? [it.row] : []))
    for (const row of rows) assert.isTrue(row.kind === "same" || there.has(row))
  })

  it("folds what is the same far from changes", () => {
    const { rows } = rowsOf(numbers(100), numbers(100, (line, at) => at === 49 ? "changed" : line))
    const shown = shownOf(rows, new Set())
    assert.deepStrictEqual(shown.flatMap((it) => it.kind === "fold" ? [it.count] : []), [46, 47])
    assert.strictEqual(shownOf(rows, new Set(["lines 0"])).length, shown.length + 45)
  })

  it("shows every changed character of a line of a megabyte, in parts", () => {
    const words = Array.from({ length: 150_000 }, (_, at) => `w${at % 700}`)
    const before = words.join(" ")
    const after = words.map((word, at) => at % 15_000 === 7 ? "changed" : word).join(" ")
    const { rows } = rowsOf(before, after)
    const shown = shownOf(rows, new Set())
    assert.strictEqual(
      shown.flatMap((it) => it.kind === "line" ? it.marks().segments : []).filter(({ kind }) => kind === "added")
        .length,
      10
    )
    assert.strictEqual(changesIn(shown).length, 10)
    assert.isTrue(
      shown.every((it) => it.kind === "fold" || it.size <= 2_001)
    )
    const folded = shown.reduce((sum, it) => it.kind === "fold" ? sum + it.count : sum, 0)
    assert.strictEqual(read(shown.filter(({ kind }) => kind === "line"), "after").length + folded, after.length)
    assert.strictEqual(read(allOf(rows), "after"), after)
  })

  it("shows a line of a megabyte that is another one, all of it", () => {
    const [before, after] = ["a".repeat(1_000_000), "😀".repeat(500_000)]
    const { rows } = rowsOf(before, after)
    const shown = shownOf(rows, new Set())
    assert.strictEqual(read(shown, "before"), before)
    assert.strictEqual(read(shown, "after"), after)
    const pages = pagesOf(shown)
    assert.isAbove(pages.length, 30)
    assert.isBelow(pages.length, 60)
  })
})

describe("pagesOf", () => {
  it("holds so many rows and characters at most", () => {
    const { rows } = rowsOf(numbers(5_000), numbers(5_000, (line) => `${line}!`))
    const shown = shownOf(rows, new Set())
    assert.strictEqual(shown.length, 5_000)
    assert.deepStrictEqual(pagesOf(shown).slice(0, 3), [0, 300, 600])
    assert.deepStrictEqual(changesIn(shown), [0])
  })
})

describe("rowsOfDiff", () => {
  const diff = [
    "--- a/x.ts",
    "+++ b/x.ts",
    "@@ -1,4 +1,4 @@",
    " one",
    "--- two",
    "+++ three",
    " four",
    "-five",
    "\\ No newline at end of file",
    "+five",
    "anything else"
  ].join("\n")

  it("reads files, lines and their numbers; what looks like a heading among lines is a line", () => {
    const rows = rowsOfDiff(diff)
    assert.deepStrictEqual(rows.map(({ kind }) => kind), [
      "note",
      "note",
      "note",
      "same",
      "changed",
      "same",
      "changed",
      "note"
    ])
    const [, , , , two, , five] = rows
    assert.deepStrictEqual([two?.before?.text, two?.after?.text], ["-- two", "++ three"])
    assert.deepStrictEqual([five?.before?.number, five?.after?.number], [4, 4])
    assert.strictEqual(hintOf(five!), "Only the line ending changed: none before, LF after")
  })

  it.prop("leaves no line out", [
    Schema.Array(
      Schema.Literals([
        "@@ -1,2 +1,2 @@",
        "@@ -9 +9,0 @@",
        "-a",
        "+b",
        " c",
        "",
        "--- x",
        "+++ y",
        "\\ No newline",
        "text"
      ])
    )
  ], ([lines]) => {
    const shown = rowsOfDiff(lines.map((line) => `${line}\n`).join("")).flatMap((row) =>
      row.kind === "note"
        ? [row.text]
        : row.kind === "same"
        ? [row.before.text]
        : [row.before?.text, row.after?.text].flatMap((it) => it ?? [])
    )
    const bare = lines.map((line) => line.replace(/^[-+ ]+/, "")).filter((line) => line !== "\\ No newline")
    const without = shown.filter((line) => line !== "\\ No newline").map((line) => line.replace(/^[-+ ]+/, ""))
    assert.deepStrictEqual([...without].sort(), [...bare].sort())
  })
})

describe("linesOf", () => {
  it("takes line ends apart from lines", () => {
    assert.deepStrictEqual(linesOf("a\r\n\nb\r").map(({ end, text }) => [text, end]), [["a", "\r\n"], ["", "\n"], [
      "b\r",
      ""
    ]])
  })
})
