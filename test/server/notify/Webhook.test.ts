/** The webhook: what is sent, when, how often, and what is not. The target is a real server on loopback. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import { Access, AnswerLinks, Tokens, Webhook } from "effect-tool-executor/server"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { FetchHttpClient, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import { createServer } from "node:http"
import { approval } from "../../support/Asking.ts"

const key = Buffer.from("0123456789abcdef0123456789abcdef")
const secret = `whsec_${key.toString("base64")}`

interface Got {
  readonly path: string
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

/** A target that answers with these statuses, the last of them for ever. */
const target = Effect.fnUntraced(function*(...statuses: ReadonlyArray<number>) {
  const got = yield* Queue.unbounded<Got>()
  let next = 0
  const server = yield* HttpServer.HttpServer
  yield* HttpServer.serveEffect(Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    yield* Queue.offer(got, { path: request.url, headers: { ...request.headers }, body: yield* request.text })
    const status = statuses[Math.min(next++, statuses.length - 1)]!
    return HttpServerResponse.empty({ status, headers: { location: "/elsewhere" } })
  }))
  const { address } = server
  return { got, url: `http://127.0.0.1:${"port" in address ? address.port : 0}/hook?token=hush` }
})

const options = (url: string): Webhook.Options => ({
  url,
  secret: Redacted.make(secret),
  publicUrl: "https://tools.example.com/page/"
})

const ask = Effect.fnUntraced(function*(id: string, more?: Partial<Approvals.NewRequest>) {
  const approvals = yield* Approvals.Approvals
  const request = yield* approvals.request(approval({ id, args: { password: "hidden in the arguments" }, ...more }))
  return yield* Effect.forkChild(approvals.submit(request), { startImmediately: true })
})

/** A turn of the event loop. */
const turn = Effect.callback<void>((resume) => {
  const timer = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(timer))
})

/** Turns in which what is on its way on loopback arrives, and is answered: both ends are in this process. */
const arrivals = Effect.repeat(turn, { times: 20 })

/** Lets time go by as slowly as requests are answered. */
const pass = (seconds: number) =>
  Effect.repeat(Effect.andThen(arrivals, TestClock.adjust("1 second")), { times: seconds })

/** The next request that comes while time goes by. */
const nextOf = (got: Queue.Dequeue<Got>): Effect.Effect<Got> =>
  Effect.raceFirst(Queue.take(got), Effect.andThen(pass(600), Effect.die("none came in ten minutes")))

const around = Layer.mergeAll(
  Approvals.layer({ timeout: "unlimited" }),
  FetchHttpClient.layer,
  NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })
)

const withLog = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const lines: Array<string> = []
  const logger = Logger.make<unknown, void>(({ message }) => void lines.push(JSON.stringify(message)))
  return Effect.map(Effect.provide(effect, Logger.layer([logger])), (value) => ({ value, lines }))
}

