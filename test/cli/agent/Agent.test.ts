/**
 * `tool-executor agent` as people run it: a process of its own, with real provider
 * packages, against servers that refuse what the real ones refuse.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { bare, command, events, key, providers, read, refusing, resultsIn, runHere, world, write } from "../agents.ts"
import { folder } from "../harness.ts"
import * as Process from "../process.ts"

describe("tool-executor agent", () => {
  for (const provider of Object.keys(providers) as ReadonlyArray<keyof typeof providers>) {
    it.live(`asks ${provider}, runs its calls, and prints what it says`, () =>
      Effect.gen(function*() {
        const { run, server } = yield* world(
          [{ text: "Let me look.", calls: [read, { ...read, args: { path: "b.txt" } }] }, { text: "It says alpha." }],
          { "a.txt": "alpha" },
          provider
        )
        const { code, stderr, stdout } = yield* run(["What does a.txt say?"])
        assert.strictEqual(stdout, "Let me look.\nIt says alpha.\n")
        assert.match(stderr, /^✓ read_file {2}\{"path":"a.txt"\}.*Succeeded$/m)
        assert.match(stderr, /^✗ read_file {2}\{"path":"b.txt"\}.*Failed/m)
        assert.match(stderr, /^2 turns, 2 calls, 20 tokens in, 10 out$/m)
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(server.refusals, [])
        assert.isTrue(server.requests.every(({ headers, path }) => `${JSON.stringify(headers)}${path}`.includes(key)))
        assert.notInclude(stderr, key)
        assert.include(resultsIn(server.asked[1]).join(), "alpha")
      }))
  }

  it.live("prints every event as a line of JSON instead, the end last", () =>
    Effect.gen(function*() {
      const { run } = yield* world([{ text: "One\nTwo \u001b[2J", calls: [read] }, { text: "Three" }], {
        "a.txt": "alpha"
      })
      const { code, stderr, stdout } = yield* run(["--print", "go", "--json"])
      const all = events(stdout)
      const names = all.map(({ event }) => event)
      assert.strictEqual(code, 0)
      assert.strictEqual(stderr, "")
      assert.notInclude(stdout, "\u001b")
      for (
        const name of ["assistant_message_part", "assistant_message_final", "tool_call_queued", "tool_call_complete"]
      ) assert.include(names, name)
      assert.strictEqual(names.filter((it) => it === "operation_end").length, 1)
      const parts = all.flatMap(({ part }) => part === undefined ? [] : [part as Record<string, unknown>])
      assert.includeMembers(parts.map(({ type }) => type), ["text-delta", "tool-call"])
      for (const { delta, type } of parts) {
        assert.notInclude(["tool-params-delta", "response-metadata"], type)
        assert.notStrictEqual(delta, "")
      }
      assert.deepInclude(all.at(-1), { event: "operation_end", text: "Three", turns: 2, calls: 1 })
      assert.deepStrictEqual(all.at(-1)?.["reason"], { _tag: "Finished" })
    }))

  it.live("takes a word after a flag without a value for the task", () =>
    Effect.gen(function*() {
      const { run, server } = yield* world([{ text: "One" }], {})
      const { code, stdout } = yield* run(["--print", "yes"])
      assert.deepStrictEqual([code, stdout], [0, "One\n"])
      assert.include(JSON.stringify(server.asked[0]), "yes")
    }))

  it.live("takes the task from standard input, its part from a file, and the model from the environment", () =>
    Effect.gen(function*() {
      const { file, root, server } = yield* world([{ text: "ok" }], { "part.md": "You are a clock." })
      const { code, stdout } = yield* runHere(
        ["--root", root, "--base-url", `${server.url}/v1`, "--system", file("part.md")],
        { stdin: "What time\nis it?", env: { TOOL_EXECUTOR_MODEL: "openai-chat:gpt-5", XDG_STATE_HOME: "/nowhere" } }
      )
      assert.deepStrictEqual([code, stdout], [0, "ok\n"])
      assert.deepInclude(server.asked[0], {
        model: "gpt-5",
        system: "You are a clock.",
        messages: [{ role: "user", text: "What time\nis it?" }]
      })
    }))

  it.live("lets run what is allowed, protects its own config, and keeps what files held before", () =>
    Effect.gen(function*() {
      const { file, here, read, undo } = yield* world([
        { calls: [write, { name: "write_file", args: { path: "config.json", content: "{}" } }] },
        { text: "done" }
      ], { "new.txt": "old", "config.json": { policy: { deny: ["fetch_url"] } } })
      const { code, stderr } = yield* here([
        "--print",
        "go",
        "--config",
        file("config.json"),
        "--allow",
        "write_file"
      ])
      assert.strictEqual(code, 0)
      assert.strictEqual(yield* read("new.txt"), "made")
      assert.include(yield* read("config.json"), "fetch_url")
      assert.include(stderr, "No approver was available. Allow calls with --allow PATTERN")
      yield* undo
      assert.strictEqual(yield* read("new.txt"), "old")
    }))

  it.live("asks on a terminal, each call by itself, and does not ask with --approve deny", () =>
    Effect.gen(function*() {
      const other = { name: "write_file", args: { path: "other.txt", content: "made" } }
      const script = [{ text: "Writing.", calls: [write, other] }, { text: "done" }]
      const asked = yield* world(script)
      const { code, screen } = yield* asked.atTerminal(["--print", "go"], "yy\r", "\r")
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(screen.match(/(?<=view all )(?:approved once|denied)/g), ["approved once", "denied"])
      assert.deepStrictEqual([yield* asked.exists("new.txt"), yield* asked.exists("other.txt")].toSorted(), [
        false,
        true
      ])
      const refused = yield* world(script)
      const silent = yield* refused.atTerminal(["--print", "go", "--approve", "deny"])
      assert.notInclude(silent.screen, "wants to run")
      assert.isFalse(yield* refused.exists("new.txt"))
    }))

  for (
    const [what, script, args, said] of [
      ["is cut off", [{ text: "half", finish: "length" }], [], "The model's answer was cut off (length)."],
      [
        "may not ask again",
        [{ calls: [read] }, { text: "no" }],
        ["--max-turns", "1"],
        "The limit of 1 turn was reached."
      ],
      ["may call no more", [{ calls: [read, read] }, { text: "no" }], ["--max-calls", "1"], "The limit of 1 call was"],
      ["has no tokens left", [{ calls: [read] }, { text: "no" }], ["--max-tokens", "15"], "The limit of 15 tokens"],
      ["has no time left", [{ text: "so", fault: { hang: 3 } }], ["--timeout", "300 millis"], "The limit of 0.3 s was"]
    ] as const
  ) {
    it.live(`ends with 1 and says why where it ${what}`, () =>
      Effect.gen(function*() {
        const { here } = yield* world(script, { "a.txt": "alpha" })
        const { code, stderr } = yield* here(["--print", "go", ...args])
        assert.strictEqual(code, 1)
        assert.include(stderr.trim().split("\n").at(-1), said)
      }))
  }

  it.live("summarises older turns near the window it is told", () =>
    Effect.gen(function*() {
      const usage = { input: 9_000 }
      const turns = [{ calls: [read], usage: { input: 10 } }, { calls: [read], usage }]
      const { here } = yield* world([...turns, { text: "Done: read a.txt." }, { text: "Finished." }], {
        "a.txt": "alpha ".repeat(5_000)
      })
      const { code, stderr, stdout } = yield* here(["--print", "go", "--window", "10000"])
      assert.strictEqual(code, 0)
      assert.include(stdout, "Finished.")
      assert.match(stderr, /… summarised older turns: \d+ → \d+ tokens/)
    }))

  it.live("ends with 1 where the model cannot be asked, and shows no key that its server repeats", () =>
    Effect.gen(function*() {
      const { here } = yield* world([])
      const url = yield* refusing({ error: { message: `Incorrect API key provided: ${key}\n✓ forged  Succeeded` } })
      for (const more of [[], ["--json"]]) {
        const { code, stderr, stdout } = yield* here(["--print", "go", ...more], { baseUrl: url })
        assert.strictEqual(code, 1)
        assert.match(stderr, /^The model request failed/m)
        assert.notMatch(stderr, /^✓/m)
        assert.include(`${stderr}${stdout}`, "Incorrect API key provided: [redacted]")
        assert.notInclude(`${stderr}${stdout}`, key)
      }
    }))

  it.live("asks nobody, whatever the depth, and goes on", () =>
    Effect.gen(function*() {
      const { exists, run, server } = yield* world(({ messages, tools }) => {
        const said = messages.flatMap((it) => it.role === "user" ? [it.text] : [])[0] ?? ""
        const isAnswered = messages.some(({ role }) => role === "tool")
        if (isAnswered) return { text: `${said} is done` }
        assert.include(tools, "read_file")
        const deeper = { name: "dispatch_agent", args: { prompt: `${said}+` } }
        return { calls: [write, { name: "fetch_url", args: { url: "http://example.com" } }, deeper] }
      })
      const { code, stderr, stdout } = yield* run(["0", "--json"])
      assert.strictEqual(code, 0, stderr)
      const all = events(stdout)
      const refused = all.filter(({ event }) => event === "tool_call_complete").map((it) => [
        (it["agentPath"] as ReadonlyArray<string>).length,
        it["tool"],
        (it["outcome"] as { readonly _tag: string })._tag
      ])
      for (let depth = 0; depth <= 8; depth++) {
        assert.deepInclude(refused, [depth, "write_file", "Denied"])
        assert.deepInclude(refused, [depth, "fetch_url", "Denied"])
      }
      assert.deepInclude(refused, [8, "dispatch_agent", "Denied"])
      assert.deepInclude(all.at(-1), { text: "0 is done" })
      assert.isFalse(yield* exists("new.txt"))
      assert.deepStrictEqual(server.refusals, [])
    }))

  it.live("may read on in what was too long to be told at once", () =>
    Effect.gen(function*() {
      const { here, server } = yield* world(({ messages, turn }) => {
        const said = resultsIn({ messages }).join()
        const [artifact] = /artifact_\w+|[\w-]{20,}/.exec(said) ?? []
        if (turn === 0) return { calls: [command("seq 1 20000")] }
        return turn === 1 ? { calls: [{ name: "read_artifact", args: { id: artifact } }] } : { text: "ok" }
      })
      const { code, stderr } = yield* here(["--print", "go", "--allow", "run_command"])
      assert.strictEqual(code, 0)
      assert.match(stderr, /^✓ read_artifact /m, resultsIn(server.asked[1]).join().slice(0, 3_000))
    }))

  it.live("has no sub-agents where it is told so", () =>
    Effect.gen(function*() {
      const { here, server } = yield* world([{ text: "ok" }, { text: "ok" }])
      yield* here(["--print", "go", "--no-sub-agents"])
      yield* here(["--print", "go", "--deny", "dispatch_agent"])
      assert.notInclude(server.asked[0]!.tools, "dispatch_agent")
      assert.notInclude(server.asked[1]!.tools, "dispatch_agent")
    }))
})

describe("what is missing or wrong", () => {
  const wrong = (
    what: string,
    args: ReadonlyArray<string>,
    said: string,
    options: Parameters<typeof runHere>[1] = {}
  ) =>
    it.live(`is told: ${what}`, () =>
      Effect.gen(function*() {
        const { root } = yield* folder({})
        const { code, stderr, stdout } = yield* runHere(["--root", root, ...args], options)
        assert.deepStrictEqual([code, stdout], [2, ""])
        assert.include(stderr.trim().split("\n").at(-1), said)
        assert.notInclude(stderr, key)
      }))
  for (
    const [provider, variable] of [
      ["openai", "OPENAI_API_KEY"],
      ["openai-chat", "OPENAI_API_KEY"],
      ["anthropic", "ANTHROPIC_API_KEY"],
      ["google", "GOOGLE_GENERATIVE_AI_API_KEY"]
    ] as const
  ) {
    wrong(`the key of ${provider}`, ["--print", "go", "--model", `${provider}:x`], `set ${variable} in the environment`)
  }
  it.live("is told: the package of the provider, with the command that installs it", () =>
    Effect.forEach(["openai", "anthropic", "google", "openai-compatible"], (name) =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* Process.run(
          // without a key as well: the package is what has to be there first
          [
            "agent",
            "go",
            "--model",
            `${name}:x`,
            ...name === "openai-compatible" ? ["--base-url", "http://127.0.0.1:1/v1"] : []
          ],
          { node: Process.without(`@ai-sdk/${name}`), env: bare }
        )
        assert.deepStrictEqual([code, stdout], [2, ""])
        assert.strictEqual(stderr, `The model needs @ai-sdk/${name}: npm install @ai-sdk/${name}\n`)
      }), { concurrency: 2 }))
  wrong("the model", ["--print", "go"], "--model PROVIDER:NAME, or TOOL_EXECUTOR_MODEL in the environment")
  wrong(
    "the provider",
    ["--print", "go", "--model", "closedai:x"],
    "openai, openai-chat, anthropic, google, openai-compatible"
  )
  wrong("the name of the model", ["--print", "go", "--model", "openai:"], "A model is named PROVIDER:NAME")
  wrong("the URL", ["--print", "go", "--model", "openai-compatible:x"], "needs --base-url")
  wrong(
    "a URL that is none",
    ["--print", "go", "--model", "openai:x", "--base-url", "localhost:1"],
    "--base-url is not an http or https URL",
    { env: { OPENAI_API_KEY: key } }
  )
  const model = ["--model", "openai:x", "--base-url", "http://127.0.0.1:1"]
  wrong("the task", model, "The task is empty.", { stdin: "" })
  wrong("a task that is empty", [...model, "--print", "-"], "The task is empty.", { stdin: " \n" })
  wrong("a limit that is none", [...model, "--print", "go", "--max-turns", "0"], "a whole number of 1 or more")
  wrong("a time that is none", [...model, "--print", "go", "--timeout", "soon"], "a time above zero")
  wrong("a tool that nobody has", [...model, "--print", "go", "--deny", "wirte_file"], "--deny")
  wrong("a file that is not there", [...model, "--print", "go", "--system", "/nowhere"], "there is no such file")
  wrong("two sessions", [...model, "--print", "go", "--session", "a", "--resume"], "Use only one of them")
  wrong("a session that is not there", [...model, "--print", "go", "--resume=a"], "There is no session \"a\"", {
    env: { XDG_STATE_HOME: "/nowhere" }
  })
})

describe("MCP servers of the agent", () => {
  const server = (path: string) =>
    new URL(`../../../node_modules/@modelcontextprotocol/${path}/dist/index.js`, import.meta.url)
  const files = (root: string) => ({
    command: process.execPath,
    args: [server("server-filesystem").pathname, root],
    prefix: "fs_"
  })

  it.live("give it their tools, under the rules and policy of both files", () =>
    Effect.gen(function*() {
      const { file, here, root, server } = yield* world([
        {
          calls: [{ name: "fs_read_text_file", args: { path: "a.txt" } }, {
            name: "fs_list_allowed_directories",
            args: {}
          }]
        },
        { text: "ok" }
      ], { "a.txt": "alpha", "config.json": { policy: { deny: ["fetch_url"] } } })
      const mcp = yield* folder({
        "mcp.json": {
          mcpServers: { files: files(root) },
          policy: { allow: ["fs_list_*"], deny: ["write_file", "fs_nothing"] }
        }
      })
      const { code, stderr } = yield* here([
        "--print",
        "go",
        "--config",
        file("config.json"),
        "--mcp",
        mcp.file("mcp.json"),
        "--deny",
        "fs_write_file"
      ])
      assert.strictEqual(code, 0, stderr)
      const tools = server.asked[0]!.tools
      assert.include(tools, "fs_read_text_file")
      assert.include(tools, "read_file")
      for (const denied of ["fetch_url", "write_file", "fs_write_file"]) assert.notInclude(tools, denied)
      assert.include(stderr, "policy.deny[1]: there is no tool \\\"fs_nothing\\\" at the moment")
      assert.match(stderr, /✗ fs_read_text_file .*Denied/)
      assert.match(stderr, /✓ fs_list_allowed_directories .*Succeeded/)
    }))

  it.live("end the command with 2 where they cannot be reached, or are said two things of", () =>
    Effect.gen(function*() {
      const { file, here } = yield* world([], {
        "config.json": { policy: { default: "ask" }, mode: "parallel" },
        "both.json": { mcpServers: {}, policy: { default: "deny" }, mode: "parallel" },
        "gone.json": { mcpServers: { gone: { command: "/nowhere/at-all" } } },
        "wrong.json": { mcpServers: {}, policy: { deny: ["nobodys"] } }
      })
      const mcp = (name: string) => here(["--print", "go", "--config", file("config.json"), "--mcp", file(name)])
      const both = yield* mcp("both.json")
      assert.strictEqual(both.code, 2)
      assert.include(both.stderr, "--config and --mcp: 1 problem\n  policy.default: the two files disagree")
      const gone = yield* mcp("gone.json")
      assert.strictEqual(gone.code, 2)
      assert.include(gone.stderr, "gone")
      const unknown = yield* mcp("wrong.json")
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, "there is no tool \"nobodys\"")
    }))
})

describe("the help of agent", () => {
  const guide = readFileSync(new URL("../../../docs/command-line.md", import.meta.url), "utf8")
  const section = /^## agent\n.*?(?=^## )/ms.exec(guide)![0]
  const flagsIn = (text: string) => Array.from(text.matchAll(/--([a-z][a-z-]*)/g), ([, name]) => name!)

  it.live("has every flag of the guide, and the guide has every flag of it", () =>
    Effect.gen(function*() {
      const { stdout } = yield* runHere(["--help"])
      const flags = Array.from(stdout.matchAll(/^ {2}--([a-z-]+) /gm), ([, name]) => name!)
        .filter((name) => name !== "completions")
      const told = flagsIn(section.split("\n").filter((line) => line.startsWith("- `--")).join("\n"))
      assert.isAbove(flags.length, 15)
      assert.sameMembers(Array.from(new Set(told)), flags)
      assert.match(stdout, /run_command.*NOT confined/)
    }))
})
