/** Requests that nobody in their right mind sends. `scripts/hostile.ts` sends ten thousand. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Hostile from "../../support/hostile.ts"
import { only, secretDefect, start, tokens } from "../../support/Server.ts"

describe("hostile requests", () => {
  it.live("get no word of the inside, and the server is as well as before", () =>
    Effect.gen(function*() {
      // bob may run calls, and see nothing of anybody else
      const server = yield* start({ users: only({ ada: { run: true }, bob: { run: true }, eve: {} }) })
      const port = Number(new URL(server.url).port)
      yield* server.request("ada", "POST", "/api/sessions/hidden-of-ada/waves", {
        body: {
          message: {
            role: "assistant",
            tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{\"key\":\"k\"}" } }]
          }
        }
      })
      const choices = Hostile.choices(42)
      const secrets = [secretDefect, tokens.ada, tokens.ops, "hidden-of-ada"]
      const requests = Array.from({ length: 300 }, () => Hostile.request(choices))
      const found = yield* Effect.forEach(requests, (bytes) =>
        Effect.map(
          Effect.promise(() => Hostile.send(port, bytes, 500)),
          (answer) => {
            const problem = Hostile.wrong(answer, secrets)
            return problem === undefined ? [] : [`${problem}\n${bytes.slice(0, 400)}\n---\n${answer.slice(0, 600)}`]
          }
        ), { concurrency: 30 })
      assert.deepStrictEqual(found.flat(), [])
      assert.strictEqual((yield* server.request("ada", "GET", "/api/me")).status, 200)
    }).pipe(Effect.scoped))
})
