/** Confined commands at the same time in one workspace, and a host that is killed meanwhile. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import * as NodeFs from "node:fs"
import { fileURLToPath } from "node:url"
import * as SandboxBwrap from "../../../src/tools/sandbox/SandboxBwrap.ts"
import { isInstalled } from "../../support/installed.ts"
import { call, makeFolders, put, until } from "../fixture.ts"

const isThere = isInstalled("bwrap")

const user = { home: process.env.HOME, path: process.env.PATH }

const git = (root: string, ...args: ReadonlyArray<string>) =>
  spawnSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { cwd: root, encoding: "utf8" }).stdout

const repository = (root: string) => {
  put(root, { "src/a.ts": "a", "deep/.npmrc": "good", "package.json": "{}" })
  git(root, "init", "-q")
  git(root, "add", "-A")
  git(root, "commit", "-qm", "first")
}

describe.skipIf(!isThere)("confined commands in one workspace", () => {
  it.live("run at the same time, and leave nothing but what they made", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      repository(root)
      const sandbox = yield* SandboxBwrap.make({ mode: "required" }, user)
      const results = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) =>
          call({ root, sandbox }, "run_command", {
            command: `echo ${index} > src/${index}.txt; git status --short | wc -l; rm src/${index}.txt`
          }),
        { concurrency: 8 }
      )
      assert.deepStrictEqual(results.filter(({ exitCode }) => exitCode !== 0), [])
      assert.strictEqual(git(root, "status", "--porcelain", "--ignored"), "")
    }), { tags: ["SB5"] })

  it.live(
    "do not lead one another outside by exchanging folders while a sandbox is being made",
    () =>
      Effect.gen(function*() {
        const { outside, root } = yield* makeFolders
        put(root, { "a/x.txt": "" })
        put(outside, { ".ssh/key": "SECRET", ".npmrc": "good" })
        const sandbox = yield* SandboxBwrap.make({ mode: "required" }, user)
        const attacker = call({ root, sandbox }, "run_command", {
          command: `mkdir -p a/.ssh; touch a/.npmrc; i=0; while [ $i -lt 600 ]; do mv a b 2>/dev/null; ` +
            `ln -s ${outside} a 2>/dev/null; rm a 2>/dev/null; mv b a 2>/dev/null; mkdir -p a/.ssh; i=$((i+1)); done`
        })
        const victim = Effect.result(call({ root, sandbox }, "run_command", {
          command: `cat a/.ssh/key a/.npmrc ${outside}/.ssh/key; echo evil > a/.npmrc`
        }))
        const [, results] = yield* Effect.all(
          [attacker, Effect.forEach(Array.from({ length: 60 }), () => victim, { concurrency: 3 })],
          { concurrency: 2 }
        )
        const ran = results.filter((it) => it._tag === "Success").map((it) => it.success)
        assert.isAbove(ran.length, 0)
        assert.deepStrictEqual(ran.filter(({ stdout }) => stdout.includes("SECRET")), [])
        assert.strictEqual(NodeFs.readFileSync(`${outside}/.npmrc`, "utf8"), "good")
        assert.strictEqual(NodeFs.readFileSync(`${outside}/.ssh/key`, "utf8"), "SECRET")
      }),
    120_000
  )

  it.live("end with a host that is killed, and leave the workspace clean", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      repository(root)
      const of = (path: string) => JSON.stringify(new URL(`../../../src/tools/${path}`, import.meta.url).href)
      const script = `
        import * as Effect from "effect/Effect"
        import * as RunCommand from ${of("command/RunCommand.ts")}
        import * as SandboxBwrap from ${of("sandbox/SandboxBwrap.ts")}
        import * as Workspace from ${of("workspace/Workspace.ts")}
        const sandbox = await Effect.runPromise(SandboxBwrap.make({}, ${JSON.stringify(user)}))
        const workspace = await Effect.runPromise(Workspace.make(${JSON.stringify(root)}))
        const environment = { PATH: process.env.PATH }
        const run = RunCommand.make(workspace, { environment, killGrace: 2000, drain: 200, sandbox })
        const command = "(setsid sleep 4343 &); sleep 4343"
        Effect.runFork(Effect.all([run({ command }), run({ command })], { concurrency: 2 }))
      `
      const here = fileURLToPath(new URL(".", import.meta.url))
      const running = () => spawnSync("pgrep", ["-f", "sleep 4343"], { encoding: "utf8" }).stdout.trim()
      const host = spawn(process.execPath, ["--input-type=module", "-e", script], { cwd: here, stdio: "ignore" })
      yield* until(() => running().split("\n").length >= 4)
      host.kill("SIGKILL")
      yield* until(() => running() === "")
      assert.strictEqual(git(root, "status", "--porcelain", "--ignored"), "")
    }), { tags: ["SB5"] })
})
