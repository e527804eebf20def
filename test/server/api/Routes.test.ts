/** Every endpoint of the document, asked by everybody: nobody gets more than is theirs. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Redacted from "effect/Redacted"
import { Api } from "../../../src/server/api/Api.ts"
import * as Tokens from "../../../src/server/users/Tokens.ts"
import { unauthorized } from "../../support/Doors.ts"
import { start, tokens, type UserName, users } from "../../support/Server.ts"

interface Operation {
  readonly method: string
  readonly path: string
}

const operations: ReadonlyArray<Operation> = Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path }))
)

/** What there is of ada: the others have no such session. */
const filled = (path: string): string =>
  path.replace("{session}", "work").replace("{wave}", "one").replace("{turn}", "t").replace("{index}", "0")
    .replace("{side}", "before").replace("{id}", "q").replace("{checkpoint}", "c")
    .replace("{operation}", "o").replace("{chat}", "chat").replace("{user}", "ada")

/** Endpoints that say nothing of anybody. */
const open = ["/health", "/ready", "/api/login", "/api/logout"]

/** The right that an endpoint needs, as far as it needs one; the rest are everybody's own. */
const needs: Readonly<Record<string, (rights: Rights) => boolean>> = {
  "/metrics": (it) => it.operate === true,
  "/api/approvals": (it) => (it.approve?.length ?? 0) > 0,
  "/api/approvals/{id}": (it) => (it.approve?.length ?? 0) > 0,
  "/api/approvals/{id}/files/{index}/{side}": (it) => (it.approve?.length ?? 0) > 0,
  "/api/approvals/{id}/answer": (it) => (it.approve?.length ?? 0) > 0,
  "/api/approvals/answers": (it) => (it.approve?.length ?? 0) > 0,
  "/api/journal": (it) => it.run === true || (it.records?.length ?? 0) > 0
}

interface Rights {
  readonly run?: boolean
  readonly operate?: boolean
  readonly approve?: ReadonlyArray<string>
  readonly records?: ReadonlyArray<string>
}

const bodies: Readonly<Record<string, unknown>> = {
  "/api/login": { token: "wrong" },
  "/api/sessions/{session}/waves": { message: { none: true }, wave: "one" },
  "/api/sessions/{session}/operations": { agent: "helper", prompt: "look" },
  "/api/sessions/{session}/operations/{operation}/messages": { text: "and this" },
  "/api/sessions/{session}/chat": { messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "look" }] }] },
  "/api/sessions/{session}/ag-ui": { threadId: "work", runId: "r", messages: [] },
  "/api/approvals/{id}/answer": { hash: "h", answer: { _tag: "Deny" } },
  "/api/approvals/answers": { answers: [{ id: "q", hash: "h", answer: { _tag: "Deny" } }] }
}

const everybody = [
  ...Object.entries(users).map(([name, rights]) => ({
    name,
    ...rights,
    tokens: [{ hash: Tokens.hash(Redacted.make(tokens[name as UserName])) }]
  })),
  { name: "late", run: true, tokens: [{ hash: Tokens.hash(Redacted.make("expired")), expiresAt: 1 }] }
]

const streams = [
  "/api/live",
  "/api/conversations/{user}/{session}/events",
  "/api/sessions/{session}/operations/{operation}/events",
  "/api/sessions/{session}/waves/{wave}/events"
]

describe("every endpoint of the API", () => {
  it("is in the document, those that are open to all among them", () => {
    assert.isAbove(operations.length, 25)
    for (const path of open) assert.isTrue(operations.some((it) => it.path === path), path)
  })

  it.live("lets nobody in without a valid token, and all are told the same", () =>
    Effect.gen(function*() {
      const server = yield* start({ users: everybody })
      const wrong = [{}, { authorization: "Bearer wrong" }, { authorization: "Bearer expired" }, {
        cookie: "tool_executor_session=wrong"
      }, { authorization: `Bearer ${tokens.ada}`, cookie: "tool_executor_session=wrong" }]
      for (const { method, path } of operations) {
        if (open.includes(path)) continue
        for (const headers of wrong) {
          const body = method === "GET" || method === "DELETE" ? undefined : bodies[path] ?? {}
          const answer = yield* server.request(undefined, method, filled(path), {
            headers: { origin: server.url, ...headers },
            ...(body === undefined ? {} : { body })
          })
          assert.deepStrictEqual(
            [answer.status, answer.headers.get("content-type"), answer.text],
            [401, "application/problem+json", unauthorized],
            `${method} ${path} ${JSON.stringify(headers)}`
          )
        }
      }
    }).pipe(Effect.scoped))

  it.live("gives each user what is theirs, and of others as little as of nobody's", () =>
    Effect.gen(function*() {
      const server = yield* start({ users: everybody })
      const message = {
        role: "assistant",
        tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{\"key\":\"hunter2\"}" } }]
      }
      const made = yield* server.request("ada", "POST", "/api/sessions/work/waves", { body: { message, wave: "one" } })
      assert.strictEqual(made.status, 200)
      for (const { method, path } of operations) {
        if (open.includes(path) || streams.includes(path)) continue
        for (const name of ["bob", "eve", "ops"] as const) {
          const rights: Rights = users[name]
          const body = method === "GET" || method === "DELETE" ? undefined : bodies[path] ?? {}
          const answer = yield* server.request(name, method, filled(path), body === undefined ? {} : { body })
          const said = `${name} ${method} ${path}: ${answer.status} ${answer.text}`
          assert.isBelow(answer.status, 500, said)
          const isOfSessions = path.startsWith("/api/sessions")
          if (isOfSessions && rights.run !== true) assert.strictEqual(answer.status, 403, said)
          else if (needs[path]?.(rights) === false) assert.strictEqual(answer.status, 403, said)
          // bob answers for ada, ops reads everybody: nobody else hears of her, and nobody through a session
          if (name === "eve" || isOfSessions) assert.notMatch(answer.text, /hunter2|"ada"/, said)
        }
      }
    }).pipe(Effect.scoped))
})
