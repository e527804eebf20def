import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Deadline, Deadlines } from "../../src/internal/deadlines.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

const make = Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  let fibers = 0
  const deadlines = new Deadlines(yield* Clock.Clock, (effect) => {
    fibers++
    return Effect.runForkWith(context)(effect)
  })
  return { deadlines, fibers: () => fibers }
})

describe("deadlines", () => {
  const Times = Schema.Array(
    Schema.Struct({
      at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50 })),
      takenBackAt: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 }))
    })
  )

  it.effect.prop(
    "pass in their order, at their time, unless they are taken back before",
    [Times],
    ([times]) =>
      VirtualTime.run(Effect.gen(function*() {
        const { deadlines } = yield* make
        const passed: Array<readonly [index: number, now: number]> = []
        const all: Array<Deadline> = []
        const clock = yield* Clock.Clock
        for (const [index, { at }] of times.entries()) {
          all.push(deadlines.add(at, () => passed.push([index, clock.currentTimeMillisUnsafe()])))
        }
        assert.lengthOf(passed, 0)
        // between two instants, so that none is taken back while it passes
        yield* Effect.sleep("500 micros")
        for (let now = 1; now <= 60; now++) {
          for (const [index, { takenBackAt }] of times.entries()) {
            if (takenBackAt === now) deadlines.delete(all[index]!)
          }
          yield* Effect.sleep(1)
        }
        const expected = times
          .map(({ at, takenBackAt }, index) => ({ at, takenBackAt, index }))
          // 0: it never is
          .filter(({ at, takenBackAt }) => takenBackAt === 0 || at < takenBackAt)
          .sort((one, other) => one.at - other.at || one.index - other.index)
        assert.deepStrictEqual(passed, expected.map(({ at, index }) => [index, at] as const))
      }))
  )

  it.effect("pass in their order where one of another branch takes the place of one taken back", () =>
    VirtualTime.run(Effect.gen(function*() {
      const { deadlines } = yield* make
      const passed: Array<number> = []
      const all = [1, 50, 2, 51, 52, 60, 4].map((at) => deadlines.add(at, () => passed.push(at)))
      deadlines.delete(all[3]!)
      yield* Effect.sleep(5)
      assert.deepStrictEqual(passed, [1, 2, 4])
      yield* Effect.sleep(60)
      assert.deepStrictEqual(passed, [1, 2, 4, 50, 52, 60])
    })))

  it.effect("share one fiber, however many there are", () =>
    VirtualTime.run(Effect.gen(function*() {
      const { deadlines, fibers } = yield* make
      let passed = 0
      for (let n = 0; n < 1_000; n++) deadlines.add(1_000, () => passed++)
      assert.strictEqual(fibers(), 1)
      yield* Effect.sleep(1_001)
      assert.strictEqual(passed, 1_000)
      assert.strictEqual(fibers(), 1)
    })))

  it.effect("may be added and taken back by one that passes", () =>
    VirtualTime.run(Effect.gen(function*() {
      const { deadlines } = yield* make
      const passed: Array<string> = []
      deadlines.add(10, () => {
        passed.push("first")
        deadlines.delete(second)
        deadlines.add(10, () => passed.push("third"))
      })
      const second = deadlines.add(10, () => passed.push("second"))
      deadlines.add(NaN, () => passed.push("no time"))
      yield* Effect.sleep(11)
      assert.deepStrictEqual(passed, ["no time", "first", "third"])
    })))
})
