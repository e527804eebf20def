/** The page's way in: a token for a cookie. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Access from "../../../src/server/users/Access.ts"
import { layer, type Options, port, send, token, unauthorized, user } from "../../support/Doors.ts"

const served = (options?: Options) => Effect.provide(layer(options))

const login = (given: string, headers: Record<string, string> = {}) =>
  send("/api/login", { method: "POST", body: JSON.stringify({ token: given }), headers })

const cookieOf = (answer: { readonly headers: Headers }) => answer.headers.get("set-cookie")?.split(";")[0] ?? ""

const me = (cookie: string, headers: Record<string, string> = {}) =>
  Effect.map(send("/api/me", { headers: { cookie, ...headers } }), ({ status, text }) => status === 200 ? text : status)

describe("a login", () => {
  it.live("gives a cookie that no script and no other site has, worth what its token is", () =>
    Effect.gen(function*() {
      const answer = yield* login(token("ada"))
      assert.strictEqual(answer.status, 200)
      assert.notInclude(answer.text, token("ada"))
      const [cookie = "", ...attributes] = answer.headers.get("set-cookie")!.split("; ")
      assert.match(cookie, /^tool_executor_session=texs_[A-Za-z0-9]{49}$/)
      assert.sameMembers(attributes.filter((it) => !it.startsWith("Max-Age")), [
        "HttpOnly",
        "SameSite=Strict",
        "Path=/"
      ])
      assert.strictEqual(yield* me(cookie), "{\"name\":\"ada\"}")
      // the cookie of another, or a wrong one beside, or a token of another: nobody
      assert.strictEqual(yield* me(`${cookie}x`), 401)
      assert.strictEqual(yield* me(`${cookie}; ${cookie}x`), 401)
      assert.strictEqual(yield* me(cookie, { authorization: "Bearer wrong" }), 401)
      assert.strictEqual(yield* me(cookie, { authorization: `Bearer ${token("bob")}` }), 401)
      assert.strictEqual(yield* me(cookie, { authorization: `Bearer ${token("ada")}` }), "{\"name\":\"ada\"}")
      assert.strictEqual((yield* send(`/api/me?${cookie}&token=${token("ada")}`)).status, 401)
      // what changes something has to come from a page of this server
      const own = `http://127.0.0.1:${yield* port}`
      const revoke = (headers: Record<string, string>) =>
        Effect.map(send("/api/grants/x", { method: "DELETE", headers: { cookie, ...headers } }), (it) => it.status)
      assert.strictEqual(yield* revoke({}), 403)
      assert.strictEqual(yield* revoke({ origin: "http://evil.example" }), 403)
      assert.strictEqual(yield* revoke({ origin: own }), 404)
      const out = yield* send("/api/logout", { method: "POST", body: "{}", headers: { cookie, origin: own } })
      assert.strictEqual(out.status, 204)
      assert.strictEqual(yield* me(cookie), 401)
    }).pipe(served()))

  it.live("over an encrypted way gives a cookie that is for that alone", () =>
    Effect.gen(function*() {
      const headers = { "x-forwarded-proto": "https", "x-forwarded-host": "tools.example.com" }
      const answer = yield* login(token("ada"), { ...headers, origin: "https://tools.example.com" })
      const set = answer.headers.get("set-cookie") ?? ""
      assert.match(set, /^__Host-tool_executor_session=/)
      assert.include(set, "; Secure")
      assert.notInclude(set, "Domain")
      assert.strictEqual(yield* me(cookieOf(answer), headers), "{\"name\":\"ada\"}")
      assert.strictEqual(yield* me(cookieOf(answer).replace("__Host-", ""), headers), 401)
    }).pipe(served({ trustProxy: true, hosts: ["tools.example.com"] })))

  it.live("of a proxy that nobody told of is not believed", () =>
    Effect.gen(function*() {
      const answer = yield* login(token("ada"), { "x-forwarded-proto": "https", "x-forwarded-host": "evil.example" })
      assert.match(answer.headers.get("set-cookie") ?? "", /^tool_executor_session=/)
      for (let time = 0; time < 3; time++) yield* login("wrong", { "x-forwarded-for": `10.0.0.${time}` })
      assert.strictEqual((yield* login("wrong", { "x-forwarded-for": "10.0.0.9" })).status, 429)
    }).pipe(served({ logins: { failuresPerAddress: 3 } })))

  it.live("that fails says only that, and too many of them wait; a right token is never refused", () =>
    Effect.gen(function*() {
      for (let time = 0; time < 5; time++) assert.strictEqual((yield* login(token("ada"))).status, 200)
      for (const given of ["wrong", "", token("old")]) {
        const answer = yield* login(given)
        assert.deepStrictEqual(
          [answer.status, answer.text, answer.headers.get("set-cookie")],
          [401, unauthorized, null]
        )
      }
      const answer = yield* login("wrong")
      assert.strictEqual(answer.status, 429)
      assert.isAbove(Number(answer.headers.get("retry-after")), 0)
      for (let time = 0; time < 5; time++) {
        assert.strictEqual((yield* login("wrong")).status, 429)
        assert.strictEqual((yield* login(token("ada"))).status, 200)
      }
      assert.strictEqual(
        (yield* send("/api/login", { method: "POST", body: JSON.stringify({ token: "x".repeat(5_000) }) })).status,
        413
      )
    }).pipe(served({
      logins: { failuresPerAddress: 3 },
      users: [user("ada"), { ...user("old"), tokens: [{ ...user("old").tokens[0]!, expiresAt: 1 }] }]
    })))

  it.live("ends when its token is taken away, and the oldest of a user when there are too many", () => {
    const users = new Map([[token("ada"), { name: "ada", run: true, approve: [], records: [], operate: false }]])
    const access = Layer.succeed(Access.Access, {
      userOf: (given) => Effect.sync(() => Option.fromUndefinedOr(users.get(Redacted.value(given)))),
      mayRun: () => Effect.succeed(true)
    })
    return Effect.gen(function*() {
      const cookies = yield* Effect.forEach([1, 2, 3], () => Effect.map(login(token("ada")), cookieOf))
      assert.deepStrictEqual(yield* Effect.forEach(cookies, (it) => me(it)), [
        401,
        "{\"name\":\"ada\"}",
        "{\"name\":\"ada\"}"
      ])
      const ada = users.get(token("ada"))!
      users.clear()
      assert.strictEqual(yield* me(cookies[2]!), 401)
      // it is over, and not only asleep
      users.set(token("ada"), ada)
      assert.strictEqual(yield* me(cookies[2]!), 401)
    }).pipe(served({ access, logins: { perUser: 2 } }))
  })
})
