import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as NodeFs from "node:fs"
import NodeProcess from "node:process"
import { call, makeFolders, put, recorder, until } from "../fixture.ts"

/** Backtracks for longer than anybody waits. */
const bomb = "(a+)+$"
const victim = `${"a".repeat(60)}!\n`

describe("search_text", () => {
  it.live("finds matching lines in the order of paths, with context", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "b/two.txt": "x\r\nneedle 2\r\n", "a.txt": "needle 0\none\nneedle 1\ntwo", "c.txt": "nothing" })
      assert.deepStrictEqual(yield* call({ root }, "search_text", { pattern: "needle (\\d)", contextLines: 1 }), {
        matches: [
          { path: "a.txt", line: 1, text: "needle 0", before: [], after: ["one"] },
          { path: "a.txt", line: 3, text: "needle 1", before: ["one"], after: ["two"] },
          { path: "b/two.txt", line: 2, text: "needle 2", before: ["x\r"], after: [] }
        ],
        filesSearched: 3,
        filesSkipped: 0,
        truncated: false
      })
    }))

  it.live("takes a folder or a file, a glob, and either case", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.ts": "Needle", "src/a.md": "needle", "b.ts": "needle", ".dot/c.ts": "needle" })
      const paths = (params: {
        readonly path?: string
        readonly glob?: string
        readonly ignoreCase?: boolean
      }) =>
        Effect.map(
          call({ root }, "search_text", { pattern: "needle", ...params }),
          (it) => it.matches.map((match) => match.path)
        )
      assert.deepStrictEqual(yield* paths({}), [".dot/c.ts", "b.ts", "src/a.md"])
      assert.deepStrictEqual(yield* paths({ ignoreCase: true, path: "src" }), ["src/a.md", "src/a.ts"])
      assert.deepStrictEqual(yield* paths({ ignoreCase: true, glob: "*.ts" }), [".dot/c.ts", "b.ts", "src/a.ts"])
      assert.deepStrictEqual(yield* paths({ ignoreCase: true, glob: "src/**/*.{ts,tsx}" }), ["src/a.ts"])
      assert.deepStrictEqual(yield* paths({ path: "src/a.md", glob: "*.ts" }), ["src/a.md"])
    }))

  it.live("skips and counts binary and large files, and enters .git and node_modules only when asked", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, {
        binary: "needle\0",
        large: `needle\n${"x".repeat(5_000_000)}`,
        ".git/config": "needle",
        "node_modules/x/index.js": "needle"
      })
      NodeFs.symlinkSync(outside, `${root}/out`)
      NodeFs.symlinkSync(`${outside}/secret.txt`, `${root}/secret`)
      assert.include(yield* call({ root }, "search_text", { pattern: "needle|SECRET" }), {
        filesSearched: 0,
        filesSkipped: 2,
        truncated: false
      })
      const inside = yield* call({ root }, "search_text", { pattern: "needle", path: "node_modules" })
      assert.deepStrictEqual(inside.matches.map((it) => it.path), ["node_modules/x/index.js"])
    }))

  it.live("gives as many matches as asked for and says that there are more", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "needle\n".repeat(250), "b.txt": "needle\n" })
      const result = yield* call({ root }, "search_text", { pattern: "needle" })
      assert.lengthOf(result.matches, 200)
      assert.isTrue(result.truncated)
      assert.include(result.note, "There are more matches")
      const exact = yield* call({ root }, "search_text", { pattern: "needle", maxMatches: 251 })
      assert.lengthOf(exact.matches, 251)
      assert.isFalse(exact.truncated)
    }))

  it.live("bounds all texts together, however long lines and context are", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": `${"x".repeat(3_000)}\n`.repeat(1_500) })
      const result = yield* call({ root }, "search_text", { pattern: "x", contextLines: 1_000, maxMatches: 100_000 })
      assert.isTrue(result.truncated)
      assert.isBelow(JSON.stringify(result).length, 500_000)
    }))

  it.live("cuts a very long line around its match", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "min.js": `${"a".repeat(2_000_000)}needle${"b".repeat(2_000_000)}` })
      const { matches } = yield* call({ root }, "search_text", { pattern: "needle" })
      assert.strictEqual(matches[0]?.text, `…${"a".repeat(247)}needle${"b".repeat(247)}…`)
    }))

  it.live("refuses patterns and globs that cannot be used and says why", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const errorOf = (params: { readonly pattern: string; readonly glob?: string }) =>
        Effect.flip(call({ root }, "search_text", params))
      const failure = yield* errorOf({ pattern: "fn(" })
      assert.include(failure, { error: "InvalidPattern", path: "fn(" })
      assert.include(failure.message, "Unterminated group")
      assert.include(yield* errorOf({ pattern: "" }), { error: "InvalidPattern" })
      assert.include(yield* errorOf({ pattern: "(".repeat(100_000) }), { error: "InvalidPattern" })
      assert.include(yield* errorOf({ pattern: "a", glob: "" }), { error: "InvalidPattern" })
      assert.include(yield* errorOf({ pattern: "a", glob: "*".repeat(1_000) }), { error: "InvalidPattern" })
    }))

  it.live("fails, and does not die, for a pattern that only proves too large when it runs", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": `${"ab".repeat(3_000)}\n`.repeat(3) })
      const failure = yield* Effect.flip(call({ root }, "search_text", { pattern: "(?:(?:a?){9999}){9999}" }))
      assert.include(failure, { error: "InvalidPattern" })
      assert.include(failure.message, "Use a simpler one.")
    }))

  it.live("takes Unicode properties as well as escapes that Unicode mode forbids", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "Ж\nb-c\n" })
      const lines = (pattern: string) =>
        Effect.map(call({ root }, "search_text", { pattern }), (it) => it.matches.map((match) => match.line))
      assert.deepStrictEqual(yield* lines("^\\p{Script=Cyrillic}$"), [1])
      assert.deepStrictEqual(yield* lines("[\\w-.]\\-c"), [2])
    }))

  it.live("leaves the program responsive and ends its thread when a bomb is interrupted", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": victim })
      const threads = () => NodeFs.readdirSync("/proc/self/task").length
      // Starts every thread that stays: those of the file system.
      yield* call({ root }, "search_text", { pattern: "a", path: "." })
      const before = threads()
      const fiber = yield* Effect.forkChild(call({ root }, "search_text", { pattern: bomb }))
      yield* until(() => threads() > before)
      const start = NodeProcess.cpuUsage()
      // The thread is busy while this one still gets to look.
      yield* until(() => NodeProcess.cpuUsage(start).user > 300_000)
      assert.isUndefined(fiber.pollUnsafe())
      yield* Fiber.interrupt(fiber)
      yield* until(() => threads() <= before)
    }))

  it.live("is stopped by a timeout in the middle of a bomb", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": victim })
      const result = yield* Effect.timeoutOption(call({ root }, "search_text", { pattern: bomb }), 200)
      assert.strictEqual(result._tag, "None")
    }))

  it.live("reports progress, and skips what is removed while it searches", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const files = (from: number) =>
        Object.fromEntries(
          Array.from({ length: 150 }, (_, index) => [`${from}/${String(index).padStart(3, "0")}`, "needle\n"])
        )
      put(root, { ...files(1), ...files(2) })
      const { layer, seen } = recorder(() =>
        Effect.sync(() => NodeFs.rmSync(`${root}/2`, { recursive: true, force: true }))
      )
      const result = yield* Effect.provide(call({ root }, "search_text", { pattern: "needle" }), layer)
      assert.isAbove(seen.progress.length, 0)
      assert.match(seen.progress[0] ?? "", /^1\d\d files searched, 1\d\d matches$/)
      assert.strictEqual(result.filesSearched, 150)
      assert.strictEqual(result.filesSkipped, 1)
    }))

  it.live("gives the same matches in the same order each time", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`${(index * 37) % 60}/${index}`, "x\n"])))
      const first = yield* call({ root }, "search_text", { pattern: "x" })
      assert.lengthOf(first.matches, 60)
      for (let round = 0; round < 3; round++) {
        assert.deepStrictEqual(yield* call({ root }, "search_text", { pattern: "x" }), first)
      }
    }))
})
