import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { run } from "./harness.ts"

describe("tool-executor", () => {
  for (const args of [["--help"], ["run", "--help"], ["simulate", "--help"], ["schema", "--help"]]) {
    it.live(`prints help for ${args.join(" ")} and succeeds`, () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* run(args)
        assert.strictEqual(code, 0)
        assert.include(stdout, "USAGE")
        assert.strictEqual(stderr, "")
      }))
  }

  it.live("prints its version and succeeds", () =>
    Effect.gen(function*() {
      const { code, stdout } = yield* run(["--version"])
      assert.strictEqual(code, 0)
      assert.include(stdout, "1.2.3")
    }))

  it.live("warns that commands are not confined to the root", () =>
    Effect.gen(function*() {
      const { stdout } = yield* run(["run", "--help"])
      assert.match(stdout, /run_command.*NOT confined/)
    }))

  for (
    const [what, args, said] of [
      ["a missing command", [], "Specify a command: init, run, undo,"],
      ["a missing command of a command", ["rules"], "Specify a command: check, explain, graph."],
      ["an unknown command", ["walk"], "walk"],
      ["an unknown flag", ["run", "--colour"], "--colour"],
      ["a value that is none of a flag's", ["run", "--format", "geminy"], "Expected: \"auto\" | "],
      ["an argument too many", ["run", "a.json", "b.json"], "b.json"],
      ["a missing file", ["simulate"], "FILE"],
      ["an unknown schema", ["schema", "rule"], "rules"]
    ] as const
  ) {
    it.live(`takes ${what} for bad usage and keeps standard output clean`, () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* run(args)
        assert.strictEqual(code, 2)
        assert.include(stderr.trim().split("\n").at(-1), said)
        // not the whole of the help before it
        assert.isBelow(stderr.length, 500, stderr)
        assert.strictEqual(stdout, "")
      }))
  }
})
