/** Notifications of devices: who gets them, what is in them, and what ends them. The push service is on loopback. */
import { assert, describe, it } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import { Access, Tokens, WebPush } from "effect-tool-executor/server"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { makeMemory, PushTable } from "../../../src/core/store/PushTable.ts"
import * as Push from "../../../src/server/notify/WebPush.ts"
import { approval } from "../../support/Asking.ts"
import { browser, service } from "../../support/pushService.ts"
import { start, type UserName } from "../../support/Server.ts"
import * as Tls from "../../support/tls.ts"

const user = (name: string, approve: ReadonlyArray<string>, expiresAt?: number) => ({
  name,
  approve,
  tokens: [{ hash: Tokens.hash(Redacted.make(name)), expiresAt }]
})

// approval requests of the tests are bob's
const users = [user("ada", ["bob"]), user("eve", ["cy"]), user("bob", []), user("gone", ["*"], 1_000)]

const { privateKey, publicKey } = Effect.runSync(Push.makeKeys)

const options: WebPush.Options = {
  subject: "mailto:ops@example.com",
  publicKey,
  privateKey,
  publicUrl: "https://tools.example.com/page/",
  allowPrivate: ["127.0.0.1"],
  authorities: Tls.cert
}

const world = Effect.fnUntraced(function*(more?: Partial<WebPush.Options>) {
  const table = makeMemory()
  const approvals = yield* Layer.build(Approvals.layer({ timeout: "unlimited" }))
  const push = yield* Layer.build(
    WebPush.layer({ ...options, ...more }).pipe(
      Layer.provide([Access.layer({ users }), Layer.succeed(PushTable, table)])
    )
  )
  yield* Layer.build(
    WebPush.layerNotices().pipe(
      Layer.provide(Layer.merge(Layer.succeedContext(push), Layer.succeedContext(approvals)))
    )
  )
  const ask = Effect.fnUntraced(function*(id: string) {
    const service = Context.get(approvals, Approvals.Approvals)
    const request = yield* service.request(approval({ id, args: { password: "hidden in the arguments" } }))
    return yield* Effect.forkChild(service.submit(request), { startImmediately: true })
  })
  return { table, ask, push: Context.get(push, Push.WebPush) }
})

/** A turn of the event loop. */
const turn = Effect.callback<void>((resume) => {
  const timer = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(timer))
})

/** Waits for what is on its way on loopback, while time goes by. */
const eventually = (is: Effect.Effect<boolean>) =>
  Effect.gen(function*() {
    for (let seconds = 0; seconds < 600; seconds++) {
      for (let turns = 0; turns < 50; turns++) {
        if (yield* is) return
        yield* turn
      }
      yield* TestClock.adjust("1 second")
    }
    return assert.fail("it did not happen in ten minutes")
  }).pipe(Effect.asVoid)

describe("the API of WebPush", () => {
  it.live("gives approvers the key, and takes and ends subscriptions of the user alone", () =>
    Effect.gen(function*() {
      const server = yield* start({ push: options })
      const { subscription } = browser("https://push.example.com/1")
      const subscribe = (name: UserName, body: unknown) =>
        Effect.map(server.request(name, "POST", "/api/push/subscribe", { body }), (it) => it.status)
      assert.deepStrictEqual((yield* server.request("bob", "GET", "/api/push")).json, { publicKey })
      assert.strictEqual((yield* server.request("eve", "GET", "/api/push")).status, 403)
      assert.strictEqual(yield* subscribe("bob", subscription), 204)
      assert.strictEqual(yield* subscribe("eve", subscription), 403)
      const refused = yield* server.request("bob", "POST", "/api/push/subscribe", {
        body: { ...subscription, endpoint: "http://127.0.0.1/" }
      })
      assert.strictEqual(refused.status, 400)
      assert.strictEqual(refused.json.errors[0].path, "endpoint")
      const end = { body: { endpoint: subscription.endpoint } }
      assert.strictEqual((yield* server.request("eve", "POST", "/api/push/unsubscribe", end)).status, 204)
      assert.strictEqual((yield* server.request("bob", "POST", "/api/push/unsubscribe", end)).status, 204)
    }))

  it.live("is not there on a server without it", () =>
    Effect.gen(function*() {
      const server = yield* start()
      assert.strictEqual((yield* server.request("bob", "GET", "/api/push")).status, 404)
    }))
})

