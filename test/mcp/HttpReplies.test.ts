/** What becomes of an answer whose connection is lost, and of ids that are used twice, over HTTP. */
import { assert, describe, it } from "@effect/vitest"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { ToolContext } from "../../src/index.ts"
import { callOf, events, rest, serving, session } from "../support/gatewayHttp.ts"
import type { Handler } from "../support/Harness.ts"
import { makeClient } from "../support/mcpServer.ts"

const live = (name: string, program: Effect.Effect<void, unknown, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.live(name, () => Effect.scoped(program), options)

/** A handler that goes on when it is told to, and says how it ended. */
const held = () => {
  const begun = Deferred.makeUnsafe<void>()
  const go = Deferred.makeUnsafe<void>()
  const ended = Deferred.makeUnsafe<string>()
  const handler: Handler = () =>
    Effect.gen(function*() {
      yield* Deferred.succeed(begun, undefined)
      const { progress } = yield* ToolContext.ToolContext
      yield* progress({ progress: 1, total: 2 })
      yield* Deferred.await(go)
      return "done"
    }).pipe(Effect.onExit((exit) => Deferred.succeed(ended, exit._tag)))
  return { begun, go, ended, handler }
}

const promise = <A>(run: () => Promise<A>) => Effect.promise(run)

const idsOf = (found: ReadonlyArray<{ readonly data: string }>) =>
  found.filter(({ data }) => data !== "").map(({ data }) => (JSON.parse(data) as { readonly id?: unknown }).id)

describe("a connection that is lost", () => {
  live(
    "does not cancel the call, whose answer is read from where it was lost",
    Effect.gen(function*() {
      const { begun, ended, go, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const client = yield* promise(() => session(url))
      const lost = new AbortController()
      const response = yield* promise(() => client.post(callOf(7, "hold", {}, { progressToken: "p" }), lost.signal))
      const next = events(response)
      const first = (yield* promise(next))!
      assert.isDefined(first.id)
      yield* Deferred.await(begun)
      lost.abort()
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual(yield* Deferred.await(ended), "Success")
      const resumed = yield* promise(() => client.listen(first.id))
      assert.strictEqual(resumed.status, 200)
      const found = yield* promise(() => rest(events(resumed)))
      assert.deepStrictEqual(idsOf(found).filter((id) => id !== undefined), [7])
      assert.include(found.at(-1)!.data, "done")
      // what was read is not read again, and what was not is there as often as it is asked for
      assert.notInclude(found.map(({ id }) => id), first.id)
      const again = yield* promise(() => client.listen(found.at(-1)!.id))
      assert.deepStrictEqual(yield* promise(() => rest(events(again))), [])
    }),
    { tags: ["M1"] }
  )

  live(
    "is taken up by the official client by itself",
    Effect.gen(function*() {
      const { begun, go, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const lost = new AbortController()
      const client = makeClient()
      const transport = new StreamableHTTPClientTransport(new URL(url), {
        reconnectionOptions: {
          initialReconnectionDelay: 1,
          maxReconnectionDelay: 10,
          reconnectionDelayGrowFactor: 1,
          maxRetries: 5
        },
        fetch: async (url, init) => {
          const response = await fetch(url, init)
          if (init?.method !== "POST" || !String(init.body).includes("tools/call")) return response
          // a connection that breaks off, which the client did not want
          const cut = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
            start: (controller) => lost.signal.addEventListener("abort", () => controller.error(new Error("lost")))
          })
          return new Response(response.body!.pipeThrough(cut), response)
        }
      })
      yield* promise(() => client.connect(transport))
      const progress = Deferred.makeUnsafe<void>()
      const called = client.callTool({ name: "hold", arguments: {} }, {
        onprogress: () => void Deferred.doneUnsafe(progress, Effect.void)
      })
      yield* Deferred.await(begun)
      yield* Deferred.await(progress)
      lost.abort()
      yield* Deferred.succeed(go, undefined)
      assert.deepInclude(yield* promise(() => called), { content: [{ type: "text", text: "done" }] })
      yield* promise(() => client.close())
    })
  )

  live(
    "is primed at once for a call that says nothing of its progress",
    Effect.gen(function*() {
      const { go, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const client = yield* promise(() => session(url))
      const response = yield* promise(() => client.post(callOf(1, "hold")))
      const next = events(response)
      const first = (yield* promise(next))!
      assert.deepInclude(first, { data: "" })
      assert.isDefined(first.id)
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(idsOf(yield* promise(() => rest(next))), [1])
      // a client of before takes an event without data for a broken one
      const older = yield* promise(() => session(url, "2025-06-18"))
      const plain = yield* promise(() => older.post(callOf(1, "hold")))
      const found = yield* promise(() => plain.text())
      assert.notMatch(found, /^data: *$/m)
    })
  )

  live(
    "leaves the question to the person, whose answer counts on the connection that came after",
    Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { url } = yield* serving(
        { send: { class: "SerialMut", handler: () => Effect.succeed("sent") } },
        { approvals, policy: { default: "allow", ask: ["send"] } }
      )
      const client = yield* promise(() => session(url, "2025-11-25", { elicitation: {} }))
      const lost = new AbortController()
      const response = yield* promise(() => client.post(callOf(3, "send"), lost.signal))
      const next = events(response)
      let asked = (yield* promise(next))!
      const primed = asked.id
      while (!asked.data.includes("elicitation/create")) asked = (yield* promise(next))!
      lost.abort()
      const resumed = yield* promise(() => client.listen(primed))
      const following = events(resumed)
      const replayed = (yield* promise(following))!
      assert.strictEqual(replayed.data, asked.data)
      const { id } = JSON.parse(replayed.data) as { readonly id: unknown }
      yield* promise(() =>
        client.post({ jsonrpc: "2.0", id, result: { action: "accept", content: { decision: "approve once" } } })
      )
      assert.include((yield* promise(following))!.data, "sent")
    })
  )

  live(
    "gives nothing to another session, and nothing once its own is over",
    Effect.gen(function*() {
      const { begun, ended, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const [client, other] = yield* promise(() => Promise.all([session(url), session(url)]))
      const response = yield* promise(() => client.post(callOf(1, "hold")))
      const next = events(response)
      const first = (yield* promise(next))!
      yield* Deferred.await(begun)
      for (const id of [first.id!, "nothing", "1-", "-1", `${first.id}0`, "9-9"]) {
        assert.strictEqual((yield* promise(() => other.listen(id))).status, 400, id)
      }
      yield* promise(client.end)
      assert.strictEqual(yield* Deferred.await(ended), "Failure")
      assert.deepStrictEqual(idsOf(yield* promise(() => rest(next))), [])
      assert.strictEqual((yield* promise(() => client.listen(first.id))).status, 404)
    }),
    { tags: ["M1"] }
  )

  live(
    "is ended where another takes its place",
    Effect.gen(function*() {
      const { go, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const client = yield* promise(() => session(url))
      const next = events(yield* promise(() => client.post(callOf(1, "hold"))))
      const first = (yield* promise(next))!
      const second = yield* promise(() => client.listen(first.id))
      assert.deepStrictEqual(yield* promise(() => rest(next)), [])
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(idsOf(yield* promise(() => rest(events(second)))), [1])
    })
  )

  live(
    "does not keep a client from cancelling the call",
    Effect.gen(function*() {
      const { begun, ended, handler } = held()
      const { url } = yield* serving({ hold: { class: "SerialMut", handler } })
      const client = yield* promise(() => session(url))
      const lost = new AbortController()
      const response = yield* promise(() => client.post(callOf(1, "hold"), lost.signal))
      const first = (yield* promise(events(response)))!
      yield* Deferred.await(begun)
      lost.abort()
      yield* promise(() => client.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } }))
      assert.strictEqual(yield* Deferred.await(ended), "Failure")
      const resumed = yield* promise(() => client.listen(first.id))
      assert.deepStrictEqual(yield* promise(() => rest(events(resumed))), [])
    })
  )
})

