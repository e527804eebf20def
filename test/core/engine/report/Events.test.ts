import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as ToolEvent from "../../../../src/core/facts/ToolEvent.ts"
import { ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, run, tags } from "../../../support/Harness.ts"

const emit = (times: number) =>
  Effect.gen(function*() {
    const { progress } = yield* ToolContext.ToolContext
    for (let n = 0; n < times; n++) yield* progress({ progress: n })
    return times
  })

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

const emitter = { t: ({ times }: { readonly [key: string]: unknown }) => emit(Number(times ?? 0)) }

const observe = (events: Stream.Stream<ToolEvent.ToolEvent>) =>
  Effect.gen(function*() {
    const seen: Array<ToolEvent.ToolEvent> = []
    const fiber = yield* Effect.forkScoped(Stream.runForEach(events, (event) => Effect.sync(() => seen.push(event))), {
      startImmediately: true
    })
    return { seen, fiber }
  })

/** Every law that holds for the events of one wave. */
const checkLaws = (events: ReadonlyArray<ToolEvent.ToolEvent>, count: number) => {
  const names = events.map((it) => it._tag)
  assert.deepStrictEqual(names.slice(0, count), Array(count).fill("ToolCallQueued"), "queued first")
  assert.strictEqual(names.filter((it) => it === "ToolCallQueued").length, count)
  assert.strictEqual(names.filter((it) => it === "ToolsEnd").length, 1, "one end")
  assert.strictEqual(names.at(-1), "ToolsEnd", "the end is last")
  for (let index = 0; index < count; index++) {
    const own = events.filter((it) => !ToolEvent.isEnd(it) && it.index === index).map((it) => it._tag)
    assert.strictEqual(own.filter((it) => it === "ToolCallComplete").length, 1, "one completion each")
    assert.strictEqual(own.at(-1), "ToolCallComplete", "the completion is the call's last")
    const start = own.indexOf("ToolCallStart")
    assert.isTrue(start === -1 ? own.length === 2 : start === 1, "the start comes before what the tool reports")
  }
}

