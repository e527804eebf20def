/** What was judged is what is touched: a folder that became a link since leads nowhere that the policy does not allow. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NodeFs from "node:fs"
import * as ToolContext from "../../../src/core/contract/ToolContext.ts"
import * as Descriptor from "../../../src/tools/files/Descriptor.ts"
import * as FileWriter from "../../../src/tools/files/FileWriter.ts"
import * as Workspace from "../../../src/tools/workspace/Workspace.ts"
import { call, makeFolders, pathsIn, put } from "../fixture.ts"

/** A running call that was let through for `docs` and may touch nothing that is secret or protected. */
const judged = (commit: ToolContext.Service["commit"] = (write) => write) =>
  Layer.effect(
    ToolContext.ToolContext,
    Effect.map(ToolContext.ToolContext, (context) => ({
      ...context,
      commit,
      permits: (target: Parameters<ToolContext.Service["permits"]>[0]) => {
        const { kind, text } = typeof target === "string" ? { text: target, kind: undefined } : target
        return Effect.succeed(kind === "protected" || text.startsWith("secret") ? "deny" as const : "allow" as const)
      }
    }))
  )

const files = {
  "secret/x.txt": "SECRET\n",
  "secret/deep/": "",
  ".git/hooks/pre-commit": "#!/bin/sh\n",
  "open/x.txt": "open\n"
}

/** The root as it is when the tool comes to act: `docs` leads to what is secret, `src/gen` into the `.git`. */
const swapped = Effect.gen(function*() {
  const { root } = yield* makeFolders
  put(root, { ...files, "src/": "" })
  NodeFs.symlinkSync("secret", `${root}/docs`)
  NodeFs.symlinkSync("../.git/hooks", `${root}/src/gen`)
  return root
})

describe("a folder that became a link", () => {
  it.live("is not read, listed or searched through", () =>
    Effect.gen(function*() {
      const root = yield* swapped
      const refused = [
        yield* Effect.flip(Effect.provide(call({ root }, "read_file", { path: "docs/x.txt" }), judged())),
        yield* Effect.flip(Effect.provide(call({ root }, "list_directory", { path: "docs" }), judged())),
        yield* Effect.flip(
          Effect.provide(call({ root }, "edit_file", { path: "docs/x.txt", oldText: "S", newText: "x" }), judged())
        )
      ]
      for (const failure of refused) assert.deepInclude(failure, { error: "ChangedMeanwhile" })
      const found = yield* Effect.provide(call({ root }, "find_files", { path: "docs", glob: "**" }), judged())
      assert.deepInclude(found, { files: [], notPermitted: 1 })
      const matches = yield* Effect.provide(call({ root }, "search_text", { path: "docs", pattern: "S" }), judged())
      assert.deepInclude(matches, { matches: [], notPermitted: 1, filesSearched: 0 })
    }))

  it.live("is not written through, and no folder is made behind it", () =>
    Effect.gen(function*() {
      const root = yield* swapped
      const before = pathsIn(root)
      for (
        const path of ["docs/x.txt", "docs/new.txt", "docs/a/b/new.txt", "src/gen/pre-commit", "src/gen/post-commit"]
      ) {
        const writing = call({ root }, "write_file", { path, content: "evil", createDirectories: true })
        assert.deepInclude(yield* Effect.flip(Effect.provide(writing, judged())), { error: "ChangedMeanwhile" }, path)
      }
      assert.deepStrictEqual(pathsIn(root), before)
      assert.strictEqual(NodeFs.readFileSync(`${root}/.git/hooks/pre-commit`, "utf8"), "#!/bin/sh\n")
      assert.strictEqual(NodeFs.readFileSync(`${root}/secret/x.txt`, "utf8"), "SECRET\n")
    }))

  it.live("takes no write along that had its folder open already", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const moving: ToolContext.Service["commit"] = (write) =>
        Effect.andThen(
          Effect.sync(() => {
            NodeFs.renameSync(`${root}/open`, `${root}/.git/taken`)
            NodeFs.mkdirSync(`${root}/open`)
          }),
          write
        )
      const writing = call({ root }, "write_file", { path: "open/post-commit", content: "evil" })
      assert.deepInclude(yield* Effect.flip(Effect.provide(writing, judged(moving))), { error: "ChangedMeanwhile" })
      assert.deepStrictEqual(pathsIn(`${root}/.git/taken`), ["x.txt"])
      assert.deepStrictEqual(pathsIn(`${root}/open`), [])
    }))

  it.live("is seen where it leads, by whoever opens what lies behind it", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const workspace = yield* Workspace.make(root)
      const looked = yield* Workspace.realPath(workspace, "open/x.txt")
      NodeFs.renameSync(`${root}/open`, `${root}/aside`)
      NodeFs.symlinkSync("secret", `${root}/open`)
      const opened = yield* Effect.scoped(Descriptor.openReal(workspace, looked, "file"))
      assert.strictEqual(opened.real, `${root}/secret/x.txt`)
    }))

  it.live("is previewed as what it leads to", () =>
    Effect.gen(function*() {
      const root = yield* swapped
      const workspace = yield* Workspace.make(root)
      const shown = FileWriter.preview(workspace, "src/gen/pre-commit", { text: "src/gen/pre-commit" }, () =>
        Effect.succeed("evil"))
      const [change] = yield* shown
      assert.deepInclude(change, { path: ".git/hooks/pre-commit", kind: "protected" })
    }))
})
