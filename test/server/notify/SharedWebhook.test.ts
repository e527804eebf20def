/** Several processes with one webhook, or with devices: each approval request is told once. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import { Access, Tokens, Webhook } from "effect-tool-executor/server"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { FetchHttpClient, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import { createServer } from "node:http"
import { ApprovalTable } from "../../../src/core/store/ApprovalTable.ts"
import * as WebPush from "../../../src/server/notify/WebPush.ts"
import * as SqlPushDevices from "../../../src/sql/SqlPushDevices.ts"
import * as Postgres from "../../support/Postgres.ts"
import * as Push from "../../support/pushService.ts"
import { type Runner, world } from "../../support/SharedApprovals.ts"
import { second, until } from "../../support/silentProxy.ts"
import * as Tls from "../../support/tls.ts"

const home = "bob/home"

/** A receiver; gives its address and the ids that it got. */
const receiver = Effect.gen(function*() {
  const got: Array<string> = []
  const services = yield* Layer.build(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 }))
  const server = Context.get(services, HttpServer.HttpServer)
  yield* Effect.provide(
    HttpServer.serveEffect(Effect.gen(function*() {
      const { headers } = yield* HttpServerRequest.HttpServerRequest
      got.push(headers["webhook-id"]!)
      return HttpServerResponse.empty({ status: 204 })
    })),
    services
  )
  return { got, url: `http://127.0.0.1:${"port" in server.address ? server.address.port : 0}/hook` }
})

/** The webhook of a process, until its scope is closed. */
const webhookOf = Effect.fnUntraced(function*({ services }: Runner, url: string, delay: number) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const secret = Redacted.make(`whsec_${Buffer.alloc(32, 1).toString("base64")}`)
  const table = Layer.succeed(ApprovalTable, Context.get(services, ApprovalTable))
  const approvals = Layer.succeed(Approvals.Approvals, Context.get(services, Approvals.Approvals))
  yield* Layer.buildWithScope(
    Webhook.layer({ url, secret, publicUrl: "https://tools.example.com", delay }).pipe(
      Layer.provide([table, approvals, FetchHttpClient.layer])
    ),
    scope
  )
  return scope
})

/** Waits until it is on record that somebody was notified. */
const isTold = (sql: SqlClient.SqlClient) =>
  until(Effect.map(
    Effect.provide(
      sql`SELECT 1 FROM tool_executor_approvals WHERE tell_at IS NULL OR tell_at BETWEEN requested_at + 1 AND
        requested_at + 200000`,
      Postgres.realTime
    ),
    (rows) => rows.length > 0
  ))

const users = ["ada", "eve"].map((name) => ({
  name,
  approve: ["bob"],
  tokens: [{ hash: Tokens.hash(Redacted.make(name)) }]
}))

const keys = Effect.runSync(WebPush.makeKeys)

/** The notifications of devices of a process, until their scope is closed. */
const pushOf = Effect.fnUntraced(function*({ services }: Runner, sql: SqlClient.SqlClient) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const table = Layer.succeed(ApprovalTable, Context.get(services, ApprovalTable))
  const approvals = Layer.succeed(Approvals.Approvals, Context.get(services, Approvals.Approvals))
  const devices = SqlPushDevices.layer.pipe(
    Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)),
    Layer.provide(Postgres.realTime)
  )
  const push = WebPush.layer({
    subject: "mailto:ops@example.com",
    ...keys,
    publicUrl: "https://tools.example.com",
    allowPrivate: ["127.0.0.1"],
    authorities: Tls.cert
  }).pipe(Layer.provide([Access.layer({ users }), devices]))
  const built = yield* Layer.buildWithScope(
    WebPush.layerNotices({ delay: "5 seconds" }).pipe(
      Layer.provide([table, approvals]),
      Layer.provideMerge(push)
    ),
    scope
  )
  return { scope, push: Context.get(built, WebPush.WebPush) }
})

