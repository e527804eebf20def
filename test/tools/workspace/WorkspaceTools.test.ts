import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as NodeFs from "node:fs"
import { ConfigurationError } from "../../../src/core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../../../src/core/vocabulary/ToolAnnotations.ts"
import * as WorkspaceTools from "../../../src/tools/workspace/WorkspaceTools.ts"
import { makeFolders, put } from "../fixture.ts"

const resourcesOf = (tool: Tool.Any, params: unknown) => {
  const keys = Context.get(tool.annotations, ToolAnnotations.Resources)?.(params)
  return Effect.isEffect(keys) ? keys : Effect.succeed(keys)
}

describe("WorkspaceTools", () => {
  it("declares what each tool does to the world", () => {
    const flags = Object.values(WorkspaceTools.make({ root: "." }).toolkit.tools).map((tool) => [
      tool.name,
      Context.get(tool.annotations, Tool.Readonly),
      Context.get(tool.annotations, Tool.Destructive),
      Context.get(tool.annotations, Tool.Idempotent),
      Context.getOption(tool.annotations, Tool.OpenWorld),
      Context.get(tool.annotations, ToolAnnotations.Promoted)
    ])
    const [closed, open] = [false, true].map((world) =>
      Context.getOption(Context.make(Tool.OpenWorld, world), Tool.OpenWorld)
    )
    assert.deepStrictEqual(flags, [
      ["read_file", true, false, true, closed, false],
      ["list_directory", true, false, true, closed, false],
      ["find_files", true, false, true, closed, false],
      ["search_text", true, false, true, closed, false],
      ["write_file", false, true, true, closed, true],
      ["edit_file", false, true, false, closed, true],
      ["run_command", false, true, false, open, false]
    ])
  })

  it("says to the model that commands are not confined and that exit codes are results", () => {
    const { description } = WorkspaceTools.toolkit.tools.run_command
    assert.include(description, "not confined to the workspace")
    assert.include(description, "A non-zero exit code is a normal result")
  })

  it("promotes write_file only where it has resource keys", () => {
    const { write_file } = WorkspaceTools.toolkit.tools
    assert.isFalse(Context.get(write_file.annotations, ToolAnnotations.Promoted))
    assert.isUndefined(Context.get(write_file.annotations, ToolAnnotations.Resources))
  })

  it.live("declares the real path that a call touches", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "" })
      NodeFs.symlinkSync("src", `${root}/link`)
      const { tools } = WorkspaceTools.make({ root }).toolkit
      assert.deepStrictEqual(yield* resourcesOf(tools.write_file, { path: "link/a.txt", content: "" }), [
        `${root}/src/a.txt`
      ])
      assert.deepStrictEqual(yield* resourcesOf(tools.search_text, { pattern: "x" }), [root])
      assert.deepStrictEqual(yield* resourcesOf(tools.find_files, { glob: "*", path: "link" }), [`${root}/src`])
      assert.isUndefined(yield* resourcesOf(tools.run_command, { command: "ls" }))
      const lost = WorkspaceTools.make({ root: "/no/such/root" }).toolkit.tools
      assert.deepStrictEqual(yield* resourcesOf(lost.write_file, { path: "a" }), ["/no/such/root/a"])
    }))

  it.live("serves its own toolkit and the one without a root", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "hello\n" })
      const made = WorkspaceTools.make({ root })
      for (const toolkit of [made.toolkit, WorkspaceTools.toolkit]) {
        const content = yield* Effect.gen(function*() {
          const tools = yield* toolkit
          const results = yield* Stream.runCollect(yield* tools.handle("read_file", { path: "a.txt" }))
          return results.map((it) => it.encodedResult)
        }).pipe(Effect.provide(made.layer))
        assert.deepStrictEqual(content, [
          { path: "a.txt", content: "hello\n", startLine: 1, endLine: 1, totalLines: 1, truncated: false }
        ])
      }
    }))

  it.live("refuses a root that is missing, empty or a file, with every other problem", () =>
    Effect.gen(function*() {
      const { outside } = yield* makeFolders
      const problemsOf = (options: WorkspaceTools.Options) =>
        Layer.build(WorkspaceTools.layer(options)).pipe(
          Effect.flip,
          Effect.map((error) => {
            assert.instanceOf(error, ConfigurationError)
            return error.problems.map((it) => `${it.path}: ${it.problem}`)
          })
        )
      assert.deepStrictEqual(yield* problemsOf({ root: `${outside}/gone` }), [
        `root: '${outside}/gone' does not exist`
      ])
      assert.deepStrictEqual(yield* problemsOf({ root: `${outside}/secret.txt` }), [
        `root: '${outside}/secret.txt' is not a folder`
      ])
      assert.deepStrictEqual(yield* problemsOf({ root: "", killGrace: -1, drain: "Infinity" }), [
        "root: is empty",
        "killGrace: is not a duration of zero or more with an end",
        "drain: is not a duration of zero or more with an end"
      ])
      assert.deepStrictEqual(yield* problemsOf({ root: "a\0b" }), ["root: holds a NUL character"])
    }))

  it("gives a layer that needs nothing and fails only with ConfigurationError", () => {
    expectTypeOf(WorkspaceTools.layer).returns.toEqualTypeOf<
      Layer.Layer<WorkspaceTools.Handlers, ConfigurationError>
    >()
    expectTypeOf(WorkspaceTools.make({ root: "." }).toolkit).toEqualTypeOf<typeof WorkspaceTools.toolkit>()
  })
})
