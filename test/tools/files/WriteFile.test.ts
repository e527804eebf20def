import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as NodeFs from "node:fs"
import type * as ToolContext from "../../../src/core/contract/ToolContext.ts"
import { call, makeFolders, pathsIn, put, recorder } from "../fixture.ts"

const modeOf = (path: string): number => NodeFs.statSync(path).mode & 0o777

describe("write_file", () => {
  it.live("creates a file, and replaces one", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      assert.deepStrictEqual(yield* call({ root }, "write_file", { path: "a.txt", content: "é\n" }), {
        path: "a.txt",
        bytesWritten: 3,
        created: true
      })
      assert.deepStrictEqual(yield* call({ root }, "write_file", { path: "./a.txt", content: "" }), {
        path: "a.txt",
        bytesWritten: 0,
        created: false
      })
      assert.strictEqual(NodeFs.readFileSync(`${root}/a.txt`, "utf8"), "")
      assert.deepStrictEqual(pathsIn(root), ["a.txt"])
    }))

  it.live("keeps the mode of the file it replaces", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "run.sh": "", private: "" })
      NodeFs.chmodSync(`${root}/run.sh`, 0o755)
      NodeFs.chmodSync(`${root}/private`, 0o600)
      yield* call({ root }, "write_file", { path: "run.sh", content: "#!/bin/sh\n" })
      yield* call({ root }, "write_file", { path: "private", content: "x" })
      assert.strictEqual(modeOf(`${root}/run.sh`), 0o755)
      assert.strictEqual(modeOf(`${root}/private`), 0o600)
    }))

  it.live("writes through a link to the file inside and leaves the link", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "old" })
      NodeFs.symlinkSync("src/a.txt", `${root}/link`)
      NodeFs.symlinkSync("src", `${root}/folder`)
      assert.include(yield* call({ root }, "write_file", { path: "link", content: "new" }), {
        path: "src/a.txt",
        created: false
      })
      assert.isTrue(NodeFs.lstatSync(`${root}/link`).isSymbolicLink())
      assert.strictEqual(NodeFs.readFileSync(`${root}/src/a.txt`, "utf8"), "new")
      assert.strictEqual(
        (yield* call({ root }, "write_file", { path: "folder/b.txt", content: "" })).path,
        "src/b.txt"
      )
    }))

  it.live("makes missing folders only when asked to", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const params = { path: "a/b/c.txt", content: "x" }
      const failure = yield* Effect.flip(call({ root }, "write_file", params))
      assert.include(failure, { error: "NotFound", path: "a/b/c.txt" })
      assert.include(failure.message, "createDirectories")
      assert.deepStrictEqual(pathsIn(root), [])
      yield* call({ root }, "write_file", { ...params, createDirectories: true })
      assert.deepStrictEqual(pathsIn(root), ["a", "a/b", "a/b/c.txt"])
    }))

  it.live("refuses folders, links to nothing, and files in place of folders", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "folder/": "", "a.txt": "kept" })
      NodeFs.symlinkSync("nowhere", `${root}/dangling`)
      const errorOf = (path: string) =>
        Effect.flip(call({ root }, "write_file", { path, content: "x", createDirectories: true }))
      for (const path of ["folder", ".", "new/"]) assert.include(yield* errorOf(path), { error: "NotAFile" }, path)
      assert.include(yield* errorOf("dangling"), { error: "NotFound" })
      assert.include(yield* errorOf("a.txt/b.txt"), { error: "NotADirectory" })
      assert.include(yield* errorOf("x".repeat(300)), { error: "InvalidPath" })
      assert.deepStrictEqual(pathsIn(root), ["a.txt", "dangling", "folder"])
      assert.strictEqual(NodeFs.readFileSync(`${root}/a.txt`, "utf8"), "kept")
    }))

  it.live("shows nothing of the write before its commit, and all of it after", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "old" })
      const observed: Array<string> = []
      const look = Effect.sync(() => observed.push(NodeFs.readFileSync(`${root}/a.txt`, "utf8")))
      const { layer, seen } = recorder(undefined, (write) => look.pipe(Effect.andThen(write), Effect.tap(look)))
      yield* Effect.provide(call({ root }, "write_file", { path: "a.txt", content: "new" }), layer)
      assert.deepStrictEqual(observed, ["old", "new"])
      assert.strictEqual(seen.commits, 1)
    }))

  it.live("leaves no trace when it is interrupted before its commit", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "old" })
      for (const path of ["a.txt", "new/deep/b.txt"]) {
        const atCommit = yield* Deferred.make<void>()
        const { layer } = recorder(
          undefined,
          () => Effect.andThen(Deferred.succeed(atCommit, undefined), Effect.never)
        )
        const fiber = yield* Effect.forkChild(
          Effect.provide(call({ root }, "write_file", { path, content: "new", createDirectories: true }), layer)
        )
        yield* Deferred.await(atCommit)
        assert.notDeepEqual(pathsIn(root), ["a.txt"])
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(pathsIn(root), ["a.txt"])
      }
      assert.strictEqual(NodeFs.readFileSync(`${root}/a.txt`, "utf8"), "old")
    }))

  it.live("leaves no trace when the executor no longer lets it commit", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const { layer } = recorder(undefined, () => Effect.interrupt)
      const exit = yield* Effect.exit(
        Effect.provide(call({ root }, "write_file", { path: "a/b.txt", content: "x", createDirectories: true }), layer)
      )
      assert.isTrue(Exit.hasInterrupts(exit))
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.live("fails and leaves no trace when the target became a folder before the commit", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const commit: ToolContext.Service["commit"] = (write) =>
        Effect.andThen(Effect.sync(() => put(root, { "a.txt/inner": "" })), write)
      const failure = yield* Effect.flip(
        Effect.provide(call({ root }, "write_file", { path: "a.txt", content: "x" }), recorder(undefined, commit).layer)
      )
      assert.include(failure, { error: "NotAFile", path: "a.txt" })
      assert.deepStrictEqual(pathsIn(root), ["a.txt", "a.txt/inner"])
    }))

  it.live("writes into the folder it opened, even if a link out took its place meanwhile", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "folder/a.txt": "old" })
      const commit: ToolContext.Service["commit"] = (write) =>
        Effect.andThen(
          Effect.sync(() => {
            NodeFs.renameSync(`${root}/folder`, `${root}/moved`)
            NodeFs.symlinkSync(outside, `${root}/folder`)
          }),
          write
        )
      yield* Effect.provide(
        call({ root }, "write_file", { path: "folder/a.txt", content: "new" }),
        recorder(undefined, commit).layer
      )
      assert.deepStrictEqual(pathsIn(outside), ["secret.txt"])
      assert.deepStrictEqual(pathsIn(`${root}/moved`), ["a.txt"])
      assert.strictEqual(NodeFs.readFileSync(`${root}/moved/a.txt`, "utf8"), "new")
    }))

  it.live("lets many writers of one file leave one whole content, also with one random seed", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const contents = Array.from({ length: 20 }, (_, index) => `${index}`.repeat(50_000))
      yield* Effect.forEach(
        contents,
        (content, index) =>
          Effect.provideService(
            call({ root }, "write_file", { path: "d/a.txt", content, createDirectories: true }),
            Random.Random,
            // Pairs of writers draw the same names.
            { nextIntUnsafe: sequence(Math.floor(index / 2)), nextDoubleUnsafe: () => 0.5 }
          ),
        { concurrency: "unbounded" }
      )
      assert.include(contents, NodeFs.readFileSync(`${root}/d/a.txt`, "utf8"))
      assert.deepStrictEqual(pathsIn(root), ["d", "d/a.txt"])
    }))
})

const sequence = (seed: number) => {
  let next = seed * 1_000
  return () => next++
}
