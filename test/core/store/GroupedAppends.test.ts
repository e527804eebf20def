/** Lines that are written in groups, and written again where nobody heard what became of them. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { GroupedAppends } from "../../../src/core/store/GroupedAppends.ts"
import { JournalError } from "../../../src/core/store/Journal.ts"
import type { Line } from "../../../src/core/store/JournalEntry.ts"

const line = (lost: number): Line => ({ entry: { _tag: "Gap", at: 0, principal: "p", session: "s", lost } })

/** Appends of which each ends when it is told how. */
const world = Effect.map(Effect.context<never>(), (context) => {
  const written: Array<ReadonlyArray<Line>> = []
  const ends: Array<Deferred.Deferred<void, JournalError>> = []
  const appends = new GroupedAppends(context, (lines) => {
    written.push(lines)
    const end = Deferred.makeUnsafe<void, JournalError>()
    ends.push(end)
    return Deferred.await(end)
  })
  return { appends, ends, written }
})

const lost = new JournalError({ operation: "append", cause: new Error("no answer") })

describe("lines that are appended again", () => {
  for (const isWaiting of [true, false]) {
    const when = isWaiting ? "while they are being written" : "once they have been written"
    it.effect(`${when}, after nobody had waited for them any more, are written once`, () =>
      Effect.gen(function*() {
        const { appends, ends, written } = yield* world
        const [one, two] = [line(1), line(2)]
        const first = yield* Effect.forkChild(appends.append([one], true))
        yield* Effect.yieldNow
        yield* Fiber.interrupt(first)
        if (!isWaiting) yield* Deferred.succeed(ends[0]!, undefined)
        yield* Effect.yieldNow
        const again = yield* Effect.forkChild(appends.append([one, two], true))
        yield* Effect.yieldNow
        if (isWaiting) yield* Deferred.succeed(ends[0]!, undefined)
        for (let n = 0; n < 10; n++) yield* Effect.yieldNow
        yield* Deferred.succeed(ends[1]!, undefined)
        yield* Fiber.join(again)
        yield* appends.append([one], true)
        assert.deepStrictEqual(written, [[one], [two]])
      }))
  }

  it.effect("behind a group that could not be written fail with it, and are written by the next one", () =>
    Effect.gen(function*() {
      const { appends, ends, written } = yield* world
      const one = line(1)
      const first = yield* Effect.forkChild(appends.append([one], true))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      const again = yield* Effect.forkChild(Effect.flip(appends.append([one], true)))
      yield* Effect.yieldNow
      yield* Deferred.fail(ends[0]!, lost)
      assert.strictEqual(yield* Fiber.join(again), lost)
      const last = yield* Effect.forkChild(appends.append([one], true))
      yield* Effect.yieldNow
      yield* Deferred.succeed(ends[1]!, undefined)
      yield* Fiber.join(last)
      assert.deepStrictEqual(written, [[one], [one]])
    }))
})
