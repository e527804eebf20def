/**
 * `tool-executor mcp` as editors start it: a process of its own between the
 * official client and servers that are processes, too. What needs no client runs
 * in this process.
 */
import { assert, describe, it } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { existsSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"
import * as Command from "../../support/commandProcess.ts"
import { program } from "../../support/programs.ts"
import { folder, freePort, run } from "../harness.ts"
import * as Process from "../process.ts"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

const bin = program("src/cli/bin.ts")

const server = (name: string) => path(`../../../node_modules/@modelcontextprotocol/${name}/dist/index.js`)

const odd = (pids: string, ...args: ReadonlyArray<string>) => ({
  command: process.execPath,
  args: [path("../../support/oddServer.ts"), pids, ...args]
})

/** Runs the command in this process, without a client. */
const mcp = Effect.fnUntraced(function*(config: unknown, ...args: ReadonlyArray<string>) {
  const { file } = yield* folder({ "gateway.json": config })
  return yield* run(["mcp", "--config", file("gateway.json"), ...args])
})

const names = (stdout: string) =>
  (JSON.parse(stdout) as ReadonlyArray<{ readonly name: string }>).map((it) => it.name).filter((it) =>
    !it.endsWith("_artifact")
  )

/** The processes that have been started, by the file in which they say so. */
const pidsIn = (file: string): ReadonlyArray<number> =>
  existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : []

/** Whether it runs; what nobody has reaped does not. */
const isAlive = (pid: number): boolean => {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

/** The command as a process of its own, without a client. */
const start = (...args: ReadonlyArray<string>) => Command.start(["mcp", ...args])

const nobodyThere = "needs approval, and there is no approver"

type Form = { readonly decision: string } | "decline" | "none"

/** A client that answers questions in one way, and what it has been asked. */
const connect = Effect.fnUntraced(function*(transport: Transport, form: Form) {
  const asked: Array<string> = []
  const client = new Client({ name: "test", version: "1" }, {
    capabilities: form === "none" ? {} : { elicitation: {} }
  })
  if (form !== "none") {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message)
      return Promise.resolve(
        form === "decline" ? { action: "decline" as const } : { action: "accept" as const, content: { ...form } }
      )
    })
  }
  yield* Effect.acquireRelease(
    Effect.promise(() => client.connect(transport)),
    () => Effect.promise(() => client.close())
  )
  const call = (name: string, args: Record<string, unknown> = {}) =>
    Effect.map(
      Effect.promise(() => client.callTool({ name, arguments: args })),
      ({ content, isError }) => ({
        isError: isError === true,
        text: content.map((it) => it.type === "text" ? it.text : it.type).join("\n")
      })
    )
  const list = Effect.map(Effect.promise(() => client.listTools()), ({ tools }) => tools.map((it) => it.name))
  return { asked, call, list }
})

/** The command as the official client starts it. */
const editor = (
  config: string,
  { env, form = "none", more = [] }: {
    readonly form?: Form
    readonly env?: Record<string, string>
    readonly more?: ReadonlyArray<string>
  } = {}
) =>
  connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [...bin, "mcp", "--config", config, ...more],
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stderr: "ignore"
    }),
    form
  )

