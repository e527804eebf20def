/** Two `tool-executor serve --cluster` with a webhook, links and suggestions: each in a process of its own. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Postgres from "../support/Postgres.ts"
import { asking, openIn, start, user } from "../support/serveProcess.ts"

interface Notice {
  readonly data: { readonly id: string; readonly links: ReadonlyArray<{ readonly url: string }> }
}

const publicUrl = "https://tools.example.com"

const once = <A>(get: Effect.Effect<A>, is: (it: A) => boolean) =>
  Effect.repeat(get, { until: is, schedule: Schedule.spaced("50 millis") })

/** A receiver of the webhook. */
const receiver = Effect.gen(function*() {
  const got: Array<Notice> = []
  const services = yield* Layer.build(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 }))
  const server = Context.get(services, HttpServer.HttpServer)
  yield* Effect.provide(
    HttpServer.serveEffect(Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      got.push(JSON.parse(yield* request.text) as Notice)
      return HttpServerResponse.empty({ status: 204 })
    })),
    services
  )
  return { got, url: `http://127.0.0.1:${"port" in server.address ? server.address.port : 0}/hook` }
})

/** A folder with a config, and a database. */
const service = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "links-")))),
    (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
  )
  const { config, token } = yield* user
  const { got, url: hook } = yield* receiver
  const [work, file] = [join(folder, "work"), join(folder, "server.json")]
  mkdirSync(work)
  writeFileSync(
    file,
    JSON.stringify({
      workspace: { root: "work" },
      policy: { default: "ask" },
      server: {
        port: 0,
        publicUrl,
        cluster: { port: 0 },
        webhook: { url: hook, secret: { env: "HOOK_SECRET" }, delay: "1 second", links: { people: ["ada"] } },
        users: { ada: config }
      }
    })
  )
  const database = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
  const environment = {
    TOOL_EXECUTOR_POSTGRES: database,
    HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`
  }
  const runner = Effect.gen(function*() {
    const process = yield* start(["serve", "--cluster", "--config", file], environment)
    const at = yield* process.url
    const client = asking(at, token)
    yield* once(client.json("/ready"), ({ status }) => status === "ready")
    /** What somebody without a login gets. */
    const visit = (path: string, form?: Readonly<Record<string, string>>) =>
      Effect.promise(async (signal) => {
        const body = form === undefined ? {} : {
          method: "POST",
          headers: { origin: new URL(at).origin, "content-type": "application/x-www-form-urlencoded" },
          body: new URLSearchParams(form).toString()
        }
        const response = await fetch(new URL(path, at), { signal, ...body })
        return { status: response.status, text: await response.text() }
      })
    const sessions = Effect.map(client.json("/api/status"), (it) => (it["runner"] as { sessions: number }).sessions)
    return { ...process, ...client, visit, sessions }
  })
  const written = (name: string) => existsSync(join(work, name)) ? readFileSync(join(work, name), "utf8") : ""
  const verify = Effect.flatMap(start(["journal", database, "--verify"]), ({ ended }) => ended)
  return { got, runner, verify, written }
})

type Runner = Effect.Success<Effect.Success<typeof service>["runner"]>

const submit = (runner: Runner, session: string, content: string) =>
  runner.post(`/api/sessions/${session}/waves`, {
    wave: "w",
    message: {
      role: "assistant",
      tool_calls: [{
        id: "call",
        type: "function",
        function: { name: "write_file", arguments: JSON.stringify({ path: "a.txt", content }) }
      }]
    }
  })

layer(Postgres.layer, { excludeTestServices: true })("a link of a notification", (it) => {
  it.effect(
    "is answered at whichever server it reaches, also after the one with the call was killed",
    () =>
      Effect.gen(function*() {
        const { got, runner, verify, written } = yield* service
        const [a, b] = yield* Effect.all([runner, runner], { concurrency: "unbounded" })
        /** The link of the only request that is pending. */
        const linkAt = Effect.fnUntraced(function*(runner: Runner) {
          const [request] = yield* once(Effect.map(runner.json("/api/approvals"), openIn), (it) => it.length === 1)
          const notice = () => got.find(({ data }) => data.id === request!["id"])
          yield* once(Effect.sync(notice), (it) => it !== undefined)
          return new URL(notice()!.data.links[0]!.url).pathname
        })
        const formAt = Effect.fnUntraced(function*(runner: Runner, path: string) {
          const shown = yield* runner.visit(path)
          assert.strictEqual(shown.status, 200, shown.text)
          const [, hash = ""] = /name="hash" value="([^"]+)"/.exec(shown.text) ?? []
          return { hash, answer: "approve" }
        })
        const ended = (runner: Runner, session: string) =>
          once(runner.json(`/api/sessions/${session}/waves/w`), ({ status }) => status === "ended")

        // made by one, answered at the other
        for (const [session, at, other] of [["one", a, b], ["two", b, a]] as const) {
          yield* Effect.forkChild(submit(at, session, session))
          const path = yield* linkAt(other)
          const form = yield* formAt(at, path)
          assert.deepStrictEqual(yield* formAt(other, path), form)
          const answers = yield* Effect.all([other, at].map((it) => it.visit(path, form)), { concurrency: "unbounded" })
          assert.deepStrictEqual(answers.map(({ status }) => status).sort(), [200, 410])
          assert.include((yield* at.visit(path)).text, "ada")
          yield* ended(other, session)
          assert.strictEqual(written("a.txt"), session)
        }

        // the server whose call waits is killed
        yield* once(Effect.all([a.sessions, b.sessions]), (held) => held.every((it) => it === 0))
        yield* Effect.forkChild(Effect.ignoreCause(submit(a, "three", "three")))
        const path = yield* linkAt(b)
        const [dies, left] = (yield* a.sessions) > 0 ? [a, b] : [b, a]
        dies.child.kill("SIGKILL")
        const form = yield* formAt(left, path)
        assert.strictEqual((yield* left.visit(path, form)).status, 200)
        yield* ended(left, "three")
        assert.strictEqual(written("a.txt"), "three")
        assert.strictEqual((yield* left.visit(path)).status, 410)

        // nobody was notified twice, and what both recorded is whole
        const ids = got.map(({ data }) => data.id)
        assert.deepStrictEqual([ids.length, new Set(ids).size], [3, 3])
        const { suggestions } = yield* left.json("/api/suggestions")
        const [{ rule }] = suggestions as unknown as readonly [{ readonly rule: string }]
        assert.strictEqual(rule, "write_file(a.txt)")
        assert.deepStrictEqual(yield* left.post("/api/suggestions/accept", { rule }), { policy: { allow: [rule] } })
        const { entries } = yield* left.json("/api/journal?limit=500")
        const tags = (entries as ReadonlyArray<{ readonly entry: { readonly _tag: string } }>).map(({ entry }) =>
          entry._tag
        )
        assert.lengthOf(tags.filter((it) => it === "RuleAccepted"), 1)
        assert.strictEqual(yield* verify, 0)
      }).pipe(Effect.scoped),
    { tags: ["SV32"] }
  )
})
