/** The backend of `scripts/examples/server.ts`, on a port of its own. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Server, Tokens } from "effect-tool-executor/server"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { Executors, Handlers, records, Routes, users } from "../../scripts/examples/server.ts"

interface Json {
  readonly [key: string]: unknown
}

const request = (token: Redacted.Redacted<string>, path: `/${string}`, body?: unknown) =>
  HttpClient.execute(
    HttpClientRequest.make(body === undefined ? "GET" : "POST")(path).pipe(
      HttpClientRequest.bearerToken(token),
      body === undefined ? (it) => it : HttpClientRequest.bodyJsonUnsafe(body)
    )
  ).pipe(Effect.flatMap((it) => it.json), Effect.map((it) => it as Json))

const message = (name: string, args: unknown) => ({
  message: {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name, arguments: JSON.stringify(args) } }]
  }
})

describe("the server in a backend", () => {
  it.live("runs what may run, has somebody else say yes to the rest, and leaves the backend's routes alone", () =>
    Effect.gen(function*() {
      const [ada, bob] = [yield* Tokens.make, yield* Tokens.make]
      const options = { disableLogger: true, disableListenLog: true }
      const backend = Server.serve(Routes, NodeHttpServer.layerTest, options).pipe(
        Layer.provide(Executors),
        Layer.provide(users(ada, bob)),
        Layer.provide([Handlers, records(":memory:"), NodeHttpServer.layerHttpServices])
      )
      yield* Effect.provide(
        Effect.gen(function*() {
          const hello = yield* Effect.flatMap(HttpClient.get("/hello"), (it) => it.text)
          assert.strictEqual(hello, "This is the backend itself.")
          const found = yield* request(ada, "/api/sessions/s/waves", message("find_order", { number: "7" }))
          assert.include(JSON.stringify(found["messages"]), "order 7: shipped")

          const refunded = yield* Effect.forkChild(
            request(ada, "/api/sessions/s/waves", message("refund", { number: "7", cents: 100 })),
            { startImmediately: true }
          )
          const { open } = yield* Effect.repeat(request(bob, "/api/approvals"), {
            until: (it) => (it["open"] as ReadonlyArray<Json>).length === 1
          })
          const [question] = open as ReadonlyArray<Json>
          assert.strictEqual(question!["user"], "ada")
          const answer = { hash: question!["hash"], answer: { _tag: "ApproveOnce" } }
          yield* request(bob, `/api/approvals/${String(question!["id"])}/answer`, answer)
          const wave = yield* Fiber.join(refunded)
          assert.include(JSON.stringify(wave["messages"]), "100 cents were paid back for 7")
        }),
        backend
      )
    }))
})
