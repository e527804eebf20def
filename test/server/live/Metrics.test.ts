/** What a monitoring system reads of a whole server. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { start } from "../../support/Server.ts"

describe("the metrics", () => {
  it.live("count requests by route and what is open, and name nobody", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* server.sse("bob", "/api/live")
      for (const id of ["one", "two", "three"]) yield* server.request("ada", "GET", `/api/sessions/${id}/waves/${id}`)
      yield* server.request(undefined, "GET", "/api/me")
      yield* server.request(undefined, "PROPFIND", "/whatever/there/is")
      assert.strictEqual((yield* server.request("ada", "GET", "/metrics")).status, 403)
      const { headers, text } = yield* server.request("ops", "GET", "/metrics")
      assert.include(headers.get("content-type"), "text/plain; version=0.0.4")
      assert.include(text, "tool_executor_server_streams 1\n")
      assert.include(text, "{method=\"GET\",route=\"/api/sessions/:session/waves/:wave\",status=\"404\"} 3\n")
      assert.include(text, "{method=\"GET\",route=\"/api/me\",status=\"401\"} 1\n")
      assert.include(text, "{method=\"other\",route=\"other\",status=")
      assert.notMatch(text, /ada|bob|one|whatever/)
      const status = yield* server.request("ops", "GET", "/api/status")
      assert.deepInclude(status.json.counts, { streams: 1, operations: 0 })
      const limits = { operations: 2_000, operationsPerUser: 200, messages: 1_000, messageChars: 4_000_000 }
      assert.deepEqual(status.json.limits, limits)
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map())))
})
