/** Commands are denied in every spelling, and what commands and editors run is not rewritten without asking. */
import { assert, describe, it } from "@effect/vitest"
import { ToolAnnotations } from "effect-tool-executor"
import { RunCommand, WorkspaceTools } from "effect-tool-executor/tools"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { makeFolders, pathsIn, put } from "./fixture.ts"
import { throughPolicy } from "./policy.ts"

describe("a command that a policy denies", () => {
  it.live("is denied in every spelling of its words", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "sub/": "" })
      const spelled = [
        { command: "touch made" },
        { command: "touch made", cwd: "." },
        { command: "touch made", cwd: "./" },
        { command: "touch made", cwd: "sub" },
        { command: "touch made", cwd: root },
        { command: "  touch   made" },
        { command: "/usr/bin/touch made" },
        { command: "/usr/bin/touch made", cwd: "./sub/" },
        { command: "\"touch\" 'made'" },
        { command: "to\\uch made" },
        { command: "true; touch made" },
        { command: "true && /usr/bin/touch made" },
        { command: "echo $(touch made)" },
        { command: "(touch made)" },
        { argv: ["touch", "made"] },
        { argv: ["/usr/bin/touch", "made"] },
        { argv: ["touch", "made"], cwd: "sub" },
        { argv: ["touch", "a b"] },
        { argv: ["sh", "-c", "touch made"] },
        { argv: ["/bin/sh", "-c", "true; touch made"], cwd: "./" }
      ]
      const policy = { deny: ["run_command(touch *)"], allow: ["run_command"], default: "allow" } as const
      const texts = yield* throughPolicy({ root }, policy, spelled.map((it) => ["run_command", it]))
      for (const [index, text] of texts.entries()) {
        assert.include(text, "deny run_command(touch *)", JSON.stringify(spelled[index]))
      }
      assert.deepStrictEqual(pathsIn(root), ["sub"])
      const [asked] = yield* throughPolicy({ root }, { ask: ["run_command(touch *)"], default: "allow" }, [
        ["run_command", { argv: ["/usr/bin/touch", "made"], cwd: "./" }]
      ])
      assert.include(asked, "approval")
    }))

  it("is denied where it cannot be told what it is about", () => {
    const { targets } = RunCommand
    const many = Array.from({ length: 2_000 }, (_, n) => `touch ${n}`).join(";")
    assert.throws(() => targets({ command: many, cwd: "x".repeat(1_000) }), RangeError)
    assert.include((targets({ command: many }) as ToolAnnotations.TargetsOf)[0]!.spellings ?? [], "touch 1999")
    assert.throws(() => targets({ argv: ["sh", "-c", `true ${"x".repeat(200_000)}`] }), RangeError)
  })

  it.live("is allowed in no spelling but its own", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "sub/": "", "evil/npm": "" })
      const others = [
        { command: "/tmp/evil/npm test" },
        { command: "evil/npm test" },
        { command: "npm test", cwd: "sub" },
        { command: "npm test; true" },
        { command: "\"npm\" test" },
        { argv: ["evil/npm", "test"] },
        { argv: ["sh", "-c", "npm test"] }
      ]
      const policy = { allow: ["run_command(npm test)"] }
      const texts = yield* throughPolicy({ root }, policy, others.map((it) => ["run_command", it]))
      for (const [index, text] of texts.entries()) assert.include(text, "approval", JSON.stringify(others[index]))
    }))
})

const kindsOf = (root: string, paths: ReadonlyArray<string>, name: "read_file" | "write_file", unprotect = [""]) => {
  const { tools } = WorkspaceTools.make({ root, unprotect: unprotect.filter((it) => it !== "") }).toolkit
  const targets = Context.get((tools[name] as Tool.Any).annotations, ToolAnnotations.Targets)!
  return Effect.forEach(
    paths,
    (path) => Effect.map(targets({ path }) as Effect.Effect<ToolAnnotations.TargetsOf>, ([it]) => it)
  )
}

describe("what tools run by themselves", () => {
  const paths = [
    ".npmrc",
    ".husky/pre-commit",
    ".github/workflows/ci.yml",
    ".vscode/tasks.json",
    ".envrc",
    ".gitmodules",
    "deep/.VSCode/settings.json",
    ".idea/x",
    ".devcontainer/devcontainer.json",
    ".bash_aliases",
    ".zlogin",
    ".cshrc",
    ".config/fish/config.fish",
    ".vim/plugin/x.vim",
    ".emacs.d/init.el",
    ".git/hooks/x"
  ]

  it.live("is protected from being written to, and can be read", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (const it of yield* kindsOf(root, paths, "write_file")) assert.deepInclude(it, { kind: "protected" })
      for (const it of yield* kindsOf(root, paths.slice(0, -1), "read_file")) assert.notProperty(it, "kind")
      const [free, still] = yield* kindsOf(root, [".github/a", ".git/a"], "write_file", [".github", ".git"])
      assert.deepStrictEqual(free, { text: ".github/a" })
      assert.deepInclude(still, { kind: "protected" })
      for (const it of yield* kindsOf(root, ["src/a.ts", ".gitignore", "build/a.ts", "a.npmrc"], "write_file")) {
        assert.notProperty(it, "kind")
        assert.notProperty(it, "runBy")
      }
    }))

  it.live("is not written without asking, whatever is allowed", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const write = (path: string) => ["write_file", { path, content: "x", createDirectories: true }] as const
      for (
        const policy of [{ mode: "acceptEdits" }, { allow: ["write_file", "write_file(*)"] }, { default: "allow" }]
      ) {
        const texts = yield* throughPolicy({ root }, policy as object, paths.map(write))
        for (const text of texts) assert.include(text, "is protected")
      }
      assert.deepStrictEqual(pathsIn(root), [])
    }))
})

describe("what says what a command runs", () => {
  const paths = ["package.json", "Makefile", "pyproject.toml", "sub/package.json", "vite.config.ts", "Cargo.toml"]
  const write = (path: string) => ["write_file", { path, content: "x", createDirectories: true }] as const

  it.live("is not written without asking while a policy lets a command run", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (
        const policy of [
          { mode: "acceptEdits", allow: ["run_command(npm test)"] },
          { allow: ["write_file", "run_command"] },
          { allow: ["*"] },
          { default: "allow" }
        ]
      ) {
        const texts = yield* throughPolicy({ root }, policy as object, paths.map(write))
        for (const text of texts) assert.include(text, "is protected", JSON.stringify(policy))
      }
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.live("is a file like any other while every command is asked about or denied", () =>
    Effect.gen(function*() {
      for (
        const policy of [
          { mode: "acceptEdits" },
          { allow: ["write_file(*)"] },
          { default: "allow", deny: ["run_command"] },
          { default: "allow", ask: ["run_command"] }
        ]
      ) {
        const { root } = yield* makeFolders
        yield* throughPolicy({ root }, policy as object, paths.map(write))
        assert.includeMembers([...pathsIn(root)], paths, JSON.stringify(policy))
      }
    }))

  it.live("is covered by no answer to a whole tool", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const policy = { ask: ["write_file"], allow: ["run_command(true)"] }
      const texts = yield* throughPolicy(
        { root },
        policy,
        [["write_file", { path: "a", content: "" }], ["run_command", { command: "true" }], write("package.json")],
        { _tag: "ApproveForScope", scope: "tool" },
        1
      )
      assert.include(texts[2], "approval")
    }))
})
