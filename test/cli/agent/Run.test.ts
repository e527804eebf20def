import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { answersIn, asking, formats } from "../../support/wire.ts"
import { folder, openai, run } from "../harness.ts"

const two = openai(["c1", "read_file", { path: "a.txt" }], ["c2", "read_file", { path: "b.txt" }])
const files = { "a.txt": "alpha", "b.txt": "beta", "two.json": two }
const writing = openai(["w", "write_file", { path: "new.txt", content: "made" }])

describe("tool-executor run", () => {
  it.live("refuses what the user said where nothing would listen", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "m.json": openai(["a", "list_directory", { path: "." }]) })
      const { code, stderr } = yield* run(["run", file("m.json"), "--root", root, "--said", "Look at it"])
      assert.strictEqual(code, 2)
      assert.include(
        stderr,
        "--said is for provenance and reviewers: add a section provenance or reviewer to --config."
      )
    }))

  it.live("prints OpenAI's tool messages for OpenAI's message", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder(files)
      const { code, stdout } = yield* run(["run", file("two.json"), "--root", root])
      const messages = JSON.parse(stdout) as ReadonlyArray<Record<string, string>>
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(messages.map((it) => [it["role"], it["tool_call_id"]]), [["tool", "c1"], ["tool", "c2"]])
      assert.include(messages[0]?.["content"], "alpha")
      assert.include(messages[1]?.["content"], "beta")
    }))

  it.live("prints one user message of tool results for Anthropic's message", () =>
    Effect.gen(function*() {
      const { root } = yield* folder(files)
      const stdin = JSON.stringify({
        role: "assistant",
        content: [
          { type: "text", text: "Let me look." },
          { type: "tool_use", id: "t1", name: "read_file", input: { path: "a.txt" } },
          { type: "tool_use", id: "t2", name: "nope", input: {} }
        ]
      })
      const { code, stdout } = yield* run(["run", "--root", root], { stdin })
      const message = JSON.parse(stdout) as { role: string; content: ReadonlyArray<Record<string, unknown>> }
      assert.strictEqual(code, 1)
      assert.strictEqual(message.role, "user")
      assert.deepStrictEqual(
        message.content.map((it) => [it["type"], it["tool_use_id"], it["is_error"]]),
        [["tool_result", "t1", undefined], ["tool_result", "t2", true]]
      )
    }))

  it.live("prints outcomes for native calls, also from a dash", () =>
    Effect.gen(function*() {
      const { root } = yield* folder(files)
      const stdin = `\ufeff${JSON.stringify([{ id: "n", name: "read_file", params: { path: "a.txt" } }])}`
      const { code, stdout } = yield* run(["run", "-", "--root", root, "--format", "native"], { stdin })
      const [outcome] = JSON.parse(stdout) as ReadonlyArray<Record<string, unknown>>
      assert.strictEqual(code, 0)
      assert.strictEqual(outcome?.["_tag"], "Succeeded")
      assert.strictEqual(outcome?.["callId"], "n")
    }))

  for (const format of formats) {
    it.live(`answers each call of a message in the shape of ${format}, which it is told or finds out`, () =>
      Effect.gen(function*() {
        const wanted = [
          { id: "c1", name: "read_file", params: { path: "a.txt" }, ok: true },
          { id: "c2", name: "nope", params: {}, ok: false }
        ]
        for (const [index, message] of asking[format](wanted).entries()) {
          const { file, root } = yield* folder({ "a.txt": "alpha", "message.json": message })
          const how = index === 0 ? ["--format", format] : []
          const { code, stderr, stdout } = yield* run(["run", file("message.json"), "--root", root, ...how])
          assert.strictEqual(code, 1, stderr)
          assert.deepStrictEqual(
            answersIn[format](JSON.parse(stdout) as never),
            wanted.map((it) => [it.id, format.startsWith("openai") ? "unknown" : !it.ok])
          )
          assert.include(stdout, "alpha")
          assert.include(stdout, format === "native" ? "ToolNotFound" : "There is no tool")
        }
      }))
  }

  it.live("answers a message without calls with nothing, and says so", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* run(["run"], {
        stdin: JSON.stringify({ role: "assistant", content: "Hi" })
      })
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(JSON.parse(stdout), [])
      assert.include(stderr, "no tool calls")
    }))

  it.live("says which calls have an id in common, and answers each", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({ "a.txt": "alpha", "b.txt": "beta" })
      const stdin = JSON.stringify(
        openai(["x\u001b", "read_file", { path: "a.txt" }], ["x\u001b", "read_file", { path: "b.txt" }])
      )
      const { code, stderr, stdout } = yield* run(["run", "--root", root], { stdin })
      assert.strictEqual(code, 0)
      assert.include(stderr, "2 calls share the id x\\u001b. Each gets a result, in the order of the message.\n")
      const contents = (JSON.parse(stdout) as ReadonlyArray<{ readonly content: string }>).map((it) => it.content)
      assert.include(contents[0], "alpha")
      assert.include(contents[1], "beta")
    }))

  it.live("writes what a message writes twice in the order of the message, whoever allows it", () =>
    Effect.gen(function*() {
      for (const how of [["--allow", "write_file"], ["--approve", "auto"], ["--mode", "acceptEdits"]]) {
        const { read, root } = yield* folder({ "a.txt": "" })
        const texts = ["first", "second", "third", "last"]
        const stdin = JSON.stringify(
          texts.map((content, id) => ({ id: String(id), name: "write_file", params: { path: "a.txt", content } }))
        )
        const { code, stderr } = yield* run(["run", "--root", root, "--format", "native", ...how], { stdin })
        assert.strictEqual(code, 0, stderr)
        assert.strictEqual(yield* read("a.txt"), "last", how.join(" "))
      }
    }))

  it.live("says that calls for several people need a server, where every request is approved", () =>
    Effect.gen(function*() {
      const { exists, file, root } = yield* folder({
        "config.json": { policy: { ask: [{ tool: "write_file", approvers: { count: 2 } }] } }
      })
      const stdin = JSON.stringify([{ id: "1", name: "write_file", params: { path: "a.txt", content: "a" } }])
      const args = ["run", "--root", root, "--format", "native", "--config", file("config.json"), "--approve", "auto"]
      const { code, stderr } = yield* run(args, { stdin })
      assert.strictEqual(code, 1)
      assert.include(stderr, "--approve auto cannot approve calls that need named or several people")
      assert.notInclude(stderr, "--allow")
      assert.isFalse(yield* exists("a.txt"))
    }))

  it.live("refuses what changes things unless it is allowed", () =>
    Effect.gen(function*() {
      const { exists, read, root } = yield* folder({})
      const stdin = JSON.stringify(writing)
      const refused = yield* run(["run", "--root", root], { stdin })
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "PermissionDenied")
      assert.include(refused.stderr, "--allow PATTERN")
      assert.isFalse(yield* exists("new.txt"))
      const allowed = yield* run(["run", "--root", root, "--allow", "run_command", "--allow", "write_file"], { stdin })
      assert.strictEqual(allowed.code, 0)
      assert.strictEqual(yield* read("new.txt"), "made")
    }))

  it.live("takes more allowed tools from the config, whose denials stay", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "allow.json": { policy: { allow: ["write_file"] } },
        "deny.json": { policy: { deny: ["write_file"] } }
      })
      const args = (config: string) => ["run", "--root", root, "--config", file(config), "--allow", "write_file"]
      const stdin = JSON.stringify(writing)
      assert.strictEqual((yield* run(args("allow.json").slice(0, -2), { stdin })).code, 0)
      assert.strictEqual((yield* run(args("deny.json"), { stdin })).code, 1)
    }))

  it.live("applies limits, rules and the environment of the config", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "a.txt": "alpha",
        "config.json": {
          $schema: "./schema.json",
          rules: [{ _tag: "MaxCalls", tool: "read_file", max: 1 }],
          policy: { allow: ["run_command"] },
          tools: { run_command: { timeout: "20 seconds" } },
          mode: "sequential",
          environment: ["PATH"]
        }
      })
      const stdin = JSON.stringify([
        { name: "read_file", params: { path: "a.txt" } },
        { name: "read_file", params: { path: "b.txt" } },
        { name: "run_command", params: { command: "echo \"home is [$HOME]\"" } }
      ])
      const { stdout } = yield* run(["run", "--root", root, "--config", file("config.json")], { stdin })
      const outcomes = JSON.parse(stdout) as ReadonlyArray<Record<string, unknown>>
      assert.deepStrictEqual(outcomes.map((it) => it["_tag"]), ["Succeeded", "Denied", "Succeeded"])
      assert.include(stdout, "home is []")
    }))

  for (
    const [what, args, stdin, said] of [
      ["a name that is no tool", ["--allow", "rm", "--allow", "read_file"], "[]", [
        "\"rm\"",
        "read_file, list_directory"
      ]],
      ["input that is not JSON", [], "{\"role\": ", ["standard input", "not JSON"]],
      ["input of no known shape", [], "{}", ["unknown shape"]],
      ["a message of another format", ["--format", "openai"], "{\"calls\":[]}", ["openai"]],
      ["a file that is not there", ["nowhere.json"], "", ["nowhere.json: there is no such file"]],
      ["a root that is not there", ["--root", "/nowhere/at/all"], "[]", ["root", "/nowhere/at/all"]],
      ["a config that is not there", ["--config", "nowhere.json"], "[]", ["nowhere.json"]]
    ] as const
  ) {
    it.live(`ends with 2 and prints no results for ${what}`, () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* run(["run", ...args], { stdin })
        assert.strictEqual(code, 2)
        assert.strictEqual(stdout, "")
        for (const part of said) assert.include(stderr, part)
      }))
  }

  it.live("does not wait for a person to type a message", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* run(["run"], { stdinIsTerminal: true })
      assert.strictEqual(code, 2)
      assert.include(stderr, "standard input is a terminal")
    }))

  it.live("lists all mistakes of a config at once, each with its path", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "config.json": {
          rules: [
            { _tag: "MaxCalls", tool: "reed_file", max: 1 },
            { _tag: "Cooldown", tool: "*", duration: "soon" },
            { _tag: "MaxCalls", tool: "*", max: 1 }
          ],
          tools: { read_file: { timeout: "soon", maxConcurrent: 0 }, reed_file: {} },
          policy: { allow: ["rm"] },
          turn: { timeout: "0 seconds" },
          pools: { read: 1.5 },
          colour: true
        }
      })
      const { code, stderr, stdout } = yield* run(["run", "--config", file("config.json")], { stdin: "[]" })
      assert.strictEqual(code, 2)
      assert.strictEqual(stdout, "")
      for (
        const path of [
          "rules[0].tool",
          "rules[1].duration",
          "tools.read_file.timeout",
          "tools.read_file.maxConcurrent",
          "tools.reed_file",
          "policy.allow[0]",
          "turn.timeout",
          "pools.read",
          "colour"
        ]
      ) assert.include(stderr, `  ${path}: `)
      assert.notInclude(stderr, "rules[2]")
    }))

  it.live("gives every call a result when the user stops it", () =>
    Effect.gen(function*() {
      const { root } = yield* folder({ "a.txt": "alpha" })
      const ready = yield* Deferred.make<string>()
      const stdin = JSON.stringify([
        { id: "1", name: "run_command", params: { command: "echo ready; sleep 60" } },
        { id: "2", name: "read_file", params: { path: "a.txt" } }
      ])
      const { code, stdout } = yield* run(["run", "--root", root, "--allow", "run_command"], {
        stdin,
        interruption: Deferred.await(ready),
        onStderr: (text) => {
          if (text.includes("ready")) Deferred.doneUnsafe(ready, Effect.succeed("the user pressed Ctrl-C"))
        }
      })
      const outcomes = JSON.parse(stdout) as ReadonlyArray<Record<string, unknown>>
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(outcomes.map((it) => [it["callId"], it["_tag"], it["reason"]]), [
        ["1", "Cancelled", "the user pressed Ctrl-C"],
        ["2", "Cancelled", "the user pressed Ctrl-C"]
      ])
    }))
})
