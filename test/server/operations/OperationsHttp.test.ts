/** Operations of agents over real HTTP: who may do and see what, streams, and the typed client. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start, type TestServer, type UserName } from "../../support/Server.ts"

const path = "/api/sessions/s/operations"

const call = (name: string, params: unknown) => ({ text: `I call ${name}.`, calls: [{ name, params }] })

const save = call("save", { path: "a", text: "api_key=hunter2-hunter2" })

const begin = (server: TestServer, body: object = {}, user: UserName = "ada") =>
  server.request(user, "POST", path, { body: { agent: "helper", prompt: "go", id: "x", ...body } })

const approve = Effect.fnUntraced(function*(server: TestServer) {
  const { json: { open: [{ hash, id }] } } = yield* server.request("bob", "GET", "/api/approvals")
  return yield* server.request("bob", "POST", `/api/approvals/${id}/answer`, {
    body: { hash, answer: { _tag: "ApproveOnce" } }
  })
})

describe("operations over HTTP", () => {
  it.live("answer at once with the operation, and are followed, steered and read", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [call("hold", { key: "k" }), { text: "done" }] })
      const { json: agents } = yield* server.request("ada", "GET", "/api/agents")
      assert.deepEqual(agents, [{
        name: "helper",
        model: "scripted:scripted",
        tools: ["save", "look", "hold", "change", "break"],
        subAgents: [],
        onBusy: "queue",
        limits: { turns: 100 }
      }])
      assert.deepInclude((yield* begin(server)).json, { id: "x", agent: "helper", prompt: "go" })
      yield* server.held.runs("k")
      const said = yield* server.request("ada", "POST", `${path}/x/messages`, { body: { text: "and more" } })
      assert.deepEqual(said.json, { id: "x-said-1" })
      const events = yield* server.sse("ada", `${path}/x/events`)
      yield* server.held.release("k")
      const all = yield* events.rest
      assert.equal(all.at(-1)?.event, "operation_end")
      assert.isTrue(all.some(({ data, event }) => event === "message_taken" && data.text === "and more"))
      const ids = all.map(({ id }) => id)
      assert.equal(new Set(ids).size, ids.length)
      // from the middle: what comes after, and nothing else
      const middle = all[3]!
      const rest = yield* (yield* server.sse("ada", `${path}/x/events`, { lastEventId: middle.id })).rest
      assert.deepEqual(rest.map(({ id }) => id), ids.slice(4))
      const { json: operation } = yield* server.request("ada", "GET", `${path}/x`)
      assert.deepInclude(operation, { state: "ended", turn: 2 })
      assert.deepEqual((yield* server.request("ada", "GET", path)).json, [operation])
      const { json: { messages } } = yield* server.request("ada", "GET", "/api/sessions/s/history")
      assert.deepEqual(messages.map((it: { role: string }) => it.role), [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant"
      ])
      assert.deepInclude(messages[0], { operation: "x", text: "go" })
    }))

  it.live("stream to the client that starts one", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [{ text: "one" }, { text: "two" }] })
      const events = yield* server.sse("ada", path, { body: { agent: "helper", prompt: "go" } })
      const all = yield* events.rest
      assert.deepInclude(all.at(-1)?.data, { _tag: "OperationEnd", text: "one" })
    }))

  it.live("are cancelled with the session, and alone", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [call("hold", { key: "a" }), call("hold", { key: "b" })] })
      yield* begin(server)
      yield* server.held.runs("a")
      assert.equal(
        (yield* server.request("ada", "POST", `${path}/x/cancel`, { body: { reason: "enough" } })).status,
        204
      )
      const end = (yield* (yield* server.sse("ada", `${path}/x/events`)).rest).at(-1)
      assert.deepEqual(end?.data.reason, { _tag: "Cancelled", reason: "enough" })
      const late = yield* server.request("ada", "POST", `${path}/x/messages`, { body: { text: "more" } })
      assert.deepInclude(late.json, { type: "urn:tool-executor:problem:operation-ended" })
      yield* begin(server, { id: "y" })
      yield* server.held.runs("b")
      assert.equal((yield* server.request("ada", "DELETE", "/api/sessions/s")).status, 204)
      assert.deepInclude((yield* server.request("ada", "GET", `${path}/y`)).json, { state: "ended" })
    }))

  it.live("of another user do not exist, whatever is done with them", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [call("hold", { key: "k" })] })
      yield* begin(server)
      yield* server.held.runs("k")
      for (
        const [method, at, body] of [
          ["GET", `${path}/x`],
          ["GET", `${path}/x/events`],
          ["POST", `${path}/x/messages`, { text: "more" }],
          ["POST", `${path}/x/cancel`, {}],
          ["GET", "/api/conversations/bob/s"],
          ["GET", "/api/conversations/bob/s/events"]
        ] as const
      ) {
        const { status } = yield* server.request("bob", method, at, body === undefined ? {} : { body })
        assert.equal(status, 404, at)
      }
      assert.deepEqual((yield* server.request("bob", "GET", path)).json, [])
      assert.deepEqual((yield* server.request("bob", "GET", "/api/sessions/s/history")).json, { messages: [] })
      // of the same name, and another one
      const own = yield* begin(server, {}, "bob")
      assert.deepInclude(own.json, { id: "x" })
      assert.deepInclude((yield* server.request("ada", "GET", `${path}/x`)).json, { state: "running" })
      for (const name of ["agents", "sessions/s/operations", "sessions/s/history"]) {
        assert.equal((yield* server.request("eve", "GET", `/api/${name}`)).status, 403)
        assert.equal((yield* server.request(undefined, "GET", `/api/${name}`)).status, 401)
      }
      assert.deepEqual((yield* server.request("eve", "GET", "/api/conversations")).json, [])
      assert.equal((yield* server.request("eve", "GET", "/api/conversations/ada/s")).status, 404)
      yield* server.held.release("k")
    }))

  it.live("are conversations for approvers, without secrets and fragments, and with the owner whole", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [save, { text: "saved with api_key=hunter2-hunter2" }] })
      yield* begin(server, { prompt: "use api_key=hunter2-hunter2" })
      const events = yield* server.sse("ada", "/api/conversations/ada/s/events")
      const shared = yield* server.sse("bob", "/api/conversations/ada/s/events")
      yield* shared.until(({ event }) => event === "request_tool_approvals")
      const { json: [listed] } = yield* server.request("bob", "GET", "/api/conversations")
      assert.deepInclude(listed, { user: "ada", session: "s", state: "waiting", pending: 1, operation: "x" })
      assert.equal((yield* approve(server)).status, 200)
      const whole = yield* events.until(({ event }) => event === "operation_end")
      const seen = yield* shared.until(({ event }) => event === "operation_end")
      assert.include(JSON.stringify(whole), "assistant_message_part")
      assert.include(JSON.stringify(whole.at(-1)), "hunter2-hunter2")
      const { text } = yield* server.request("bob", "GET", "/api/conversations/ada/s")
      assert.include(text, "saved with")
      for (const it of [text, JSON.stringify(seen), JSON.stringify(listed)]) assert.notInclude(it, "hunter2")
      assert.isFalse(seen.some(({ data }) => data.part?.type === "text-delta"))
    }))

  it.live("say what is wrong with a message", () =>
    Effect.gen(function*() {
      const server = yield* start({ script: [] })
      for (
        const [body, words] of [
          [{ agent: "nobody", prompt: "go" }, "one of helper"],
          [{ agent: "helper", prompt: "" }, "prompt"],
          [{ agent: "helper", prompt: "go", id: "no name" }, "id"],
          [{ agent: "helper", prompt: "go", onBusy: "wait" }, "onBusy"]
        ] as const
      ) {
        const { status, text } = yield* server.request("ada", "POST", path, { body })
        assert.equal(status, 400, text)
        assert.include(text, words)
      }
      assert.equal((yield* server.request("ada", "GET", `${path}/x`)).status, 404)
    }))
})
