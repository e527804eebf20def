import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as NodeFs from "node:fs"
import * as LineWindow from "../../../src/tools/files/LineWindow.ts"
import * as ReadFile from "../../../src/tools/files/ReadFile.ts"
import { call, makeFolders, put } from "../fixture.ts"

const numbered = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}\n`).join("")

describe("read_file", () => {
  it.live("gives a whole file with its line ends", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "\uFEFFone\r\ntwo\n\nlast" })
      assert.deepStrictEqual(yield* call({ root }, "read_file", { path: "a.txt" }), {
        path: "a.txt",
        content: "\uFEFFone\r\ntwo\n\nlast",
        startLine: 1,
        endLine: 4,
        totalLines: 4,
        truncated: false
      })
    }))

  it.live("gives an empty file as no lines", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { empty: "" })
      assert.include(yield* call({ root }, "read_file", { path: "empty" }), { content: "", endLine: 0, totalLines: 0 })
    }))

  it.live("gives a range and says how to read on", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": numbered(1, 10) })
      assert.deepStrictEqual(yield* call({ root }, "read_file", { path: "a.txt", startLine: 4, maxLines: 2 }), {
        path: "a.txt",
        content: "line 4\nline 5\n",
        startLine: 4,
        endLine: 5,
        totalLines: 10,
        truncated: true,
        note: "Lines 4 to 5 of 10 are shown. Continue with startLine 6."
      })
      assert.include(yield* call({ root }, "read_file", { path: "a.txt", startLine: 10 }), {
        content: "line 10\n",
        truncated: false
      })
    }))

  it.live("refuses a start behind the end and says how many lines there are", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": numbered(1, 3) })
      const failure = yield* Effect.flip(call({ root }, "read_file", { path: "a.txt", startLine: 4 }))
      assert.include(failure, {
        error: "InvalidRange",
        message: "The file has 3 lines. Use a startLine from 1 to 3."
      })
    }))

  it.live("gives at most 2,000 lines, however many are asked for", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": numbered(1, 5_000) })
      const result = yield* call({ root }, "read_file", { path: "a.txt", startLine: 2, maxLines: 100_000 })
      assert.include(result, { endLine: 2_001, totalLines: 5_000, truncated: true })
      assert.strictEqual(result.content, numbered(2, 2_001))
    }))

  it.live("ends before the line that would exceed 1,000,000 bytes", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const line = `${"x".repeat(299_999)}\n`
      put(root, { "a.txt": line.repeat(5) })
      const result = yield* call({ root }, "read_file", { path: "a.txt" })
      assert.include(result, { content: line.repeat(3), endLine: 3, totalLines: 5 })
      assert.include(yield* call({ root }, "read_file", { path: "a.txt", startLine: result.endLine + 1 }), {
        content: line.repeat(2),
        truncated: false
      })
    }))

  it.live("cuts a line that is too long between characters and says so", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": `x${"é".repeat(1_000_000)}\nnext\n` })
      const result = yield* call({ root }, "read_file", { path: "a.txt" })
      assert.strictEqual(result.content, `x${"é".repeat(499_999)}`)
      assert.strictEqual(
        result.note,
        "Line 1 is longer than 1000000 bytes; its end is not shown. Continue with startLine 2."
      )
      assert.strictEqual((yield* call({ root }, "read_file", { path: "a.txt", startLine: 2 })).content, "next\n")
    }))

  it.live("reads out of a file of 300 MB without loading it", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const file = NodeFs.openSync(`${root}/large`, "w")
      const block = Buffer.from(`${"y".repeat(99)}\n`.repeat(10_000))
      for (let index = 0; index < 300; index++) NodeFs.writeSync(file, block)
      NodeFs.closeSync(file)
      const before = process.memoryUsage().rss
      const start = yield* call({ root }, "read_file", { path: "large", maxLines: 1 })
      assert.isUndefined(start.totalLines)
      assert.isTrue(start.truncated)
      const end = yield* call({ root }, "read_file", { path: "large", startLine: 3_000_000 })
      assert.include(end, { endLine: 3_000_000, totalLines: 3_000_000, truncated: false })
      assert.isBelow(process.memoryUsage().rss - before, 150_000_000)
    }))

  it.live("refuses binary files and replaces bytes that are not UTF-8", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, {
        binary: Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 0),
        latin: Uint8Array.of(0x63, 0x61, 0x66, 0xe9, 0x0a)
      })
      assert.include(yield* Effect.flip(call({ root }, "read_file", { path: "binary" })), { error: "BinaryFile" })
      assert.strictEqual((yield* call({ root }, "read_file", { path: "latin" })).content, "caf\uFFFD\n")
    }))

  it.live("says what is wrong with a path that names no file", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "", "folder/": "" })
      const errorOf = (path: string) => Effect.flip(call({ root }, "read_file", { path }))
      assert.include(yield* errorOf("missing.txt"), { error: "NotFound", path: "missing.txt" })
      assert.include(yield* errorOf("a.txt/b"), { error: "NotFound" })
      assert.include(yield* errorOf("folder"), { error: "NotAFile" })
      assert.include(yield* errorOf("x".repeat(5_000)), { error: "InvalidPath", path: `${"x".repeat(300)}…` })
      assert.include(yield* errorOf("\ud800"), { error: "NotFound" })
    }))

  it("leaves out the line that is too long, also the part of it that came in an earlier chunk", () => {
    const window = LineWindow.make(1, 10, 10)
    for (const chunk of ["abc\nde", "fg", "hijklmnop\n", "q\n"]) window.push(Buffer.from(chunk))
    assert.isTrue(window.isFull())
    assert.deepStrictEqual(window.end(), { content: "abc\n", endLine: 1, lines: 3, cut: false })
  })

  it.prop(
    "cuts the same window out of every way to split a file",
    {
      lines: Schema.Array(Schema.String),
      startLine: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 6 })),
      maxLines: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 })),
      step: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 7 }))
    },
    ({ lines, maxLines, startLine, step }) => {
      const text = Buffer.from(lines.join("\n"))
      const whole = LineWindow.make(startLine, maxLines, 50)
      whole.push(text)
      const split = LineWindow.make(startLine, maxLines, 50)
      for (let at = 0; at < text.length; at += step) split.push(text.subarray(at, at + step))
      assert.deepStrictEqual(split.end(), whole.end())
    }
  )

  it.prop(
    "gives back the whole file when read on to its end",
    { lines: Schema.Array(Schema.String), maxLines: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 })) },
    ({ lines, maxLines }) => {
      const text = Buffer.from(lines.map((line) => `${line}\n`).join(""))
      let content = ""
      for (let startLine = 1;;) {
        const window = LineWindow.make(startLine, maxLines, ReadFile.maxBytes)
        window.push(text)
        const found = window.end()
        content += found.content
        if (found.endLine === found.lines) break
        startLine = found.endLine + 1
      }
      assert.strictEqual(content, text.toString("utf8"))
    }
  )
})
