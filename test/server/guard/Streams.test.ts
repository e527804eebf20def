/** Streams of the server: slow readers, users who are none any more, and how many there are. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { connect } from "node:net"
import * as Limits from "../../../src/server/guard/Limits.ts"
import * as SlowReaders from "../../../src/server/guard/SlowReaders.ts"
import * as Access from "../../../src/server/users/Access.ts"
import { layer, port, send, token } from "../../support/Doors.ts"

/** 64 kB an event, for as long as anybody takes them. */
const flood = (sent: { events: number; ended: number }) =>
  Stream.fromEffectRepeat(Effect.sync(() => {
    sent.events++
    return { id: undefined, event: "heartbeat", data: { _tag: "Heartbeat" as const, at: sent.events } }
  })).pipe(
    Stream.map((event) => ({ ...event, id: "x".repeat(64_000) })),
    Stream.ensuring(Effect.sync(() => {
      sent.ended++
    }))
  )

const open = (as: string, path = "/api/live") =>
  Effect.flatMap(port, (port) =>
    Effect.acquireRelease(
      Effect.callback<ReturnType<typeof connect>>((resume) => {
        const socket = connect(port, "127.0.0.1", () => {
          socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token(as)}\r\n\r\n`)
          resume(Effect.succeed(socket))
        })
        socket.on("error", () => {})
      }),
      (socket) => Effect.sync(() => socket.destroy())
    ))

const streams = Effect.flatMap(Limits.Limits, ({ counts }) => Effect.map(counts, (it) => it.streams))

const eventually = (is: Effect.Effect<boolean, never, Limits.Limits>) =>
  Effect.repeat(is, { until: (it) => it, schedule: Schedule.spaced("10 millis") })

describe("a stream", () => {
  it.live("whose reader takes nothing is cut, and nothing is piled up for it", () => {
    const sent = { events: 0, ended: 0 }
    return Effect.gen(function*() {
      const socket = yield* open("ada")
      socket.pause()
      yield* eventually(Effect.map(streams, (it) => it === 1))
      yield* eventually(Effect.map(streams, (it) => it === 0))
      assert.strictEqual(sent.ended, 1)
      // what the connection itself holds, and no more
      assert.isBelow(sent.events, 500)
    }).pipe(Effect.scoped, Effect.provide(layer({ live: flood(sent), stalledAfter: "400 millis" })))
  })

  it.effect("that has nothing to say, or whose reader is slow and reads, goes on; each piece counts anew", () =>
    Effect.gen(function*() {
      const read = (reading: string, waiting: string) =>
        Effect.gen(function*() {
          let bytes = 0
          const source = Stream.fromIterable([1, 2, 3]).pipe(
            Stream.mapEffect(() => Effect.as(Effect.sleep(waiting as "1 second"), new Uint8Array(40_000)))
          )
          const fiber = yield* SlowReaders.cut("30 seconds")(source).pipe(
            Stream.runForEachArray((chunks) => {
              bytes += chunks.reduce((sum, it) => sum + it.length, 0)
              assert.isAtMost(chunks.reduce((sum, it) => sum + it.length, 0), 16_384)
              return Effect.sleep(reading as "1 second")
            }),
            Effect.forkChild
          )
          yield* TestClock.adjust("1 day")
          const exit = fiber.pollUnsafe()
          return [bytes, exit !== undefined && Exit.isSuccess(exit)]
        })
      assert.deepStrictEqual(yield* read("0 seconds", "3 hours"), [120_000, true])
      assert.deepStrictEqual(yield* read("29 seconds", "3 hours"), [120_000, true])
      assert.deepStrictEqual(yield* read("31 seconds", "0 seconds"), [16_384, false])
    }))

  it.live("ends with the rights of its user", () => {
    const users = new Map([[token("ada"), { name: "ada", run: true, approve: [], records: [], operate: false }]])
    const access = Layer.succeed(Access.Access, {
      userOf: (given) => Effect.sync(() => Option.fromUndefinedOr(users.get(Redacted.value(given)))),
      mayRun: () => Effect.succeed(true)
    })
    return Effect.gen(function*() {
      const socket = yield* open("ada")
      let text = ""
      socket.on("data", (data) => {
        text += data.toString("latin1")
      })
      yield* eventually(Effect.map(streams, (it) => it === 1))
      users.delete(token("ada"))
      yield* eventually(Effect.map(streams, (it) => it === 0))
      // it ended in good order
      yield* eventually(Effect.sync(() => text.endsWith("0\r\n\r\n")))
      assert.strictEqual((yield* send("/api/me", { as: "ada" })).status, 401)
    }).pipe(Effect.scoped, Effect.provide(layer({ access, askAgain: "50 millis" })))
  })

  it.live("ends, and requests get 503, while the host cannot look its users up", () => {
    class Directory extends Context.Service<Directory, {
      readonly find: (token: string) => Effect.Effect<boolean, string>
    }>()("Directory") {}
    let isAway = false
    const directory = Layer.succeed(Directory, {
      find: (given) => isAway ? Effect.fail("the directory is away") : Effect.succeed(given === token("ada"))
    })
    const rights = { name: "ada", run: true, approve: [], records: [], operate: false }
    const access = Access.layerFrom({
      userOf: (given) =>
        Effect.map(
          Directory.use((it) => it.find(Redacted.value(given))),
          (isAda) => isAda ? Option.some(rights) : Option.none()
        ),
      mayRun: () => Effect.succeed(true)
    }).pipe(Layer.provide(directory))
    return Effect.gen(function*() {
      assert.strictEqual((yield* send("/api/me", { as: "ada" })).status, 200)
      yield* open("ada")
      yield* eventually(Effect.map(streams, (it) => it === 1))
      isAway = true
      yield* eventually(Effect.map(streams, (it) => it === 0))
      const answers = [
        yield* send("/api/me", { as: "ada" }),
        yield* send("/api/login", { method: "POST", body: JSON.stringify({ token: token("ada") }) })
      ]
      for (const { status, text } of answers) {
        assert.strictEqual(status, 503)
        assert.notInclude(text, "directory")
      }
      isAway = false
      assert.strictEqual((yield* send("/api/me", { as: "ada" })).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer({ access, askAgain: "50 millis" })))
  })

  it.live("is one of so many of a user, and of all; a place is free again when one has gone", () =>
    Effect.gen(function*() {
      const first = yield* open("ada")
      yield* open("ada")
      yield* eventually(Effect.map(streams, (it) => it === 2))
      assert.strictEqual((yield* send("/api/live", { as: "ada" })).status, 429)
      yield* open("bob")
      yield* eventually(Effect.map(streams, (it) => it === 3))
      assert.strictEqual((yield* send("/api/live", { as: "bob" })).status, 429)
      first.destroy()
      yield* eventually(Effect.map(streams, (it) => it === 2))
      yield* open("bob")
      yield* eventually(Effect.map(streams, (it) => it === 3))
    }).pipe(Effect.scoped, Effect.provide(layer({ limits: { streams: { perUser: 2, ofAll: 3 } } }))))
})

describe("an answer that is large", () => {
  const text = "x".repeat(20_000_000)
  const requests = Effect.flatMap(Limits.Limits, ({ counts }) => Effect.map(counts, (it) => it.requests))

  it.live("is whole for who takes it, and cut for who does not", () =>
    Effect.gen(function*() {
      const whole = yield* send("/api/journal", { as: "ada" })
      assert.strictEqual(whole.headers.get("content-length"), String(whole.text.length))
      assert.strictEqual(JSON.parse(whole.text).text.length, text.length)
      const socket = yield* open("ada", "/api/journal")
      socket.pause()
      yield* eventually(Effect.map(requests, (it) => it === 1))
      yield* eventually(Effect.map(requests, (it) => it === 0))
    }).pipe(Effect.scoped, Effect.provide(layer({ text, stalledAfter: "400 millis" }))))
})
