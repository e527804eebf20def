import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Server from "../support/Server.ts"

const cluster = { linger: "50 millis", within: "1 second" } as const

const message = (name: string, args: object) => ({
  message: {
    role: "assistant",
    tool_calls: [{ id: `call-${name}`, type: "function", function: { name, arguments: JSON.stringify(args) } }]
  }
})

describe("the only runner of a cluster", () => {
  it.live("runs waves, streams them and gives their results", () =>
    Effect.gen(function*() {
      const { held, request, sse } = yield* Server.start({ cluster })
      const events = yield* sse("ada", "/api/sessions/one/waves", {
        body: { ...message("hold", { key: "k" }), wave: "first" }
      })
      yield* held.runs("k")
      const waiting = yield* Effect.forkChild(request("ada", "POST", "/api/sessions/one/waves", {
        body: { ...message("hold", { key: "k" }), wave: "first" }
      }))
      const status = yield* request("ops", "GET", "/api/status")
      assert.include(status.json.runner, { isHeld: true, sessions: 1, lost: 0 })
      yield* held.release("k")
      assert.strictEqual((yield* events.rest).at(-1)?.event, "tools_end")
      assert.strictEqual((yield* Fiber.join(waiting)).json.status, "ended")
      const metrics = yield* request("ops", "GET", "/metrics")
      assert.match(metrics.text, /tool_executor_server_runner_held 1/)
    }).pipe(Effect.scoped), { tags: ["CL1", "CL2"] })
})
