/** The live log: places in it, readers who are slow or may not see, heartbeats, its end. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as ApiApprovals from "../../../src/server/api/ApiApprovals.ts"
import * as ApiModels from "../../../src/server/api/ApiModels.ts"
import * as LiveLog from "../../../src/server/live/LiveLog.ts"
import { start } from "../../support/Server.ts"

const wave = (name: string): ApiApprovals.LiveItem => ({
  _tag: "WaveBegan",
  wave: { user: "ada", session: "s", turn: "t", wave: name, status: "running", calls: 1, tools: ["look"], beganAt: 0 }
})

/** What a reader was told, in short. */
const short = ({ data }: ApiApprovals.LiveSse): string => data._tag === "WaveBegan" ? data.wave.wave : data._tag

const all = () => true

/** Reads until it has had so many that are no heartbeats, beginning at once. */
const read = (stream: Stream.Stream<ApiApprovals.LiveSse>, count: number) => readAll(told(stream), count)

const readAll = (stream: Stream.Stream<ApiApprovals.LiveSse>, count: number) =>
  Effect.forkChild(Stream.runCollect(Stream.take(stream, count)), { startImmediately: true })

const told = (stream: Stream.Stream<ApiApprovals.LiveSse>) =>
  Stream.filter(stream, ({ data }) => data._tag !== "Heartbeat")