describe("the config of the gateway", () => {
  it.live("is wrong in every place at once, each with what would be right, and nothing is started", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({})
      const { code, stderr, stdout } = yield* mcp({
        mcpServers: {
          "a b": { command: "x" },
          both: { command: "x", url: "http://a" },
          none: {},
          text: "npx",
          many: { command: "", args: "-y", startTimeout: "soon", colour: "\u001b[2J" },
          ftp: { url: "ftp://a" },
          sse: { type: "sse", url: "http://a" },
          fine: odd(file("pids"))
        },
        rules: [{ _tag: "MaxCals", tool: "a", max: 1 }],
        policy: { allow: ["a(b"] },
        tools: { fine__see: { timeout: "soon" } },
        approvalTimeout: "0 seconds",
        executionTimeout: 5,
        rulez: []
      })
      assert.strictEqual(code, 2)
      assert.strictEqual(stdout, "")
      assert.deepStrictEqual(stderr.trim().split("\n").slice(1).map((it) => it.trim().slice(0, 90)).toSorted(), [
        "approvalTimeout: it is \"0 seconds\"; expected a duration above zero, such as \"30 seconds\"",
        "executionTimeout: it is 5; expected string",
        "mcpServers.both: it has a command and a url; expected command, of a program to start, or u",
        "mcpServers.ftp.url: it is \"ftp://a\"; expected an http or https URL without user and passwo",
        "mcpServers.many.args: it is \"-y\"; expected array",
        "mcpServers.many.colour: this key is unknown; expected one of type, command, args, env, cwd",
        "mcpServers.many.command: it is \"\"; expected a value with a length of at least 1",
        "mcpServers.many.startTimeout: it is \"soon\"; expected a duration above zero, such as \"30 se",
        "mcpServers.none: it has no command and no url; expected command, of a program to start, or",
        "mcpServers.sse.type: it is \"sse\"; expected \"http\"",
        "mcpServers.text: it is \"npx\"; expected object",
        "mcpServers: \"a b\" cannot be the name of a server; expected 1 to 30 of a-z A-Z 0-9 _ -",
        "policy.allow[0]: \"a(b\": its ( has no ) at the end; expected tool or tool(target)",
        "rules[0]._tag: it is \"MaxCals\"; expected one of StartConstraint, RequiresPrecedingTools, R",
        "rulez: this key is unknown; expected one of $schema, mcpServers, rules, policy, provenance",
        "tools.fine__see.timeout: it is \"soon\"; expected a duration above zero, such as \"30 seconds"
      ])
      assert.deepStrictEqual(pidsIn(file("pids")), [])
    }))

  it.live("may be about tools that its servers can have, and about no others", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({})
      const { code, stderr } = yield* mcp({
        mcpServers: { odd: odd(file("pids")), off: { command: "x", disabled: true } },
        rules: [
          { _tag: "MaxCalls", tool: "odd__see", max: 1 },
          { _tag: "ExclusiveGroup", tools: ["odd__see", "see"] },
          { _tag: "MaxCalls", tool: "*", max: 1 }
        ],
        policy: { allow: ["odd__*", "o*", "*_see", "read_artifact", "off__see"], deny: ["see"] },
        tools: { odd__see: {}, od__see: {} }
      })
      assert.strictEqual(code, 2)
      const expected = "expected one of odd__*, read_artifact, search_artifact"
      assert.deepStrictEqual(stderr.trim().split("\n").slice(1), [
        `  rules[1]: there is no tool "see"; ${expected}`,
        `  tools.od__see: there is no tool "od__see"; ${expected}`,
        `  policy.allow[4]: there is no tool "off__see"; ${expected}`,
        `  policy.deny[0]: there is no tool "see"; ${expected}`
      ])
      assert.deepStrictEqual(pidsIn(file("pids")), [])
    }))

  it.live("is checked against the tools that have come, with the same places", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({})
      const patterns = yield* mcp({ mcpServers: { odd: odd(file("a")) }, policy: { deny: ["*_sea"] } }, "--list")
      assert.strictEqual(patterns.code, 2)
      assert.match(
        patterns.stderr,
        /gateway\.json: 1 problem\n {2}policy\.deny\[0\]: there is no tool "\*_sea"; expected/
      )
      const twice = yield* mcp(
        { mcpServers: { one: { ...odd(file("b")), prefix: "x_" }, two: { ...odd(file("b")), prefix: "x_" } } },
        "--list"
      )
      assert.strictEqual(twice.code, 2)
      assert.match(twice.stderr, /gateway\.json: 1 problem\n {2}mcpServers\.two\.prefix: its tools begin with "x_" and/)
      for (const pid of pidsIn(file("a"))) assert.isFalse(isAlive(pid))
    }))

  for (
    const [what, config, said] of [
      ["is not JSON", "{\"mcpServers\": ", "it is not JSON"],
      ["is no object", [], "(root): it is []; expected object"],
      ["has no servers", {}, "mcpServers: it is missing"],
      ["has servers in a list", { mcpServers: [] }, "mcpServers: it is []; expected object"]
    ] as const
  ) {
    it.live(`ends the command with 2 where it ${what}`, () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* mcp(config)
        assert.strictEqual(code, 2)
        assert.strictEqual(stdout, "")
        assert.include(stderr, said)
        assert.include(stderr, "gateway.json: ")
      }))
  }

  it.live("ends the command with 2 where it is missing, and where a port is none", () =>
    Effect.gen(function*() {
      const missing = yield* run(["mcp", "--config", "nowhere/\u001b.json"])
      assert.strictEqual(missing.code, 2)
      assert.include(missing.stderr, "nowhere/\\u001b.json: there is no such file")
      for (const port of ["0", "65536", "x"]) {
        const { code, stderr } = yield* mcp({ mcpServers: {} }, "--http", port)
        assert.strictEqual(code, 2, port)
        assert.include(stderr, "--http")
      }
    }))

  it.live("says what to install where the client of MCP is missing", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "gateway.json": { mcpServers: { a: { command: "none" } } } })
      const { code, stderr, stdout } = yield* Process.run(["mcp", "--config", file("gateway.json"), "--list"], {
        node: Process.without("@modelcontextprotocol/client")
      })
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.include(stderr, "npm install @modelcontextprotocol/client")
    }))

  it.live("shows no value of a header, a variable or a folder, wherever it is wrong", () =>
    Effect.gen(function*() {
      const wrong: ReadonlyArray<readonly [server: object, said: string]> = [
        [
          { url: "http://127.0.0.1:1", headers: { "x-key": "hunter2\nsecret" } },
          "mcpServers.a.headers.x-key: its value is not valid"
        ],
        [{ url: "http://127.0.0.1:1", headers: { "x-key": "${PATH}\n" } }, "it is the value of \"${PATH}\\n\""],
        [{ command: process.execPath, cwd: "${PATH}" }, "mcpServers.a.cwd: it is the value of \"${PATH}\""]
      ]
      for (const [a, said] of wrong) {
        const { code, stderr } = yield* mcp({ mcpServers: { a } })
        assert.strictEqual(code, 2)
        assert.include(stderr, said)
        for (const secret of ["hunter2", process.env["PATH"] ?? "no path"]) assert.notInclude(stderr, secret)
      }
    }))

  it.live("names every variable that is not set, and shows none that is", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* mcp({
        mcpServers: {
          a: { command: "${NOPE_A} ${NOPE_B}", args: ["x", "${NOPE_A}"], env: { X: "${NOPE_C}" } },
          b: { url: "${NOPE_URL}/mcp", headers: { authorization: "Bearer ${NOPE_TOKEN}" } },
          c: { url: "${PATH}" },
          off: { url: "${NOPE_D}", disabled: true }
        }
      })
      assert.strictEqual(code, 2)
      assert.deepStrictEqual(stderr.trim().split("\n").slice(1).map((it) => it.replace(/;.*/, "").trim()), [
        ...[["a.command", "A"], ["a.command", "B"], ["a.args[1]", "A"], ["a.env.X", "C"], ["b.url", "URL"], [
          "b.headers.authorization",
          "TOKEN"
        ]].map(([place, name]) => `mcpServers.${place}: the environment has no NOPE_${name}, or it is empty`),
        "mcpServers.c.url: it is the value of \"${PATH}\""
      ])
      assert.notInclude(stderr, process.env["PATH"] ?? "no path")
    }))
})

