import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as NodeFs from "node:fs"
import packageJson from "../../package.json" with { type: "json" }
import { McpServerError } from "../../src/mcp/McpServers.ts"
import * as McpTools from "../../src/mcp/McpTools.ts"
import { isRunning, logs, makeFolder, open, said, scripted, shell, until } from "./fixture.ts"

/** Why servers cannot be started. */
const failureOf = (servers: Parameters<typeof McpTools.make>[0]) =>
  Effect.map(Effect.flip(Effect.scoped(McpTools.make(servers))), (error) => {
    assert.instanceOf(error, McpServerError)
    return error as McpServerError
  }).pipe(Effect.provide(logs().layer))

const answer = (result: unknown) => JSON.stringify({ jsonrpc: "2.0", id: 0, result })

const initialized = answer({
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "x", version: "1" }
})

const listed = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  result: { tools: [{ name: "one", inputSchema: { type: "object" } }] }
})

describe.concurrent("servers that are programs", () => {
  it.live("are told who calls, in the version of the package", () =>
    Effect.gen(function*() {
      const { noted, server } = yield* scripted()
      yield* open({ a: server })
      yield* until(() => noted("initialized").length === 1)
      assert.deepStrictEqual(noted("initialized"), [{ name: packageJson.name, version: packageJson.version }])
    }).pipe(Effect.scoped))

  it.live("see the variables that are safe, and those they are given", () =>
    Effect.gen(function*() {
      const { server } = yield* scripted()
      process.env.MCP_TEST_SECRET = "do not tell"
      const { act } = yield* open({ a: { ...server, env: { GIVEN: "yes", TERM: "mine" } } })
      const { GIVEN, TERM, ...rest } = JSON.parse(said(yield* act("a", ["env"]))) as Record<string, string>
      assert.deepStrictEqual([GIVEN, TERM], ["yes", "mine"])
      assert.include(rest, { PATH: process.env.PATH! })
      for (const name of Object.keys(rest)) assert.include(["HOME", "LOGNAME", "PATH", "SHELL", "USER"], name)
    }).pipe(Effect.scoped))

  it.live("start in the folder they are given", () =>
    Effect.gen(function*() {
      const cwd = yield* makeFolder
      const error = yield* failureOf({ a: { ...shell("pwd >&2; exit 1"), cwd } })
      assert.include(error.problem, cwd)
    }).pipe(Effect.scoped))

  describe("that do not start", () => {
    it.live("say why", () =>
      Effect.gen(function*() {
        const missing = yield* failureOf({ gone: { command: "no-such-program-here" } })
        assert.include(missing, { server: "gone", reason: "NotStarted" })
        assert.include(missing.message, `MCP server "gone": no-such-program-here: The program does not exist`)
        const folder = yield* failureOf({ a: { command: "sh", cwd: "/no/such/folder" } })
        assert.include(folder, { reason: "NotStarted" })
        assert.include(folder.problem, `The folder "/no/such/folder" to start it in does not exist`)
        const exited = yield* failureOf({ a: shell("echo 'bad \u001b[31mkey' >&2; exit 3") })
        assert.include(exited, { reason: "Closed", problem: "it ended with exit code 3; it said: bad \u001b[31mkey" })
        assert.include(exited.message, "bad \\u001b[31mkey")
        const killed = yield* failureOf({ a: shell("kill -KILL $$") })
        assert.include(killed, { reason: "Closed", problem: "it was ended by SIGKILL" })
        const silent = yield* failureOf({
          a: { command: "sh", args: ["-c", "cat >/dev/null"], startTimeout: "300 millis" }
        })
        assert.include(silent, { reason: "NotAnswering", problem: "it did not connect within 300ms" })
        const listless = yield* failureOf({
          a: { ...shell(`read line; echo '${initialized}'; cat >/dev/null`), startTimeout: "1 second" }
        })
        assert.include(listless, { reason: "NotAnswering", problem: "it did not list its tools within 1s" })
      }))

    it.live("or that answer nonsense say why, and hold nothing up", () =>
      Effect.gen(function*() {
        const odd = yield* failureOf({
          a: shell(`read line; echo '${answer({ protocolVersion: 7 })}'; cat >/dev/null`)
        })
        assert.include(odd, { reason: "Protocol" })
        const old = answer({ protocolVersion: "1999-01-01", capabilities: {}, serverInfo: { name: "x", version: "1" } })
        assert.include(
          (yield* failureOf({ a: shell(`read line; echo '${old}'; cat >/dev/null`) })).problem,
          "1999-01-01"
        )
        const flood = yield* failureOf({ a: shell("head -c 20000000 /dev/zero; cat >/dev/null") })
        assert.include(flood, { reason: "Closed", problem: "it sent a message of more than 10485760 bytes" })
      }))

    it.live("are none of the others' business where they are optional", () =>
      Effect.gen(function*() {
        const { server } = yield* scripted()
        const { act, call, log, names } = yield* open({
          gone: { command: "no-such-program-here", optional: true },
          deaf: { command: "sh", args: ["-c", "cat >/dev/null"], optional: true, startTimeout: "300 millis" },
          a: server
        })
        assert.deepStrictEqual(names(), ["a__act"])
        assert.strictEqual(said(yield* act("a", ["text", "fine"])), "fine")
        assert.isTrue(log.some((it) => it.includes(`MCP server "gone": no-such-program-here`)))
        assert.isTrue(log.some((it) => it.includes(`MCP server "deaf": it did not connect`)))
        assert.strictEqual((yield* call("gone__tool"))._tag, "Denied")
      }).pipe(Effect.scoped))

    it.live("and are optional, come when they can", () =>
      Effect.gen(function*() {
        const folder = yield* makeFolder
        const { server } = yield* scripted()
        const { act, log, names } = yield* open({
          late: {
            command: "sh",
            args: [
              "-c",
              `test -e ${folder}/ready && exec "$0" "$@"; touch ${folder}/ready; exit 1`,
              server.command,
              ...server.args
            ],
            optional: true
          }
        })
        assert.isTrue(log.some((it) => it.includes("it ended with exit code 1; connecting again")))
        yield* until(() => names().length === 1)
        assert.strictEqual(said(yield* act("late", ["text", "here"])), "here")
      }).pipe(Effect.scoped))
  })

  describe("that misbehave", () => {
    it.live("with lines that are no messages are read on", () =>
      Effect.gen(function*() {
        const { server } = yield* scripted()
        const { act } = yield* open({ a: server })
        const odd = [
          "garbage\n",
          "{\"jsonrpc\":\"2.0\"}\n",
          "[]\n",
          "null\n",
          "\n",
          "{\n",
          "\u0000\u0001\n",
          "\"x\"\r\n"
        ]
        for (const line of odd) {
          assert.strictEqual(said(yield* act("a", ["write", line, 3], ["text", "on"])), "on", JSON.stringify(line))
        }
        assert.strictEqual(said(yield* act("a", ["write", `${"x".repeat(999)}\n`, 12_000], ["text", "on"])), "on")
      }).pipe(Effect.scoped))

    it.live("with answers to what nobody asked are read on", () =>
      Effect.gen(function*() {
        const { server } = yield* scripted()
        const { act } = yield* open({ a: server })
        for (const id of [-1, 99, "x", 1e300, "__proto__"]) {
          const wrong = `${JSON.stringify({ jsonrpc: "2.0", id, result: { content: [] } })}\n`
          assert.strictEqual(said(yield* act("a", ["write", wrong, 3], ["text", "right"])), "right")
        }
        const progress = { method: "notifications/progress", params: { progressToken: 77, progress: 1 } }
        const odd = [progress, { method: "notifications/nothing" }, { id: 5, method: "sampling/createMessage" }]
        for (const message of odd) {
          const line = `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`
          assert.strictEqual(said(yield* act("a", ["write", line, 3], ["text", "right"])), "right")
        }
      }).pipe(Effect.scoped))

    it.live("with a message without end are started again", () =>
      Effect.gen(function*() {
        const { noted, server } = yield* scripted()
        const other = yield* scripted()
        const { act, log } = yield* open({ a: server, b: other.server })
        const sibling = yield* Effect.forkChild(act("b", ["wait", 200], ["text", "unaffected"]))
        const outcome = yield* act("a", ["write", "x".repeat(1_000_000), 20], ["hang"])
        assert.deepInclude(outcome, {
          _tag: "Failed",
          error: "MCP server \"a\": it sent a message of more than 10485760 bytes"
        })
        yield* until(() => noted("initialized").length === 2)
        yield* until(() => !isRunning(noted("started")[0]))
        yield* retried(() => act("a", ["text", "again"]))
        assert.isTrue(log.some((it) => it.includes("more than 10485760 bytes; connecting again")))
        assert.strictEqual(said(yield* Fiber.join(sibling)), "unaffected")
        assert.lengthOf(other.noted("started"), 1)
      }).pipe(Effect.scoped))

    it.live("by chatting on their standard error are heard, line by line", () =>
      Effect.gen(function*() {
        const { server } = yield* scripted()
        const log = logs()
        const { act } = yield* open({ a: server }, { log })
        yield* act("a", ["say", "one\ntw"], ["wait", 100], ["say", "o \u001b[2J\n\n"])
        yield* until(() => log.lines.includes("two \\u001b[2J"))
        assert.include(log.lines, "one")
      }).pipe(Effect.scoped))

    it.live("by never reading are given up", () =>
      Effect.gen(function*() {
        const folder = yield* makeFolder
        const starts = `${folder}/starts`
        const closes = `${folder}/closes`
        const started = () => NodeFs.readFileSync(starts, "utf8").length
        const { call } = yield* open({
          a: shell(
            `printf x >> ${starts}; read a; echo '${initialized}'; read b; read c; echo '${listed}'; exec 0<&-; printf x >> ${closes}; sleep 99`
          )
        })
        yield* until(() => NodeFs.existsSync(closes))
        const outcome = yield* call("a__one")
        assert.deepInclude(outcome, { error: "MCP server \"a\": it no longer reads its input" })
        yield* until(() => started() > 1)
      }).pipe(Effect.scoped))

    for (
      const [what, written] of [
        ["empty lines", ""],
        ["lines that are no messages", "x"],
        ["notifications", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`]
      ] as const
    ) {
      it.live(`by writing ${what} without end hold up nobody`, () =>
        Effect.gen(function*() {
          const { server } = yield* scripted()
          const { act, names } = yield* open({ a: server, b: floods(written) })
          assert.include(names(), "b__one")
          assert.strictEqual(said(yield* act("a", ["text", "fine"])), "fine")
        }).pipe(Effect.scoped))
    }

    it.live("by asking without end, and never reading, are given up", () =>
      Effect.gen(function*() {
        const { log } = yield* open({ a: floods(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) })
        yield* until(() => log.some((it) => it.includes("it no longer reads its input; connecting again")))
      }).pipe(Effect.scoped))
  })

  it.effect("that say all the time that their tools change are listed at once, then once in a while", () =>
    Effect.gen(function*() {
      const real = <A>(effect: Effect.Effect<A>) => TestClock.withLive(effect)
      const scope = yield* Scope.make()
      const { names } = yield* open({ a: { command: process.execPath, args: ["-e", changing] } }).pipe(
        Scope.provide(scope)
      )
      yield* real(until(() => names().includes("a__t2")))
      const ticks = Effect.forever(Effect.andThen(real(Effect.sleep(20)), TestClock.adjust("1 second")))
      for (const name of ["a__t2", "a__t3", "a__t4"]) {
        yield* real(Effect.sleep(100))
        assert.deepStrictEqual(names(), [name])
        // the next change may not have arrived yet
        yield* Effect.raceFirst(real(until(() => !names().includes(name))), ticks)
      }
      yield* Effect.raceFirst(Scope.close(scope, Exit.void), ticks)
    }).pipe(Effect.scoped))

  describe("that die", () => {
    it.live("during a call fail that call alone, say how, and are started again", () =>
      Effect.gen(function*() {
        const { noted, server } = yield* scripted()
        const other = yield* scripted()
        const { act, handlers, log } = yield* open({ a: server, b: other.server })
        const before = handlers.current()
        const sibling = yield* Effect.forkChild(act("b", ["wait", 200], ["text", "unaffected"]))
        const outcome = yield* act("a", ["say", "out of cheese\n"], ["die", 7])
        assert.deepInclude(outcome, {
          _tag: "Failed",
          origin: "handler",
          error: "MCP server \"a\": it ended with exit code 7; it said: out of cheese"
        })
        yield* retried(() => act("a", ["text", "again"]))
        // the same tools are no change
        assert.strictEqual(handlers.current(), before)
        assert.strictEqual(said(yield* Fiber.join(sibling)), "unaffected")
        assert.isTrue(
          log.some((it) => it.includes("it ended with exit code 7; it said: out of cheese; connecting again"))
        )
        assert.lengthOf(new Set(noted("started")), 2)
        assert.lengthOf(other.noted("started"), 1)
      }).pipe(Effect.scoped))

    it.live("are missed in words the model can act on", () =>
      Effect.gen(function*() {
        const { server } = yield* scripted()
        const folder = yield* makeFolder
        const once = `test -e ${folder}/used && exit 1; touch ${folder}/used; exec "$0" "$@"`
        const { act } = yield* open({ a: { command: "sh", args: ["-c", once, server.command, ...server.args] } })
        yield* act("a", ["die", 0])
        yield* until2(() =>
          Effect.map(
            act("a", ["text", "x"]),
            (outcome) => said(outcome).includes(`The server "a" is not connected. Try again later.`)
          )
        )
      }).pipe(Effect.scoped))
  })

  describe("end with the scope", () => {
    const closes = Effect.fnUntraced(function*(
      servers: Parameters<typeof open>[0],
      ready: () => boolean,
      pids: () => ReadonlyArray<unknown>
    ) {
      const scope = yield* Scope.make()
      const building = yield* Effect.forkChild(Effect.exit(open(servers).pipe(Scope.provide(scope))))
      yield* until(ready)
      if (pids().length === 0) assert.fail("nothing was started")
      yield* Fiber.interrupt(building)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(pids().filter(isRunning), [])
    })

    it.live("even if they, and what they started, do not want to", () =>
      Effect.gen(function*() {
        const { noted, server } = yield* scripted({ stubborn: true })
        const scope = yield* Scope.make()
        const { act } = yield* open({ a: server }).pipe(Scope.provide(scope))
        const hanging = yield* Effect.forkChild(act("a", ["hang"]))
        yield* until(() => noted("called").length === 1)
        const pids = noted("started")
        assert.deepStrictEqual([pids.length, pids.every(isRunning)], [2, true])
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(pids.filter(isRunning), [])
        assert.strictEqual((yield* Fiber.join(hanging))._tag === "Succeeded", false)
      }).pipe(Effect.scoped))

    it.live("while they are still connecting", () =>
      Effect.gen(function*() {
        const { noted, server } = yield* scripted({ stubborn: true })
        yield* closes(
          { a: { command: "sh", args: ["-c", `"$0" "$@" < /dev/null`, server.command, ...server.args] } },
          () => noted("started").length === 2,
          () => noted("started")
        )
      }).pipe(Effect.scoped))

    it.live("where another could not be started", () =>
      Effect.gen(function*() {
        const { noted, notes, server } = yield* scripted({ stubborn: true })
        const fails = shell(`until test "$(grep -c started ${notes})" = 2; do sleep 0.05; done; exit 1`)
        const exit = yield* Effect.exit(
          Effect.scoped(open({ a: server, b: fails }))
        )
        assert.isTrue(Exit.isFailure(exit))
        assert.lengthOf(noted("started"), 2)
        assert.deepStrictEqual(noted("started").filter(isRunning), [])
      }).pipe(Effect.scoped))
  })

  it.live("in any number are no leak to Node", () =>
    Effect.gen(function*() {
      const warnings: Array<string> = []
      const warned = (warning: Error) => void warnings.push(warning.name)
      process.on("warning", warned)
      const before = process.listenerCount("exit")
      const silent = { command: "sh", args: ["-c", "cat >/dev/null"], optional: true, startTimeout: "100 millis" }
      yield* Effect.scoped(open(Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`s${n}`, silent]))))
      yield* until(() => process.listenerCount("exit") <= before + 1)
      process.off("warning", warned)
      assert.notInclude(warnings, "MaxListenersExceededWarning")
    }))
})

describe("backoff", () => {
  it.effect("waits longer each time, and at most half a minute", () =>
    Effect.gen(function*() {
      const log = logs()
      // the process is real, the time is not: what waits for the one lets the other pass
      const real = <A>(effect: Effect.Effect<A>) => TestClock.withLive(effect)
      yield* open({ a: { command: "no-such-program-here", optional: true } }, { log })
      const waits = [
        "250 millis",
        "500 millis",
        "1 second",
        "2 seconds",
        "4 seconds",
        "8 seconds",
        "16 seconds",
        "30 seconds",
        "30 seconds"
      ] as const
      for (const [index, wait] of waits.entries()) {
        yield* real(until(() => attempts(log) === index + 1))
        yield* real(Effect.sleep(20))
        yield* TestClock.adjust(Duration.subtract(Duration.fromInputUnsafe(wait), Duration.millis(1)))
        yield* real(Effect.sleep(20))
        assert.strictEqual(attempts(log), index + 1, wait)
        yield* TestClock.adjust("1 millis")
      }
    }).pipe(Effect.scoped))
})

describe("a server that was connected for a minute", () => {
  it.effect("is started again at once, one that was not after a wait", () =>
    Effect.gen(function*() {
      const { server } = yield* scripted()
      const starts = `${yield* makeFolder}/starts`
      const started = () => NodeFs.readFileSync(starts, "utf8").length
      const log = logs()
      const scope = yield* Scope.make()
      const line = `printf x >> ${starts}; exec "$0" "$@"`
      const { act } = yield* open({
        a: { command: "sh", args: ["-c", line, server.command, ...server.args] }
      }, { log }).pipe(Scope.provide(scope))
      const dies = (times: number) =>
        Effect.andThen(act("a", ["die", 0]), TestClock.withLive(until(() => attempts(log) === times)))
      yield* dies(1)
      yield* TestClock.withLive(Effect.sleep(100))
      assert.strictEqual(started(), 1)
      yield* TestClock.adjust("250 millis")
      yield* TestClock.withLive(retried(() => act("a")))
      yield* TestClock.adjust("1 minute")
      yield* dies(2)
      yield* TestClock.withLive(until(() => started() === 3))
      // it may have to be told to end, and time passes for that
      const ticks = Effect.forever(Effect.andThen(TestClock.withLive(Effect.sleep(20)), TestClock.adjust("1 second")))
      yield* Effect.raceFirst(Scope.close(scope, Exit.void), ticks)
    }).pipe(Effect.scoped))
})

/** A server whose one tool has another name each time it is listed; it says all the time that it changes. */
const changing = `
const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }))
let lists = 0
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === "initialize") {
    const serverInfo = { name: "x", version: "1" }
    const capabilities = { tools: { listChanged: true } }
    send({ id, result: { protocolVersion: params.protocolVersion, capabilities, serverInfo } })
  }
  if (method !== "tools/list") return
  send({ id, result: { tools: [{ name: "t" + ++lists, inputSchema: { type: "object" } }] } })
  if (lists === 1) setInterval(() => send({ method: "notifications/tools/list_changed" }), 10)
}).on("close", () => process.exit())
`

/** A server of one tool that writes the same for ever, and reads no more. */
const floods = (line: string) =>
  shell(`read a; echo '${initialized}'; read b; read c; echo '${listed}'; exec yes '${line}'`)

/** How often the log says that a server is connected again; the test clock has words of its own there. */
const attempts = (log: ReturnType<typeof logs>) => log.lines.filter((it) => it.endsWith("connecting again")).length

/** Calls until it works. */
const retried = (call: () => ReturnType<Effect.Success<ReturnType<typeof open>>["act"]>) =>
  until2(() => Effect.map(call(), (outcome) => outcome._tag === "Succeeded"))

const until2 = (condition: () => Effect.Effect<boolean>): Effect.Effect<void> =>
  Effect.flatMap(condition(), (holds) => holds ? Effect.void : Effect.andThen(Effect.sleep(20), until2(condition)))
