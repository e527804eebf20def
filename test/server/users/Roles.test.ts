/** The roles of users, as the policy of their sessions knows them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { LocalExecutor, ToolExecutors, ToolHandlers } from "../../../src/index.ts"
import * as Server from "../../../src/server/api/Server.ts"
import * as Access from "../../../src/server/users/Access.ts"
import * as Tokens from "../../../src/server/users/Tokens.ts"
import { calls, tags, toolkit } from "../../support/Harness.ts"

const { handlers, kit } = toolkit({ deploy: { class: "SerialMut", handler: () => Effect.succeed("done") } })

const policy = {
  default: "allow",
  deny: [{ tool: "deploy", roles: ["guest"] }],
  askAlways: [{ tool: "deploy", roles: ["trainee"] }]
} as const

const serving = (access: Layer.Layer<Access.Access>) =>
  Server.layerExecutors({ approvals: { timeout: "1 second" } }).pipe(
    Layer.provide(LocalExecutor.layerGates({ policy })),
    Layer.provide(ToolHandlers.layer(kit)),
    Layer.provide(handlers),
    Layer.provide(access)
  )

/** What becomes of a call in a session of a user. */
const outcomeOf = Effect.fnUntraced(function*(user: string) {
  const executor = yield* (yield* ToolExecutors.ToolExecutors).get(`${user}/home`)
  const process = yield* executor.process()
  return tags(yield* process.executeWave(calls(["deploy", {}])))[0]
}, Effect.scoped)

const hashOf = (name: string) => Tokens.hash(Redacted.make(`the token of ${name}, which is long`))

describe("the roles of users", () => {
  it.live("are those that clauses of the policy hold for, in each session of the user", () =>
    Effect.gen(function*() {
      const user = (name: string, roles?: ReadonlyArray<string>) => ({
        name,
        run: true,
        roles,
        tokens: [{ hash: hashOf(name) }]
      })
      const access = Access.layer({
        users: [user("ada", ["lead"]), user("bob", ["guest"]), user("cy", ["trainee"]), user("dee")]
      })
      const outcomes = yield* Effect.forEach(["ada", "bob", "cy", "dee"], outcomeOf, { concurrency: "unbounded" }).pipe(
        Effect.provide(serving(Layer.orDie(access)))
      )
      assert.deepStrictEqual(outcomes, ["Succeeded", "PolicyDenied", "PermissionDenied", "Succeeded"])
    }))

  it.live("count as the stricter side where they are not known or cannot be looked up", () =>
    Effect.gen(function*() {
      const users = { userOf: () => Effect.succeedNone, mayRun: () => Effect.succeed(true) }
      const failing = { ...users, rolesOf: () => Effect.fail("the directory is gone") }
      for (const from of [users, failing]) {
        assert.strictEqual(
          yield* outcomeOf("ada").pipe(Effect.provide(serving(Access.layerFrom(from)))),
          "PolicyDenied"
        )
      }
    }))
})
