/**
 * The command as people run it: a process of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { isTooOld, oldest } from "../../src/cli/nodeVersion.ts"
import { folder, openai } from "./harness.ts"
import { once, run, without } from "./process.ts"

const command = (text: string) => JSON.stringify([{ id: "1", name: "run_command", params: { command: text } }])

const tags = (stdout: string) => (JSON.parse(stdout) as ReadonlyArray<Record<string, unknown>>).map((it) => it["_tag"])

describe("the executable", () => {
  it.live("has the version of its package", () =>
    Effect.gen(function*() {
      const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
        readonly version: string
      }
      const { code, stdout } = yield* run(["--version"])
      assert.strictEqual(code, 0)
      assert.include(stdout, version)
    }))

  it("says that a Node is too old by what the package says", () => {
    const { engines } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
      readonly engines: { readonly node: string }
    }
    assert.strictEqual(engines.node, `>=${oldest}`)
    const versions = ["18.20.8", "20.20.2", "22.18.9", "22.19.0", "22.20.1", "24.0.0"]
    assert.deepStrictEqual(versions.map(isTooOld), [true, true, true, false, false, false])
    // what an old one cannot even link is no message at all
    const bin = readFileSync(new URL("../../src/cli/bin.ts", import.meta.url), "utf8")
    assert.notMatch(bin, /^import \{[^}]*\} from "node:/m)
  })

  it.live("ends with 0, 1 and 2", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({ "a.txt": "alpha" })
      const message = (path: string) => JSON.stringify(openai(["c", "read_file", { path }]))
      assert.strictEqual((yield* run(["run", "--root", root], { stdin: message("a.txt") })).code, 0)
      assert.strictEqual((yield* run(["run", "--root", root], { stdin: message("b.txt") })).code, 1)
      assert.strictEqual((yield* run(["run", "--root", root], { stdin: "no" })).code, 2)
      assert.strictEqual((yield* run(["run", "--nope"])).code, 2)
    }))

  it.live("gives five megabytes of results whole through a pipe", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "config.json": {
          policy: { allow: ["run_command"] },
          dedupe: false,
          output: { maxChars: "unbounded", batchChars: "unbounded" }
        }
      })
      const calls = Array.from({ length: 30 }, (_, index) =>
        ["c" + index, "run_command", {
          command: `head -c 190000 /dev/zero | tr '\\0' x`
        }] as const)
      const { code, stdout } = yield* run(
        ["run", "--root", root, "--config", file("config.json"), "--events", "none"],
        {
          stdin: JSON.stringify(openai(...calls))
        }
      )
      const messages = JSON.parse(stdout) as ReadonlyArray<{ readonly content: string }>
      assert.strictEqual(code, 0)
      assert.lengthOf(messages, 30)
      assert.isTrue(messages.every((it) => it.content.length > 190_000))
      assert.isAbove(stdout.length, 5_000_000)
      assert.isTrue(stdout.endsWith("]\n"))
    }))

  it.live("answers every call at Ctrl-C and lets commands clean up", () =>
    Effect.gen(function*() {
      const { read, root } = yield* folder({})
      const { code, stdout } = yield* run(["run", "--root", root, "--allow", "run_command"], {
        stdin: command(
          "trap 'sleep 0.3; echo cleaned > done.txt; exit' TERM; echo ready; while :; do sleep 0.05; done"
        ),
        onOutput: once(({ stderr }) => stderr.includes("ready\n"), (child) => child.signal("SIGINT"))
      })
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(tags(stdout), ["Cancelled"])
      assert.strictEqual(yield* read("done.txt"), "cleaned\n")
    }))

  it.live("answers every call when it is asked to end", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({})
      const { code, stdout } = yield* run(["run", "--root", root, "--allow", "run_command"], {
        stdin: command("echo ready; sleep 60"),
        onOutput: once(({ stderr }) => stderr.includes("ready\n"), (child) => child.signal("SIGTERM"))
      })
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(tags(stdout), ["Cancelled"])
    }))

  it.live("ends at once at a second Ctrl-C", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({})
      const first = once(({ stderr }) => stderr.includes("ready\n"), (child) => child.signal("SIGINT"))
      const second = once(({ stdout }) => stdout.endsWith("]\n"), (child) => child.signal("SIGINT"))
      const { code } = yield* run(["run", "--root", root, "--allow", "run_command"], {
        stdin: command("trap '' TERM; echo ready; while :; do sleep 0.05; done"),
        onOutput: (so, child) => {
          first(so, child)
          second(so, child)
        }
      })
      assert.strictEqual(code, 130)
    }))

  it.live("shows what models wrote without obeying it, and no colours to a file", () =>
    Effect.gen(function*() {
      const name = "read\u001b[2J\u202e\n✓ fake  Succeeded"
      const { code, stderr } = yield* run(["run"], { stdin: JSON.stringify([{ name, params: { name } }]) })
      assert.strictEqual(code, 1)
      assert.match(stderr, /^[^\p{Cc}\u202e\n]*\n[^\p{Cc}\u202e\n]*\n$/u)
      assert.include(stderr, "read\\u001b[2J\\u202e\\n✓ fake")
    }))

  it.live("ends without a word when nobody takes its results any more", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({})
      const { code, stderr } = yield* run(["run", "--root", root, "--allow", "run_command"], {
        stdin: command("echo ready; sleep 0.3"),
        onOutput: once(({ stderr }) => stderr.includes("ready\n"), (child) => child.closeStdout())
      })
      assert.strictEqual(code, 1)
      assert.include(stderr, "run_command")
      assert.notInclude(stderr, "standard output")
      const list = yield* run(["schema", "gateway"], { onOutput: (_, child) => child.closeStdout() })
      assert.strictEqual(list.stderr, "")
    }))

  for (const name of ["@effect/platform-node", "effect"]) {
    it.live(`says what to install where there is no ${name}`, () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* run(["--version"], {
          node: without(name)
        })
        assert.strictEqual(code, 2)
        assert.strictEqual(stderr, `tool-executor needs ${name}: npm install ${name}\n`)
        assert.strictEqual(stdout, "")
      }))
  }
})
