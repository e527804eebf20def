/** The state store as an executor uses it: what is there at once, what comes too late, and what is leased. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import { RetryingStore } from "../../../../src/core/engine/ports/RetryingStore.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { ToolContext } from "../../../../src/index.ts"
import { Outages } from "../../../../src/internal/outages.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { calls, open, run, tags } from "../../../support/Harness.ts"

type Store = StateStore.StateStore["Service"]

const slot = (batch: string): StateStore.Claim => ({ _tag: "Calls", batch, tool: "t", max: 1 })
const request = (batch: string): StateStore.Request => ({ owner: batch, session: "session", claims: [slot(batch)] })
const spent = { started: true, key: "release", windowMillis: 0, value: undefined } as const

const options = { session: "session", principal: "p", timeout: 5_000, retry: 1_000, outages: new Outages() }

const patient = (driver: Store) =>
  Effect.map(Effect.context<never>(), (context: Context.Context<never>) => new RetryingStore(driver, context, options))

const reservation = ([it]: ReadonlyArray<unknown>): StateStore.Reservation => {
  assert.property(it, "epoch")
  return it as StateStore.Reservation
}

/**
 * A store in memory that leases what it gives: what is not renewed in time goes
 * back, and is not known any more.
 */
const leased = (leaseMillis: number) =>
  Effect.map(VirtualTime.now, (begin) => {
    const memory = StateStore.makeMemory()
    const until = new Map<string, number>()
    const seen = { renewals: [] as Array<readonly [at: number, count: number]>, isDown: false }
    const lose = (now: number) => {
      for (const [id, end] of until) {
        if (now < end || !until.delete(id)) continue
        Effect.runSync(memory.settle({ id, epoch: 1 }, { ...spent, started: false }, now))
      }
    }
    const store: Store = {
      ...memory,
      reserve: (requests, now) => {
        lose(now)
        const answers = Effect.runSync(memory.reserve(requests, now))
        return Effect.succeed(answers.map((it) => {
          if ("_tag" in it) return it
          until.set(it.id, now + leaseMillis)
          return { id: it.id, epoch: it.epoch, leaseMillis }
        }))
      },
      renew: (reservations, now) => {
        if (seen.isDown) return Effect.fail(new StateStore.StateStoreError({ operation: "renew", cause: "down" }))
        lose(now)
        seen.renewals.push([now - begin, reservations.length])
        const held = reservations.filter(({ id }) => until.has(id))
        for (const { id } of held) until.set(id, now + leaseMillis)
        return Effect.succeed(held)
      },
      settle: (it, settlement, now) => {
        lose(now)
        if (settlement.key !== "running") until.delete(it.id)
        return memory.settle(it, settlement, now)
      }
    }
    return { store, seen }
  })

describe("what a store answers at once", () => {
  it.effect("is there at once", () =>
    Effect.gen(function*() {
      const store = yield* patient(StateStore.makeMemory())
      const reserved = store.reserve([request("b")], 0)
      const it = reservation(yield* reserved)
      const answers: ReadonlyArray<unknown> = [
        reserved,
        store.check([slot("b")], 0),
        store.grants("p", 0),
        store.settle(it, { ...spent, key: "running" }, 0),
        store.release(it, 0),
        store.mutated("p", undefined),
        store.giveBack(reservation(yield* store.reserve([request("c")], 0)), 0)
      ]
      for (const answer of answers) assert.isTrue(Exit.isExit(answer))
    }))

  it.effect("is an answer or a failure for each call, in order, whatever the driver says", () =>
    Effect.gen(function*() {
      const memory = StateStore.makeMemory()
      const tagsOf = (reserve: Store["reserve"]) =>
        Effect.gen(function*() {
          const store = yield* patient({ ...memory, reserve })
          const answers = yield* store.reserve([request("b"), request("c")], 0)
          return answers.map((it) => "_tag" in it ? it._tag : "reserved")
        })
      const failed = ["StateStoreError", "StateStoreError"]
      assert.deepStrictEqual(yield* tagsOf(() => Effect.die("no")), failed)
      assert.deepStrictEqual(yield* tagsOf(() => Effect.succeed([])), failed)
      assert.deepStrictEqual(yield* tagsOf(() => Effect.never), failed)
      assert.deepStrictEqual(yield* tagsOf(() => Effect.succeed([{ _tag: "CallsUsedUp" }])), failed)
    }).pipe(VirtualTime.run))
})

