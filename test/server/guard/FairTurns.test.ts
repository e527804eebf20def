/** Whose turn it is, and who waits for room: nobody takes what is others'. */
import { assert, describe, it } from "@effect/vitest"
import { type Clock, Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { Capacity } from "../../../src/server/guard/Capacity.ts"
import { FairTurns } from "../../../src/server/guard/FairTurns.ts"

/** Time that only passes where the test lets it: each look at it is a millisecond later. */
const clock = (millis: number): Clock.Clock => {
  let now = 0
  return {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: () => BigInt(now) * 1_000_000n,
    currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => BigInt(now += millis) * 1_000_000n,
    monotonicTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    sleep: () => Effect.never
  }
}

const turnsOf = (millis: number) => new FairTurns(clock(millis), (effect) => void Effect.runFork(effect))

describe("turns", () => {
  it.live("go around the users, however many one of them waits for", () =>
    Effect.gen(function*() {
      const turns = turnsOf(10)
      const order: Array<string> = []
      const work = (user: string) => Effect.andThen(turns.turn(user), Effect.sync(() => void order.push(user)))
      const all = yield* Effect.forkChild(
        Effect.forEach([..."aaaaaaaaaa", "b", "c", "b"], work, { concurrency: "unbounded", discard: true })
      )
      yield* Fiber.join(all)
      assert.deepStrictEqual(order.slice(0, 6), ["a", "a", "b", "c", "a", "b"])
      assert.lengthOf(order, 13)
    }), { tags: ["SV5"] })

  it.live("leave the thread to everything else between them", () =>
    Effect.gen(function*() {
      const turns = turnsOf(10)
      const order: Array<string> = []
      const work = Effect.andThen(turns.turn("a"), Effect.sync(() => void order.push("a")))
      const all = yield* Effect.forkChild(Effect.forEach([1, 2, 3, 4], () => work, { concurrency: "unbounded" }))
      const other = yield* Effect.forkChild(
        Effect.promise(async () => {
          while (order.length < 4) {
            await new Promise((resolve) => setImmediate(resolve))
            order.push("other")
          }
        })
      )
      yield* Fiber.join(all)
      yield* Fiber.join(other)
      assert.isFalse(order.join(" ").includes("a a a"), order.join(" "))
    }), { tags: ["SV5"] })

  it.live("are nobody's who has gone", () =>
    Effect.gen(function*() {
      const turns = turnsOf(10)
      const order: Array<string> = []
      const work = (name: string) => Effect.andThen(turns.turn("a"), Effect.sync(() => void order.push(name)))
      const fibers = yield* Effect.forEach(["1", "2", "3"], (name) => Effect.forkChild(work(name)))
      yield* Effect.andThen(turns.turn("b"), Fiber.interrupt(fibers[1]!))
      yield* Fiber.join(fibers[2]!)
      assert.notInclude(order, "2")
      // and the next one comes at once
      yield* work("4")
      assert.include(order, "4")
    }))
})

describe("room", () => {
  it.live("is each user's own, and what one waits for holds up no other", () =>
    Effect.gen(function*() {
      const room = new Capacity({ perUser: 10, ofAll: 15 })
      const scope = () => Scope.make()
      const [first, second, third, fourth] = [yield* scope(), yield* scope(), yield* scope(), yield* scope()]
      const take = (user: string, amount: number, scope: Scope.Scope) => Scope.provide(room.take(user, amount), scope)
      yield* take("a", 10, first)
      const waits = yield* Effect.forkChild(take("a", 1, second))
      yield* take("b", 5, third)
      // all of it is taken
      const full = yield* Effect.forkChild(take("c", 1, fourth))
      yield* Effect.yieldNow
      assert.isUndefined(waits.pollUnsafe())
      assert.isUndefined(full.pollUnsafe())
      yield* Scope.close(third, Exit.void)
      yield* Fiber.join(full)
      assert.isUndefined(waits.pollUnsafe())
      yield* Scope.close(first, Exit.void)
      yield* Fiber.join(waits)
    }), { tags: ["SV5"] })

  it.live("is given back as far as it turns out not to be needed, once", () =>
    Effect.gen(function*() {
      const room = new Capacity({ perUser: 10, ofAll: 10 })
      yield* Effect.scoped(Effect.gen(function*() {
        const keep = yield* room.take("a", 10)
        yield* keep(3)
        yield* keep(5)
        yield* Effect.scoped(room.take("a", 7))
        const more = yield* Effect.forkChild(Effect.scoped(room.take("b", 8)))
        yield* Effect.yieldNow
        assert.isUndefined(more.pollUnsafe())
        yield* Fiber.interrupt(more)
      }))
      yield* Effect.scoped(room.take("b", 10))
    }))

  it.live("is given back whatever becomes of who took it or waited for it", () =>
    Effect.gen(function*() {
      const room = new Capacity({ perUser: 10, ofAll: 10 })
      const entered = yield* Deferred.make<void>()
      const holds = yield* Effect.forkChild(
        Effect.scoped(
          Effect.andThen(room.take("a", 25), Effect.andThen(Deferred.succeed(entered, undefined), Effect.never))
        )
      )
      yield* Deferred.await(entered)
      const waits = yield* Effect.forkChild(Effect.scoped(room.take("a", 1)))
      const others = yield* Effect.forkChild(Effect.scoped(room.take("b", 1)))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(waits)
      yield* Fiber.interrupt(others)
      yield* Fiber.interrupt(holds)
      for (const user of ["a", "b", "a"]) yield* Effect.scoped(room.take(user, 10))
    }))
})