describe("events", () => {
  it.effect(
    "come queued first, one completion per call, one end, last",
    () =>
      run({ ...emitter, s: sleeper, f: () => Effect.fail("no") }, {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = calls(["t", { times: 3 }], "nope", "s", "f", ["s", { sleep: 3 }])
          const events = yield* Stream.runCollect(process.stream(wave))
          checkLaws(Array.from(events), wave.length)
        })),
    { tags: ["E1"] }
  )

  it.effect("of a wave without calls are its end", () =>
    run(
      emitter,
      {},
      ({ process }) =>
        Effect.map(
          Stream.runCollect(process.stream([])),
          (events) => assert.deepStrictEqual(Array.from(events, (it) => it._tag), ["ToolsEnd"])
        )
    ))

  it.effect("tell calls of one id apart by their index", () =>
    run(emitter, {}, ({ process }) =>
      Effect.map(
        Stream.runCollect(
          process.stream([call("x", "t", { times: 1 }), call("x", "t", { times: 2 }), call("x", "no")])
        ),
        (events) => checkLaws(Array.from(events), 3)
      )))

  it.effect("of tools are left out where the host says so, life-cycle events are not", () =>
    run(
      emitter,
      { toolEvents: false },
      ({ process }) =>
        Effect.map(Stream.runCollect(process.stream(calls(["t", { times: 3 }]))), (events) =>
          assert.deepStrictEqual(
            Array.from(events, (it) => it._tag),
            [
              "ToolCallQueued",
              "ToolCallStart",
              "ToolCallComplete",
              "ToolsEnd"
            ]
          ))
    ))

  it.effect(
    "of tools are dropped and counted above the buffer, life-cycle events never",
    () =>
      run(emitter, { eventBuffer: 10 }, ({ process }) =>
        Effect.gen(function*() {
          const events = Array.from(
            yield* Stream.runCollect(process.stream(calls(["t", { times: 100 }], ["t", { times: 200 }])))
          )
          checkLaws(events, 2)
          const shown = events.filter((it) => it._tag === "ToolProgress").length
          const dropped = events.map((it) => it._tag === "ToolCallComplete" ? it.dropped : 0).reduce((a, b) => a + b, 0)
          assert.strictEqual(shown + dropped, 300)
          assert.isAtMost(shown, 20)
        })),
    { tags: ["E2"] }
  )

  it.effect(
    "wait for a slow reader without the handlers waiting",
    () =>
      run({ s: sleeper }, {}, ({ process }) =>
        Effect.gen(function*() {
          const ends: Array<number> = []
          yield* Stream.runForEach(process.stream(calls("s", "s")), (event) =>
            Effect.andThen(
              Effect.sync(() => {
                if (event._tag === "ToolCallComplete") ends.push(event.at)
              }),
              Effect.sleep(10_000)
            ))
          assert.deepStrictEqual(ends, [1_000, 1_000])
        })),
    { tags: ["E2"] }
  )

  it.effect(
    "without a reader change nothing",
    () =>
      run(emitter, { eventBuffer: 1 }, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkScoped(Stream.runForEach(process.events, () => Effect.never), { startImmediately: true })
          const wave = yield* process.executeWave(calls(["t", { times: 5_000 }], "nope"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound"])
          assert.strictEqual(yield* VirtualTime.now, 0)
        })),
    { tags: ["E3"] }
  )

  it.effect("reach observers of the process whoever reads the stream", () =>
    run({ ...emitter, s: sleeper }, {}, ({ process }) =>
      Effect.gen(function*() {
        const { seen } = yield* observe(process.events)
        yield* Stream.runDrain(process.stream(calls(["t", { times: 2 }], ["s", { sleep: 5 }])))
        yield* process.executeWave(calls(["t", { times: 1 }]))
        yield* Effect.sleep(1)
        const first = seen.findIndex((it) => it._tag === "ToolsEnd")
        checkLaws(seen.slice(0, first + 1), 2)
        checkLaws(seen.slice(first + 1), 1)
      })))

  it.effect("reach a listener in the step in which they happen, and its caller's interruption too", () =>
    run({ s: { handler: () => Effect.never, class: "SerialMut" } }, {}, ({ process }) =>
      Effect.gen(function*() {
        const told: Array<ToolEvent.ToolEvent> = []
        yield* process.listen((event) => told.push(event) > 0)
        const fiber = yield* Effect.forkChild(process.executeWave(calls("s", "s")), { startImmediately: true })
        assert.deepStrictEqual(told.map((it) => it._tag), ["ToolCallQueued", "ToolCallQueued", "ToolCallStart"])
        yield* Fiber.interrupt(fiber)
        checkLaws(told, 2)
      })))

  it.effect("that a listener does not take, or dies of, are counted and do no harm", () =>
    run(emitter, {}, ({ process }) =>
      Effect.gen(function*() {
        const dropped: Array<number> = []
        yield* process.listen((event) => {
          if (event._tag === "ToolCallComplete") dropped.push(event.dropped)
          if (event._tag === "ToolCallQueued") throw new Error("boom")
          return false
        })
        assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { times: 3 }]))), ["Succeeded"])
        assert.deepStrictEqual(dropped, [3])
      })))

  it.effect("go on for one observer when another stops", () =>
    run(emitter, {}, ({ process }) =>
      Effect.gen(function*() {
        const stays = yield* observe(process.events)
        yield* observe(Stream.take(process.events, 1))
        yield* process.executeWave(calls(["t", { times: 2 }]))
        yield* Effect.sleep(1)
        checkLaws(stays.seen, 1)
      })))

  it.effect("end for observers with the batch", () =>
    run(emitter, {}, ({ executor, process, batch }) =>
      Effect.gen(function*() {
        const { fiber } = yield* observe(process.events)
        yield* process.executeWave(calls("t"))
        yield* executor.completeBatch(batch.id)
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(fiber)))
      })))

  it.effect("end at once for who comes after the batch", () =>
    run(emitter, {}, ({ batch, executor, process }) =>
      Effect.gen(function*() {
        yield* executor.completeBatch(batch.id)
        assert.deepStrictEqual(Array.from(yield* Stream.runCollect(process.events)), [])
      })))

  it.effect("of a wave under way come to their end when the batch closes", () =>
    run({ s: { class: "SerialMut", handler: sleeper } }, {}, ({ batch, executor, process }) =>
      Effect.gen(function*() {
        const { seen } = yield* observe(process.events)
        const fiber = yield* Effect.forkChild(process.executeWave(calls("s", "s", "s")))
        yield* Effect.sleep(10)
        yield* executor.completeBatch(batch.id)
        assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), Array(3).fill("Cancelled"))
        yield* Effect.sleep(10)
        checkLaws(seen, 3)
      })))

  it.effect("of a call that commits while the batch closes come to their end", () =>
    run(
      { s: () => Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.sleep(1_000))) },
      {},
      ({ batch, executor, process }) =>
        Effect.gen(function*() {
          const { seen } = yield* observe(process.events)
          const fiber = yield* Effect.forkChild(process.executeWave(calls("s")))
          yield* Effect.sleep(10)
          yield* executor.completeBatch(batch.id)
          assert.deepInclude((yield* Fiber.join(fiber)).outcomes[0], { _tag: "Cancelled", commits: 1 })
          yield* Effect.sleep(10)
          checkLaws(seen, 1)
        })
    ))

  describe("stream", () => {
    it.effect("ended early by its reader cancels the wave", () => {
      let ended = 0
      return run(
        { s: () => Effect.onInterrupt(Effect.sleep(1_000), () => Effect.sync(() => ended++)) },
        { pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Stream.runDrain(Stream.take(process.stream(calls("s", "s")), 3))
            assert.strictEqual(ended, 1)
            assert.strictEqual(yield* VirtualTime.now, 0)
            assert.deepStrictEqual(tags(yield* process.executeWave(calls(["s", { again: true }]))), ["Succeeded"])
          })
      )
    }, { tags: ["E4"] })

    it.effect("whose reader fails cancels the wave", () =>
      run({ s: sleeper }, {}, ({ executor, process }) =>
        Effect.gen(function*() {
          const exit = yield* Effect.exit(Stream.runForEach(process.stream(calls("s")), () => Effect.fail("reader")))
          assert.deepStrictEqual(exit, Exit.fail("reader"))
          assert.strictEqual(yield* VirtualTime.now, 0)
          assert.deepStrictEqual((yield* executor.orphans).running, [])
        })))

    it.effect("tells observers the end of a wave that its reader left", () =>
      run({ s: sleeper }, {}, ({ process }) =>
        Effect.gen(function*() {
          const { seen } = yield* observe(process.events)
          yield* Stream.runDrain(Stream.take(process.stream(calls("s", "s")), 1))
          yield* Effect.sleep(1)
          checkLaws(seen, 2)
        })))

    it.effect("that is never run runs nothing", () =>
      run(
        { s: () => Effect.die("ran") },
        {},
        ({ process }) => Effect.sync(() => assert.isDefined(process.stream(calls("s"))))
      ))

    it.effect("runs its wave each time it is run", () =>
      run(emitter, { dedupe: false }, ({ process }) =>
        Effect.gen(function*() {
          const stream = process.stream(calls("t"))
          checkLaws(Array.from(yield* Stream.runCollect(stream)), 1)
          checkLaws(Array.from(yield* Stream.runCollect(stream)), 1)
        })))

    it.effect("of a cancelled process answers every call", () =>
      run(emitter, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* process.cancel("enough")
          checkLaws(Array.from(yield* Stream.runCollect(process.stream(calls("t", "nope")))), 2)
        })))
  })
})