describe("what a store answers too late", () => {
  it.effect("is given back, all of it", () =>
    Effect.gen(function*() {
      const memory = StateStore.makeMemory()
      const store = yield* patient({
        ...memory,
        reserve: (...asked) => Effect.delay(Effect.suspend(() => memory.reserve(...asked)), 1_000)
      })
      const answers = yield* store.reserve([request("b"), request("c")], 0, 100)
      assert.isTrue(answers.every((it) => it instanceof StateStore.StateStoreError))
      assert.strictEqual(yield* VirtualTime.now, 100)
      yield* Effect.sleep(1_000)
      assert.isUndefined(yield* memory.check([slot("b")], 1_100))
      assert.isUndefined(yield* memory.check([slot("c")], 1_100))
    }).pipe(VirtualTime.run))

  it.effect("holds a batch until it is let go, even before it is held", () =>
    Effect.gen(function*() {
      const memory = StateStore.makeMemory({ batchTimeToLive: 1 })
      const late = {
        ...memory,
        reserve: (...asked: Parameters<Store["reserve"]>) => Effect.delay(memory.reserve(...asked), 50)
      }
      const isHeld = Effect.gen(function*() {
        const now = (yield* VirtualTime.now) + 1_000
        yield* memory.pruneExpired(now)
        return (yield* memory.check([slot("b")], now)) !== undefined
      })
      for (const driver of [memory, late]) {
        const store = yield* patient(driver)
        yield* memory.settle(reservation(yield* memory.reserve([request("b")], 0)), spent, yield* VirtualTime.now)
        const letGo = store.hold("b")
        yield* Effect.sleep(100)
        assert.isTrue(yield* isHeld)
        yield* letGo
        assert.isFalse(yield* isHeld)
      }
      const store = yield* patient(late)
      yield* memory.settle(reservation(yield* memory.reserve([request("b")], 0)), spent, yield* VirtualTime.now)
      yield* store.hold("b")
      yield* Effect.sleep(100)
      assert.isFalse(yield* isHeld)
    }).pipe(VirtualTime.run))
})

