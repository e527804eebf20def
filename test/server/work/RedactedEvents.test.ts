import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RedactedEvents } from "../../../src/server/work/RedactedEvents.ts"
import * as Server from "../../support/Server.ts"

const token = `ghp_${"a1B2".repeat(9)}`
const key = "AKIAIOSFODNN7EXAMPLE"

const message = (calls: ReadonlyArray<readonly [id: string, name: string, args: object]>) => ({
  role: "assistant",
  content: null,
  tool_calls: calls.map(([id, name, args]) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) }
  }))
})

describe("what others are shown of a wave", () => {
  it.live("has no recognised secret, live and later; its caller has the results whole", () =>
    Effect.gen(function*() {
      const server = yield* Server.start()
      const live = yield* server.sse("bob", "/api/live")
      const body = {
        wave: "w",
        message: message([["1", "look", { key: `${token} and ${key}` }], ["2", "look", { key: "plain" }]])
      }
      const own = yield* server.sse("ada", "/api/sessions/s/waves", { body })
      const events = yield* own.rest
      assert.include(JSON.stringify(events.at(-1)), token)
      const seen = JSON.stringify(yield* live.until((it) => JSON.stringify(it).includes("ToolsEnd")))
      const later = (yield* server.request("bob", "GET", "/api/waves/ada/s/w")).text
      for (const text of [seen, later]) {
        assert.include(text, "seen plain")
        assert.include(text, "[redacted]")
        for (const secret of [token, key]) assert.notInclude(text, secret)
      }
    }).pipe(Effect.scoped), { tags: ["SV13"] })
})

describe("a grant", () => {
  it.live("is listed without the secrets in what it is about", () =>
    Effect.gen(function*() {
      const server = yield* Server.start()
      const call = ["1", "save", { path: `notes/${token}`, text: "new" }] as const
      const own = yield* server.sse("ada", "/api/sessions/s/waves", { body: { wave: "w", message: message([call]) } })
      yield* own.until(({ event }) => event === "tool_approval_request")
      const [approval] = (yield* server.request("bob", "GET", "/api/approvals")).json.open
      yield* server.request("bob", "POST", `/api/approvals/${approval.id}/answer`, {
        body: { hash: approval.hash, answer: { _tag: "ApproveForScope", scope: "resources" } }
      })
      yield* own.rest
      const { json, text } = yield* server.request("bob", "GET", "/api/grants")
      assert.deepStrictEqual(json[0].targets, ["notes/[redacted]"])
      assert.notInclude(text, token)
    }).pipe(Effect.scoped))
})

describe("redacted events", () => {
  const about = { agentPath: [], batch: "b", process: "p", wave: 1, at: 0, callId: "1", tool: "login", index: 0 }

  it("redact what a secret's name stands before, and what repeats it in the same call", () => {
    const shared = new RedactedEvents()
    const queued = shared.of({
      _tag: "ToolCallQueued",
      ...about,
      sequence: 1,
      params: { user: "ada", password: "hunter2!", apiKey: "k-123456" }
    })
    assert.deepStrictEqual(queued, {
      _tag: "ToolCallQueued",
      ...about,
      sequence: 1,
      params: { user: "ada", password: "[redacted]", apiKey: "[redacted]" }
    })
    const status = shared.of({ _tag: "ToolStatus", ...about, sequence: 2, status: "ada uses hunter2!" })
    assert.deepInclude(status, { status: "ada uses [redacted]" })
    const other = { _tag: "ToolStatus", ...about, index: 1, sequence: 3, status: "ada uses hunter2!" } as const
    assert.strictEqual(shared.of(other), other)
  })

  it("keep what tells events and calls apart, whatever a secret is", () => {
    const shared = new RedactedEvents()
    shared.of({ _tag: "ToolCallQueued", ...about, sequence: 1, params: { password: "Tool", secret: "login" } })
    assert.deepStrictEqual(
      shared.of({ _tag: "ToolStatus", ...about, sequence: 2, status: "login: Tool" }),
      { _tag: "ToolStatus", ...about, sequence: 2, status: "[redacted]: [redacted]" }
    )
  })
})
