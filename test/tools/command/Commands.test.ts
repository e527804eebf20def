/** Commands are denied in every spelling, and what commands and editors run is not rewritten without asking. */
import { assert, describe, it } from "@effect/vitest"
import { ToolAnnotations } from "effect-tool-executor"
import { WorkspaceTools } from "effect-tool-executor/tools"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as ExecutedFiles from "../../../src/tools/command/ExecutedFiles.ts"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import { makeFolders, pathsIn, put } from "../fixture.ts"
import { throughPolicy } from "../policy.ts"

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
        { argv: ["/bin/sh", "-c", "true; touch made"], cwd: "./" },
        { command: "touch \\\n made" },
        { command: "to\\\nuch made" },
        { command: "A=1 touch made" },
        { command: "A=1 B[0]+=2 touch made" },
        { command: "if touch made; then true; fi" },
        { command: "if true; then touch made; fi" },
        { command: "if false; then :; elif touch made; then :; else touch made; fi" },
        { command: "for x in 1; do touch made; done" },
        { command: "while ! touch made; do :; done" },
        { command: "until touch made; do :; done" },
        { command: "case x in x) touch made;; esac" },
        { command: "f() { touch made; }; f" },
        { command: "! touch made" },
        { command: "time -p touch made" },
        { command: "exec touch made" },
        { command: "exec -a x touch made" },
        { command: "command -p touch made" },
        { command: "eval 'touch made'" },
        { command: "env -i A=1 touch made" },
        { command: "sudo -u bob /usr/bin/touch made" },
        { command: "nice -n 5 touch made" },
        { command: "timeout 5 touch made" },
        { command: "timeout -s KILL 5 touch made" },
        { command: "sh -c 'touch made'" },
        { command: "bash -lc 'true && touch made'" },
        { command: "echo made | xargs -n 1 touch made" },
        { command: "find . -exec touch made {} +" },
        { command: ">log touch made" },
        { command: "2>/dev/null touch made" },
        { command: "touch 2>&1 made" },
        { command: "touch >log made" },
        { command: "touch</dev/null made" },
        { command: "< in touch made" },
        { command: "sh <<< 'touch made'" },
        { command: "cat <(touch made)" },
        { command: "touch${IFS}made" },
        { command: "$'touch' made" },
        { command: "A=1 if >x env B=2 command touch made" },
        { argv: ["env", "A=1", "touch", "made"] },
        { command: "A=1 touch made", cwd: "sub" }
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

  it("is told apart from arguments of another command", () => {
    for (const command of ["echo touch made", "env A=1 echo touch made", "A=1 echo touch made"]) {
      const [target] = RunCommand.targets({ command }) as ToolAnnotations.TargetsOf
      assert.notInclude(target!.spellings ?? [], "touch made", command)
    }
  })

  it("is found in a long line in the time of its length, or not at all", () => {
    const { targets } = RunCommand
    const long = (part: string) => part.repeat(Math.floor(120_000 / part.length))
    for (const part of ["A=1 ", "env ", "2", ">", "\\\n", "if ", "$IFS", "sh -c ", "-c ", "'", "2>&1 ", "( "]) {
      try {
        assert.isArray(targets({ command: `${long(part)}touch made` }))
      } catch (error) {
        assert.instanceOf(error, RangeError, part)
      }
    }
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

describe("any file that tools execute automatically", () => {
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
      assert.deepInclude(free, { text: ".github/a" })
      assert.notProperty(free, "kind")
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
    }), { tags: ["P3"] })
})

describe("files that other programs execute", () => {
  const byThemselves =
    "AGENTS.md CLAUDE.md docs/CLAUDE.local.md GEMINI.md .githooks/pre-push .clinerules/a .mcp.json opencode.json " +
    "Jenkinsfile .pnp.cjs .psqlrc renovate.json .tool-versions a.code-workspace .woodpecker.yml profile.ps1 .gitattributes"
  const byCommands =
    "jest.config.json jest.setup.ts vitest.workspace.ts project.json angular.json nx.json knexfile.js " +
    "karma.conf.js .env .env.local gradle/wrapper/gradle-wrapper.properties gradle/wrapper/gradle-wrapper.jar " +
    "gradle/libs.versions.toml buildSrc/src/a.kt rust-toolchain rust-toolchain.toml BUILD pkg/BUILD.bazel WORKSPACE " +
    ".bazelrc tasks.py fabfile.py noxfile.py conftest.py dodo.py mypy.ini .pylintrc .flake8 alembic.ini uv.toml " +
    "spec/spec_helper.rb .rspec .irbrc Guardfile Podfile config.ru .rubocop.yml lib/tasks/a.rake phpunit.xml " +
    "phpunit.xml.dist phpstan.neon .php-cs-fixer.dist.php artisan deps.edn project.clj build.sc .jvmopts build.mill " +
    "magefile.go .goreleaser.yml .golangci.yml pubspec.yaml configure configure.ac conanfile.py vcpkg.json SConstruct " +
    "xmake.lua CMakeUserPresets.json Makefile.am Makefile.inc build.ninja NuGet.config global.json Directory.Build.rsp " +
    ".config2/a.runsettings build.cake mix.lock .iex.exs .formatter.exs rebar.config a.cabal stack.yaml cabal.project " +
    "dune dune-project a.opam a.nimble config.nims build.zig shard.yml Project.toml .Rprofile _targets.R Makefile.PL " +
    "cpanfile a.rockspec .luacheckrc main.tf terragrunt.hcl Pulumi.yaml ansible.cfg cdk.json Tiltfile skaffold.yaml " +
    "app.dockerfile docker-bake.hcl compose.override.yaml devbox.json flake.lock Procfile.dev a.just serverless.yml " +
    "biome.json dprint.json .oxlintrc.json webpack.prod.js .storybook/main.ts wrangler.toml vercel.json foundry.toml"
  const others = "README.md src/build/a.ts build/out.js src/index.ts src/configure/x.c test/a.test.ts targets/a.txt " +
    "workspace/a.md docs/agents.html lib/a.rb app/models/user.py environment.ts env .environment main.go a.exs x/dune/y"

  it.live("are protected by the names that the common tools of each language give them", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (const it of yield* kindsOf(root, byThemselves.split(" "), "write_file")) {
        assert.deepInclude(it, { kind: "protected" }, it!.text)
      }
      for (const it of yield* kindsOf(root, byCommands.split(" "), "write_file")) {
        assert.deepInclude(it, { runBy: "run_command" }, it!.text)
      }
      for (const it of yield* kindsOf(root, others.split(" "), "write_file")) {
        assert.notProperty(it, "kind")
        assert.notProperty(it, "runBy")
      }
    }))

  it("are found by name quickly, however long a name is", () => {
    assert.isUndefined(ExecutedFiles.executedBy(["jupyter_".repeat(20_000)]))
    assert.strictEqual(ExecutedFiles.executedBy(["makefile.\n"]), "commands")
  })
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