describe("a lease of a store", () => {
  it.effect("is renewed at half time, all at once, until it is settled", () =>
    Effect.gen(function*() {
      const { seen, store: driver } = yield* leased(1_000)
      const store = yield* patient(driver)
      const one = reservation(yield* store.reserve([request("b")], yield* VirtualTime.now))
      yield* Effect.sleep(400)
      const two = reservation(yield* store.reserve([request("c")], yield* VirtualTime.now))
      yield* Effect.sleep(700)
      assert.deepStrictEqual(seen.renewals, [[500, 2], [1_000, 2]])
      yield* store.settle(one, spent, yield* VirtualTime.now)
      yield* Effect.sleep(500)
      assert.deepStrictEqual(seen.renewals.slice(2), [[1_500, 1]])
      assert.propertyVal(yield* driver.check([slot("c")], yield* VirtualTime.now), "_tag", "CallsUsedUp")
      // one whose fiber still runs is held until that ends
      yield* store.settle(two, { ...spent, key: "running" }, yield* VirtualTime.now)
      yield* Effect.sleep(500)
      assert.deepStrictEqual(seen.renewals.slice(3), [[2_000, 1]])
      yield* store.release(two, yield* VirtualTime.now)
      yield* Effect.sleep("1 hour")
      assert.lengthOf(seen.renewals, 4)
      yield* store.reserve([request("d")], yield* VirtualTime.now)
      yield* Effect.sleep(600)
      assert.lengthOf(seen.renewals, 5)
    }).pipe(VirtualTime.run))

  it.effect("is renewed again soon by a store that was down, and not after the executor's end", () =>
    Effect.gen(function*() {
      const { seen, store: driver } = yield* leased(1_000)
      const store = yield* patient(driver)
      const one = reservation(yield* store.reserve([request("b")], yield* VirtualTime.now))
      seen.isDown = true
      yield* Effect.sleep(800)
      seen.isDown = false
      yield* Effect.sleep(1_000)
      assert.isTrue(yield* driver.settle(one, { ...spent, started: false }, yield* VirtualTime.now))
      yield* store.reserve([request("b")], yield* VirtualTime.now)
      yield* store.close
      const { length } = seen.renewals
      yield* Effect.sleep("1 hour")
      assert.lengthOf(seen.renewals, length)
    }).pipe(VirtualTime.run))

  it.effect("is lost where it could not be renewed: another has it, and the first one's end changes nothing", () =>
    Effect.gen(function*() {
      const { seen, store: driver } = yield* leased(1_000)
      const warnings: Array<string> = []
      const logger = Logger.make(({ message }) => void warnings.push(String(message)))
      const store = yield* Effect.provideService(patient(driver), Logger.CurrentLoggers, new Set([logger]))
      const one = reservation(yield* store.reserve([request("b")], yield* VirtualTime.now))
      seen.isDown = true
      yield* Effect.sleep("1 minute")
      seen.isDown = false
      const other = yield* patient(driver)
      const two = reservation(yield* other.reserve([request("b")], yield* VirtualTime.now))
      yield* store.settle(one, { ...spent, started: false }, yield* VirtualTime.now)
      assert.propertyVal(yield* driver.check([slot("b")], yield* VirtualTime.now), "_tag", "CallsUsedUp")
      assert.isTrue(yield* driver.settle(two, spent, yield* VirtualTime.now))
      assert.match(warnings.join("\n"), /StateStore\.settle changed nothing; the reservation was no longer held/)
    }).pipe(VirtualTime.run))

  it.effect("outlasts a call that runs for much longer than its lease", () =>
    Effect.gen(function*() {
      const { seen, store } = yield* leased(1_000)
      yield* run(
        { t: () => Effect.sleep("1 minute") },
        { store, rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }] },
        ({ process }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
            assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { b: 1 }]))), ["RuleViolation"])
          })
      )
      assert.isAtLeast(seen.renewals.length, 119)
    }))

  it.effect(
    "is given up before it ends where the store cannot be reached: its call is stopped in time",
    () =>
      Effect.gen(function*() {
        const { seen, store } = yield* leased(1_000)
        const ran: Array<readonly [what: string, at: number]> = []
        const note = (what: string) => Effect.map(VirtualTime.now, (at) => void ran.push([what, at]))
        const outcomes = yield* run(
          {
            t: () =>
              Effect.gen(function*() {
                yield* note("starts")
                seen.isDown = true
                return yield* Effect.never
              }).pipe(Effect.onInterrupt(() => note("stops")))
          },
          { store, rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }] },
          ({ process }) => process.executeWave(calls("t"))
        )
        assert.deepInclude(outcomes.outcomes[0], { _tag: "Cancelled", started: true })
        assert.deepStrictEqual(ran, [["starts", 0], ["stops", 875]])
      }),
    { tags: ["ST5"] }
  )

  it.effect("is lost where the store says so: the effect of its call is unknown", () =>
    Effect.gen(function*() {
      const { store } = yield* leased(1_000)
      const { outcomes } = yield* run(
        { t: () => Effect.never },
        { store: { ...store, renew: () => Effect.succeed([]) }, rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }] },
        ({ process }) => process.executeWave(calls("t"))
      )
      assert.deepInclude(outcomes[0], { _tag: "Unknown", startedAt: 0 })
    }), { tags: ["ST6"] })

  it.effect("makes the end of a call count for nothing after a pause beyond it", () =>
    Effect.gen(function*() {
      const { store } = yield* leased(1_000)
      const clock = yield* Clock.Clock
      const stopped = { nanos: 0n }
      const monotonicTimeNanosUnsafe = () => clock.monotonicTimeNanosUnsafe() + stopped.nanos
      const slow: Clock.Clock = {
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        monotonicTimeNanosUnsafe,
        monotonicTimeNanos: Effect.sync(monotonicTimeNanosUnsafe)
      }
      const { process } = yield* open(
        {
          t: ({ a }) =>
            Effect.sync(() => {
              if (a === 2) stopped.nanos += 1_000_000_000n
            })
        },
        { store, mode: "sequential", rules: [{ _tag: "MaxCalls", tool: "t", max: 9 }] }
      ).pipe(Effect.provideService(Clock.Clock, slow))
      const { outcomes } = yield* process.executeWave(calls(["t", { a: 1 }], ["t", { a: 2 }]))
      assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Succeeded", "Unknown"])
    }).pipe(Effect.scoped, VirtualTime.run), { tags: ["ST6"] })

  it.effect("blocks writes after a pause beyond it, before any timer fires", () =>
    Effect.gen(function*() {
      const { store } = yield* leased(1_000)
      const clock = yield* Clock.Clock
      const stopped = { nanos: 0n }
      const monotonicTimeNanosUnsafe = () => clock.monotonicTimeNanosUnsafe() + stopped.nanos
      const slow: Clock.Clock = {
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        monotonicTimeNanosUnsafe,
        monotonicTimeNanos: Effect.sync(monotonicTimeNanosUnsafe)
      }
      const written: Array<string> = []
      const write = (what: string) =>
        Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.sync(() => void written.push(what))))
      const { process } = yield* open(
        {
          t: () =>
            Effect.gen(function*() {
              yield* write("in time")
              stopped.nanos += 1_000_000_000n
              yield* write("too late")
            })
        },
        { store, rules: [{ _tag: "MaxCalls", tool: "t", max: 9 }] }
      ).pipe(Effect.provideService(Clock.Clock, slow))
      const { outcomes } = yield* process.executeWave(calls("t"))
      assert.deepInclude(outcomes[0], { _tag: "Unknown", commits: 1 })
      assert.deepStrictEqual(written, ["in time"])
    }).pipe(Effect.scoped, VirtualTime.run), { tags: ["ST6"] })

  it.effect("leaves its permit to a handler that is deaf to the loss of it", () =>
    Effect.gen(function*() {
      const { seen, store } = yield* leased(1_000)
      const started: Array<number> = []
      yield* run(
        {
          deaf: {
            class: "SerialMut",
            handler: () =>
              Effect.gen(function*() {
                seen.isDown = true
                yield* Effect.sleep(1_000)
                seen.isDown = false
                yield* Effect.sleep(9_000)
              }).pipe(Effect.uninterruptible)
          },
          t: { class: "SerialMut", handler: () => Effect.map(VirtualTime.now, (at) => void started.push(at)) }
        },
        { store, rules: [{ _tag: "MaxCalls", tool: "deaf", max: 1 }] },
        ({ process }) =>
          Effect.gen(function*() {
            const { outcomes } = yield* process.executeWave(calls("deaf", "t"))
            assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Cancelled", "Succeeded"])
          })
      )
      assert.deepStrictEqual(started, [10_000])
    }))

  it.effect("is told of starts, those of one moment at once, and what is not held starts nothing", () =>
    Effect.gen(function*() {
      const { store } = yield* leased(1_000)
      const asked: Array<number> = []
      const { outcomes } = yield* run(
        { t: () => Effect.void },
        {
          store: {
            ...store,
            start: (all, now) => {
              asked.push(all.length)
              return Effect.map(Effect.delay(store.start(all, now), 10), (held) => held.slice(1))
            }
          },
          rules: [{ _tag: "MaxCalls", tool: "t", max: 9 }]
        },
        ({ process }) => process.executeWave(calls(["t", { a: 1 }], ["t", { a: 2 }], ["t", { a: 3 }]))
      )
      assert.deepStrictEqual(asked, [3])
      assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Denied", "Succeeded", "Succeeded"])
      assert.deepInclude(outcomes[0], { reason: { _tag: "StoreUnavailable", operation: "start" } })
    }))
})

describe("a session that is over", () => {
  it.effect("is told again where the store could not be, and fails for nobody", () =>
    Effect.gen(function*() {
      const memory = StateStore.makeMemory()
      const told: Array<number> = []
      const store = yield* patient({
        ...memory,
        abandon: (session, now, started) => {
          told.push(now)
          return told.length < 3
            ? Effect.fail(new StateStore.StateStoreError({ operation: "abandon", cause: "down" }))
            : memory.abandon(session, now, started)
        }
      })
      yield* memory.reserve([request("b")], 0)
      yield* store.abandon("session", 0, [])
      assert.isDefined(yield* memory.check([slot("b")], 0))
      yield* Effect.sleep("1 minute")
      assert.isUndefined(yield* memory.check([slot("b")], 0))
      assert.deepStrictEqual(told, [0, 0, 0])
    }).pipe(VirtualTime.run))
})
