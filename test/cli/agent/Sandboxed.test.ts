import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { isInstalled } from "../../support/installed.ts"
import { folder, openai, run } from "../harness.ts"

const isThere = isInstalled("bwrap")

const config = (sandbox: object) => JSON.stringify({ sandbox, policy: { sandboxed: "allow" } })

const messageOf = (stdout: string): string =>
  (JSON.parse(stdout) as ReadonlyArray<{ readonly content: string }>)[0]!.content

describe("a sandbox in the config of run", () => {
  it.live.skipIf(!isThere)("lets confined commands run unasked", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "wave.json": openai(["c", "run_command", { command: "pwd; ls -A ~; echo made > made.txt" }]),
        "config.json": config({ mode: "required" })
      })
      const { code, stdout } = yield* run(["run", file("wave.json"), "--root", root, "--config", file("config.json")])
      assert.strictEqual(code, 0, stdout)
      assert.include(messageOf(stdout), "\"exitCode\":0")
    }))

  it.live("is a mistake if a host is not one", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "wave.json": openai(["c", "run_command", { command: "true" }]),
        "config.json": config({ network: { allow: ["https://x"] }, mode: "sometimes" })
      })
      const { code, stderr } = yield* run(["run", file("wave.json"), "--root", root, "--config", file("config.json")])
      assert.strictEqual(code, 2)
      assert.include(stderr, "sandbox.network.allow[0]")
      assert.include(stderr, "sandbox.mode")
    }))
})
