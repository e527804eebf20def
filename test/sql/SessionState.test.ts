/** The state store where several processes share sessions: who lost a session changes nothing of it. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import type * as StateStore from "../../src/core/store/StateStore.ts"
import type { Grant } from "../../src/core/vocabulary/Grant.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as Postgres from "../support/Postgres.ts"

const [ann, bob] = ["ann/s", "bob/s"]

const start = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const registry = yield* SqlSessionRegistry.make()
  const store = yield* Effect.provideService(SqlStateStore.make(), SessionRegistry, registry)
  return { registry, store, sql }
}, (effect, sql) => Effect.provideService(effect, SqlClient.SqlClient, sql))

type Process = Effect.Success<ReturnType<typeof start>>

const takeOver = (of: Process, by: Process, principal: string) =>
  Effect.andThen(
    of.sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${of.registry.runner.name}`,
    by.registry.activate(principal)
  )

/** A call that counts as one of `max`. */
const calls = (batch: string, max = 1): StateStore.Request => ({
  owner: "c",
  session: "executor",
  claims: [{ _tag: "Calls", batch, tool: "t", max }]
})

const isHeld = (it: StateStore.Reservation | StateStore.Refused | undefined): boolean =>
  it !== undefined && !("_tag" in it)

layer(Postgres.layer)("the state of shared sessions", (it) => {
  const processes = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const sql = Context.get(yield* Layer.build(Postgres.clientOf(url)), SqlClient.SqlClient)
    return { one: yield* start(sql), two: yield* start(sql) }
  })
  const test = (
    name: string,
    body: (it: Effect.Success<typeof processes>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(
      name,
      () => Effect.scoped(Effect.flatMap(processes, body)).pipe(Effect.provide(Postgres.realTime)),
      options
    )

  for (const isRemembered of [false, true]) {
    const which = isRemembered ? "one that is remembered" : "one that is loaded"
    test(
      `takes no claims for a session that was lost, and those of the same moment for others: ${which}`,
      ({ one, two }) =>
        Effect.gen(function*() {
          const mine = yield* one.registry.activate(ann)
          yield* one.registry.activate(bob)
          if (isRemembered) yield* one.store.reserve([calls("a", 9), calls("b", 9)], 0, bob)
          yield* takeOver(one, two, ann)
          const [lost, held] = yield* Effect.all(
            [one.store.reserve([calls("a", 9)], 0, ann), one.store.reserve([calls("b", 9)], 0, bob)]
              .map((it) => Effect.exit(it)),
            { concurrency: "unbounded" }
          )
          assert.include(String(lost), "does not hold the session")
          assert.isTrue(Exit.isSuccess(held!) && isHeld(held.value[0]))
          assert.isTrue(mine.isOver)
          // nothing was counted
          const [all] = yield* two.store.reserve([calls("a", isRemembered ? 2 : 1)], 0, ann)
          assert.isTrue(isHeld(all))
        }),
      { tags: ["SE1"] }
    )
  }

  test("takes no claims for a session that is not held here", ({ one, two }) =>
    Effect.gen(function*() {
      assert.isTrue(Exit.isFailure(yield* Effect.exit(one.store.reserve([calls("a")], 0, ann))))
      yield* two.registry.activate(ann)
      assert.isTrue(isHeld((yield* two.store.reserve([calls("a")], 0, ann))[0]))
    }))

  test("forgets no batch of a session that was lost", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(ann)
      const [reserved] = yield* one.store.reserve([calls("a")], 0, ann)
      const settlement = { started: true, key: "release", windowMillis: 0, value: undefined } as const
      yield* one.store.settle(reserved as StateStore.Reservation, settlement, 0)
      yield* takeOver(one, two, ann)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(one.store.closeBatch("a", ann))))
      assert.deepStrictEqual(yield* two.store.reserve([calls("a")], 0, ann), [{ _tag: "CallsUsedUp" }])
      // it has learnt that
      yield* one.store.closeBatch("a", ann)
      assert.deepStrictEqual(yield* two.store.reserve([calls("a")], 0, ann), [{ _tag: "CallsUsedUp" }])
      yield* two.store.closeBatch("a", ann)
      assert.isTrue(isHeld((yield* two.store.reserve([calls("a")], 0, ann))[0]))
    }), { tags: ["SE1"] })

  test("keeps no grant of a session that was lost", ({ one, two }) =>
    Effect.gen(function*() {
      const grant = (id: string): Grant => ({
        id,
        principal: ann,
        tool: "t",
        agentPath: [],
        answer: "ApproveForScope",
        grantedAt: 0
      })
      yield* one.registry.activate(ann)
      yield* one.store.grant(grant("before"))
      yield* takeOver(one, two, ann)
      yield* one.store.grant(grant("stale"))
      yield* two.store.grant(grant("after"))
      const ids = Effect.map(two.store.grants(ann, 1), (all) => all.map(({ id }) => id))
      assert.deepStrictEqual((yield* ids).toSorted(), ["after", "before"])
      assert.isTrue(yield* one.store.revoke(ann, "before"))
    }), { tags: ["SE1"] })
})
