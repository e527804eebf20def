/** What every request passes before anybody looks at it, over real connections. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { layer, type Options, port, send, sendRaw, unauthorized } from "../../support/Doors.ts"

const served = (options?: Options) => Effect.provide(layer(options))

const problem = (text: string): string => /"type":"urn:tool-executor:problem:([\w-]+)"/.exec(text)?.[1] ?? text

/** A request by hand, which is closed after its answer. */
const raw = (method: string, target: string, headers: ReadonlyArray<string> = [], body = "") =>
  sendRaw([`${method} ${target} HTTP/1.1`, ...headers, "Connection: close", "", body].join("\r\n"))

const statusOf = (text: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])

const asAda = "Authorization: Bearer token-of-ada"

describe("a request", () => {
  it.live("is answered only to its sender", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(JSON.parse((yield* send("/api/me", { as: "ada" })).text), { name: "ada" })
      for (
        const authorization of [
          "",
          "Bearer",
          "Bearer ",
          "Bearer x",
          "Basic token-of-ada",
          "token-of-ada",
          "Bearer  a b"
        ]
      ) {
        const answer = yield* send("/api/me", { headers: { authorization } })
        assert.deepStrictEqual([answer.status, answer.text], [401, unauthorized], authorization)
      }
      assert.strictEqual((yield* send("/api/me", { headers: { authorization: "bEARER token-of-bob" } })).status, 200)
    }).pipe(served()), { tags: ["SV17"] })

  it.live("to a name that is not the server's is refused, unless it only asks how the server is", () =>
    Effect.gen(function*() {
      const at = yield* port
      for (
        const host of ["localhost", `127.0.0.1:${at}`, "LOCALHOST:1", "[::1]:80", "tools.example.com", "other:8080"]
      ) {
        assert.strictEqual(statusOf(yield* raw("GET", "/api/me", [`Host: ${host}`, asAda])), 200, host)
      }
      for (
        const host of [
          "evil.example",
          "localhost.evil.example",
          "127.0.0.1.evil.example",
          "other:8081",
          "",
          "a b",
          "localhost:x"
        ]
      ) {
        const text = yield* raw("GET", "/api/me", [`Host: ${host}`, asAda])
        assert.strictEqual(statusOf(text), 421, host)
        assert.notInclude(text, "ada")
      }
      // the target says which, whatever the header says
      const target = "http://evil.example/api/me"
      assert.strictEqual(statusOf(yield* raw("GET", target, ["Host: localhost", asAda])), 421)
      assert.strictEqual(statusOf(yield* raw("GET", "/ready", ["Host: 10.0.0.7:8080"])), 404)
    }).pipe(served({ hosts: ["other:8080"], publicUrl: "https://tools.example.com" })))

  it.live("of another site's page changes nothing and reads nothing", () =>
    Effect.gen(function*() {
      const own = `http://127.0.0.1:${yield* port}`
      const from = (headers: Record<string, string>, method = "DELETE") =>
        Effect.map(send("/api/grants/x", { as: "ada", method, headers }), ({ status }) => status)
      assert.strictEqual(yield* from({}), 404)
      assert.strictEqual(yield* from({ origin: own }), 404)
      assert.strictEqual(yield* from({ origin: own, "sec-fetch-site": "same-origin" }), 404)
      for (
        const origin of [
          "null",
          "http://evil.example",
          own.replace("http:", "https:"),
          `${own}0`,
          "http://localhost",
          `${own}, ${own}`
        ]
      ) {
        assert.strictEqual(yield* from({ origin }), 403, origin)
        assert.strictEqual((yield* send("/api/me", { as: "ada", headers: { origin } })).status, 403, origin)
      }
      for (const site of ["cross-site", "same-site"]) {
        assert.strictEqual(yield* from({ "sec-fetch-site": site }), 403)
        assert.strictEqual((yield* send("/api/me", { as: "ada", headers: { "sec-fetch-site": site } })).status, 403)
        // a link to the page may stand anywhere: no page is here, and nobody is refused one
        assert.strictEqual((yield* send("/", { headers: { "sec-fetch-site": site } })).status, 404)
      }
      // nothing is given to other origins
      const asked = yield* send("/api/me", {
        method: "OPTIONS",
        headers: { origin: own, "access-control-request-method": "GET" }
      })
      assert.strictEqual(asked.status, 405)
      assert.isFalse(Array.from(asked.headers.keys()).some((it) => it.startsWith("access-control")))
    }).pipe(served()), { tags: ["SV18"] })

  it.live("that changes something has to be JSON and say so", () =>
    Effect.gen(function*() {
      const as = (type: string | undefined) =>
        Effect.map(
          raw("POST", "/api/sessions/s/waves", [
            "Host: localhost",
            asAda,
            "Content-Length: 14",
            ...(type === undefined ? [] : [`Content-Type: ${type}`])
          ], "{\"message\":{}}"),
          statusOf
        )
      assert.strictEqual(yield* as("application/json"), 200)
      assert.strictEqual(yield* as("Application/JSON; charset=utf-8"), 200)
      for (
        const type of [
          undefined,
          "text/plain",
          "application/x-www-form-urlencoded",
          "multipart/form-data; boundary=a",
          "application/jsonx",
          "text/plain; application/json"
        ]
      ) {
        assert.strictEqual(yield* as(type), 415, type ?? "none")
      }
      const text = yield* raw("DELETE", "/api/grants/x", ["Host: localhost", asAda, "Content-Length: 1"], "x")
      assert.strictEqual(statusOf(text), 415)
    }).pipe(served()))

  it.live("that is none, or for what is not there, is told so by a problem, with nothing of the inside", () =>
    Effect.gen(function*() {
      const post = (body: string) =>
        Effect.map(send("/api/sessions/s/waves", { as: "ada", method: "POST", body }), ({ status, text }) => [
          status,
          problem(text)
        ])
      const deep = (depth: number) => `{"message":${"[".repeat(depth)}${"]".repeat(depth)}}`
      assert.deepStrictEqual(yield* post(deep(200)), [200, "{\"bytes\":400}"])
      assert.deepStrictEqual(yield* post(deep(300)), [413, "too-large"])
      assert.deepStrictEqual(yield* post(deep(500_000)), [413, "too-large"])
      assert.deepStrictEqual(yield* post("{\"message\":{\"a\":\"[[[[\\\"[[[\"}}".padEnd(40)), [200, "{\"bytes\":17}"])
      for (
        const body of [
          "",
          "{",
          "null",
          "[]",
          "\"a\"",
          "{\"message\":1}}",
          "{\"message\":\"\\u12\"}",
          "\"".repeat(200_000),
          "[".repeat(200),
          "{}"
        ]
      ) {
        assert.deepStrictEqual(yield* post(body), [400, "invalid"], body.slice(0, 40))
      }
      const wrong = yield* send("/api/sessions/s/waves", {
        as: "ada",
        method: "POST",
        body: JSON.stringify({ message: {}, turn: "/" })
      })
      const { errors } = JSON.parse(wrong.text)
      assert.deepStrictEqual(errors.map((it: { path: string }) => it.path).sort(), ["turn"])
      assert.strictEqual(wrong.headers.get("content-type"), "application/problem+json")
      assert.strictEqual(problem((yield* send("/api/journal?limit=x", { as: "ada" })).text), "invalid")
      assert.include(
        (yield* send("/api/sessions/%2F/waves", { as: "ada", method: "POST", body: "{}" })).text,
        "params.session"
      )
      const none = yield* send("/api/nothing", { as: "ada" })
      assert.deepStrictEqual([none.status, problem(none.text)], [404, "not-found"])
      const put = yield* send("/api/me", { as: "ada", method: "PUT", body: "{}" })
      assert.deepStrictEqual([put.status, problem(put.text), put.headers.get("allow")], [
        405,
        "wrong-method",
        "GET, HEAD"
      ])
      for (
        const path of [
          "/api/grants/%",
          "/api/grants/%zz",
          "/api/grants/%ff%fe",
          "/api/%c0%ae%c0%ae/me",
          `/api/grants/${"x".repeat(3_000)}`,
          "/api/grants/%00",
          "//evil.example/api",
          "/api/../../etc/passwd",
          "/%2e%2e/%2e%2e/etc/passwd",
          "/api/me%0d%0aSet-Cookie:x",
          "*",
          "api/me",
          "/api\\me"
        ]
      ) {
        for (const method of ["GET", "DELETE", "OPTIONS"]) {
          const text = yield* raw(method, path, ["Host: localhost", asAda])
          assert.include([400, 403, 404, 405], statusOf(text), `${method} ${path}: ${text}`)
          assert.notMatch(text, /Error|node_modules|\.ts:|Set-Cookie/)
        }
      }
    }).pipe(served()))

  it.live("whose body is too large, said or not, or does not come, is let go", () =>
    Effect.gen(function*() {
      const to = (headers: ReadonlyArray<string>, body: string, path = "/api/sessions/s/waves") =>
        raw("POST", path, ["Host: localhost", asAda, "Content-Type: application/json", ...headers], body)
      const large = `{"message":"${"x".repeat(1_000)}"}`
      assert.strictEqual(statusOf(yield* to([`Content-Length: ${large.length}`], large)), 413)
      assert.strictEqual(statusOf(yield* to(["Content-Length: 999999999999"], "")), 413)
      const chunk = `${large.length.toString(16)}\r\n${large}\r\n`
      assert.strictEqual(statusOf(yield* to(["Transfer-Encoding: chunked"], chunk.repeat(50))), 413)
      assert.strictEqual(statusOf(yield* to(["Content-Length: 100"], "{\"mess")), 408)
      assert.strictEqual(statusOf(yield* to(["Transfer-Encoding: chunked"], "5\r\n{\"mes\r\n")), 408)
      // who is not let in is not listened to
      const unknown = yield* sendRaw(
        `POST /api/sessions/s/waves HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{`,
        (text) => text.includes("\r\n\r\n")
      )
      assert.strictEqual(statusOf(unknown), 401)
    }).pipe(served({ maxBodyBytes: 500, bodyTimeout: "300 millis" })))

  it.live("that the server makes a mistake with reveals nothing of it", () =>
    Effect.gen(function*() {
      const { status, text } = yield* send("/api/me", { as: "ada" })
      assert.deepStrictEqual([status, problem(text)], [500, "failed"])
      assert.notInclude(text, "password")
    }).pipe(served({ me: Effect.die(new Error("the password is hunter2")) })), { tags: ["SV19"] })

  it.live("is answered with what keeps browsers from doing anything else with it", () =>
    Effect.gen(function*() {
      for (
        const answer of [
          yield* send("/api/me", { as: "ada" }),
          yield* send("/api/me"),
          yield* send("/x"),
          yield* send("/api/me", { method: "PUT" })
        ]
      ) {
        assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
        assert.strictEqual(answer.headers.get("referrer-policy"), "no-referrer")
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
        assert.strictEqual(answer.headers.get("cross-origin-resource-policy"), "same-origin")
        assert.include(answer.headers.get("content-security-policy"), "default-src 'none'; script-src 'self'")
      }
      assert.strictEqual((yield* send("/api/me")).headers.get("www-authenticate"), "Bearer")
    }).pipe(served()))

  it.live("too many of a user, or of an address, learn when to come again", () =>
    Effect.gen(function*() {
      const codes = yield* Effect.forEach(Array.from({ length: 6 }), () => send("/api/me", { as: "ada" }))
      assert.deepStrictEqual(codes.map((it) => it.status), [200, 200, 200, 429, 429, 429])
      assert.strictEqual(codes[5]!.headers.get("retry-after"), "1000")
      assert.strictEqual(problem(codes[5]!.text), "too-many")
      assert.strictEqual((yield* send("/api/me", { as: "bob" })).status, 200)
      // what a user sends is theirs, and takes nothing from others at the same address
      for (let time = 0; time < 8; time++) assert.strictEqual((yield* send("/api/me")).status, 401)
      const last = yield* send("/api/me")
      assert.deepStrictEqual([last.status, problem(last.text)], [429, "too-many"])
    }).pipe(served({
      limits: { perUser: { burst: 3, perSecond: 0.001 }, perAddress: { burst: 8, perSecond: 0.001 } }
    })), { tags: ["SV5"] })
})