describe("tool-executor mcp --list", () => {
  it.live("prints the tools under the names they have for rules and policy, and leaves no process", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({})
      const { code, stderr, stdout } = yield* mcp({
        mcpServers: {
          odd: { ...odd(file("pids"), "stubborn"), readOnly: ["see"] },
          own: { ...odd(file("pids")), prefix: "", only: ["s*"] },
          files: { command: process.execPath, args: [server("server-filesystem"), root], only: ["read_text_file"] },
          off: { command: "nowhere", disabled: true },
          gone: { command: "nowhere", optional: true }
        }
      }, "--list")
      assert.strictEqual(code, 0, stderr)
      assert.sameMembers(names(stdout), ["odd__see", "odd__die", "see", "files__read_text_file"])
      const tools = JSON.parse(stdout) as ReadonlyArray<Record<string, unknown>>
      assert.deepInclude(tools, {
        name: "odd__see",
        readOnly: true,
        openWorld: false,
        // it says something invisible, which is removed
        description: "Shows[2J itself"
      })
      assert.notInclude(stdout, "\u001b")
      assert.notInclude(stderr, "\u001b")
      const pids = pidsIn(file("pids"))
      assert.lengthOf(pids, 2)
      for (const pid of pids) assert.isFalse(isAlive(pid))
    }))

  it.live("says which names are no tool of the servers that are there", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({})
      const { code, stderr } = yield* mcp({
        mcpServers: { odd: odd(file("pids")) },
        policy: { allow: ["odd__see", "odd__s*"], deny: ["odd__dei", "odd__die(now)"] },
        rules: [{ _tag: "MaxCalls", tool: "odd__seee", max: 1 }],
        tools: { odd__die: {}, odd__dye: {} }
      }, "--list")
      assert.strictEqual(code, 0, stderr)
      for (
        const [place, name] of [["policy.deny[0]", "odd__dei"], ["rules[0]", "odd__seee"], [
          "tools.odd__dye",
          "odd__dye"
        ]]
      ) {
        assert.include(stderr, `${place}: there is no tool \\"${name}\\" at the moment`)
      }
      assert.lengthOf(stderr.match(/there is no tool/g) ?? [], 3, stderr)
      assert.include(stderr, `policy.deny[1]: \\"odd__die(now)\\" fits no call, since the tool has no targets`)
    }))

  it.live("ends with 2 and what the server said where one does not start", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({})
      const failing = yield* mcp({ mcpServers: { bad: odd(file("pids"), "failing") } }, "--list")
      assert.strictEqual(failing.code, 2)
      assert.strictEqual(failing.stdout, "")
      assert.include(
        failing.stderr,
        "MCP server \"bad\": it ended with exit code 3; it said: listening\\u001b[2J\n  | second line\n"
      )
      const nowhere = yield* mcp({ mcpServers: { bad: { command: "no\u001bwhere" } } }, "--list")
      assert.strictEqual(nowhere.code, 2)
      assert.include(nowhere.stderr, "MCP server \"bad\": no\\u001bwhere: The program does not exist.")
      const silent = yield* mcp(
        { mcpServers: { bad: { ...odd(file("pids"), "silent"), startTimeout: "300 millis" } } },
        "--list"
      )
      assert.strictEqual(silent.code, 2)
      assert.include(silent.stderr, "MCP server \"bad\": it did not connect within 300ms")
      for (const pid of pidsIn(file("pids"))) assert.isFalse(isAlive(pid))
    }))
})

