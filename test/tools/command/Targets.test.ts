/** What calls of the workspace tools are about, for the patterns of a policy. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { ToolAnnotations } from "effect-tool-executor"
import { WorkspaceTools } from "effect-tool-executor/tools"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import { folder, run } from "../../cli/harness.ts"

const targetsOf = (tool: Tool.Any, params: unknown): Effect.Effect<ToolAnnotations.TargetsOf> => {
  const found = Context.get(tool.annotations, ToolAnnotations.Targets)!(params)
  return Effect.isEffect(found) ? found : Effect.succeed(found)
}

describe("the targets of file tools", () => {
  it.live("are real paths relative to the root, protected where they guard other things", () =>
    Effect.gen(function*() {
      const system = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const root = yield* system.makeTempDirectoryScoped({ prefix: "targets-" })
      yield* system.makeDirectory(path.join(root, ".git/hooks"), { recursive: true })
      yield* system.makeDirectory(path.join(root, "src"))
      yield* system.writeFileString(path.join(root, "policy.json"), "{}")
      yield* system.symlink(path.join(root, ".git"), path.join(root, "src/innocent"))
      yield* system.symlink(path.join(root, "policy.json"), path.join(root, "notes.md"))
      yield* system.symlink(".git/hooks/pre-commit", path.join(root, "dangling"))
      yield* system.symlink(".git/new", path.join(root, "dangling-folder"))
      yield* system.symlink("round", path.join(root, "round"))
      const { toolkit } = WorkspaceTools.make({ root, protect: ["policy.json"] })
      const about = (given: string) => Effect.map(targetsOf(toolkit.tools.write_file, { path: given }), ([it]) => it)

      for (
        const [given, text, kind] of [
          ["src/new.ts", "src/new.ts", undefined],
          ["./src/../src//new.ts", "src/new.ts", undefined],
          [path.join(root, "src/new.ts"), "src/new.ts", undefined],
          [".git/config", ".git/config", "protected"],
          [".GIT/config", ".GIT/config", "protected"],
          ["src/../.git/hooks/pre-commit", ".git/hooks/pre-commit", "protected"],
          ["src/innocent/config", ".git/config", "protected"],
          ["deep/.git/config", "deep/.git/config", "protected"],
          [".gitignore", ".gitignore", undefined],
          ["policy.json", "policy.json", "protected"],
          ["notes.md", "policy.json", "protected"],
          // links that lead to nothing yet
          ["dangling", ".git/hooks/pre-commit", "protected"],
          ["dangling-folder/x", ".git/new/x", "protected"],
          ["round", "round", undefined]
        ] as const
      ) {
        const { wider: _, ...target } = (yield* about(given))!
        assert.deepStrictEqual(target, kind === undefined ? { text } : { text, kind }, given)
      }
      // what leads out of the root is never a relative text that a pattern could take for one inside
      assert.match((yield* about("../outside"))?.text ?? "", /^\//)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("the target of a command", () => {
  it("is its words, if they are plain and start in the root", () => {
    const expected = [{ text: "git status", wider: ["git status *"] }]
    assert.deepStrictEqual(RunCommand.targets({ command: "git status" }), expected)
    assert.deepStrictEqual(RunCommand.targets({ argv: ["git", "status"], cwd: "." }), expected)
  })

  it("is of no two different calls the same", () => {
    const texts = [
      { argv: ["echo", "$(id)"] },
      { command: `["echo","$(id)"]` },
      { command: `argv: ["echo","$(id)"]` },
      { command: `line: argv: ["echo","$(id)"]` },
      { command: "npm test", cwd: "sub" },
      { command: `in "sub": npm test` },
      { command: `line: in "sub": npm test` },
      { argv: ["npm test"] },
      { command: "npm test" }
    ].map((params) => RunCommand.targets(params)[0]!.text)
    assert.strictEqual(new Set(texts).size, texts.length, texts.join("\n"))
  })

  it("is a line that no pattern with a target allows, else", () => {
    for (
      const params of [
        { command: "git status; rm x" },
        { command: "git status", cwd: "sub" },
        { argv: ["git status"] },
        { argv: ["git", "status; rm x"] },
        { argv: ["git", ""] },
        { argv: [] },
        {}
      ]
    ) {
      assert.deepInclude(RunCommand.targets(params)[0], { kind: "exact" }, JSON.stringify(params))
    }
  })
})

describe("tool-executor run", () => {
  it.live("takes patterns and a mode", () =>
    Effect.gen(function*() {
      const { exists, file, root } = yield* folder({ "policy.json": { policy: { allow: ["write_file(a*.txt)"] } } })
      const stdin = JSON.stringify([
        { id: "1", name: "write_file", params: { path: "a.txt", content: "a" } },
        { id: "2", name: "write_file", params: { path: "b.txt", content: "b" } },
        { id: "3", name: "write_file", params: { path: "a-secret.txt", content: "c" } },
        { id: "4", name: "write_file", params: { path: "policy.json", content: "{}" } },
        { id: "5", name: "run_command", params: { command: "echo hello" } },
        { id: "6", name: "run_command", params: { command: "echo hello > c.txt" } }
      ])
      const args = ["run", "--root", root, "--config", file("policy.json"), "--format", "native", "--events", "none"]
      const more = [
        "--deny",
        "write_file(*secret*)",
        "--allow",
        "write_file(policy.json)",
        "--allow",
        "run_command(echo *)"
      ]
      const { code, stdout } = yield* run([...args, ...more], { stdin })
      assert.strictEqual(code, 1)
      const said =
        (JSON.parse(stdout) as ReadonlyArray<{ readonly _tag: string; readonly reason?: { readonly _tag: string } }>)
          .map((it) => it.reason?._tag ?? it._tag)
      assert.deepStrictEqual(said, [
        "Succeeded",
        "PermissionDenied",
        "PolicyDenied",
        "PermissionDenied",
        "Succeeded",
        "PermissionDenied"
      ])
      assert.isFalse(yield* exists("c.txt"))

      const planned = yield* run([...args, ...more, "--mode", "plan"], { stdin })
      assert.notInclude(planned.stdout, "Succeeded")
    }))

  it.live("takes no pattern that is none", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* run(["run", "--allow", "write_file(", "--deny", "reed_file"], { stdin: "[]" })
      assert.strictEqual(code, 2)
      assert.include(stderr, "--allow: \"write_file(\"")
      assert.include(stderr, "--deny: there is no tool \"reed_file\"")
    }))
})