describe("LiveLog", () => {
  it.effect("tells a reader what is behind its place, and then what comes", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      log.tell("ada", wave("a"))
      const place = yield* log.cursor
      log.tell("ada", wave("b"))
      const fiber = yield* read(log.stream(place, all), 2)
      const fresh = yield* read(log.stream(undefined, all), 1)
      log.tell("ada", wave("c"))
      const had = yield* Fiber.join(fiber)
      assert.deepStrictEqual(had.map(short), ["b", "c"])
      assert.deepStrictEqual(had.map(({ event }) => event), ["wave_began", "wave_began"])
      Schema.encodeUnknownSync(Schema.Array(ApiApprovals.LiveSse))(had)
      assert.deepStrictEqual((yield* Fiber.join(fresh)).map(short), ["c"])
      const again = yield* Fiber.join(yield* read(log.stream(had[0]!.id, all), 1))
      assert.deepStrictEqual(again.map(short), ["c"])
    }).pipe(Effect.provide(LiveLog.layer())))

  it.effect("says nothing of what a reader may not see, and moves its place on all the same", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      const fiber = yield* readAll(log.stream(yield* log.cursor, (user) => user === "ada"), 4)
      for (let n = 0; n < 300; n++) log.tell("bob", wave("hidden"))
      log.tell("ada", wave("own"))
      for (let n = 0; n < 300; n++) log.tell("bob", wave("hidden"))
      for (let n = 0; n < 30; n++) yield* TestClock.adjust("1 second")
      const had = yield* Fiber.join(fiber)
      assert.deepStrictEqual(had.map(short), ["Heartbeat", "own", "Heartbeat", "Heartbeat"])
      assert.strictEqual(had[2]!.id, yield* log.cursor)
    }).pipe(Effect.provide(LiveLog.layer())))

  it.effect("beats at once and each 15 seconds, whatever a reader may not see happens", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      const fiber = yield* readAll(log.stream(undefined, () => false), 5)
      for (let n = 0; n < 60; n++) {
        log.tell("bob", wave("hidden"))
        yield* TestClock.adjust("1 second")
      }
      const had = yield* Fiber.join(fiber)
      const beats = had.map(({ data }) => data._tag === "Heartbeat" ? data.at : data._tag)
      assert.deepStrictEqual(beats, [0, 15_000, 30_000, 45_000, 60_000])
    }).pipe(Effect.provide(LiveLog.layer())))

  it.effect("tells a reader of a place that is not known to begin anew, and goes on from now", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      const first = yield* log.cursor
      const life = first.slice(0, first.indexOf("-"))
      for (const name of ["a", "b", "c", "d"]) log.tell("ada", wave(name))
      const now = yield* log.cursor
      const places = [
        first,
        "",
        "-",
        "x",
        `${life}-99999`,
        `${life}-04`,
        `${life}-1e0`,
        "00000000-4",
        `${life}-${"9".repeat(400)}`
      ]
      for (const place of places) {
        const fiber = yield* read(log.stream(place, all), 2)
        log.tell("ada", wave("next"))
        const [reset, next] = yield* Fiber.join(fiber)
        assert.deepStrictEqual([short(reset!), short(next!)], ["Reset", "next"], place)
      }
      const again = yield* Fiber.join(yield* read(log.stream(now, all), 1))
      assert.deepStrictEqual(again.map(short), ["Reset"], "it is behind what is kept by now")
    }).pipe(Effect.provide(LiveLog.layer({ maxItems: 3 }))))

  it.effect(
    "waits for no reader: one that falls behind begins again, others miss nothing",
    () =>
      Effect.gen(function*() {
        const log = yield* LiveLog.LiveLog
        const slow: Array<string> = []
        const reading = told(log.stream(undefined, all)).pipe(
          Stream.mapEffect((it) => Effect.delay(Effect.sync(() => slow.push(short(it))), "1 second")),
          Stream.runDrain
        )
        yield* Effect.forkChild(reading, { startImmediately: true })
        const fast = yield* read(log.stream(undefined, all), 5_000)
        for (let n = 0; n < 5_000; n++) {
          log.tell("ada", wave(String(n)))
          if (n % 50 === 0) yield* Effect.yieldNow
        }
        yield* TestClock.adjust("200 seconds")
        const had = yield* Fiber.join(fast)
        assert.deepStrictEqual(had.map(short), Array.from({ length: 5_000 }, (_, n) => String(n)))
        assert.isTrue(slow.includes("Reset"))
        const before = slow.slice(0, slow.indexOf("Reset"))
        assert.deepStrictEqual(before, before.map((_, n) => String(n)))
        log.tell("ada", wave("after"))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(slow.at(-1), "after")
      }).pipe(Effect.provide(LiveLog.layer({ maxItems: 200 }))),
    { tags: ["SV4"] }
  )

  it.effect("keeps so many characters, and nothing of what is more by itself", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      const start = yield* log.cursor
      const size = JSON.stringify(wave("a")).length
      log.tell("ada", wave("a"))
      log.tell("ada", wave("b"))
      const two = yield* Fiber.join(yield* read(log.stream(start, all), 2))
      assert.deepStrictEqual(two.map(short), ["a", "b"])
      log.tell("ada", wave("c"))
      assert.deepStrictEqual((yield* Fiber.join(yield* read(log.stream(start, all), 1))).map(short), ["Reset"])
      assert.deepStrictEqual((yield* Fiber.join(yield* read(log.stream(two[0]!.id, all), 2))).map(short), ["b", "c"])
      log.tell("ada", wave("x".repeat(2 * size)))
      assert.deepStrictEqual((yield* Fiber.join(yield* read(log.stream(two[1]!.id, all), 1))).map(short), ["Reset"])
    }).pipe(Effect.provide(LiveLog.layer({ maxChars: 2 * JSON.stringify(wave("a")).length }))))

  it.effect("ends every stream with a word, once what is there has been told", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      const start = yield* log.cursor
      const waiting = yield* Effect.forkChild(Stream.runCollect(told(log.stream(start, all))), {
        startImmediately: true
      })
      for (let n = 0; n < 100; n++) log.tell("ada", wave(String(n)))
      yield* log.stop
      const had = (yield* Fiber.join(waiting)).map(short)
      assert.deepStrictEqual(had, [...Array.from({ length: 100 }, (_, n) => String(n)), "Stopping"])
      assert.deepStrictEqual((yield* Stream.runCollect(told(log.stream(undefined, all)))).map(short), ["Stopping"])
    }).pipe(Effect.provide(LiveLog.layer())))

  it.effect("ends with its layer", () =>
    Effect.gen(function*() {
      const log = yield* Effect.provide(LiveLog.LiveLog, LiveLog.layer())
      assert.deepStrictEqual((yield* Stream.runCollect(told(log.stream(undefined, all)))).map(short), ["Stopping"])
      const other = yield* Effect.provide(LiveLog.LiveLog, LiveLog.layer())
      assert.notStrictEqual(yield* other.cursor, yield* log.cursor)
    }))

  it.effect("names the options that are wrong", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Layer.build(LiveLog.layer({ maxItems: 0, maxChars: 0.5 })))
      assert.deepStrictEqual(error.problems.map(({ path }) => path), ["maxItems", "maxChars"])
      assert.strictEqual(ApiApprovals.liveNames.Reset, ApiModels.noteNames.Reset)
    }))

  it.live("opens its stream over HTTP before anything happens", () =>
    Effect.gen(function*() {
      const server = yield* start()
      // Node sends the head of an answer with the first of its body
      const stream = yield* server.sse("bob", "/api/live")
      assert.strictEqual(stream.status, 200)
      yield* stream.close
    }).pipe(Effect.scoped, Effect.timeout("10 seconds")))
})