describe("WebPush", () => {
  it.effect(
    "tells those who may approve a request, encrypted for their device and without arguments",
    () =>
      Effect.gen(function*() {
        const { got, url } = yield* service(201)
        const { ask, push } = yield* world()
        const [ada, eve, gone, nobody] = ["ada", "eve", "gone", "nobody"].map((name) => browser(`${url}/${name}`))
        yield* TestClock.setTime(2_000)
        yield* push.subscribe("eve", eve!.subscription)
        yield* push.subscribe("gone", gone!.subscription)
        yield* push.subscribe("nobody", nobody!.subscription)
        yield* push.subscribe("ada", ada!.subscription)
        yield* ask("approval one")
        const message = yield* Queue.take(got)
        assert.strictEqual(message.path, "/ada")
        assert.deepStrictEqual(ada!.read(message), {
          id: "approval one",
          title: "Approval needed",
          tool: "write",
          user: "bob",
          url: "https://tools.example.com/page/#/approvals/approval%20one"
        })
        assert.strictEqual(message.headers["content-encoding"], "aes128gcm")
        assert.strictEqual(message.headers["urgency"], "high")
        const [, claims = ""] = /^vapid t=[\w-]+\.([\w-]+)\./.exec(String(message.headers["authorization"])) ?? []
        const { aud, sub } = JSON.parse(Buffer.from(claims, "base64url").toString())
        assert.deepStrictEqual({ aud, sub }, { aud: url, sub: "mailto:ops@example.com" })
        assert.include(String(message.headers["authorization"]), `k=${publicKey}`)
        yield* Effect.repeat(turn, { times: 100 })
        assert.strictEqual(yield* Queue.size(got), 0, "only ada may approve calls of bob")
      }),
    { tags: ["SV34"] }
  )

  it.effect(
    "forgets a device whose subscription has ended, and tries again what failed for now",
    () =>
      Effect.gen(function*() {
        const { got, url } = yield* service(503, 201, 410, 201)
        const { ask, push, table } = yield* world()
        const ada = browser(`${url}/ada`)
        yield* push.subscribe("ada", ada.subscription)
        yield* ask("one")
        yield* eventually(Effect.map(Queue.size(got), (it) => it === 2))
        yield* ask("two")
        yield* eventually(Effect.map(Effect.orDie(table.all), (it) => it.length === 0))
        yield* ask("three")
        yield* Effect.repeat(turn, { times: 100 })
        const all = yield* Queue.takeAll(got)
        assert.deepStrictEqual(
          all.map((it) => (ada.read(it) as { readonly id: string }).id),
          ["one", "one", "two"]
        )
        assert.strictEqual(all[0]!.headers["topic"], all[1]!.headers["topic"])
      }),
    { tags: ["SV34"] }
  )

  it.effect(
    "does not connect to a private address, and does not follow where a service points",
    () =>
      Effect.gen(function*() {
        const { got, url } = yield* service(307)
        const refused = yield* world({ allowPrivate: [] })
        yield* refused.push.subscribe("ada", browser(`${url}/ada`).subscription)
        yield* refused.ask("one")
        yield* Effect.repeat(turn, { times: 100 })
        assert.strictEqual(yield* Queue.size(got), 0)
        const { ask, push } = yield* world()
        yield* push.subscribe("ada", browser(`${url}/ada`).subscription)
        yield* ask("two")
        assert.strictEqual((yield* Queue.take(got)).path, "/ada")
        yield* Effect.repeat(turn, { times: 100 })
        assert.strictEqual(yield* Queue.size(got), 0)
      }),
    { tags: ["SV34"] }
  )

  it.effect("keeps ten devices of a user, and lets nobody end those of others", () =>
    Effect.gen(function*() {
      const { push, table } = yield* world()
      const endpoints = Array.from({ length: 12 }, (_, at) => `https://push.example.com/${at}`)
      yield* push.subscribe("eve", browser("https://push.example.com/eve").subscription)
      for (const endpoint of endpoints) {
        yield* TestClock.adjust("1 second")
        yield* push.subscribe("ada", browser(endpoint).subscription)
      }
      const kept = Effect.map(table.all, (all) => all.filter((it) => it.user === "ada").map((it) => it.endpoint))
      assert.deepStrictEqual(yield* kept, endpoints.slice(2))
      yield* push.unsubscribe("eve", endpoints[5]!)
      assert.strictEqual((yield* kept).length, 10)
      yield* push.unsubscribe("ada", endpoints[5]!)
      assert.strictEqual((yield* kept).length, 9)
      assert.strictEqual((yield* table.all).length, 10)
    }), { tags: ["SV34"] })

  it.effect("refuses what is no subscription, and says where", () =>
    Effect.gen(function*() {
      const { push, table } = yield* world()
      const { subscription: { endpoint, keys } } = browser("https://push.example.com/1")
      const offCurve = Buffer.alloc(65, 4).toString("base64url")
      for (
        const [wrong, path] of [
          [{ endpoint: "http://push.example.com/1", keys }, "endpoint"],
          [{ endpoint: "https://me:hush@push.example.com/1", keys }, "endpoint"],
          [{ endpoint: `https://push.example.com/${"a".repeat(2_000)}`, keys }, "endpoint"],
          [{ endpoint, keys: { ...keys, p256dh: offCurve } }, "keys.p256dh"],
          [{ endpoint, keys: { ...keys, auth: "c2hvcnQ" } }, "keys.auth"]
        ] as const
      ) {
        const problems = yield* Effect.flip(push.subscribe("ada", wrong))
        assert.deepStrictEqual(Array.isArray(problems) && problems.map((it) => it.path), [path])
        assert.notInclude(JSON.stringify(problems), "hush")
      }
      assert.deepStrictEqual(yield* table.all, [])
    }))

  it.effect("names what is wrong with its options, and repeats no key", () =>
    Effect.gen(function*() {
      const other = yield* Push.makeKeys
      const problemsOf = (more: Partial<WebPush.Options>) =>
        Effect.map(Effect.flip(world(more)), ({ message }) => {
          assert.notInclude(message, Redacted.value(privateKey))
          return message
        })
      assert.include(yield* problemsOf({ subject: "ops" }), "subject")
      assert.include(yield* problemsOf({ publicKey: other.publicKey }), "it is not that of publicKey")
      assert.include(yield* problemsOf({ privateKey: Redacted.make("short") }), "it is not a private key")
      assert.include(yield* problemsOf({ publicUrl: "tools" }), "publicUrl")
    }))
})