describe("the gateway between a client and servers", () => {
  it.live(
    "serves the tools of servers, asks the person behind the client, and hands on no more than was given",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file, root } = yield* folder({ "a.txt": "alpha" })
        const { file: config } = yield* folder({
          "gateway.json": {
            mcpServers: {
              files: {
                command: process.execPath,
                args: [server("server-filesystem"), "${ROOT}"],
                readOnly: ["read_*"]
              },
              every: { command: process.execPath, args: [server("server-everything"), "stdio"], trust: true },
              odd: {
                ...odd(file("pids"), "plain", "${WORD} and ${WORD_OF}"),
                env: { GIVEN: "<${WORD}>" }
              }
            },
            policy: { deny: ["files__move_file"] }
          }
        })
        const { asked, call, list } = yield* editor(config("gateway.json"), {
          form: { decision: "approve once" },
          env: { ROOT: root, WORD: "one", WORD_OF: "two", SECRET_TOKEN: "hidden" }
        })
        const listed = yield* list
        assert.includeMembers(listed, ["files__read_text_file", "files__write_file", "every__echo", "odd__see"])
        assert.notInclude(listed, "files__move_file")
        assert.include((yield* call("files__read_text_file", { path: file("a.txt") })).text, "alpha")
        assert.deepStrictEqual(asked, [])
        const seen = JSON.parse((yield* call("odd__see")).text) as {
          readonly env: Record<string, string>
          readonly others: ReadonlyArray<string>
        }
        assert.deepStrictEqual(seen.others, ["one and two"])
        assert.strictEqual(seen.env["GIVEN"], "<one>")
        assert.notInclude(JSON.stringify(seen), "hidden")
        yield* call("files__write_file", { path: file("b.txt"), content: "beta" })
        assert.strictEqual(readFileSync(file("b.txt"), "utf8"), "beta")
        assert.deepStrictEqual(asked.map((it) => it.split("\n")[0]), [
          "May odd__see run?",
          "May files__write_file run?"
        ])
      })),
    60_000
  )

  it.live(
    "allows everything where it was told to, and connects again to a server that died",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({})
        const { file: config } = yield* folder({ "gateway.json": { mcpServers: { odd: odd(file("pids")) } } })
        const { call } = yield* editor(config("gateway.json"), { more: ["--approve", "auto"] })
        for (let i = 0; i < 5; i++) assert.isFalse((yield* call("odd__see")).isError)
        const died = yield* call("odd__die")
        assert.isTrue(died.isError)
        assert.include(died.text, "MCP server \"odd\"")
        const again = yield* Effect.repeat(call("odd__see"), {
          until: (it) => !it.isError,
          schedule: Schedule.spaced("50 millis")
        })
        const [first, second] = pidsIn(file("pids"))
        assert.isFalse(isAlive(first!))
        assert.strictEqual((JSON.parse(again.text) as { readonly pid: number }).pid, second)
      })),
    60_000
  )

  it.live(
    "writes nothing but messages, asks nobody where it was told to deny, and ends with 0 and all it started when the client is gone",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({})
        const { file: config } = yield* folder({
          "gateway.json": { mcpServers: { odd: odd(file("pids"), "stubborn") } }
        })
        const { child, ended, written } = yield* start("--config", config("gateway.json"), "--approve", "deny")
        const params = {
          protocolVersion: "2025-06-18",
          capabilities: { elicitation: {} },
          clientInfo: { name: "test", version: "1" }
        }
        for (
          const message of [
            { id: 1, method: "initialize", params },
            { method: "notifications/initialized" },
            { id: 2, method: "tools/list" },
            { id: 3, method: "tools/call", params: { name: "odd__see", arguments: {} } }
          ]
        ) child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
        yield* Command.until(() => written.stdout.includes("\"id\":3"))
        child.stdin.end()
        assert.strictEqual(yield* ended, 0, written.stderr)
        for (const line of written.stdout.trim().split("\n")) {
          assert.strictEqual((JSON.parse(line) as Record<string, unknown>)["jsonrpc"], "2.0", line)
        }
        assert.include(written.stdout, nobodyThere)
        assert.notInclude(written.stdout, "elicitation/create")
        assert.include(written.stderr, "listening\\u001b[2J")
        const pids = pidsIn(file("pids"))
        assert.lengthOf(pids, 1)
        assert.isFalse(isAlive(pids[0]!))
      })),
    60_000
  )

  it.live(
    "leaves no process behind when it is told to end, while it starts or serves",
    () =>
      Effect.scoped(
        Effect.forEach(["SIGTERM", "SIGHUP"] as const, (signal, index) =>
          Effect.gen(function*() {
            const { file } = yield* folder({})
            const { file: config } = yield* folder({
              "gateway.json": { mcpServers: { odd: odd(file("pids"), index === 0 ? "silent" : "stubborn") } }
            })
            const { child, ended, written } = yield* start("--config", config("gateway.json"))
            yield* Command.until(() => written.stderr.includes("listening\\u001b[2J"))
            child.kill(signal)
            assert.strictEqual(yield* ended, 130, signal)
            const pids = pidsIn(file("pids"))
            assert.lengthOf(pids, 1)
            assert.isFalse(isAlive(pids[0]!), signal)
          }), { concurrency: "unbounded" })
      ),
    60_000
  )
})

