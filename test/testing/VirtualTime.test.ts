import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

class Greeting extends Context.Service<Greeting, string>()("test/Greeting") {}

/** Notes what happened and at which virtual time. */
const makeTrace = () => {
  const entries: Array<string> = []
  const note = (what: string) => Effect.map(VirtualTime.now, (at) => void entries.push(`${at} ${what}`))
  return { entries, note }
}

const failureOf = <A, E>(exit: Exit.Exit<A, E>): E | undefined =>
  Exit.isFailure(exit) ? Option.getOrUndefined(Cause.findErrorOption(exit.cause)) : undefined

describe("VirtualTime", () => {
  describe("what is done in real time", () => {
    const turns = Effect.promise(() => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve))))

    it.effect("takes none of the run's, which stands still, and is done one after the other", () => {
      const { entries, note } = makeTrace()
      const real = (name: string) => Effect.andThen(VirtualTime.real(turns), note(name))
      return VirtualTime.run(Effect.gen(function*() {
        yield* Effect.forkChild(Effect.andThen(Effect.sleep(1), note("sleeper")))
        const first = yield* Effect.forkChild(real("first"), { startImmediately: true })
        const second = yield* Effect.forkChild(real("second"), { startImmediately: true })
        yield* note("both begun")
        yield* Fiber.joinAll([first, second])
        yield* Effect.sleep(2)
        assert.deepStrictEqual(entries, ["0 both begun", "0 first", "0 second", "1 sleeper"])
      }))
    })

    it.effect("has the clock that everybody has", () =>
      VirtualTime.run(Effect.gen(function*() {
        assert.isAbove(yield* VirtualTime.real(Clock.currentTimeMillis), 1_000_000)
        assert.strictEqual(yield* Clock.currentTimeMillis, 0)
      })))

    it.effect("fails as it fails", () =>
      Effect.gen(function*() {
        const failed = VirtualTime.run(VirtualTime.real(Effect.andThen(turns, Effect.fail("no"))))
        assert.strictEqual(yield* Effect.flip(failed), "no")
      }))
  })

  describe("a run that is killed", () => {
    it.effect("does nothing any more, no finalizer either, nor what it was about to do in real time", () =>
      Effect.gen(function*() {
        const done: Array<string> = []
        const note = (what: string) => Effect.sync(() => void done.push(what))
        let isDead = false
        const program = Effect.gen(function*() {
          yield* Effect.forkChild(Effect.ensuring(Effect.andThen(Effect.sleep(5), note("child")), note("finalizer")))
          yield* Effect.sleep(3)
          isDead = true
          yield* Effect.yieldNow
          yield* VirtualTime.real(note("real"))
        })
        const stuck = yield* Effect.flip(
          VirtualTime.run(Effect.ensuring(program, note("end")), { killed: () => isDead })
        )
        assert.deepInclude(stuck, { _tag: "Stuck", because: "killed", at: 3 })
        assert.deepStrictEqual(done, [])
      }))
  })

  describe("results", () => {
    it.effect("gives the effect's value", () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* VirtualTime.run(Effect.as(Effect.sleep("1 hour"), 1)), 1)
        assert.strictEqual(yield* VirtualTime.run(Effect.succeed(2)), 2)
      }))

    it.effect("passes the effect's failure and its defects on", () =>
      Effect.gen(function*() {
        const failed = yield* Effect.exit(VirtualTime.run(Effect.andThen(Effect.sleep(1), Effect.fail("no"))))
        assert.deepStrictEqual(failed, Exit.fail("no"))
        const died = yield* Effect.exit(VirtualTime.run(Effect.andThen(Effect.sleep(1), Effect.die("bug"))))
        assert.deepStrictEqual(died, Exit.die("bug"))
      }))

    it.effect("takes services from the caller", () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* VirtualTime.run(Effect.delay(Greeting, "1 second")), "hello")
      }).pipe(Effect.provideService(Greeting, "hello")))

    it.effect("leaves the caller's clock where it was", () =>
      Effect.gen(function*() {
        const before = yield* Clock.currentTimeMillis
        yield* VirtualTime.run(Effect.sleep("1 day"))
        assert.strictEqual(yield* Clock.currentTimeMillis, before)
      }))
  })

  describe("the clock", () => {
    it.effect("starts at 0 and moves by what was slept", () =>
      VirtualTime.run(Effect.gen(function*() {
        assert.strictEqual(yield* Clock.currentTimeMillis, 0)
        yield* Effect.sleep("3 seconds")
        assert.strictEqual(yield* Clock.currentTimeMillis, 3000)
      })))

    it.effect("starts where it is told, while now counts from the start", () =>
      VirtualTime.run(
        Effect.gen(function*() {
          yield* Effect.sleep(7)
          assert.strictEqual(yield* Clock.currentTimeMillis, 1_700_000_000_007)
          assert.strictEqual(yield* Clock.currentTimeNanos, 1_700_000_000_007_000_000n)
          assert.strictEqual(yield* Clock.monotonicTimeNanos, 7_000_000n)
          assert.strictEqual(yield* VirtualTime.now, 7)
        }),
        { start: 1_700_000_000_000 }
      ))

    it.effect("stands still while effects run", () =>
      VirtualTime.run(Effect.gen(function*() {
        yield* Effect.repeat(Effect.yieldNow, { times: 10_000 })
        assert.strictEqual(yield* VirtualTime.now, 0)
      })))

    it.effect("adds fractions of milliseconds up exactly", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.all([
          Effect.andThen(Effect.repeat(Effect.sleep(0.1), { times: 29 }), trace.note("thirty tenths")),
          Effect.andThen(Effect.sleep(3), trace.note("three"))
        ], { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["3 three", "3 thirty tenths"])
        const nanos = yield* VirtualTime.run(
          Effect.andThen(Effect.repeat(Effect.sleep(0.1), { times: 29 }), Clock.currentTimeNanos)
        )
        assert.strictEqual(nanos, 3_000_000n)
      }))

    it("refuses a start that is no whole number", () => {
      assert.throws(() => VirtualTime.run(Effect.void, { start: 0.5 }), /start must be a safe integer, got 0.5/)
    })
  })

  describe("order", () => {
    it.effect("wakes the earlier sleeper first, whoever fell asleep first", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(
          Effect.forEach([30, 10, 20], (millis) => Effect.andThen(Effect.sleep(millis), trace.note(String(millis))), {
            concurrency: "unbounded"
          })
        )
        assert.deepStrictEqual(trace.entries, ["10 10", "20 20", "30 30"])
      }))

    it.effect("wakes sleepers of one instant in the order in which they fell asleep", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.all([
          Effect.andThen(Effect.andThen(Effect.sleep("1 second"), Effect.sleep("1 second")), trace.note("chain")),
          Effect.andThen(Effect.sleep("2 seconds"), trace.note("direct")),
          Effect.andThen(Effect.sleep("2 seconds"), trace.note("direct too"))
        ], { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["2000 direct", "2000 direct too", "2000 chain"])
      }))

    it.effect("runs what a woken fiber schedules after all sleepers of the instant woke", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        const one = (name: string) =>
          Effect.gen(function*() {
            yield* Effect.sleep(5)
            yield* trace.note(`${name} woke`)
            yield* Effect.yieldNow
            yield* trace.note(`${name} yielded`)
          })
        yield* VirtualTime.run(Effect.all([one("a"), one("b")], { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["5 a woke", "5 b woke", "5 a yielded", "5 b yielded"])
      }))

    it.effect("finishes an instant before it jumps to the next", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.all([
          Effect.gen(function*() {
            yield* Effect.sleep(1)
            yield* Effect.repeat(Effect.yieldNow, { times: 10_000 })
            yield* trace.note("worked")
          }),
          Effect.andThen(Effect.sleep(2), trace.note("next"))
        ], { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["1 worked", "2 next"])
      }))

    it.effect("runs tasks of a lower priority number first", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.forEach([5, 0, -5], (priority) =>
          Effect.gen(function*() {
            yield* Effect.sleep(1)
            yield* Effect.yieldNowWith(priority)
            yield* trace.note(String(priority))
          }), { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["1 -5", "1 0", "1 5"])
      }))

    it.effect.prop(
      "wakes everybody when and in the order that an event queue says",
      [Schema.Array(Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 6 }))))],
      ([chains]) =>
        Effect.gen(function*() {
          const trace = makeTrace()
          yield* VirtualTime.run(Effect.forEach(chains, (chain, index) =>
            Effect.forEach(chain, (millis) =>
              Effect.andThen(Effect.sleep(millis), trace.note(String(index))), { discard: true }), {
            concurrency: "unbounded",
            discard: true
          }))
          assert.deepStrictEqual(trace.entries, eventQueue(chains))
        }),
      { arbitrary: { runs: 200 } }
    )

    it.effect("runs the same program in the same order every time", () =>
      Effect.gen(function*() {
        const once = Effect.gen(function*() {
          const trace = makeTrace()
          yield* VirtualTime.run(Effect.gen(function*() {
            const queue = yield* Queue.bounded<number>(2)
            const latch = yield* Latch.make()
            yield* Effect.forkChild(
              Effect.forEach(Array.from({ length: 20 }, (_, i) => i), (i) => Effect.delay(Queue.offer(queue, i), i % 3))
            )
            yield* Effect.forkChild(Effect.delay(latch.open, 7))
            yield* Effect.forEach(["a", "b", "c"], (name) =>
              Effect.andThen(
                latch.await,
                Effect.repeat(
                  Effect.flatMap(
                    Queue.take(queue),
                    (i) => Effect.andThen(trace.note(`${name}${i}`), Effect.promise(() => Promise.resolve()))
                  ),
                  { times: 5, schedule: Schedule.spaced(2) }
                )
              ), { concurrency: "unbounded" })
          }))
          return trace.entries
        })
        const first = yield* once
        assert.strictEqual(first.length, 18)
        assert.deepStrictEqual(yield* once, first)
      }))
  })

  describe("sleeps", () => {
    it.effect("treats a sleep of nothing as a step aside", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.all([
          Effect.andThen(Effect.sleep(0), trace.note("slept")),
          trace.note("ran")
        ], { concurrency: "unbounded" }))
        assert.deepStrictEqual(trace.entries, ["0 ran", "0 slept"])
      }))

    it.effect("never wakes who sleeps for ever", () =>
      Effect.gen(function*() {
        const result = yield* VirtualTime.run(Effect.timeoutOption(Effect.sleep("Infinity"), "365 days"))
        assert.isTrue(Option.isNone(result))
      }))

    it.effect("forgets the sleep of an interrupted fiber", () =>
      Effect.gen(function*() {
        const end = yield* VirtualTime.run(Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(Effect.sleep("1 hour"), { startImmediately: true })
          yield* Effect.sleep(5)
          yield* Fiber.interrupt(fiber)
          yield* Effect.sleep(5)
          return yield* VirtualTime.now
        }))
        assert.strictEqual(end, 10)
        const exit = yield* Effect.exit(VirtualTime.run(Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(Effect.sleep("1 hour"), { startImmediately: true })
          yield* Fiber.interrupt(fiber)
          return yield* Effect.never
        })))
        assert.deepInclude(failureOf(exit), { _tag: "Stuck", at: 0 })
      }))

    it.effect("does not wake a sleeper that another of the same instant interrupts", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.gen(function*() {
          const victim = yield* Deferred.make<Fiber.Fiber<void>>()
          yield* Effect.forkChild(
            Effect.delay(Effect.flatMap(Deferred.await(victim), Fiber.interrupt), 5),
            { startImmediately: true }
          )
          const fiber = yield* Effect.forkChild(
            Effect.andThen(Effect.sleep(5), trace.note("woke")).pipe(
              Effect.onInterrupt(() => trace.note("interrupted"))
            ),
            { startImmediately: true }
          )
          yield* Deferred.succeed(victim, fiber)
          yield* Fiber.await(fiber)
        }))
        assert.deepStrictEqual(trace.entries, ["5 interrupted"])
      }))

    it.effect("fires the tightest of nested timeouts", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        const result = yield* VirtualTime.run(
          Effect.sleep("1 minute").pipe(
            Effect.onInterrupt(() => trace.note("interrupted")),
            Effect.timeoutOption("20 seconds"),
            Effect.tap((inner) => trace.note(inner._tag)),
            Effect.timeoutOption("30 seconds"),
            Effect.zip(VirtualTime.now)
          )
        )
        assert.deepStrictEqual(result, [Option.some(Option.none()), 20_000])
        assert.deepStrictEqual(trace.entries, ["20000 interrupted", "20000 None"])
      }))

    it.effect("lets a body win that ends at the instant of its timeout", () =>
      Effect.gen(function*() {
        const result = yield* VirtualTime.run(Effect.timeoutOption(Effect.as(Effect.sleep(10), "done"), 10))
        assert.deepStrictEqual(result, Option.some("done"))
      }))

    it.effect("drives schedules and streams", () =>
      Effect.gen(function*() {
        let attempts = 0
        const retried = yield* VirtualTime.run(
          Effect.suspend(() => ++attempts < 4 ? Effect.fail("again") : VirtualTime.now).pipe(
            Effect.retry(Schedule.exponential("1 second"))
          )
        )
        assert.strictEqual(retried, 7000)
        const ticks = yield* VirtualTime.run(
          Stream.fromSchedule(Schedule.spaced("1 minute")).pipe(
            Stream.take(3),
            Stream.mapEffect(() => VirtualTime.now),
            Stream.runCollect
          )
        )
        assert.deepStrictEqual(ticks, [60_000, 120_000, 180_000])
      }))
  })

  describe("promises", () => {
    it.effect("lets long chains of settled promises through before it jumps", () =>
      Effect.gen(function*() {
        const result = yield* VirtualTime.run(Effect.timeoutOption(
          Effect.promise(async () => {
            for (let i = 0; i < 500; i++) await Promise.resolve()
            return "through"
          }),
          "1 second"
        ))
        assert.deepStrictEqual(result, Option.some("through"))
      }))

    it.effect("waits some turns of the event loop before it says that a run is stuck", () =>
      Effect.gen(function*() {
        const turns = Effect.promise(async () => {
          for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve))
        })
        yield* VirtualTime.run(turns)
      }))

    it.live("gives the event loop turns during a long instant", () =>
      Effect.gen(function*() {
        let turns = 0
        const count = Effect.forever(Effect.andThen(Effect.sync(() => turns++), Effect.yieldNow))
        const counter = yield* Effect.forkChild(count)
        yield* VirtualTime.run(Effect.repeat(Effect.yieldNow, { times: 50_000 }))
        yield* Fiber.interrupt(counter)
        assert.isAtLeast(turns, 10)
      }))
  })

  describe("stuck", () => {
    it.effect("fails at the virtual time at which nothing can go on", () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(VirtualTime.run(Effect.andThen(Effect.sleep(1500), Effect.never)))
        const error = failureOf(exit)
        assert.deepInclude(error, { _tag: "Stuck", at: 1500, because: "idle" })
        assert.include(String(error), "Stuck after 1500 ms")
      }))

    it.effect("fails when the next sleeper wakes after the limit", () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(
          VirtualTime.run(Effect.forever(Effect.sleep("10 seconds")), { limit: "25 seconds" })
        )
        assert.deepInclude(failureOf(exit), { _tag: "Stuck", at: 20_000, because: "limit" })
        assert.strictEqual(yield* VirtualTime.run(Effect.as(Effect.sleep(50), 1), { limit: 50 }), 1)
      }))

    it.effect("runs the finalizers of a stuck effect, also those that sleep", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        const exit = yield* Effect.never.pipe(
          Effect.onInterrupt(() => Effect.andThen(Effect.sleep(30), trace.note("cleaned"))),
          (effect) => Effect.andThen(Effect.sleep(10), effect),
          VirtualTime.run,
          Effect.exit
        )
        assert.deepInclude(failureOf(exit), { _tag: "Stuck", at: 10 })
        assert.deepStrictEqual(trace.entries, ["40 cleaned"])
      }))

    it.effect("leaves behind an effect that is deaf to interruption", () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(VirtualTime.run(Effect.uninterruptible(Effect.never)))
        assert.deepInclude(failureOf(exit), { _tag: "Stuck", at: 0 })
      }))

    it.effect("does not hold a sleep against an effect that ended", () =>
      Effect.gen(function*() {
        const end = yield* VirtualTime.run(Effect.gen(function*() {
          yield* Effect.forkDetach(Effect.forever(Effect.sleep("1 second")))
          yield* Effect.sleep(2500)
          return yield* VirtualTime.now
        }))
        assert.strictEqual(end, 2500)
      }))
  })

  describe("interruption", () => {
    it.live("interrupts the effect and runs its finalizers in virtual time", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        const begun = yield* Deferred.make<void>()
        const ticks = Effect.forever(Effect.andThen(Effect.sleep("1 second"), Deferred.succeed(begun, undefined)))
        const fiber = yield* ticks.pipe(
          Effect.onInterrupt(() =>
            Effect.gen(function*() {
              const start = yield* VirtualTime.now
              yield* Effect.sleep("1 hour")
              trace.entries.push(`cleaned in ${(yield* VirtualTime.now) - start}`)
            })
          ),
          VirtualTime.run,
          Effect.forkChild
        )
        yield* Deferred.await(begun)
        const exit = yield* Effect.andThen(Fiber.interrupt(fiber), Fiber.await(fiber))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
        assert.deepStrictEqual(trace.entries, ["cleaned in 3600000"])
      }))

    it.live("can be interrupted while an instant does not end", () =>
      Effect.gen(function*() {
        const result = yield* Effect.timeoutOption(VirtualTime.run(Effect.forever(Effect.yieldNow)), 5)
        assert.isTrue(Option.isNone(result))
      }))

    it.effect("interrupts the children of the effect when it ends", () =>
      Effect.gen(function*() {
        const trace = makeTrace()
        yield* VirtualTime.run(Effect.gen(function*() {
          yield* Effect.never.pipe(
            Effect.onInterrupt(() => Effect.andThen(Effect.sleep(20), trace.note("child cleaned"))),
            Effect.forkChild
          )
          yield* Effect.sleep(10)
        }))
        assert.deepStrictEqual(trace.entries, ["30 child cleaned"])
      }))
  })

  describe("size", () => {
    it.live("runs 10,000 fibers that sleep", () =>
      Effect.gen(function*() {
        const end = yield* VirtualTime.run(Effect.gen(function*() {
          yield* Effect.forEach(Array.from({ length: 10_000 }, (_, i) => i), (i) =>
            Effect.andThen(Effect.sleep((i * 7919) % 10_007), Effect.sleep(1000)), { concurrency: "unbounded" })
          return yield* VirtualTime.now
        }))
        assert.strictEqual(end, 11_006)
      }))

    it.effect("forgets the timeouts of 10,000 effects that end in time", () =>
      Effect.gen(function*() {
        const end = yield* VirtualTime.run(Effect.andThen(
          Effect.forEach(Array.from({ length: 10_000 }), () => Effect.timeout(Effect.sleep(1), "1 hour"), {
            discard: true
          }),
          VirtualTime.now
        ))
        assert.strictEqual(end, 10_000)
      }))
  })

  it.effect("runs inside itself, with a time of its own", () =>
    Effect.gen(function*() {
      const times = yield* VirtualTime.run(Effect.gen(function*() {
        yield* Effect.sleep(5)
        const inner = yield* VirtualTime.run(Effect.andThen(Effect.sleep(100), VirtualTime.now))
        return [inner, yield* VirtualTime.now]
      }))
      assert.deepStrictEqual(times, [100, 5])
    }))
})

/** What is noted by fibers that each sleep through a chain of durations, by a plain event queue. */
const eventQueue = (chains: ReadonlyArray<ReadonlyArray<number>>): ReadonlyArray<string> => {
  let order = 0
  const asleep = chains.flatMap((chain, index) =>
    chain[0] === undefined ? [] : [{ index, step: 0, at: chain[0], order: order++ }]
  )
  const entries: Array<string> = []
  while (asleep.length > 0) {
    asleep.sort((a, b) => a.at - b.at || a.order - b.order)
    const next = asleep.shift()
    if (next === undefined) break
    entries.push(`${next.at} ${next.index}`)
    const millis = chains[next.index]?.[next.step + 1]
    if (millis !== undefined) {
      asleep.push({ index: next.index, step: next.step + 1, at: next.at + millis, order: order++ })
    }
  }
  return entries
}
