/** A whole server, over real HTTP. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { secretDefect, start } from "../../support/Server.ts"

const call = (id: string, name: string, params: unknown) => ({ id, name, params })

describe("a server", () => {
  it.live("runs a message and answers with its results once they are there", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const { json, status } = yield* server.request("ada", "POST", "/api/sessions/s/waves", {
        body: { message: [call("1", "look", { key: "a" })], wave: "w" }
      })
      assert.equal(status, 200, JSON.stringify(json))
      assert.equal(json.status, "ended")
      assert.equal(json.wave, "w")
      assert.equal(json.end._tag, "ToolsEnd")
      assert.include(JSON.stringify(json.messages), "seen a")
    }))

  it.live("streams what happens to a message, and asks those who may answer", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const events = yield* server.sse("ada", "/api/sessions/s/waves", {
        body: { message: [call("1", "save", { path: "a", text: "new\n" })] }
      })
      assert.equal(events.headers.get("content-type"), "text/event-stream")
      assert.equal(events.headers.get("cache-control"), "no-store")
      yield* events.until(({ event }) => event === "tool_approval_request")
      assert.equal((yield* server.request("ada", "GET", "/api/approvals")).status, 403)
      const { json: { open: [approval] } } = yield* server.request("bob", "GET", "/api/approvals")
      assert.equal(approval.tool, "save")
      const answered = yield* server.request("bob", "POST", `/api/approvals/${approval.id}/answer`, {
        body: { hash: approval.hash, answer: { _tag: "ApproveOnce" } }
      })
      assert.deepInclude(answered.json, { how: "approved", by: "bob" })
      const rest = yield* events.rest
      assert.equal(rest.at(-1)?.event, "tools_end")
      assert.deepEqual(rest.at(-1)?.data.toolMessages[0].text, "saved a")
    }))

  it.live("refuses a call whose arguments are nested too deeply, and runs the others of its message", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const nested = `${"{\"a\":".repeat(20_000)}1${"}".repeat(20_000)}`
      const called = (id: string, text: string) => ({
        id,
        type: "function",
        function: { name: "look", arguments: text }
      })
      const { json, status } = yield* server.request("ada", "POST", "/api/sessions/s/waves", {
        body: {
          message: { role: "assistant", tool_calls: [called("1", nested), called("2", `{"key":"a"}`)] },
          wave: "w"
        }
      })
      assert.strictEqual(status, 200, JSON.stringify(json).slice(0, 500))
      const [refused, seen] = json.end.executionResults
      assert.strictEqual(refused.reason._tag, "InvalidParameters")
      assert.strictEqual(seen._tag, "Succeeded")
    }))

  it.live("says nothing of what broke inside of a tool", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const { json, text } = yield* server.request("ada", "POST", "/api/sessions/s/waves", {
        body: { message: [call("1", "break", { key: "a" })] }
      })
      assert.equal(json.end.executionResults[0]._tag, "Failed")
      assert.notInclude(text, secretDefect)
      const { text: journal } = yield* server.request("ops", "GET", "/api/journal")
      assert.include(journal, "Failed")
      assert.notInclude(journal, secretDefect)
    }))
})
