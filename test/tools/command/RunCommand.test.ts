import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { spawn, spawnSync } from "node:child_process"
import * as NodeFs from "node:fs"
import { fileURLToPath } from "node:url"
import * as Descendants from "../../../src/tools/command/Descendants.ts"
import * as OutputCapture from "../../../src/tools/command/OutputCapture.ts"
import { call, makeFolders, put, recorder, until } from "../fixture.ts"

/** Whether a process runs; one that has ended and was not yet reaped does not. */
const isRunning = (pid: number): boolean => {
  if (!NodeFs.existsSync(`/proc/${pid}/stat`)) return false
  return !/\) [ZX] /.test(NodeFs.readFileSync(`/proc/${pid}/stat`, "utf8"))
}

const pidIn = (file: string): number => Number(NodeFs.readFileSync(file, "utf8"))

const written = (file: string): boolean => NodeFs.existsSync(file) && NodeFs.readFileSync(file, "utf8").endsWith("\n")

describe("run_command", () => {
  it.live("runs a line of shell in the root and gives both outputs", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      assert.deepStrictEqual(yield* call({ root }, "run_command", { command: "pwd; echo oops >&2" }), {
        exitCode: 0,
        signal: null,
        stdout: `${root}\n`,
        stderr: "oops\n"
      })
    }))

  it.live("passes arguments as they are, without a shell", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const argv = ["printf", "%s|", "$HOME", "a b", "*", ";ls", ""]
      assert.strictEqual((yield* call({ root }, "run_command", { argv })).stdout, "$HOME|a b|*|;ls||")
    }))

  it.live("starts in a folder of the workspace", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "" })
      assert.strictEqual((yield* call({ root }, "run_command", { command: "ls", cwd: "src" })).stdout, "a.txt\n")
      const failure = yield* Effect.flip(call({ root }, "run_command", { command: "ls", cwd: "src/a.txt" }))
      assert.include(failure, { error: "NotADirectory", path: "src/a.txt" })
    }))

  it.live("gives a non-zero exit code and a signal as results", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      assert.include(yield* call({ root }, "run_command", { command: "exit 3" }), { exitCode: 3, signal: null })
      assert.include(yield* call({ root }, "run_command", { command: "kill -SEGV $$" }), {
        exitCode: null,
        signal: "SIGSEGV"
      })
      assert.include(yield* call({ root }, "run_command", { command: "no-such-program" }), { exitCode: 127 })
    }))

  it.live("refuses what is not one command, and programs that cannot be started", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { data: "" })
      const errorOf = (params: { readonly command?: string; readonly argv?: ReadonlyArray<string> }) =>
        Effect.flip(call({ root }, "run_command", params))
      for (
        const params of [
          {},
          { command: "ls", argv: ["ls"] },
          { command: " " },
          { argv: [] },
          { argv: [""] },
          { command: "ls\0" },
          { argv: ["ls", "\0"] },
          { argv: ["no-such-program"] },
          { argv: ["./data"] },
          { argv: ["true", "x".repeat(5_000_000)] }
        ]
      ) {
        assert.include(yield* errorOf(params), { error: "InvalidCommand" }, JSON.stringify(params).slice(0, 80))
      }
      assert.include((yield* errorOf({ argv: ["no-such-program"] })).message, "The program does not exist")
    }))

  it.live("has no input to wait for", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      assert.include(yield* call({ root }, "run_command", { command: "cat; echo end" }), { stdout: "end\n" })
    }))

  it.live("passes on the allowed variables and nothing else", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const environment = { PATH: "/usr/bin:/bin", HOME: "/home/x", API_KEY: "secret", LANG: undefined }
      const { stdout } = yield* call({ root, environment }, "run_command", { argv: ["env"] })
      assert.strictEqual(stdout, "PATH=/usr/bin:/bin\nHOME=/home/x\n")
      const chosen = { root, environment, allowEnvironment: ["API_KEY", "PATH", "MISSING"] }
      assert.strictEqual(
        (yield* call(chosen, "run_command", { argv: ["env"] })).stdout,
        "API_KEY=secret\nPATH=/usr/bin:/bin\n"
      )
    }))

  it.live("takes the variables from the ConfigProvider where no environment is given", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const provider = ConfigProvider.fromEnv({ env: { PATH: "/usr/bin:/bin", LC_ALL: "C", API_KEY: "secret" } })
      const { stdout } = yield* Effect.provideService(
        call({ root }, "run_command", { argv: ["env"] }),
        ConfigProvider.ConfigProvider,
        provider
      )
      assert.strictEqual(stdout, "PATH=/usr/bin:/bin\nLC_ALL=C\n")
    }))

  it.live("reports output as it comes, and puts characters together that were split", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const first = yield* Deferred.make<void>()
      const { layer, seen } = recorder(() => Effect.asVoid(Deferred.succeed(first, undefined)))
      const command =
        "printf 'caf\\303'; until [ -e go ]; do sleep 0.02; done; printf '\\251 \\360\\237'; sleep 0.1; " +
        "printf '\\230\\200'"
      const fiber = yield* Effect.forkChild(Effect.provide(call({ root }, "run_command", { command }), layer))
      yield* Deferred.await(first)
      assert.deepStrictEqual(seen.progress, ["caf"])
      assert.isUndefined(fiber.pollUnsafe())
      put(root, { go: "" })
      assert.strictEqual((yield* Fiber.join(fiber)).stdout, "café 😀")
      assert.strictEqual(seen.progress.join(""), "café 😀")
    }))

  it.live("keeps the head and the tail of a flood and counts what it dropped", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const { layer, seen } = recorder()
      const command = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"
      const result = yield* Effect.provide(call({ root }, "run_command", { command }), layer)
      assert.strictEqual(result.droppedBytes, 30_000_012 - 200_000)
      assert.isTrue(result.stdout.startsWith("first\nxxx"))
      assert.isTrue(result.stdout.endsWith("xxx\nlast\n"))
      assert.include(result.stdout, `\n[${result.droppedBytes} bytes are not shown]\n`)
      assert.isTrue(seen.progress.every((message) => message.length <= 4_096))
    }))

  it.live("ends the whole group when it is interrupted, grandchildren included", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = "sleep 1000 & echo $! > child; sh -c 'echo $$ > grandchild; sleep 1000' & wait"
      const fiber = yield* Effect.forkChild(call({ root }, "run_command", { command }))
      yield* until(() => written(`${root}/child`) && written(`${root}/grandchild`))
      const pids = [pidIn(`${root}/child`), pidIn(`${root}/grandchild`)]
      assert.deepStrictEqual(pids.map(isRunning), [true, true])
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(pids.map(isRunning), [false, false])
    }))

  it.live("sends TERM first, so that a command can tidy up", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = "trap 'echo tidy > tidied; exit 0' TERM; echo x > ready; while :; do sleep 0.05; done"
      const fiber = yield* Effect.forkChild(call({ root, killGrace: "1 minute" }, "run_command", { command }))
      yield* until(() => written(`${root}/ready`))
      yield* Fiber.interrupt(fiber)
      assert.isTrue(written(`${root}/tidied`))
    }))

  it.live("kills after the grace what ignores TERM", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command =
        "trap '' TERM; echo $$ > leader; (trap '' TERM; while :; do sleep 0.05; done) & echo $! > child; " +
        "while :; do sleep 0.05; done"
      const fiber = yield* Effect.forkChild(call({ root, killGrace: 100 }, "run_command", { command }))
      yield* until(() => written(`${root}/leader`) && written(`${root}/child`))
      const pids = [pidIn(`${root}/leader`), pidIn(`${root}/child`)]
      yield* Fiber.interrupt(fiber)
      yield* until(() => !pids.some(isRunning))
    }))

  it.live("settles soon after the exit although a grandchild holds the output, and ends it", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = "sleep 1000 & echo $! > child; echo done; exit 4"
      const result = yield* call({ root }, "run_command", { command })
      assert.include(result, { exitCode: 4, stdout: "done\n" })
      yield* until(() => !isRunning(pidIn(`${root}/child`)))
    }))

  it.live("ends what was left in the background without holding the output", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = "sleep 1000 >/dev/null 2>&1 & echo $! > child"
      yield* call({ root }, "run_command", { command })
      yield* until(() => !isRunning(pidIn(`${root}/child`)))
    }))

  it.live("ends what started a session of its own, when the command ends and when it is interrupted", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const away = (name: string) => `setsid sh -c 'echo $$ > ${name}; exec sleep 1000' >/dev/null 2>&1 &`
      const wait = (name: string) => `until [ -s ${name} ]; do sleep 0.01; done`
      yield* call({ root }, "run_command", { command: `${away("left")} ${wait("left")}` })
      yield* until(() => !isRunning(pidIn(`${root}/left`)))
      // the one that started it is gone at once, too
      yield* call({ root }, "run_command", { command: `(${away("orphan")}) & ${wait("orphan")}` })
      yield* until(() => !isRunning(pidIn(`${root}/orphan`)))
      const fiber = yield* Effect.forkChild(call({ root }, "run_command", { command: `${away("both")} sleep 1000` }))
      yield* until(() => written(`${root}/both`))
      yield* Fiber.interrupt(fiber)
      assert.isFalse(isRunning(pidIn(`${root}/both`)))
    }))

  it.live("knows what it saw once, whatever became of its parent", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = `setsid sh -c 'echo $$ > away; exec sleep 1000' & until [ -s away ]; do sleep 0.01; done; read go`
      const child = spawn("sh", ["-c", command], { cwd: root, detached: true, stdio: ["pipe", "ignore", "ignore"] })
      const { look } = Descendants.make(child.pid!, undefined)
      const ids = Effect.map(look, (all) => (all ?? []).map(({ id }) => id))
      yield* until(() => written(`${root}/away`))
      const away = pidIn(`${root}/away`)
      yield* Effect.addFinalizer(() => Effect.sync(() => process.kill(away, "SIGKILL")))
      assert.includeMembers([...yield* ids], [child.pid!, away])
      child.stdin.end("go\n")
      yield* Effect.callback<void>((resume) => void child.once("exit", () => resume(Effect.void)))
      assert.deepStrictEqual(yield* ids, [away])
      // of another command nothing is known
      assert.deepStrictEqual(yield* Descendants.make(child.pid!, undefined).look, [])
    }))

  it.live("ends what is just about to leave when the command ends", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const seconds = String(1_000_000 + process.pid)
      for (let round = 0; round < 40; round++) {
        yield* call({ root }, "run_command", { command: `setsid sleep ${seconds} >/dev/null 2>&1 &` })
      }
      const left = NodeFs.readdirSync("/proc").filter((id) => {
        const line = `/proc/${id}/cmdline`
        return /^\d+$/.test(id) && NodeFs.existsSync(line) &&
          NodeFs.readFileSync(line, "utf8") === `sleep\0${seconds}\0`
      })
      for (const id of left) process.kill(Number(id), "SIGKILL")
      assert.deepStrictEqual(left, [])
    }))

  it.live("ends nothing that others started", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const other = yield* Effect.forkChild(
        call({ root }, "run_command", { command: "echo $$ > other; exec sleep 1000" })
      )
      yield* until(() => written(`${root}/other`))
      for (let round = 0; round < 5; round++) {
        yield* call({ root }, "run_command", { command: "setsid sleep 1000 >/dev/null 2>&1 &" })
        assert.isTrue(isRunning(pidIn(`${root}/other`)))
      }
      yield* Fiber.interrupt(other)
    }))

  it.live("takes the last output of a grandchild that ends within the drain", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const command = "(sleep 0.2; echo late) & exit 0"
      const result = yield* call({ root, drain: "10 seconds" }, "run_command", { command })
      assert.strictEqual(result.stdout, "late\n")
    }))

  it.live("is ended by a timeout", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      // the time is over once it has begun, however long that takes
      const over = Effect.andThen(until(() => written(`${root}/leader`)), Effect.fail("over"))
      const exit = yield* call({ root }, "run_command", { command: "echo $$ > leader; exec sleep 1000" }).pipe(
        Effect.raceFirst(over),
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.isFalse(isRunning(pidIn(`${root}/leader`)))
    }))

  it.live("ends with the process that runs it, even if that just exits", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      const script = `
        import * as Effect from "effect/Effect"
        import { existsSync } from "node:fs"
        import * as RunCommand from "${new URL("../../../src/tools/command/RunCommand.ts", import.meta.url).href}"
        import * as Workspace from "${new URL("../../../src/tools/workspace/Workspace.ts", import.meta.url).href}"
        const workspace = await Effect.runPromise(Workspace.make(${JSON.stringify(root)}))
        const options = { environment: {}, killGrace: 2000, drain: 200 }
        Effect.runFork(RunCommand.make(workspace, options)({ command: "echo $$ > leader; exec sleep 1000" }))
        setInterval(() => existsSync(${JSON.stringify(`${root}/leader`)}) && process.exit(7), 20)
      `
      const here = fileURLToPath(new URL(".", import.meta.url))
      const ended = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd: here, encoding: "utf8" })
      assert.strictEqual(ended.status, 7, ended.stderr)
      yield* until(() => written(`${root}/leader`) && !isRunning(pidIn(`${root}/leader`)))
    }))

  it("keeps an output of exactly the bound whole, and cuts between characters beyond it", () => {
    const exact = OutputCapture.make(10)
    for (const byte of Buffer.from("0123456789")) exact.push(Buffer.of(byte))
    assert.deepStrictEqual(exact.text(), { text: "0123456789", droppedBytes: 0 })
    const over = OutputCapture.make(10)
    over.push(Buffer.from("0123é6789é12é"))
    assert.deepStrictEqual(over.text(), { text: "0123\n[8 bytes are not shown]\n12é", droppedBytes: 8 })
  })
})