describe("the gateway over HTTP", () => {
  it.live(
    "keeps what one client was allowed from the others, and refuses those who allow nothing or cannot be asked",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({})
        const { file: config } = yield* folder({ "gateway.json": { mcpServers: { odd: odd(file("pids")) } } })
        const port = yield* freePort
        const { written } = yield* start("--config", config("gateway.json"), "--http", String(port))
        yield* Command.until(() => written.stderr.includes("Serving http"))
        const transport = () => new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`))
        const one = yield* connect(transport(), { decision: "approve until this ends" })
        const other = yield* connect(transport(), "decline")
        for (let i = 0; i < 3; i++) assert.isFalse((yield* one.call("odd__see")).isError)
        assert.lengthOf(one.asked, 1)
        const declined = yield* other.call("odd__see")
        assert.isTrue(declined.isError)
        assert.include(declined.text, "The user did not allow \"odd__see\"")
        assert.lengthOf(other.asked, 1)
        const mute = yield* connect(transport(), "none")
        const refused = yield* mute.call("odd__see")
        assert.isTrue(refused.isError)
        assert.include(refused.text, nobodyThere)
        assert.isFalse((yield* one.call("odd__see")).isError)
        assert.lengthOf(one.asked, 1)
        assert.strictEqual(written.stdout, "")
      })),
    60_000
  )

  it.live("ends with 2 where the port is taken", () =>
    Effect.scoped(Effect.gen(function*() {
      const taken = yield* Effect.acquireRelease(
        Effect.callback<ReturnType<typeof createServer>>((resume) => {
          const server = createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close())
      )
      const address = taken.address()
      const port = typeof address === "object" && address !== null ? String(address.port) : ""
      const { file } = yield* folder({ "gateway.json": { mcpServers: {} } })
      const { ended, written } = yield* start("--config", file("gateway.json"), "--http", port)
      assert.strictEqual(yield* ended, 2)
      assert.include(written.stderr, "EADDRINUSE")
      assert.notInclude(written.stderr, "Serving")
    })))
})
