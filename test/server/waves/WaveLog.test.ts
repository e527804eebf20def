/** The log of one wave: what readers get of it, wherever they are cut and however slow they are. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { ToolEvent } from "../../../src/index.ts"
import type { WaveSse } from "../../../src/server/api/ApiModels.ts"
import { WaveLog } from "../../../src/server/waves/WaveLog.ts"
import { isLifecycle } from "../../../src/server/waves/WaveText.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { seeds } from "../../support/seeds.ts"

const origin = { agentPath: [], batch: "turn", process: "wave", wave: 1, at: 0 }

const about = (index: number) => ({ ...origin, callId: `c${index}`, tool: "tool", index })

const queued = (index: number, sequence: number) =>
  ToolEvent.toWire({ ...about(index), _tag: "ToolCallQueued", sequence, params: {} })

const emitted = (index: number, sequence: number) =>
  ToolEvent.toWire({ ...about(index), _tag: "ToolStatus", sequence, status: "x" })

const started = (index: number, sequence: number) =>
  ToolEvent.toWire({ ...about(index), _tag: "ToolCallStart", sequence, attempt: 1, limitMillis: 1 })

const bounds = { events: 5, chars: 1_000_000 }

const lifeCycle: ReadonlySet<string> = new Set(["tool_call_queued", "tool_call_start"])

describe("a client of a wave that is cut anywhere and comes again", () => {
  const play = (seed: number) =>
    Effect.gen(function*() {
      const log = new WaveLog("log", bounds)
      const seen: Array<WaveSse> = []
      const int = (most: number) => Random.nextIntBetween(0, most, { halfOpen: true })
      const count = 1 + (yield* int(120))
      const writing = yield* Effect.forkChild(Effect.gen(function*() {
        for (let sequence = 1; sequence <= count; sequence++) {
          const make = [queued, started, emitted, emitted, emitted][yield* int(5)]!
          log.append(make(yield* int(4), sequence))
          // many at once, or one by one
          if ((yield* int(3)) === 0) yield* Effect.sleep(1 + (yield* int(20_000)))
        }
        log.close()
      }))
      let isOver = false
      while (!isOver) {
        const last = seen.findLast(({ id }) => id !== undefined)?.id
        // cut after so many items, after so long, or in the middle of a page that nobody will have
        const reading = log.stream(last).pipe(
          Stream.take(1 + (yield* int(8))),
          Stream.runForEach((it) =>
            Effect.sync(() => {
              seen.push(it)
            })
          ),
          Effect.timeoutOption(yield* int(30_000))
        )
        yield* reading
        yield* Effect.sleep(yield* int(5_000))
        isOver = writing.pollUnsafe() !== undefined &&
          (yield* Stream.runCount(log.stream(seen.findLast(({ id }) => id !== undefined)?.id))) === 0
      }
      const sequences = seen.flatMap(({ data }) => "sequence" in data ? [data.sequence] : [])
      assert.deepStrictEqual(sequences, Array.from(new Set(sequences)).sort((one, other) => one - other))
      const ofLife = seen.filter(({ event }) => lifeCycle.has(event))
      assert.deepStrictEqual(ofLife.map(({ data }) => data), log.happened(0).events.filter(isLifecycle))
      assert.isFalse(seen.some(({ event }) => event === "reset"))
      // whatever of the others is missing was counted
      const dropped = seen.reduce((sum, { data }) => data._tag === "Gap" ? sum + data.dropped : sum, 0)
      assert.strictEqual(sequences.length + dropped, count)
    }).pipe(Random.withSeed(seed), (program) => VirtualTime.run(program, { limit: "1 day" }))

  it.effect(
    "has every life-cycle event exactly once and in order, and of the others each, or a gap that counts it",
    () => Effect.forEach(seeds(300), play, { discard: true }),
    { tags: ["SV3"] }
  )
})

describe("the log of a wave", () => {
  it.effect(
    "says of a place that is not its own, or not there yet, that all is void, and tells everything",
    () =>
      Effect.gen(function*() {
        const log = new WaveLog("log", bounds)
        log.append(queued(0, 1))
        log.append(started(0, 2))
        log.close()
        for (const after of ["other-1", "log-3", "log-", "log-1x", "1", "", "log--1", "log-1e0"]) {
          const items = yield* Stream.runCollect(log.stream(after))
          assert.deepStrictEqual(
            items.map(({ event }) => event),
            ["reset", "tool_call_queued", "tool_call_start"],
            after
          )
        }
        const rest = yield* Stream.runCollect(log.stream("log-1"))
        assert.deepStrictEqual(rest.map(({ event }) => event), ["tool_call_start"])
        assert.deepStrictEqual(yield* Stream.runCollect(log.stream("log-2")), [])
      }),
    { tags: ["SV3"] }
  )

  it.effect("keeps the latest of what tools emit within both bounds, and of the rest all", () =>
    Effect.gen(function*() {
      const log = new WaveLog("log", { events: 3, chars: 100_000 })
      const large = new WaveLog("large", { events: 100, chars: 500 })
      for (let n = 1; n <= 1_000; n++) {
        for (const it of [log, large]) it.append(n % 100 === 0 ? started(0, n) : emitted(0, n))
      }
      assert.deepStrictEqual(log.happened(0).events.filter((it) => it._tag === "ToolStatus").map((it) => it.sequence), [
        997,
        998,
        999
      ])
      assert.lengthOf(log.happened(0).events.filter(isLifecycle), 10)
      const chars = large.happened(0).events.filter((it) => it._tag === "ToolStatus").map((it) =>
        JSON.stringify(it).length
      )
      assert.isAtMost(chars.reduce((one, other) => one + other, 0), 500)
      assert.isAbove(chars.length, 0)
    }))

  it.effect("wakes readers at once, and tells those that wait that the connection is alive each 15 seconds", () =>
    Effect.gen(function*() {
      const log = new WaveLog("log", bounds)
      const seen: Array<WaveSse> = []
      const reading = yield* Effect.forkChild(Stream.runForEach(log.stream(undefined), (it) =>
        Effect.sync(() => {
          seen.push(it)
        })))
      yield* TestClock.adjust("14 seconds")
      assert.lengthOf(seen, 0)
      yield* TestClock.adjust("16 seconds")
      assert.deepStrictEqual(seen.map(({ event, id }) => [event, id]), [["heartbeat", undefined], [
        "heartbeat",
        undefined
      ]])
      log.append(queued(0, 1))
      yield* TestClock.adjust(0)
      assert.strictEqual(seen.at(-1)?.event, "tool_call_queued")
      log.close()
      yield* Fiber.join(reading)
    }))

  it.effect(
    "holds nothing of a reader that is slow: what it did not take in time is a gap",
    () =>
      Effect.gen(function*() {
        const log = new WaveLog("log", bounds)
        const counts: Array<number> = []
        log.append(queued(0, 1))
        const reading = yield* Effect.forkChild(Stream.runForEach(log.stream(undefined), ({ data }) =>
          Effect.andThen(
            Effect.sync(() => {
              if (data._tag === "Gap") counts.push(data.dropped)
            }),
            Effect.sleep("1 minute")
          )))
        yield* TestClock.adjust("1 second")
        for (let n = 2; n <= 10_001; n++) log.append(emitted(0, n))
        assert.strictEqual(log.happened(0).events.length, 6)
        log.close()
        yield* TestClock.adjust("1 hour")
        yield* Fiber.join(reading)
        assert.deepStrictEqual(counts, [9_995])
      }),
    { tags: ["SV4"] }
  )
})
