/** Three `tool-executor serve --cluster` over one PostgreSQL, each in a process of its own. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Postgres from "../support/Postgres.ts"
import { asking, type Json, openIn, start, user } from "../support/serveProcess.ts"
import { listen } from "../support/Server.ts"

const timeout = 180_000

/** A folder with a config, and a database. */
const service = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "cluster-")))),
    (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
  )
  const { config, token } = yield* user
  const work = join(folder, "work")
  mkdirSync(work)
  const file = join(folder, "server.json")
  writeFileSync(
    file,
    JSON.stringify({
      workspace: { root: "work" },
      policy: { default: "allow", ask: ["write_file"] },
      server: { port: 0, cluster: { port: 0 }, drain: "10 seconds", users: { ada: config } }
    })
  )
  const url = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
  const serving = Effect.fnUntraced(function*(flags: ReadonlyArray<string>) {
    const process = yield* start(["serve", ...flags, "--config", file], { TOOL_EXECUTOR_POSTGRES: url })
    const at = yield* process.url
    const client = asking(at, token)
    yield* Effect.repeat(client.json("/ready"), {
      until: ({ status }) => status === "ready",
      schedule: Schedule.spaced("100 millis")
    })
    const sse = (path: string, body?: unknown) =>
      listen(`${at}${path}`, {
        headers: {
          authorization: `Bearer ${token}`,
          accept: "text/event-stream",
          ...body === undefined ? {} : { "content-type": "application/json" }
        },
        ...body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }
      })
    /** Sessions that it holds. */
    const sessions = Effect.map(client.json("/api/status"), (it) => (it["runner"] as { sessions: number }).sessions)
    return { ...process, ...client, sse, sessions }
  })
  const runner = serving(["--cluster"])
  /** A server without a cluster. */
  const single = serving([])
  const runners = Effect.all([runner, runner, runner], { concurrency: "unbounded" })
  const ledger = (name: string) => existsSync(join(work, name)) ? readFileSync(join(work, name), "utf8") : ""
  return { ledger, runner, runners, single }
})

type Runner = Effect.Success<Effect.Success<typeof service>["runner"]>

const wave = (name: string, tool: string, args: object) => ({
  wave: name,
  message: {
    role: "assistant",
    tool_calls: [{ id: `call-${name}`, type: "function", function: { name: tool, arguments: JSON.stringify(args) } }]
  }
})

const command = (name: string, text: string) => wave(name, "run_command", { command: text })

const once = <A>(get: Effect.Effect<A>, is: (it: A) => boolean) =>
  Effect.repeat(get, { until: is, schedule: Schedule.spaced("50 millis") })

const pending = (runner: Runner) =>
  Effect.map(once(Effect.map(runner.json("/api/approvals"), openIn), (it) => it.length > 0), ([it]) => it!)

const approve = (runner: Runner, { hash, id }: Json) =>
  runner.send(`/api/approvals/${String(id)}/answer`, {
    method: "POST",
    body: JSON.stringify({ hash, answer: { _tag: "ApproveOnce" } })
  })

const ended = (runner: Runner, path: string) => once(runner.json(path), ({ status }) => status === "ended")

