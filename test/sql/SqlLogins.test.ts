/** Logins that several servers share over one PostgreSQL. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { type Login, LoginTable, makeMemory } from "../../src/core/store/LoginTable.ts"
import * as SqlLogins from "../../src/sql/SqlLogins.ts"
import * as Doors from "../support/Doors.ts"
import * as Postgres from "../support/Postgres.ts"

const login = (key: string, user: string, expiresAt: number): Login => ({ key, user, sealed: `v1:${key}`, expiresAt })

layer(Postgres.layer)("logins in PostgreSQL", (it) => {
  const test = (
    name: string,
    body: (client: Context.Context<SqlClient.SqlClient>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(name, () =>
      Effect.scoped(Effect.gen(function*() {
        const url = yield* (yield* Postgres.Postgres).database
        yield* body(yield* Layer.build(Postgres.clientOf(url)))
      })).pipe(Effect.provide(Postgres.realTime)), options)

  const tableIn = (client: Context.Context<SqlClient.SqlClient>) =>
    Effect.map(
      Layer.build(Layer.provide(Layer.fresh(SqlLogins.layer), Layer.succeedContext(client))),
      (it) => Context.get(it, LoginTable)
    )

  test("end like those in memory: the oldest of a user, and expired ones", (client) =>
    Effect.gen(function*() {
      for (const table of [makeMemory(), yield* tableIn(client)]) {
        const keys = Effect.map(
          Effect.forEach(["a", "b", "c", "d", "e", "f"], (key) => table.get(key)),
          (all) => all.flatMap((it) => it === undefined ? [] : [it.key])
        )
        yield* table.add(login("a", "ada", 100), { now: 1, perUser: 2 })
        yield* table.add(login("b", "bob", 10), { now: 1, perUser: 2 })
        yield* table.add(login("c", "ada", 100), { now: 2, perUser: 2 })
        assert.deepStrictEqual(yield* keys, ["a", "b", "c"])
        yield* table.add(login("d", "ada", 100), { now: 3, perUser: 2 })
        assert.deepStrictEqual(yield* keys, ["b", "c", "d"])
        yield* table.add(login("e", "ada", 100), { now: 10, perUser: 3 })
        assert.deepStrictEqual(yield* keys, ["c", "d", "e"])
        assert.deepStrictEqual(yield* table.get("c"), login("c", "ada", 100))
        yield* table.remove(["c", "x"])
        yield* table.remove([])
        assert.strictEqual(yield* table.count, 2)
        yield* table.add(login("f", "ada", 300), { now: 200, perUser: 1 })
        assert.deepStrictEqual(yield* keys, ["f"])
      }
    }))

  test("on one server hold on all of them, until they end on one", (client) =>
    Effect.gen(function*() {
      const server = Effect.map(
        Layer.build(Layer.fresh(Layer.provide(Doors.layer(), Layer.succeed(LoginTable, yield* tableIn(client))))),
        (services) => <A, E>(effect: Effect.Effect<A, E, Layer.Success<ReturnType<typeof Doors.layer>>>) =>
          Effect.provideContext(effect, services)
      )
      const [one, two] = [yield* server, yield* server]
      const body = JSON.stringify({ token: Doors.token("ada") })
      const answer = yield* one(Doors.send("/api/login", { method: "POST", body }))
      const cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? ""
      const me = (at: typeof one, cookie: string) =>
        at(
          Effect.map(
            Doors.send("/api/me", { headers: { cookie } }),
            ({ status, text }) => status === 200 ? text : status
          )
        )
      assert.strictEqual(yield* me(two, cookie), "{\"name\":\"ada\"}")
      assert.strictEqual(yield* me(two, `${cookie}x`), 401)
      // who reads the table can act for nobody
      const stored = JSON.stringify(
        yield* Context.get(client, SqlClient.SqlClient)`SELECT key, username, sealed FROM tool_executor_logins`
      )
      assert.include(stored, "\"username\":\"ada\"")
      for (const secret of [cookie.split("=")[1]!, Doors.token("ada")]) assert.notInclude(stored, secret)
      const origin = `http://127.0.0.1:${yield* two(Doors.port)}`
      const headers = { cookie, origin }
      assert.strictEqual((yield* two(Doors.send("/api/logout", { method: "POST", body: "{}", headers }))).status, 204)
      assert.strictEqual(yield* me(one, cookie), 401)
    }), { tags: ["SE11"] })
})