describe("an id that is used twice while its request runs", () => {
  live(
    "is answered on each of its connections",
    Effect.gen(function*() {
      const { go, handler } = held()
      const { url } = yield* serving({
        hold: { class: "ConcurrentMut", handler },
        read: { class: "ConcurrentMut", handler: () => Effect.succeed("read") }
      })
      const client = yield* promise(() => session(url))
      const first = events(yield* promise(() => client.post(callOf(1, "hold"))))
      const second = events(yield* promise(() => client.post(callOf(1, "hold", { n: 2 }))))
      const neighbor = yield* promise(() => client.post(callOf(2, "read")))
      assert.include(yield* promise(() => neighbor.text()), "read")
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(idsOf(yield* promise(() => rest(first))), [1])
      assert.deepStrictEqual(idsOf(yield* promise(() => rest(second))), [1])
    }),
    { tags: ["M2"] }
  )

  live(
    "in one batch is refused with it, and nothing of it is run",
    Effect.gen(function*() {
      let runs = 0
      const { url } = yield* serving({
        count: { class: "SerialMut", handler: () => Effect.sync(() => ++runs) },
        read: () => Effect.succeed("read")
      })
      const client = yield* promise(() => session(url, "2025-03-26"))
      const fine = yield* promise(() => client.post([callOf(1, "read"), callOf("1", "read")]))
      assert.lengthOf((yield* promise(() => fine.text())).match(/"result":/g)!, 2)
      const twice = yield* promise(() => client.post([callOf(1, "count"), callOf(1, "count"), callOf(2, "read")]))
      assert.strictEqual(twice.status, 400)
      assert.deepInclude(yield* promise(() => twice.json() as Promise<object>), {
        error: { code: -32_600, message: "Two requests of a batch have the id 1." }
      })
      assert.strictEqual(runs, 0)
    })
  )
})

describe("what is announced", () => {
  live(
    "is there, and what is no JSON is told so",
    Effect.gen(function*() {
      const { url } = yield* serving({ read: () => Effect.succeed("read") })
      const client = yield* promise(() => session(url))
      const answer = (message: unknown) =>
        promise(async () => {
          const text = await (await client.post(message)).text()
          const data = text.split("\n").filter((it) => it.startsWith("data: {")).at(-1)?.slice(6) ?? text
          return JSON.parse(data) as { readonly error?: { readonly code: number } }
        })
      assert.strictEqual((yield* answer("{\"garbage")).error?.code, -32_700)
      const ref = { type: "ref/prompt", name: "none" }
      const argument = { name: "a", value: "" }
      const requests = [
        ["logging/setLevel", { level: "info" }],
        ["completion/complete", { ref, argument }],
        ["tools/list", {}],
        ["ping", {}]
      ] as const
      for (const [id, [method, params]] of requests.entries()) {
        // of arguments that there are not it says so
        assert.notStrictEqual((yield* answer({ jsonrpc: "2.0", id, method, params })).error?.code, -32_601, method)
      }
    })
  )
})
