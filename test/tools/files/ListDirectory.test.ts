import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { execFileSync } from "node:child_process"
import * as NodeFs from "node:fs"
import * as NodePath from "node:path"
import NodeProcess from "node:process"
import { call, makeFolders, pathsIn, put } from "../fixture.ts"

describe("list_directory", () => {
  it.live("lists files with sizes, folders, links and other things, hidden ones included, sorted", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "b.txt": "12345", ".hidden": "", "folder/inner.txt": "" })
      NodeFs.symlinkSync("b.txt", `${root}/link`)
      NodeFs.symlinkSync(outside, `${root}/out`)
      NodeFs.symlinkSync("nowhere", `${root}/broken`)
      execFileSync("mkfifo", [`${root}/pipe`])
      assert.deepStrictEqual(yield* call({ root }, "list_directory", {}), {
        path: ".",
        entries: [
          { path: ".hidden", type: "file", size: 0 },
          { path: "b.txt", type: "file", size: 5 },
          { path: "broken", type: "link" },
          { path: "folder", type: "directory" },
          { path: "link", type: "link", target: "b.txt" },
          { path: "out", type: "link" },
          { path: "pipe", type: "other" }
        ],
        omitted: 0
      })
    }))

  it.live("lists names that are not UTF-8, and searches past them", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      NodeFs.writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.of(0xff)]), "x")
      const { entries } = yield* call({ root }, "list_directory", {})
      assert.deepStrictEqual(entries, [{ path: "\uFFFD", type: "file" }])
      assert.include(yield* call({ root }, "search_text", { pattern: "x" }), { filesSearched: 0, filesSkipped: 1 })
    }))

  it.live("goes as deep as asked and enters neither links, .git nor node_modules", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, {
        "a/b/c.txt": "",
        ".git/config": "",
        "node_modules/x/index.js": "",
        "node_modules/node_modules/y": ""
      })
      NodeFs.symlinkSync(outside, `${root}/out`)
      NodeFs.symlinkSync("..", `${root}/a/up`)
      const paths = (params: { readonly path?: string; readonly depth?: number }) =>
        Effect.map(call({ root }, "list_directory", params), (it) => it.entries.map((entry) => entry.path))
      assert.deepStrictEqual(yield* paths({ depth: 2 }), [".git", "a", "a/b", "a/up", "node_modules", "out"])
      assert.deepStrictEqual(yield* paths({ path: "a", depth: 99 }), ["a/b", "a/b/c.txt", "a/up"])
      assert.deepStrictEqual(yield* paths({ path: "node_modules", depth: 3 }), [
        "node_modules/node_modules",
        "node_modules/x",
        "node_modules/x/index.js"
      ])
    }))

  it.live("gives 1,000 entries, upper levels first, and says how many more there are", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const many = Object.fromEntries(Array.from({ length: 1_200 }, (_, index) => [`a/${index}`, ""]))
      put(root, { ...many, "z.txt": "" })
      const result = yield* call({ root }, "list_directory", { depth: 2 })
      assert.lengthOf(result.entries, 1_000)
      assert.strictEqual(result.entries.at(-1)?.path, "z.txt")
      assert.strictEqual(result.omitted, 202)
      assert.strictEqual(result.note, "202 more entries are not shown. List a deeper folder, or fewer levels.")
    }))

  it.live("stops counting in a very large folder and says so", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (let index = 0; index < 20_050; index++) NodeFs.closeSync(NodeFs.openSync(`${root}/${index}`, "w"))
      const result = yield* call({ root }, "list_directory", {})
      assert.lengthOf(result.entries, 1_000)
      assert.strictEqual(
        result.note,
        "At least 19000 more entries are not shown. List a deeper folder, or fewer levels."
      )
    }))

  it.live("names folders below that cannot be read, and fails for one that was asked for", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "open/a.txt": "", "closed/b.txt": "" })
      NodeFs.chmodSync(`${root}/closed`, 0)
      yield* asNobody(Effect.gen(function*() {
        const result = yield* call({ root }, "list_directory", { depth: 2 })
        assert.deepStrictEqual(result.entries.map((it) => it.path), ["closed", "open", "open/a.txt"])
        assert.strictEqual(result.note, "Not readable: closed.")
        assert.include(yield* Effect.flip(call({ root }, "list_directory", { path: "closed" })), {
          error: "PermissionDenied",
          path: "closed"
        })
        assert.include(yield* Effect.flip(call({ root }, "read_file", { path: "closed/b.txt" })), {
          error: "PermissionDenied"
        })
        const search = yield* call({ root }, "search_text", { pattern: "x" })
        assert.include(search, { filesSearched: 1, filesSkipped: 1 })
        assert.deepStrictEqual(yield* call({ root }, "find_files", { glob: "*" }), {
          files: ["open/a.txt"],
          truncated: false,
          note: "1 folder could not be read."
        })
        assert.include(yield* Effect.flip(call({ root }, "search_text", { pattern: "x", path: "closed" })), {
          error: "PermissionDenied"
        })
        assert.include(yield* Effect.flip(call({ root }, "write_file", { path: "new.txt", content: "" })), {
          error: "PermissionDenied"
        })
      }))
    }))

  it.live("lists or fails, but never dies, while folders are removed", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (let round = 0; round < 5; round++) {
        put(root, Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`t/${index % 30}/${index}`, ""])))
        const fiber = yield* Effect.forkChild(
          Effect.result(call({ root }, "list_directory", { path: "t", depth: 3 })),
          { startImmediately: true }
        )
        yield* Effect.promise(() => NodeFs.promises.rm(NodePath.join(root, "t"), { recursive: true, force: true }))
        const result = yield* Fiber.join(fiber)
        if (result._tag === "Failure") assert.include(result.failure, { error: "NotFound" })
      }
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.live("says what is wrong with a path that names no folder", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "" })
      assert.include(yield* Effect.flip(call({ root }, "list_directory", { path: "a.txt" })), {
        error: "NotADirectory"
      })
      assert.include(yield* Effect.flip(call({ root }, "list_directory", { path: "gone" })), { error: "NotFound" })
    }))
})

/** Root may read everything, so tests that need a closed door run as nobody. */
const asNobody = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  NodeProcess.geteuid?.() !== 0 ? effect : Effect.acquireUseRelease(
    Effect.sync(() => NodeProcess.seteuid?.(65_534)),
    () => effect,
    () => Effect.sync(() => NodeProcess.seteuid?.(0))
  )
