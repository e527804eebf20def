import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import * as NodeFs from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as LocalExecutor from "../../../src/assembly/LocalExecutor.ts"
import { ToolExecutor } from "../../../src/core/engine/ToolExecutor.ts"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as ToolCall from "../../../src/core/vocabulary/ToolCall.ts"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import { OwnChanges } from "../../../src/tools/files/OwnChanges.ts"
import * as SandboxBwrap from "../../../src/tools/sandbox/SandboxBwrap.ts"
import * as Workspace from "../../../src/tools/workspace/Workspace.ts"
import * as WorkspaceTools from "../../../src/tools/workspace/WorkspaceTools.ts"
import { isInstalled } from "../../support/installed.ts"
import { call, makeFolders, put, until } from "../fixture.ts"

const user = { home: process.env.HOME, path: process.env.PATH }

const isThere = isInstalled("bwrap")

/** The sandbox, which is the same for all tests here. */
const bwrap = Effect.runSync(Effect.cached(SandboxBwrap.make({ mode: "required" }, user)))

describe.skipIf(!isThere)("run_command in bwrap", () => {
  it.live("holds here, as its probe says", () =>
    Effect.gen(function*() {
      const { status } = yield* bwrap
      assert.deepInclude(status, { _tag: "Holds", driver: "bwrap", network: "none", missing: [] })
    }), { tags: ["SB1"] })

  it.live("changes the workspace, and gives exit code and outputs", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const sandbox = yield* bwrap
      put(root, { "src/a.txt": "a" })
      const result = yield* call({ root, sandbox }, "run_command", {
        command: "cat a.txt; echo b > b.txt; echo oops >&2; exit 3",
        cwd: "src"
      })
      assert.deepStrictEqual(result, { exitCode: 3, signal: null, stdout: "a", stderr: "oops\n" })
      assert.strictEqual(NodeFs.readFileSync(`${root}/src/b.txt`, "utf8"), "b\n")
    }))

  it.live("sees nothing beside the workspace, and says that the sandbox may be why", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const sandbox = yield* bwrap
      const result = yield* call({ root, sandbox }, "run_command", { command: `cat ${outside}/secret.txt` })
      assert.strictEqual(result.stdout, "")
      const written = yield* call({ root, sandbox }, "run_command", { command: "touch /usr/x" })
      assert.include(written.sandbox, "because of its sandbox")
    }))

  it.live("reads no file with secrets by its name, through no link, and says so", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const sandbox = yield* bwrap
      put(root, {
        ".env": "SECRET=1",
        "app/.env.local": "SECRET=2",
        "app/server.key": "SECRET=3",
        "vault/real.txt": "SECRET=4",
        ".env.example": "NAME=",
        "src/a.txt": "plain"
      })
      NodeFs.symlinkSync("../vault/real.txt", `${root}/app/.env`)
      const tries =
        "cat .e* app/.e* app/*; grep -r SECRET .; cat vault/*; mv app other; cat other/.env.local; rm -f .env"
      const { stderr, stdout } = yield* call({ root, sandbox }, "run_command", { command: tries })
      assert.notInclude(`${stdout}${stderr}`, "SECRET")
      assert.include(stdout, "NAME=")
      const refused = yield* call({ root, sandbox }, "run_command", { command: "cat .env" })
      assert.notStrictEqual(refused.exitCode, 0)
      assert.include(
        refused.sandbox,
        "Commands cannot read these files, because they hold secrets or the policy denies them"
      )
      assert.include(refused.sandbox, ".env")
      const plain = yield* call({ root, sandbox }, "run_command", { command: "cat src/a.txt" })
      assert.deepStrictEqual(plain, { exitCode: 0, signal: null, stdout: "plain", stderr: "" })
      assert.strictEqual(NodeFs.readFileSync(`${root}/.env`, "utf8"), "SECRET=1")
      const shown = yield* SandboxBwrap.make({ hidden: [] }, user)
      assert.strictEqual(
        (yield* call({ root, sandbox: shown }, "run_command", { command: "cat .env" })).stdout,
        "SECRET=1"
      )
    }), { tags: ["SB8"] })

  it.live("reads no file that the policy denies to every tool", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const sandbox = yield* bwrap
      put(root, { "secrets/a.txt": "SECRET", "open/a.txt": "open", "other/a.txt": "other" })
      const { layer, toolkit } = WorkspaceTools.make({ root, sandbox })
      const outcome = yield* Effect.gen(function*() {
        const executor = yield* ToolExecutor
        const process = yield* executor.process()
        return yield* process.execute(
          ToolCall.make("c", "run_command", { command: "cat secrets/* open/* other/*; true" })
        )
      }).pipe(
        Effect.provide(
          LocalExecutor.layer(toolkit, {
            policy: { sandboxed: "allow", deny: ["*(secrets/*)", "read_file(other/*)"], default: "deny" }
          }).pipe(Layer.provide(layer))
        ),
        Effect.scoped
      )
      const text = JSON.stringify(outcome)
      assert.notInclude(text, "SECRET")
      assert.include(text, "openother")
    }), { tags: ["SB8"] })

  it.live("keeps what other programs execute as it is, and moves away what is made anew", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const sandbox = yield* bwrap
      put(root, { ".git/config": "old", ".git/hooks/": "", "deep/.npmrc": "old", "a.txt": "" })
      const result = yield* call({ root, sandbox }, "run_command", {
        command: "echo x > .git/config; echo x > .git/hooks/pre-commit; mv deep other; rm -rf deep/.npmrc; " +
          "echo x > .npmrc; mkdir -p new/.vscode; echo x > new/.vscode/tasks.json; ln -s a.txt .envrc; echo done"
      })
      assert.include(result, { exitCode: 0, stdout: "done\n" })
      assert.strictEqual(NodeFs.readFileSync(`${root}/.git/config`, "utf8"), "old")
      assert.strictEqual(NodeFs.readFileSync(`${root}/deep/.npmrc`, "utf8"), "old")
      assert.deepStrictEqual(NodeFs.readdirSync(`${root}/.git/hooks`), [])
      assert.deepStrictEqual(NodeFs.readdirSync(root).sort(), [".git", "a.txt", "deep", "new"])
      assert.deepStrictEqual(NodeFs.readdirSync(`${root}/new`), [])
      assert.include(result.sandbox, ".npmrc")
    }), { tags: ["SB4"] })

  it.live(
    "loses nothing of what it moves away: neither below a long path nor of two like names",
    () =>
      Effect.gen(function*() {
        const { root } = yield* makeFolders
        const long = Array.from({ length: 8 }, () => "d".repeat(60)).join("/")
        const { sandbox: note = "" } = yield* call({ root, sandbox: yield* bwrap }, "run_command", {
          command: `mkdir -p ${long} a && echo one > ${long}/.npmrc; echo two > a/.npmrc; echo three > a__.npmrc; ` +
            "mkdir a__b a/b; echo four > a__b/.envrc; echo five > a/b/.envrc"
        })
        const [, folder = ""] = /moved out of the workspace, to (\S+?):/.exec(note) ?? []
        const kept = NodeFs.readdirSync(folder).map((name) => NodeFs.readFileSync(`${folder}/${name}`, "utf8").trim())
        assert.deepStrictEqual(kept.sort(), ["five", "four", "one", "two"])
        assert.isTrue(NodeFs.existsSync(`${root}/a__.npmrc`))
      }),
    { tags: ["SB4"] }
  )

  it.live("reaches a host that a person approves, and none without being asked for network", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const server = createServer((_, response) => response.end("reached"))
      yield* Effect.acquireRelease(
        Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
        () => Effect.sync(() => server.close())
      )
      const { port } = server.address() as AddressInfo
      const sandbox = yield* SandboxBwrap.make({
        network: { allowPrivate: ["127.0.0.1"], lookup: () => Effect.succeed(["127.0.0.1"]) }
      }, user)
      const approvals: Array<string> = []
      const { layer, toolkit } = WorkspaceTools.make({ root, sandbox, environment: process.env })
      const script = `fetch("http://api.example:${port}/").then(async (it) => console.log(it.status, await it.text()))`
      const command = ToolCall.make("1", "run_command", { argv: [process.execPath, "-e", script] })
      const outcomes = yield* Effect.gen(function*() {
        const wave = yield* (yield* (yield* ToolExecutor).process()).executeWave([
          command,
          { ...command, id: "2", params: { ...command.params as object, network: true } }
        ])
        return wave.toolMessages.map(({ text }) =>
          JSON.parse(text) as { readonly stdout: string; readonly sandbox?: string }
        )
      }).pipe(
        Effect.scoped,
        Effect.provide(
          LocalExecutor.layer(toolkit, { policy: { sandboxed: "allow" } }).pipe(
            Layer.provide(layer),
            Layer.provide(Approvals.layerApprover(({ targets }) => {
              approvals.push(targets[0]!.text)
              return Effect.succeed({ _tag: "ApproveOnce" })
            }))
          )
        )
      )
      assert.strictEqual(outcomes[0]?.stdout, "")
      assert.include(outcomes[0]?.sandbox, "network: true")
      assert.strictEqual(outcomes[1]?.stdout, "200 reached\n")
      // the call with network, then the host
      assert.lengthOf(approvals, 2)
      assert.strictEqual(approvals[1], `host:api.example:${port}`)
    }).pipe(Effect.scoped))

  it.live("knows the repository of a further working tree, and no folder that a file merely names", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const git = (cwd: string, ...args: ReadonlyArray<string>) =>
        spawnSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { cwd })
      git(outside, "init", "-q")
      git(outside, "commit", "-q", "--allow-empty", "-m", "first")
      git(outside, "worktree", "add", "-q", `${root}/tree`)
      const sandbox = yield* bwrap
      const log = yield* call({ root: `${root}/tree`, sandbox }, "run_command", { command: "git log --oneline" })
      assert.include(log.stdout, "first")
      put(root, { "fake/.git": `gitdir: ${outside}\n` })
      const fake = yield* call({ root: `${root}/fake`, sandbox }, "run_command", {
        command: `cat ${outside}/secret.txt`
      })
      assert.strictEqual(fake.stdout, "")
    }))

  it.live("does not move what commands without the sandbox have made meanwhile", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const changes = new OwnChanges()
      const workspace = yield* Workspace.make(root)
      const run = RunCommand.make(workspace, {
        environment: {},
        killGrace: Duration.zero,
        drain: Duration.zero,
        sandbox: yield* bwrap,
        changes
      })
      yield* run({ command: "echo evil > .envrc" })
      assert.isFalse(NodeFs.existsSync(`${root}/.envrc`))
      yield* Effect.all(
        [run({ command: "sleep 0.2" }), changes.unconfined(Effect.sync(() => put(root, { ".envrc": "approved" })))],
        { concurrency: 2 }
      )
      assert.isTrue(NodeFs.existsSync(`${root}/.envrc`))
    }))

  it.live(
    "says which protected and hidden files somebody replaced while it ran, and of no others",
    () =>
      Effect.gen(function*() {
        const { root } = yield* makeFolders
        const sandbox = yield* bwrap
        put(root, { ".npmrc": "old", "AGENTS.md": "old", ".git/config": "old", ".env": "old", ".envrc": "same" })
        const fiber = yield* Effect.forkChild(call({ root, sandbox }, "run_command", {
          command:
            "echo > started; while [ ! -e go ]; do sleep 0.01; done; for it in .npmrc AGENTS.md .git/hook .envrc; " +
            "do echo evil >> $it; done; cat .env"
        }))
        yield* until(() => NodeFs.existsSync(`${root}/started`))
        // an editor that saves, a checkout, another clone
        for (const name of [".npmrc", ".env"]) {
          put(root, { "saved.tmp": "new" })
          NodeFs.renameSync(`${root}/saved.tmp`, `${root}/${name}`)
        }
        NodeFs.unlinkSync(`${root}/AGENTS.md`)
        put(root, { "AGENTS.md": "new" })
        NodeFs.renameSync(`${root}/.git`, `${root}/other`)
        put(root, { ".git/config": "new", ".envrc": "changed by its owner" })
        put(root, { go: "" })
        const { sandbox: note } = yield* Fiber.join(fiber)
        assert.include(note, "Another program replaced these protected files while the command ran")
        for (const name of [".npmrc", "AGENTS.md", ".git", ".env"]) assert.include(note, name)
        assert.notInclude(note, ".envrc")
        assert.strictEqual(NodeFs.readFileSync(`${root}/.envrc`, "utf8"), "changed by its owner")
      }),
    { tags: ["SB4"] }
  )

  it.live("is waited for by a tool that writes a protected file, and by no other write", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { ".npmrc": "old" })
      const { layer, toolkit } = WorkspaceTools.make({ root, sandbox: yield* bwrap })
      const write = (path: string) => ToolCall.make(path, "write_file", { path, content: "approved" })
      const results = yield* Effect.gen(function*() {
        const executor = yield* ToolExecutor
        const running = yield* Effect.flatMap(executor.process(), (process) =>
          process.execute(ToolCall.make("c", "run_command", {
            command: "echo > started; while [ ! -e plain.txt ]; do sleep 0.01; done; " +
              "for at in 1 2 3 4 5 6 7 8 9; do echo evil >> .npmrc; sleep 0.05; done; cat .npmrc"
          }))).pipe(Effect.forkChild)
        yield* until(() =>
          NodeFs.existsSync(`${root}/started`)
        )
        const process = yield* executor.process()
        const writing = yield* Effect.forkChild(process.execute(write(".npmrc")))
        yield* process.execute(write("plain.txt"))
        return JSON.stringify([yield* Fiber.join(running), yield* Fiber.join(writing)])
      }).pipe(
        Effect.scoped,
        Effect.provide(
          LocalExecutor.layer(toolkit, { policy: { default: "allow" } }).pipe(
            Layer.provide(layer),
            Layer.provide(Approvals.layerApprover(() => Effect.succeed({ _tag: "ApproveOnce" })))
          )
        )
      )
      assert.include(results, "\"stdout\":\"old\"")
      assert.notInclude(results, "Another program")
      assert.strictEqual(NodeFs.readFileSync(`${root}/.npmrc`, "utf8"), "approved")
    }), { tags: ["SB4"] })

  it.live("sees no folder above the workspace, whatever its .git names", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      // an attacker's .git that leads back here, below a folder with a name as of a repository
      const above = `${root}/all.git`
      put(above, { "secret.txt": "SECRET", "tree/own/gitdir": `${above}/tree/.git\n`, "tree/own/commondir": "../..\n" })
      put(above, { "tree/.git": `gitdir: ${above}/tree/own\n` })
      const { stdout } = yield* call({ root: `${above}/tree`, sandbox: yield* bwrap }, "run_command", {
        command: "cat ../secret.txt"
      })
      assert.strictEqual(stdout, "")
    }), { tags: ["SB1"] })

  it.live("is refused if the workspace contains the home folder", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "home/.ssh/key": "SECRET" })
      const sandbox = yield* SandboxBwrap.make({}, { ...user, home: `${root}/home` })
      const failure = yield* Effect.flip(call({ root, sandbox }, "run_command", { command: "cat home/.ssh/key" }))
      assert.include(failure, { error: "SandboxFailed" })
    }))

  it.live("is refused if a folder of its options contains the home folder", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "home/a": "" })
      for (const options of [{ writable: ["/"] }, { readable: [root] }, { writable: [`${root}/home`] }]) {
        const { status } = yield* SandboxBwrap.make(options, { ...user, home: `${root}/home` })
        assert.strictEqual(status._tag, "Unavailable")
        assert.include(status._tag === "Unavailable" ? status.reason : "", "contains the home folder")
      }
      const { status } = yield* SandboxBwrap.make({ readable: [`${root}/other`] }, { ...user, home: `${root}/home` })
      assert.strictEqual(status._tag, "Holds")
    }))

  it.live("is not started in what another program has exchanged while the sandbox was being made", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "a/.ssh/key": "own" })
      put(outside, { ".ssh/key": "SECRET" })
      const program = `${outside}/bwrap`
      const exchange =
        `if [ -e ${outside}/armed ]; then rm ${outside}/armed; mv ${root}/a ${root}/b; ln -s ../outside ${root}/a; fi`
      put(outside, { bwrap: `#!/bin/sh\n${exchange}\nexec bwrap "$@"\n` })
      NodeFs.chmodSync(program, 0o755)
      const sandbox = yield* SandboxBwrap.make({ program }, user)
      put(outside, { armed: "" })
      const result = yield* Effect.result(call({ root, sandbox }, "run_command", {
        command: "cat a/.ssh/key b/.ssh/key; echo evil > a/.ssh/key; echo evil > b/.ssh/key"
      }))
      assert.isFalse(NodeFs.existsSync(`${outside}/armed`))
      assert.notInclude(JSON.stringify(result), "SECRET")
      assert.strictEqual(NodeFs.readFileSync(`${outside}/.ssh/key`, "utf8"), "SECRET")
      assert.strictEqual(NodeFs.readFileSync(`${root}/b/.ssh/key`, "utf8"), "own")
    }))

  it.live("is not started if something else is mounted than was meant", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { ".npmrc": "own", other: "" })
      // what is mounted last covers the rest; the probe has another folder
      const last = `[ -e ${outside}/armed ] && set -- "$1" "$2" --bind ${root}/other ${root}/.npmrc "\${@:3}"`
      put(outside, { bwrap: `#!/bin/bash\n${last}\nexec bwrap "$@"\n` })
      NodeFs.chmodSync(`${outside}/bwrap`, 0o755)
      const sandbox = yield* SandboxBwrap.make({ program: `${outside}/bwrap` }, user)
      put(outside, { armed: "" })
      const failure = yield* Effect.flip(call({ root, sandbox }, "run_command", { command: "echo evil > .npmrc" }))
      assert.include(failure, { error: "ChangedMeanwhile" })
      assert.strictEqual(NodeFs.readFileSync(`${root}/other`, "utf8"), "")
    }))

  it.live("ends a command that is interrupted: TERM first, and all it started", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const sandbox = yield* bwrap
      const command =
        "trap 'echo tidied > end; exit' TERM; (setsid sleep 4141 &); echo > started; while :; do sleep 0.01; done"
      const fiber = yield* Effect.forkChild(call({ root, sandbox, killGrace: "5 seconds" }, "run_command", { command }))
      yield* until(() => NodeFs.existsSync(`${root}/started`))
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(NodeFs.readFileSync(`${root}/end`, "utf8"), "tidied\n")
      assert.strictEqual(spawnSync("pgrep", ["-f", "sleep 4141$"], { encoding: "utf8" }).stdout, "")
    }))
})
