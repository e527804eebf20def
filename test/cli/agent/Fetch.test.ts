/** `fetch_url` on the command line. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { program } from "../../support/programs.ts"
import { serve, text } from "../../tools/web.ts"
import { folder, run } from "../harness.ts"

const bin = program("src/cli/bin.ts")

const calling = (url: string) => JSON.stringify([{ id: "1", name: "fetch_url", params: { url } }])

describe("tool-executor run", () => {
  it.live("fetches from hosts that are allowed, and gives as much as the config says", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("fetched text"))
      const { file, root } = yield* folder({
        "config.json": { fetch: { allowPrivate: ["127.0.0.1"], maxBytes: 7, connectTimeout: "5 seconds" } }
      })
      const stdin = calling(`http://127.0.0.1:${port}/`)
      const args = ["run", "--root", root, "--events", "none"]
      const config = ["--config", file("config.json")]
      const allow = ["--allow", `fetch_url(127.0.0.1:${port})`]
      const fetched = yield* run([...args, ...config, ...allow], { stdin })
      assert.strictEqual(fetched.code, 0)
      assert.include(fetched.stdout, "fetched")
      assert.notInclude(fetched.stdout, "fetched text")
      const unasked = yield* run([...args, ...config], { stdin })
      assert.include(unasked.stdout, "PermissionDenied")
      const without = yield* run([...args, ...allow], { stdin })
      assert.include(without.stdout, "ForbiddenAddress")
    }))

  it.live("says what is wrong with what the config says of it", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "config.json": {
          fetch: { allowPrivate: ["localhost", "10.0.0.0/40"], maxBytes: 0, connectTimeout: "0 s", x: 1 }
        },
        "endless.json": { fetch: { connectTimeout: "Infinity" } }
      })
      const { code, stderr } = yield* run(["run", "--config", file("config.json")], { stdin: "[]" })
      assert.strictEqual(code, 2)
      for (const path of ["fetch.allowPrivate[1]", "fetch.maxBytes", "fetch.connectTimeout", "fetch.x"]) {
        assert.include(stderr, `  ${path}: `)
      }
      assert.notInclude(stderr, "allowPrivate[0]")
      const endless = yield* run(["run", "--config", file("endless.json")], { stdin: "[]" })
      assert.strictEqual(endless.code, 2)
      assert.include(endless.stderr, "connectTimeout: is not a duration above zero with an end")
    }))

  it.live("uses no proxy of the environment", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("from the host itself"))
      const proxy = yield* serve(text("from the proxy"))
      const { file, root } = yield* folder({ "config.json": { fetch: { allowPrivate: ["127.0.0.1"] } } })
      const address = `http://127.0.0.1:${proxy.port}`
      const stdout = yield* Effect.callback<string>((resume) => {
        const args = ["run", "--root", root, "--config", file("config.json"), "--allow", "fetch_url"]
        const child = spawn(process.execPath, [...bin, ...args], {
          stdio: "pipe",
          env: { ...process.env, NODE_USE_ENV_PROXY: "1", HTTP_PROXY: address, http_proxy: address, ALL_PROXY: address }
        })
        let written = ""
        child.stdout.setEncoding("utf8").on("data", (part: string) => written += part)
        child.stderr.resume()
        child.on("close", () => resume(Effect.succeed(written)))
        child.stdin.end(calling(`http://127.0.0.1:${port}/`))
        return Effect.sync(() => child.kill("SIGKILL"))
      })
      assert.include(stdout, "from the host itself")
      assert.strictEqual(proxy.connections.made, 0)
    }))

  it.live("finds files without being allowed to", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({ "a.md": "", "b.txt": "" })
      const stdin = JSON.stringify([{ id: "1", name: "find_files", params: { glob: "*.md" } }])
      const { code, stdout } = yield* run(["run", "--root", root], { stdin })
      assert.strictEqual(code, 0)
      assert.include(stdout, "a.md")
      assert.notInclude(stdout, "b.txt")
    }))
})

describe("tool-executor schema tools", () => {
  it.live("prints what every tool of run takes, those of the web too", () =>
    Effect.gen(function*() {
      const { stdout } = yield* run(["schema", "tools"])
      const tools = JSON.parse(stdout) as ReadonlyArray<{ readonly name: string; readonly description: string }>
      assert.deepStrictEqual(tools.map((it) => it.name), [
        "read_file",
        "list_directory",
        "find_files",
        "search_text",
        "write_file",
        "edit_file",
        "run_command",
        "fetch_url"
      ])
      for (const { description } of tools) assert.isAbove(description.length, 40)
    }))
})
