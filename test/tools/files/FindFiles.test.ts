import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as NodeFs from "node:fs"
import NodeProcess from "node:process"
import * as FileTree from "../../../src/tools/files/FileTree.ts"
import * as Workspace from "../../../src/tools/workspace/Workspace.ts"
import { call, makeFolders, put, until } from "../fixture.ts"

const tree = {
  "README.md": "",
  ".hidden.md": "",
  "src/a.ts": "",
  "src/a.tsx": "",
  "src/deep/er/b.ts": "",
  "src/deep.ts": "",
  "src/.dot/c.ts": "",
  "test/a.test.ts": "",
  ".git/config.ts": "",
  "node_modules/x/index.ts": "",
  "src/node_modules/y/index.ts": ""
}

const anything = () => Effect.succeed(true)

describe("find_files", () => {
  it.live("finds files by a glob, hidden ones too, in the order of folders and names", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, tree)
      NodeFs.symlinkSync(`${outside}/secret.txt`, `${root}/secret.ts`)
      NodeFs.symlinkSync(outside, `${root}/out`)
      NodeFs.symlinkSync("README.md", `${root}/link.md`)
      const found = (glob: string, path?: string) =>
        Effect.map(call({ root }, "find_files", { glob, ...(path === undefined ? {} : { path }) }), (it) => {
          assert.isFalse(it.truncated)
          assert.isUndefined(it.note)
          return it.files
        })
      const all = ["src/.dot/c.ts", "src/a.ts", "src/deep/er/b.ts", "src/deep.ts", "test/a.test.ts"]
      assert.deepStrictEqual(yield* found("**/*.ts"), all)
      assert.deepStrictEqual(yield* found("*.ts"), all)
      assert.deepStrictEqual(yield* found("*.md"), [".hidden.md", "README.md"])
      assert.deepStrictEqual(yield* found("src/*.{ts,tsx}"), ["src/a.ts", "src/a.tsx", "src/deep.ts"])
      assert.deepStrictEqual(yield* found("./src//deep/**"), ["src/deep/er/b.ts"])
      assert.deepStrictEqual(yield* found("*.ts", "src/deep"), ["src/deep/er/b.ts"])
      assert.deepStrictEqual(yield* found("src/**/*.ts", "test"), [])
      assert.deepStrictEqual(yield* found("README.md"), ["README.md"])
      assert.deepStrictEqual(yield* found("src/a.ts"), ["src/a.ts"])
      assert.deepStrictEqual(yield* found("{src,test}/*.ts"), ["src/a.ts", "src/deep.ts", "test/a.test.ts"])
      assert.deepStrictEqual(yield* found("secret*"), [])
      assert.deepStrictEqual(yield* found("out/*"), [])
    }))

  it.live("enters .git and node_modules only where the path or the start of the glob names them, as search_text does", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, tree)
      for (
        const [glob, path, files] of [
          ["node_modules/**/*.ts", ".", ["node_modules/x/index.ts"]],
          ["node_modules/x/index.ts", ".", ["node_modules/x/index.ts"]],
          ["src/node_modules/*/*.ts", ".", ["src/node_modules/y/index.ts"]],
          ["*.ts", "node_modules", ["node_modules/x/index.ts"]],
          [".git/*", ".", [".git/config.ts"]],
          ["**/node_modules/**", ".", []],
          ["{node_modules,x}/**", ".", []],
          ["node_mod*/**", ".", []]
        ] as const
      ) {
        assert.deepStrictEqual((yield* call({ root }, "find_files", { glob, path })).files, files, `${glob} in ${path}`)
        const searched = yield* call({ root }, "search_text", { pattern: "x", glob, path })
        assert.strictEqual(searched.filesSearched, files.length, `${glob} in ${path}`)
      }
    }))

  it.live("does not look into folders that the glob does not lead to", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.ts": "", "src2/b.ts": "", "a/src/c.ts": "" })
      const workspace = yield* Workspace.make(root)
      const files = FileTree.make(
        workspace,
        workspace.root,
        "directory",
        yield* FileTree.filterOf("src/**"),
        anything,
        4
      )
      assert.deepStrictEqual(yield* files.next(10), { files: [`${root}/src/a.ts`], skipped: 0, notPermitted: 0 })
      // three names at the top and one in src: there was room for no other
      assert.isFalse(files.isCut())
    }))

  it.live("gives as many files as asked for and says that there are more", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, Object.fromEntries(Array.from({ length: 2_100 }, (_, index) => [`${index % 7}/${index}.txt`, ""])))
      const result = yield* call({ root }, "find_files", { glob: "*.txt" })
      assert.lengthOf(result.files, 200)
      assert.isTrue(result.truncated)
      assert.strictEqual(
        result.note,
        "There are more files. Narrow the glob or path, or raise maxFiles (at most 2,000)."
      )
      assert.lengthOf((yield* call({ root }, "find_files", { glob: "*.txt", maxFiles: 9_999 })).files, 2_000)
      const exact = yield* call({ root }, "find_files", { glob: "0/*.txt", maxFiles: 300 })
      assert.lengthOf(exact.files, 300)
      assert.isFalse(exact.truncated)
      assert.deepStrictEqual(yield* call({ root }, "find_files", { glob: "*.txt" }), result)
    }))

  it.live("bounds the characters of all paths together", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const folder = Array.from({ length: 10 }, () => "d".repeat(200)).join("/")
      put(root, Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`${folder}/${index}`, ""])))
      const result = yield* call({ root }, "find_files", { glob: "**", maxFiles: 2_000 })
      assert.isTrue(result.truncated)
      assert.isAtMost(result.files.join("").length, 400_000)
      assert.isAbove(result.files.length, 150)
    }))

  it.live("stops in a very large folder and says so", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (let index = 0; index < 20_050; index++) NodeFs.closeSync(NodeFs.openSync(`${root}/${index}`, "w"))
      const result = yield* call({ root }, "find_files", { glob: "*.md" })
      assert.deepStrictEqual(result, {
        files: [],
        truncated: true,
        note: "Some folders were not searched completely. Narrow path or the start of the glob."
      })
    }))

  it.live("stops after a number of names, whatever folders are left", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a/1": "", "a/2": "", "b/1": "", "c/": "" })
      const workspace = yield* Workspace.make(root)
      const files = FileTree.make(workspace, workspace.root, "directory", FileTree.everything, anything, 4)
      // of the two in a there is room for one
      assert.lengthOf((yield* files.next(10)).files, 1)
      assert.isTrue(files.isCut())
      // of what is in c nobody knows
      const used = FileTree.make(workspace, workspace.root, "directory", FileTree.everything, anything, 6)
      assert.lengthOf((yield* used.next(10)).files, 3)
      assert.isTrue(used.isCut())
      const enough = FileTree.make(workspace, workspace.root, "directory", FileTree.everything, anything, 7)
      assert.lengthOf((yield* enough.next(10)).files, 3)
      assert.isFalse(enough.isCut())
    }))

  it.live("counts folders that it cannot read, and fails for one that was asked for", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "", "file.txt/x": "" })
      // a folder that is gone once it is looked into
      const workspace = yield* Workspace.make(root)
      const files = FileTree.make(workspace, workspace.root, "directory", FileTree.everything, anything)
      assert.deepStrictEqual(yield* files.next(1), { files: [`${root}/a.txt`], skipped: 0, notPermitted: 0 })
      NodeFs.rmSync(`${root}/file.txt`, { recursive: true })
      assert.deepStrictEqual(yield* files.next(1), { files: [], skipped: 1, notPermitted: 0 })
      for (const [path, error] of [["a.txt", "NotADirectory"], ["gone", "NotFound"], ["..", "OutsideRoot"]] as const) {
        assert.include(yield* Effect.flip(call({ root }, "find_files", { glob: "*", path })), { error }, path)
      }
    }))

  it.live("refuses globs that cannot be used and says what would be right", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, tree)
      for (
        const [glob, said] of [
          ["", "Use one of 1 to 200"],
          ["*".repeat(201), "Use one of 1 to 200"],
          ["/src/*.ts", "from the workspace root"],
          [`${root}/*.ts`, "from the workspace root"],
          ["../*.ts", "from the workspace root"],
          ["src/../../outside/*", "from the workspace root"],
          ["src/", "For the files below them, write src/**."],
          ["{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "Use at most 100"],
          ["{a,\\},b,c}{d,\\{,e,f,g}{h,i,j,k}{l,m,n}", "Use at most 100"]
        ] as const
      ) {
        const failures = [
          yield* Effect.flip(call({ root }, "find_files", { glob })),
          yield* Effect.flip(call({ root }, "search_text", { pattern: "x", glob }))
        ]
        for (const failure of failures) {
          assert.include(failure, { error: "InvalidPattern" }, glob)
          assert.include(failure.message, said, glob)
        }
      }
      for (const glob of ["*.{ts,tsx,js,jsx,mjs,cjs,mts,cts,json,md}", "{src,test}/**/*.{ts,tsx,js,jsx}", "a,b,c,d*"]) {
        assert.isFalse((yield* call({ root }, "find_files", { glob })).truncated, glob)
      }
    }))

  it.live("can be interrupted whatever the glob and the names are, and lets others run meanwhile", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const long = "a".repeat(240)
      put(root, Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`${long}${index}`, ""])))
      const glob = `**/*{a,?}{a,?}{a,?}{a,?}{a,?}{a,?}*${"a".repeat(100)}b`
      for (
        const slow of [
          call({ root }, "find_files", { glob }),
          call({ root }, "search_text", { pattern: "x", glob })
        ]
      ) {
        const fiber = yield* Effect.forkChild(slow, { startImmediately: true })
        // names are matched while this one still gets to look
        const start = NodeProcess.cpuUsage()
        yield* until(() => NodeProcess.cpuUsage(start).user > 500_000)
        assert.isUndefined(fiber.pollUnsafe())
        yield* Fiber.interrupt(fiber)
      }
    }))
})