layer(Postgres.layer)("the webhook of several processes", (it) => {
  it.effect("notifies once of each request, also if the process that made it stops first", () =>
    Effect.gen(function*() {
      const { one, two } = yield* world()
      const { got, url } = yield* receiver
      const first = yield* webhookOf(one, url, 5_000)
      yield* webhookOf(two, url, 5_000)
      yield* one.registry.activate(home)
      const pending = (count: number) => until(Effect.map(two.pending.count, (it) => it === count))
      const asked = yield* one.ask()
      yield* pending(1)
      yield* Effect.repeat(second, { until: () => got.length > 0 })
      yield* Effect.repeat(second, { times: 25 })
      assert.deepStrictEqual(got, [asked.id])

      const left = yield* one.ask({ callId: "left" })
      yield* pending(2)
      yield* Scope.close(first, Exit.void)
      yield* Effect.repeat(second, { until: () => got.length > 1 })
      yield* Effect.repeat(second, { times: 25 })
      assert.deepStrictEqual(got, [asked.id, left.id])
    }).pipe(Effect.scoped))

  it.effect("reminds once, also while no process holds the session", () =>
    Effect.gen(function*() {
      const { one, two } = yield* world()
      const { got, url } = yield* receiver
      yield* webhookOf(one, url, 0)
      yield* webhookOf(two, url, 0)
      const epoch = yield* one.registry.activate(home)
      const asked = yield* one.ask({ approvers: [{ count: 2, remind: "1 minute" }] })
      yield* until(Effect.map(two.pending.count, (it) => it === 1))
      yield* Effect.repeat(second, { until: () => got.length === 2 })
      assert.deepStrictEqual(got, [asked.id, `${asked.id}.60000`])
      const { until: end } = yield* one.pending.suspendOf(home, "nothing else runs")
      yield* Effect.provide(one.registry.release(epoch, { _tag: "Waiting", until: end }), Postgres.realTime)
      yield* Effect.repeat(second, { until: () => got.length === 3 })
      assert.match(got[2]!, new RegExp(`^${asked.id}[.]120000$`))
    }).pipe(Effect.scoped), { tags: ["AP20"] })

  it.effect(
    "says once that a request is new, also if its call waits again where its session moved, and reminds",
    () =>
      Effect.gen(function*() {
        const { one, sql, two } = yield* world()
        const { got, url } = yield* receiver
        const first = yield* webhookOf(one, url, 0)
        const epoch = yield* one.registry.activate(home)
        const asked = yield* one.ask({ approvers: [{ count: 2, remind: "1 minute" }] })
        yield* Effect.repeat(second, { until: () => got.length === 1 })
        yield* isTold(sql)
        const { until: end } = yield* one.pending.suspendOf(home, "nothing else runs")
        yield* Effect.provide(one.registry.release(epoch, { _tag: "Waiting", until: end }), Postgres.realTime)
        yield* Scope.close(first, Exit.void)
        yield* TestClock.adjust("65 seconds")
        yield* webhookOf(two, url, 0)
        yield* two.registry.activate(home)
        yield* two.ask(asked.request)
        yield* Effect.repeat(second, { until: () => got.length > 1 })
        assert.deepStrictEqual(got, [asked.id, `${asked.id}.60000`])
      }).pipe(Effect.scoped),
    { tags: ["AP20"] }
  )

  it.effect(
    "says that others may approve, also if a reminder was due before anybody could say so",
    () =>
      Effect.gen(function*() {
        const { one, sql, two } = yield* world()
        const { got, url } = yield* receiver
        const first = yield* webhookOf(one, url, 0)
        const epoch = yield* one.registry.activate(home)
        const later = { after: "2 minutes", to: { people: ["eve"] } }
        const asked = yield* one.ask({ approvers: [{ people: ["ada"], remind: "50 seconds", escalate: later }] })
        yield* Effect.repeat(second, { until: () => got.length === 1 })
        yield* isTold(sql)
        const { until: end } = yield* one.pending.suspendOf(home, "nothing else runs")
        yield* Effect.provide(one.registry.release(epoch, { _tag: "Waiting", until: end }), Postgres.realTime)
        yield* Scope.close(first, Exit.void)
        yield* TestClock.adjust("170 seconds")
        yield* webhookOf(two, url, 0)
        yield* Effect.repeat(second, { until: () => got.length > 1 })
        assert.deepStrictEqual(got, [asked.id, `${asked.id}.120000`])
      }).pipe(Effect.scoped),
    { tags: ["AP20"] }
  )

  it.effect(
    "says again that a request waits that others have to approve since its session moved",
    () =>
      Effect.gen(function*() {
        const { one, sql, two } = yield* world()
        const { got, url } = yield* receiver
        yield* webhookOf(one, url, 0)
        yield* webhookOf(two, url, 0)
        const epoch = yield* one.registry.activate(home)
        const asked = yield* one.ask({ approvers: [{ people: ["ada"] }] })
        yield* Effect.repeat(second, { until: () => got.length === 1 })
        yield* isTold(sql)
        const { until: end } = yield* one.pending.suspendOf(home, "nothing else runs")
        yield* Effect.provide(one.registry.release(epoch, { _tag: "Waiting", until: end }), Postgres.realTime)
        yield* two.registry.activate(home)
        yield* two.ask({ ...asked.request, approvers: [{ people: ["eve"] }] })
        yield* Effect.repeat(second, { until: () => got.length > 1 })
        assert.deepStrictEqual(got, [asked.id, asked.id])
      }).pipe(Effect.scoped),
    { tags: ["AP20"] }
  )

  it.effect(
    "pushes to each device once, whichever process it subscribed at, also after that one has stopped",
    () =>
      Effect.gen(function*() {
        const { one, sql, two } = yield* world()
        const { got, url } = yield* Push.service(201)
        const [ada, eve] = [Push.browser(`${url}/ada`), Push.browser(`${url}/eve`)]
        const first = yield* pushOf(one, sql)
        const other = yield* pushOf(two, sql)
        yield* first.push.subscribe("ada", ada.subscription)
        yield* other.push.subscribe("eve", eve.subscription)
        yield* one.registry.activate(home)
        const messages = (count: number) =>
          Effect.gen(function*() {
            yield* Effect.repeat(second, { until: () => Queue.sizeUnsafe(got) >= count })
            yield* Effect.repeat(second, { times: 25 })
            const all = yield* Queue.takeAll(got)
            return all.map((it) => [
              it.path,
              ((it.path === "/ada" ? ada : eve).read(it) as { readonly id: string }).id
            ]).sort()
          })
        const asked = yield* one.ask()
        assert.deepStrictEqual(yield* messages(2), [["/ada", asked.id], ["/eve", asked.id]])
        // the process that has ada's device and the session stops: the other one notifies for it
        const left = yield* one.ask({ callId: "left" })
        yield* until(Effect.map(two.pending.count, (it) => it === 2))
        yield* Scope.close(first.scope, Exit.void)
        const reached = yield* messages(2)
        assert.deepStrictEqual(reached, [["/ada", left.id], ["/eve", left.id]])
        // a subscription that ends at one is over at all
        yield* other.push.unsubscribe("ada", ada.subscription.endpoint)
        const last = yield* two.registry.activate("bob/other")
        assert.isDefined(last)
        const third = yield* two.ask({ callId: "third", principal: "bob/other" })
        assert.deepStrictEqual(yield* messages(1), [["/eve", third.id]])
      }).pipe(Effect.scoped),
    { tags: ["CL9"] }
  )
})