describe("three servers over one database", () => {
  it.layer(Postgres.layer, { timeout: "60 seconds", excludeTestServices: true })((it) => {
    it.effect(
      "are one service: a wave is submitted at one, watched at another and approved at all of them, once",
      () =>
        Effect.gen(function*() {
          const { ledger, runners } = yield* service
          const [a, b, c] = yield* runners
          const submitted = wave("w", "write_file", { path: "once.txt", content: "written" })
          const submitting = yield* Effect.forkChild(a.post("/api/sessions/one/waves", submitted))
          const request = yield* pending(c)
          const watching = yield* b.sse("/api/sessions/one/waves/w/events")
          const answers = yield* Effect.all([a, b, c].map((it) => approve(it, request)), { concurrency: "unbounded" })
          assert.deepStrictEqual(answers.map(({ status }) => status).sort(), [200, 409, 409])
          assert.strictEqual((yield* watching.rest).at(-1)?.event, "tools_end")
          assert.strictEqual((yield* Fiber.join(submitting))["status"], "ended")
          assert.strictEqual(ledger("once.txt"), "written")
          const checkpoints = yield* Effect.all([a, b, c].map((it) => it.json("/api/sessions/one/checkpoints")))
          const [[kept] = [], ...others] = checkpoints as unknown as ReadonlyArray<ReadonlyArray<Json>>
          assert.deepStrictEqual(others, [[kept!], [kept!]])
          yield* b.post(`/api/sessions/one/checkpoints/${String(kept!["id"])}/undo`, {})
          assert.strictEqual(ledger("once.txt"), "")

          const same = command("same", "echo run >> same.txt")
          const both = yield* Effect.all([a, b, c].map((it) => it.post("/api/sessions/two/waves", same)), {
            concurrency: "unbounded"
          })
          assert.deepStrictEqual(both.map(({ status }) => status), ["ended", "ended", "ended"])
          assert.strictEqual(ledger("same.txt"), "run\n")
        }).pipe(Effect.scoped),
      { tags: ["CL1", "CL2"], timeout }
    )

    it.effect(
      "serve a session on when the one that runs it is killed, and streams continue",
      () =>
        Effect.gen(function*() {
          const { ledger, runners } = yield* service
          const all = yield* runners
          yield* Effect.forkChild(
            all[0].post("/api/sessions/one/waves", command("w", "echo run >> ledger.txt; sleep 60"))
          )
          yield* once(Effect.sync(() => ledger("ledger.txt")), (it) => it !== "")
          const held = yield* Effect.all(all.map((it) => it.sessions))
          const owner = all[held.indexOf(1)]!
          const [other, another] = all.filter((it) => it !== owner)
          const watching = yield* other!.sse("/api/sessions/one/waves/w/events")
          yield* watching.until(({ event }) => event === "tool_call_start")
          owner.child.kill("SIGKILL")
          const rest = yield* watching.rest
          // nothing comes twice, unless everything comes again
          const last = rest.slice(rest.findLastIndex(({ event }) => event === "reset") + 1).map(({ event }) => event)
          assert.deepStrictEqual(last.filter((it, at) => last.indexOf(it) !== at), [])
          assert.strictEqual(
            last.includes("tool_call_queued"),
            rest.some(({ event }) => event === "reset"),
            String(last)
          )
          assert.strictEqual(rest.at(-1)?.event, "tools_end")
          // it may have happened, so it is not repeated
          assert.strictEqual(rest.at(-1)?.data.executionResults[0]._tag, "Unknown")
          assert.strictEqual((yield* another!.json("/api/sessions/one/waves/w"))["status"], "ended")
          assert.strictEqual(ledger("ledger.txt"), "run\n")
        }).pipe(Effect.scoped),
      { tags: ["CL3"], timeout }
    )

    it.effect("lose nothing when they are replaced one after the other while calls run", () =>
      Effect.gen(function*() {
        const { ledger, runner, runners } = yield* service
        const first = yield* runners
        const names = Array.from({ length: 6 }, (_, index) => `s${index}`)
        const waves = yield* Effect.forkChild(Effect.forEach(
          names,
          (it) => first[0].post(`/api/sessions/${it}/waves`, command("w", `sleep 3; echo ${it} >> ledger.txt`)),
          { concurrency: "unbounded" }
        ))
        yield* once(Effect.all(first.map((it) => it.sessions)), (held) => held.reduce((sum, it) => sum + it) === 6)
        const next = [yield* runner]
        for (const old of first.slice(1)) {
          old.child.kill("SIGTERM")
          assert.strictEqual(yield* old.ended, 0, old.written.stderr)
        }
        assert.deepStrictEqual((yield* Fiber.join(waves)).map(({ status }) => status), names.map(() => "ended"))
        assert.deepStrictEqual(ledger("ledger.txt").trim().split("\n").sort(), names)
        first[0].child.kill("SIGTERM")
        assert.strictEqual(yield* first[0].ended, 0, first[0].written.stderr)
        for (const it of names) yield* ended(next[0]!, `/api/sessions/${it}/waves/w`)
      }).pipe(Effect.scoped), { tags: ["CL4"], timeout })

    it.effect(
      "that all stop and start again have the same approval requests, and any of them answers",
      () =>
        Effect.gen(function*() {
          const { ledger, runner, runners } = yield* service
          const first = yield* runners
          yield* Effect.forkChild(
            first[0].post("/api/sessions/one/waves", wave("w", "write_file", { path: "later.txt", content: "written" }))
          )
          const asked = yield* pending(first[1])
          for (const it of first) it.child.kill("SIGTERM")
          for (const it of first) assert.strictEqual(yield* it.ended, 0, it.written.stderr)
          const [one, other] = yield* Effect.all([runner, runner], { concurrency: "unbounded" })
          const request = yield* pending(one)
          assert.strictEqual(request["id"], asked["id"])
          assert.strictEqual((yield* approve(other, request)).status, 200)
          yield* ended(one, "/api/sessions/one/waves/w")
          assert.strictEqual(ledger("later.txt"), "written")
        }).pipe(Effect.scoped),
      { tags: ["CL4"], timeout }
    )

    it.effect(
      "continue what one server without a cluster has left, and have its results",
      () =>
        Effect.gen(function*() {
          const { ledger, runner, single } = yield* service
          const before = yield* single
          yield* before.post("/api/sessions/one/waves", command("done", "echo run >> done.txt"))
          yield* Effect.forkChild(
            before.post("/api/sessions/one/waves", wave("w", "write_file", { path: "later.txt", content: "written" }))
          )
          yield* pending(before)
          before.child.kill("SIGTERM")
          assert.strictEqual(yield* before.ended, 0, before.written.stderr)
          const [one, other] = yield* Effect.all([runner, runner], { concurrency: "unbounded" })
          const request = yield* pending(one)
          assert.strictEqual((yield* approve(other, request)).status, 200)
          yield* ended(one, "/api/sessions/one/waves/w")
          yield* ended(other, "/api/sessions/one/waves/done")
          assert.deepStrictEqual([ledger("later.txt"), ledger("done.txt")], ["written", "run\n"])
        }).pipe(Effect.scoped),
      timeout
    )
  })
})
