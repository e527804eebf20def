/** The live log: places in it, readers who are slow or may not see, heartbeats, its end. */
import { assert, describe, it } from "@effect/vitest"
import { type ApiQuestions, LiveLog } from "effect-tool-executor/server"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"

const wave = (name: string): ApiQuestions.LiveItem => ({
  _tag: "WaveBegan",
  wave: { user: "ada", session: "s", turn: "t", wave: name, status: "running", calls: 1, began_at: 0 }
})

/** What a reader was told, in short. */
const short = ({ data }: ApiQuestions.LiveSse): string => data._tag === "WaveBegan" ? data.wave.wave : data._tag

const all = () => true

describe("LiveLog", () => {
  it.effect("tells a reader what is behind its place, and then what comes", () =>
    Effect.gen(function*() {
      const log = yield* LiveLog.LiveLog
      log.tell("ada", wave("a"))
      const place = yield* log.cursor
      log.tell("ada", wave("b"))
      const fiber = yield* Effect.forkChild(Stream.runCollect(Stream.take(log.stream(place, all), 2)), {
        startImmediately: true
      })
      log.tell("ada", wave("c"))
      const told = yield* Fiber.join(fiber)
      assert.deepStrictEqual(told.map(short), ["b", "c"])
      assert.deepStrictEqual(told.map(({ event }) => event), ["wave_began", "wave_began"])
      const [again] = yield* Stream.runCollect(Stream.take(log.stream(told[0]!.id, all), 1))
      assert.strictEqual(short(again!), "c")
    }).pipe(Effect.provide(LiveLog.layer())))
})