describe("Webhook", () => {
  it.effect("sends a signed message with a link, and no arguments", () =>
    Effect.gen(function*() {
      const { got, url } = yield* target(204)
      yield* Layer.build(Webhook.layer(options(url)))
      yield* TestClock.setTime(1_700_000_000_500)
      yield* ask("approval one")
      const { body, headers, path } = yield* Queue.take(got)
      assert.strictEqual(path, "/hook?token=hush")
      assert.deepStrictEqual(JSON.parse(body), {
        type: "approval.asked",
        timestamp: "2023-11-14T22:13:20.500Z",
        data: {
          id: "approval one",
          user: "bob",
          session: "home",
          tool: "write",
          requestedAt: 1_700_000_000_500,
          expiresAt: "unlimited",
          url: "https://tools.example.com/page/#/approvals/approval%20one"
        }
      })
      assert.notInclude(body, "hidden")
      assert.strictEqual(headers["webhook-id"], "approval one")
      assert.strictEqual(headers["webhook-timestamp"], "1700000000")
      const signed = createHmac("sha256", key).update(`approval one.1700000000.${body}`).digest("base64")
      assert.strictEqual(headers["webhook-signature"], `v1,${signed}`)
      assert.strictEqual(headers["content-type"], "application/json")
      assert.isUndefined(headers["traceparent"])
    }).pipe(Effect.withSpan("test"), Effect.provide(around)))

  it.effect("carries a link for each person who may approve, in the format of the receiver", () =>
    Effect.gen(function*() {
      const { got, url } = yield* target(204)
      const users = [
        { name: "ada", approve: ["bob"], tokens: [{ hash: Tokens.hash(Redacted.make("one")) }] },
        { name: "eve", approve: ["cy"], tokens: [{ hash: Tokens.hash(Redacted.make("two")) }] }
      ]
      const links = AnswerLinks.layer({
        secret: Redacted.make(secret),
        publicUrl: "https://tools.example.com",
        people: ["ada", "eve"]
      }).pipe(Layer.provide(Access.layer({ users })))
      for (const format of ["standard", "slack"] as const) {
        yield* Layer.build(Webhook.layer({ ...options(url), format }).pipe(Layer.provide(links)))
      }
      yield* ask("one")
      const bodies = [yield* Queue.take(got), yield* Queue.take(got)].map(({ body }) => JSON.parse(body))
      const standard = bodies.find((it) => it.type === "approval.asked")
      assert.deepStrictEqual(standard.data.links.map((it: { readonly person: string }) => it.person), ["ada"])
      const slack = bodies.find((it) => it.blocks !== undefined)
      const urls = slack.blocks[2].elements.map((it: { readonly url: string }) => it.url)
      assert.match(urls[0], /^https:\/\/tools\.example\.com\/links\/[\w-]+\.[\w-]+$/)
      assert.strictEqual(urls.length, 2)
      assert.notInclude(JSON.stringify(bodies), "hidden")
    }).pipe(Effect.provide(around)))

  it.effect("says nothing of an approval request that is answered before its delay is over", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.Approvals
      const { got, url } = yield* target(204)
      yield* Layer.build(Webhook.layer({ ...options(url), delay: "5 minutes" }))
      yield* ask("soon")
      yield* TestClock.adjust("1 minute")
      yield* ask("late")
      yield* approvals.answer("soon", { _tag: "Deny" })
      yield* TestClock.adjust("4 minutes")
      yield* arrivals
      assert.strictEqual(yield* Queue.size(got), 0)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Queue.take(got)).headers["webhook-id"], "late")
    }).pipe(Effect.provide(around)))

  it.effect("notifies again when others may answer, and as often as a rule says, under ids of their own", () =>
    Effect.gen(function*() {
      const { got, url } = yield* target(204)
      yield* Layer.build(Webhook.layer(options(url)))
      const start = yield* Clock.currentTimeMillis
      const escalate = { after: "3 minutes", to: { people: ["cy"] } }
      yield* ask("q", { approvers: [{ people: ["ada"], escalate, remind: "2 minutes" }] })
      const all: Array<readonly [id: string, type: string, minutes: number, who: string]> = []
      for (let notice = 0; notice < 4; notice++) {
        const { body, headers } = yield* nextOf(got)
        const { data, timestamp, type } = JSON.parse(body)
        all.push([headers["webhook-id"]!, type, (Date.parse(timestamp) - start) / 60_000, data.who])
      }
      const who = "It needs 1 person of: ada, and after 3 minutes also cy."
      assert.deepStrictEqual(all, [
        ["q", "approval.asked", 0, who],
        ["q.120000", "approval.reminded", 2, who],
        ["q.180000", "approval.escalated", 3, who],
        ["q.240000", "approval.reminded", 4, who]
      ])
      yield* (yield* Approvals.Approvals).answer("q", { _tag: "ApproveOnce" }, undefined, "cy")
      yield* pass(300)
      assert.strictEqual(yield* Queue.size(got), 0)
    }).pipe(Effect.provide(around)))

  it.effect("tries again later each time, under the same id, and then lets it be", () =>
    Effect.gen(function*() {
      const { got, url } = yield* target(503)
      yield* Layer.build(Webhook.layer(options(url)))
      const asking = yield* ask("q")
      const all: Array<Got> = []
      for (let tries = 0; tries < 5; tries++) all.push(yield* nextOf(got))
      assert.deepStrictEqual(all.map(({ headers }) => headers["webhook-id"]), Array(5).fill("q"))
      const times = all.map(({ headers }) => Number(headers["webhook-timestamp"]))
      for (const [index, pause] of [1, 4, 16, 64].entries()) {
        assert.isAtLeast(times[index + 1]! - times[index]!, pause)
      }
      assert.isUndefined(asking.pollUnsafe(), "the approval waits all the same")
    }).pipe(Effect.provide(around)))

  it.effect("follows no redirect, and does not send again what is refused for good", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.Approvals
      const { got, url } = yield* target(307, 400, 204)
      const { lines } = yield* withLog(Effect.gen(function*() {
        yield* Layer.build(Webhook.layer(options(url)))
        for (const id of ["redirected", "refused", "taken"]) {
          yield* ask(id)
          assert.deepInclude((yield* Queue.take(got)).headers, { "webhook-id": id })
        }
        yield* pass(300)
      }))
      assert.strictEqual(yield* Queue.size(got), 0)
      assert.strictEqual((yield* approvals.list).length, 3)
      assert.lengthOf(lines, 1, "the second is within ten minutes of the first")
      assert.include(lines[0]!, "it answered 307")
      assert.notInclude(lines[0]!, "hush")
      assert.notInclude(lines[0]!, secret.slice(6))
    }).pipe(Effect.provide(around)))

  it.effect("stops trying once the approval request is over", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.Approvals
      const { got, url } = yield* target(500)
      yield* Layer.build(Webhook.layer(options(url)))
      const asking = yield* ask("q")
      yield* Queue.take(got)
      yield* approvals.answer("q", { _tag: "ApproveOnce" })
      yield* Fiber.join(asking)
      yield* pass(100)
      assert.strictEqual(yield* Queue.size(got), 0)
    }).pipe(Effect.provide(around)))

  it.effect("names every option that is wrong, and never the secret", () =>
    Effect.gen(function*() {
      const wrong = { url: "ftp://x", publicUrl: "https://a:b@x", secret: Redacted.make("whsec_aHVzaA=="), delay: -1 }
      const error = yield* Effect.flip(Layer.build(Webhook.layer(wrong)))
      assert.deepStrictEqual(error.problems.map(({ path }) => path), ["url", "publicUrl", "secret", "delay"])
      assert.notInclude(error.message, "aHVzaA")
    }).pipe(Effect.provide(around)))
})
