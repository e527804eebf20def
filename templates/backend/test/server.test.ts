/** Runs the whole backend over HTTP with a scripted model: no key, no network. */
import { NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { Server } from "effect-tool-executor/server"
import { ScriptedModel } from "effect-tool-executor/testing"
import { HttpClient, HttpClientRequest } from "effect/http"
import assert from "node:assert/strict"
import { test } from "node:test"
import { backend } from "../src/server.ts"

const ada = Redacted.make("ada-0123456789abcdef0123456789abcdef")
const bob = Redacted.make("bob-0123456789abcdef0123456789abcdef")

interface Approval {
  readonly id: string
  readonly hash: string
  readonly tool: string
}

const send = <A>(token: Redacted.Redacted<string>, path: `/api/${string}`, body?: unknown) =>
  HttpClient.execute(
    (body === undefined ? HttpClientRequest.get(path) : HttpClientRequest.post(path)).pipe(
      HttpClientRequest.bearerToken(token),
      body === undefined ? (request) => request : HttpClientRequest.bodyJsonUnsafe(body)
    )
  ).pipe(Effect.flatMap((response) => response.json), Effect.map((json) => json as A))

const script = [
  { calls: [{ id: "1", name: "find_order", params: { number: "17" } }] },
  { calls: [{ id: "2", name: "refund", params: { number: "17", cents: 4_900 } }] },
  { text: "Done.", expect: { results: [{ id: "2", isFailure: false, includes: "Paid 4900 cents" }] } }
]

/** Repeats a request until its answer is as expected. */
const until = <A, E, R>(request: Effect.Effect<A, E, R>, holds: (answer: A) => boolean) =>
  Effect.repeat(request, { until: holds, schedule: Schedule.spaced("20 millis") })

test("an order is paid back after another person approved", () =>
  Effect.gen(function*() {
    yield* send(ada, "/api/sessions/first/operations", { agent: "support", prompt: "Pay back order 17", id: "one" })
    const { open } = yield* until(
      send<{ readonly open: ReadonlyArray<Approval> }>(bob, "/api/approvals"),
      ({ open }) => open.length > 0
    )
    assert.deepEqual(open.map((it) => it.tool), ["refund"])
    const { hash, id } = open[0]!
    yield* send(bob, `/api/approvals/${id}/answer`, { hash, answer: { _tag: "ApproveOnce" } })
    const ended = yield* until(
      send<{ readonly state: string; readonly end?: { readonly text: string } }>(
        ada,
        "/api/sessions/first/operations/one"
      ),
      ({ state }) => state === "ended"
    )
    assert.equal(ended.end?.text, "Done.")
  }).pipe(
    Effect.provide(
      Server.serve(Server.layer(), NodeHttpServer.layerTest, { disableLogger: true, disableListenLog: true }).pipe(
        Layer.provide(backend({
          model: Layer.unwrap(Effect.map(ScriptedModel.make(script), (it) => it.layer)),
          filename: ":memory:",
          ada,
          bob
        })),
        Layer.provide(NodeHttpServer.layerHttpServices)
      )
    ),
    Effect.scoped,
    Effect.runPromise
  ))
