/** What those who are not known can do to those who are: nothing. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as TestClock from "effect/testing/TestClock"
import { connect } from "node:net"
import { layer, type Options, port, send, token } from "../../support/Doors.ts"

const served = (options?: Options) => Effect.provide(layer(options))

const login = (word: string, address: string) =>
  send("/api/login", {
    method: "POST",
    body: JSON.stringify({ token: word }),
    headers: { "x-forwarded-for": address }
  })

/** Requests that say that a body comes, and do not send it; gives the statuses that they are answered with. */
const stuck = Effect.fnUntraced(function*(head: string, count: number) {
  const at = yield* port
  const answers = yield* Queue.unbounded<number>()
  for (let each = 0; each < count; each++) {
    yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof connect>>((resume) => {
        const socket = connect(at, "127.0.0.1", () => {
          socket.write(`${head}\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`)
          resume(Effect.succeed(socket))
        })
        socket.on("data", (data) => void Queue.offerUnsafe(answers, Number(data.toString().slice(9, 12))))
        socket.on("error", () => {})
      }),
      (socket) => Effect.sync(() => socket.destroy())
    )
  }
  return answers
})

describe("a stranger", () => {
  it.live("who tries to log in again and again keeps nobody else from it", () =>
    Effect.gen(function*() {
      const codes: Array<number> = []
      for (let each = 0; each < 40; each++) codes.push((yield* login("wrong", "192.0.2.1")).status)
      assert.deepStrictEqual(codes.slice(0, 12), [...Array.from({ length: 10 }, () => 401), 429, 429])
      assert.strictEqual((yield* login(token("ada"), "192.0.2.2")).status, 200)
    }).pipe(served({ trustProxy: true, logins: { failuresOfAll: 20 } })))

  it.live("is one address however a proxy writes it, whatever port it comes from", () =>
    Effect.gen(function*() {
      const codes = (address: (port: number) => string) =>
        Effect.forEach(Array.from({ length: 4 }, (_, n) => address(40_000 + n)), (it) =>
          Effect.map(login("wrong", it), ({ status }) => status))
      const expected = [401, 401, 429, 429]
      assert.deepStrictEqual(
        yield* codes((port) =>
          `192.0.2.1:${port}`
        ),
        expected
      )
      assert.deepStrictEqual(yield* codes((port) => `[2001:db8::${port % 4}]:${port}`), expected)
      assert.deepStrictEqual(yield* codes((port) => `2001:db8:0:1::${port % 4}`), expected)
      assert.strictEqual((yield* login("wrong", "192.0.2.1")).status, 429)
      assert.strictEqual((yield* login("wrong", "[2001:db8::9]")).status, 429)
      assert.strictEqual((yield* login("wrong", "192.0.2.3")).status, 401)
    }).pipe(served({ trustProxy: true, logins: { failuresPerAddress: 2 } })))

  for (const bound of ["perAddress", "ofAll"] as const) {
    it.live(`whose requests never end takes no place of users, nor of log-ins from there (${bound})`, () =>
      Effect.gen(function*() {
        const answers = yield* stuck("POST /api/login HTTP/1.1", 30)
        // the oldest make room for the newest
        assert.deepStrictEqual(yield* Queue.takeN(answers, 10), Array.from({ length: 10 }, () => 429))
        assert.strictEqual((yield* login(token("ada"), "127.0.0.1")).status, 200)
        assert.strictEqual((yield* send("/api/me", { as: "ada" })).status, 200)
      }).pipe(Effect.scoped, served({ limits: { open: { ofAll: 25 }, strangers: { [bound]: 20 } } })))
  }

  it.effect("has two seconds for the body of a log-in", () =>
    Effect.gen(function*() {
      const answers = yield* stuck("POST /api/login HTTP/1.1", 2)
      // the second has taken the place of the first, and waits
      assert.strictEqual(yield* Queue.take(answers), 429)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Queue.take(answers), 408)
    }).pipe(Effect.scoped, served({ limits: { strangers: { perAddress: 1 } } })))
})

describe("a page of another site", () => {
  it.live("reads nothing by a path in disguise, either", () =>
    Effect.gen(function*() {
      for (const path of ["/api/me", "/%61pi/me", "/ap%69/me", "//api/me", "/API/me", "/api/me;x", "/a%70i/me;/x"]) {
        const { status } = yield* send(path, { as: "ada", headers: { origin: "https://evil.example" } })
        assert.strictEqual(status, 403, path)
      }
    }).pipe(served()))
})
