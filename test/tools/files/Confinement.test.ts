import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { execFileSync } from "node:child_process"
import * as NodeFs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import * as NodePath from "node:path"
import { Worker } from "node:worker_threads"
import * as Descriptor from "../../../src/tools/files/Descriptor.ts"
import * as Workspace from "../../../src/tools/workspace/Workspace.ts"
import { call, makeFolders, pathsIn, put } from "../fixture.ts"

/** What each tool answers to one path. */
const errorsOf = (root: string, path: string) =>
  Effect.map(
    Effect.all([
      Effect.flip(call({ root }, "read_file", { path })),
      Effect.flip(call({ root }, "list_directory", { path })),
      Effect.flip(call({ root }, "find_files", { path, glob: "**" })),
      Effect.flip(call({ root }, "search_text", { path, pattern: "SECRET" })),
      Effect.flip(call({ root }, "write_file", { path, content: "overwritten", createDirectories: true })),
      Effect.flip(call({ root }, "run_command", { argv: ["true"], cwd: path }))
    ]),
    (failures) => failures.map((it) => "error" in it ? it.error : it._tag)
  )

describe("confinement", () => {
  it.live("refuses paths that lead out of the root as text", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      for (
        const path of [
          "..",
          "../outside",
          "../outside/secret.txt",
          "a/../../outside/secret.txt",
          "/etc/passwd",
          "/",
          `${outside}/secret.txt`,
          `${root}-sibling`,
          `${root}/../outside/secret.txt`
        ]
      ) {
        assert.deepStrictEqual(new Set(yield* errorsOf(root, path)), new Set(["OutsideRoot"]), path)
      }
      assert.strictEqual(NodeFs.readFileSync(`${outside}/secret.txt`, "utf8"), "SECRET\n")
    }))

  it.live("refuses empty paths and paths with a NUL", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (const path of ["", "\0", "a\0b", "../outside/secret.txt\0.md"]) {
        assert.deepStrictEqual(new Set(yield* errorsOf(root, path)), new Set(["InvalidPath"]), JSON.stringify(path))
      }
    }))

  it.live("refuses links that lead out, at the end of a path and in its middle", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(`${outside}/secret.txt`, `${root}/file`)
      NodeFs.symlinkSync(outside, `${root}/folder`)
      NodeFs.symlinkSync("folder", `${root}/indirect`)
      NodeFs.symlinkSync("../outside", `${root}/relative`)
      for (const path of ["file", "folder", "folder/secret.txt", "indirect/secret.txt", "relative/secret.txt"]) {
        assert.deepStrictEqual(new Set(yield* errorsOf(root, path)), new Set(["OutsideRoot"]), path)
      }
      assert.strictEqual(NodeFs.readFileSync(`${outside}/secret.txt`, "utf8"), "SECRET\n")
    }))

  it.live("does not write a new file or folder through a link that leads out", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(outside, `${root}/folder`)
      NodeFs.symlinkSync(`${outside}/new.txt`, `${root}/dangling`)
      for (const path of ["folder/new.txt", "folder/deep/new.txt", "dangling"]) {
        const exit = yield* Effect.exit(
          call({ root }, "write_file", { path, content: "x", createDirectories: true })
        )
        assert.isTrue(Exit.isFailure(exit), path)
      }
      assert.deepStrictEqual(pathsIn(outside), ["secret.txt"])
    }))

  it.live("follows links that stay inside and answers with the real path", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "inside\n" })
      NodeFs.symlinkSync("src", `${root}/link`)
      NodeFs.symlinkSync(`${root}/src/a.txt`, `${root}/file`)
      assert.include(yield* call({ root }, "read_file", { path: "link/a.txt" }), {
        path: "src/a.txt",
        content: "inside\n"
      })
      assert.strictEqual((yield* call({ root }, "read_file", { path: "file" })).path, "src/a.txt")
    }))

  it.live("takes absolute paths inside the root, also where the root was given through a link", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "a.txt": "inside\n" })
      const alias = `${outside}/alias`
      NodeFs.symlinkSync(root, alias)
      for (const path of [`${alias}/a.txt`, `${root}/a.txt`, "a.txt", "./b/../a.txt"]) {
        assert.strictEqual((yield* call({ root: alias }, "read_file", { path })).path, "a.txt", path)
      }
    }))

  it.live("refuses a chain of links without an end", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      NodeFs.symlinkSync("b", `${root}/a`)
      NodeFs.symlinkSync("a", `${root}/b`)
      assert.deepStrictEqual(new Set(yield* errorsOf(root, "a")), new Set(["OutsideRoot"]))
    }))

  it.live("refuses pipes and devices without waiting for their other end", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      execFileSync("mkfifo", [`${root}/pipe`])
      assert.deepStrictEqual(yield* errorsOf(root, "pipe"), [
        "NotAFile",
        "NotADirectory",
        "NotADirectory",
        "NotAFile",
        "NotAFile",
        "NotADirectory"
      ])
      const devices = { root: "/dev" }
      const failure = yield* Effect.flip(call(devices, "read_file", { path: "zero" }))
      assert.include(failure, { error: "NotAFile" })
    }))

  it.live("asks the descriptor where it is, after a folder was swapped for a link", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const workspace = yield* Workspace.make(root)
      put(root, { "folder/secret.txt": "harmless\n" })
      // What was looked at is a folder; what is opened goes through a link.
      const looked = yield* Workspace.realPath(workspace, "folder/secret.txt")
      NodeFs.renameSync(`${root}/folder`, `${root}/moved`)
      NodeFs.symlinkSync(outside, `${root}/folder`)
      assert.strictEqual(NodeFs.readFileSync(looked, "utf8"), "SECRET\n")
      const failure = yield* Effect.flip(Effect.scoped(Descriptor.openReal(workspace, looked, "file")))
      assert.include(failure, { error: "OutsideRoot" })
      const listing = yield* Effect.flip(
        Effect.scoped(Descriptor.openReal(workspace, NodePath.dirname(looked), "folder"))
      )
      assert.include(listing, { error: "ChangedMeanwhile" })
    }))

  it.live("compares the opened file with the real path where there is no /proc", () =>
    withoutProc(Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "folder/secret.txt": "harmless\n" })
      assert.include(yield* call({ root }, "read_file", { path: "folder/secret.txt" }), { content: "harmless\n" })
      yield* call({ root }, "write_file", { path: "folder/new/b.txt", content: "b", createDirectories: true })
      assert.deepStrictEqual(pathsIn(`${root}/folder`), ["new", "new/b.txt", "secret.txt"])
      assert.lengthOf((yield* call({ root }, "list_directory", { depth: 3 })).entries, 4)
      const workspace = yield* Workspace.make(root)
      const looked = yield* Workspace.realPath(workspace, "folder/secret.txt")
      NodeFs.renameSync(`${root}/folder`, `${root}/moved`)
      NodeFs.symlinkSync(outside, `${root}/folder`)
      assert.include(yield* Effect.flip(Effect.scoped(Descriptor.openReal(workspace, looked, "file"))), {
        error: "OutsideRoot"
      })
    })))

  it.live(
    "never reads or writes outside while a folder is swapped for a link over and over",
    () =>
      Effect.gen(function*() {
        const { outside, root } = yield* makeFolders
        put(root, { "folder/secret.txt": "harmless\n" })
        NodeFs.symlinkSync(outside, `${root}/link`)
        yield* Effect.acquireRelease(
          Effect.sync(() =>
            new Worker(
              `const { renameSync } = require("node:fs")
             const { workerData: root } = require("node:worker_threads")
             for (;;) {
               renameSync(root + "/folder", root + "/aside")
               renameSync(root + "/link", root + "/folder")
               renameSync(root + "/folder", root + "/link")
               renameSync(root + "/aside", root + "/folder")
             }`,
              { eval: true, workerData: root, execArgv: [] }
            )
          ),
          (worker) => Effect.promise(() => worker.terminate())
        )
        const path = "folder/secret.txt"
        let read = 0
        for (let round = 0; round < 300; round++) {
          const result = yield* Effect.result(call({ root }, "read_file", { path }))
          if (result._tag === "Success") {
            read++
            assert.notInclude(result.success.content, "SECRET")
          }
          const found = yield* Effect.result(call({ root }, "list_directory", { path: "folder" }))
          if (found._tag === "Success") {
            assert.notInclude(found.success.entries.map((it) => it.path), "folder/only-outside")
          }
          yield* Effect.ignore(call({ root }, "write_file", { path, content: `round ${round}\n` }))
          assert.strictEqual(NodeFs.readFileSync(`${outside}/secret.txt`, "utf8"), "SECRET\n")
          assert.deepStrictEqual(pathsIn(outside), ["secret.txt"])
        }
        assert.isAbove(read, 0)
      }),
    60_000
  )

  it.live("gives writers of one file one resource key, whatever path they use", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "" })
      NodeFs.symlinkSync("src", `${root}/link`)
      const workspace = yield* Workspace.make(root)
      const keys = yield* Effect.forEach(
        ["src/a.txt", "./src/../src/a.txt", "link/a.txt", `${root}/src/a.txt`],
        (path) => Workspace.resourceKey(workspace, path)
      )
      assert.deepStrictEqual(new Set(keys), new Set([`${root}/src/a.txt`]))
      assert.strictEqual(yield* Workspace.resourceKey(workspace, "link/new/b.txt"), `${root}/src/new/b.txt`)
      assert.strictEqual(yield* Workspace.resourceKey(workspace, "../outside"), NodePath.resolve(root, "../outside"))
      assert.isString(yield* Workspace.resourceKey(workspace, "\0"))
    }))

  it.live("follows links that lead to nothing, round in a circle, or on to each other, as far as anything is there", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/": "", "file": "" })
      const links = {
        nowhere: "src/gone",
        loop: "pool",
        pool: "loop",
        far: "nowhere/on",
        up: "src/../src",
        "src/in": "new"
      }
      for (const [name, to] of Object.entries(links)) NodeFs.symlinkSync(to, `${root}/${name}`)
      const workspace = yield* Workspace.make(root)
      const expected = {
        "nowhere": "src/gone",
        "nowhere/a/b/c/d/e": "src/gone/a/b/c/d/e",
        "far/a": "src/gone/on/a",
        "up/in/x/y": "src/new/x/y",
        "file/a/b": "file/a/b",
        "a/b/c/d/e/f/g/h/i": "a/b/c/d/e/f/g/h/i"
      }
      for (const [path, real] of Object.entries(expected)) {
        assert.strictEqual(yield* Workspace.resourceKey(workspace, path), `${root}/${real}`, path)
      }
      assert.match(yield* Workspace.resourceKey(workspace, "loop/a"), /\/[lp]oo[lp]\/a$/)
    }))

  it.live("looks at few parts of a path of thousands, and at none of one that is too long for any file", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a/": "" })
      const workspace = yield* Workspace.make(root)
      const looksAt = (path: string) =>
        Effect.map(counting(Workspace.resourceKey(workspace, path)), ([key, looks]) => {
          assert.strictEqual(key, `${root}/${path}`)
          return looks
        })
      assert.isAtMost(yield* looksAt(Array(2_000).fill("a").join("/")), 40)
      assert.strictEqual(yield* looksAt(Array(30_000).fill("a").join("/")), 0)
      const refused = yield* Effect.flip(call({ root }, "read_file", { path: Array(30_000).fill("a").join("/") }))
      assert.deepInclude(refused, { error: "InvalidPath" })
      assert.include(refused.message, "59999 characters")
    }))
})

/** An effect, and how often it asks where a path leads. */
const counting = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<readonly [A, number], E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const { realpath } = NodeFs.promises
      const count = { looks: 0 }
      const counted = (path: string) => {
        count.looks++
        return realpath(path)
      }
      Object.assign(NodeFs.promises, { realpath: counted })
      syncBuiltinESMExports()
      return { count, realpath }
    }),
    ({ count }) => Effect.map(effect, (found) => [found, count.looks] as const),
    ({ realpath }) =>
      Effect.sync(() => {
        Object.assign(NodeFs.promises, { realpath })
        syncBuiltinESMExports()
      })
  )

/** Makes the system look as one that cannot say where a descriptor leads. */
const withoutProc = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const { readlink } = NodeFs.promises
      Object.assign(NodeFs.promises, { readlink: () => Promise.reject(new Error("no /proc")) })
      syncBuiltinESMExports()
      return readlink
    }),
    () => effect,
    (readlink) =>
      Effect.sync(() => {
        Object.assign(NodeFs.promises, { readlink })
        syncBuiltinESMExports()
      })
  )
