/** What holds for every line of calls that wait for permits, whoever takes, leaves or gives up, and whenever. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Semaphore from "effect/Semaphore"
import type { Permit, Ticket } from "../../../src/core/gates/Permit.ts"
import type * as PermitSource from "../../../src/core/gates/PermitSource.ts"
import * as Pools from "../../../src/core/gates/Pools.ts"
import { type ToolHandlers } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, open, run, tags } from "../../support/Harness.ts"
import { randomFrom, type SeededRandom } from "../../support/randomCase.ts"
import { seeds } from "../../support/seeds.ts"

/** A call that does nothing but hold its permits. */
class Caller implements Ticket {
  permits: ReadonlyArray<Permit> = []
  held = 0
  state: Ticket["state"] = "new"
  children: Set<Ticket> | undefined
  joined: Ticket | undefined
  readonly parent = undefined
  readonly told: Array<string> = []
  readonly name: string
  readonly tool: ToolHandlers.RegisteredTool
  readonly resources: ReadonlyArray<string>
  fiber: Fiber.Fiber<void> | undefined

  constructor(name: string, tool: Partial<ToolHandlers.RegisteredTool> = {}, resources: ReadonlyArray<string> = []) {
    this.name = name
    this.tool = { name: "t", class: "ReadOnly", ...tool } as ToolHandlers.RegisteredTool
    this.resources = resources
  }

  onDeadlock(waitsFor: string): void {
    this.told.push(`deadlock: ${waitsFor}`)
  }
  onBlocked(because: string): void {
    this.told.push(because)
  }
  onLost(because: string): void {
    this.told.push(because)
  }
}

const turns = Effect.forEach(Array.from({ length: 10 }), () => Effect.yieldNow, { discard: true })

describe("a call that gets everything at once", () => {
  it.effect("waits in no fiber: for counted permits, keys, caps and a semaphore that nobody waits for", () =>
    Effect.gen(function*() {
      const semaphore = Semaphore.makeUnsafe(2)
      const pools = yield* Pools.make({ read: 2, concurrent: semaphore })
      const plain = new Caller("plain")
      assert.isTrue(Exit.isExit(pools.enter(plain)))
      assert.isTrue(Exit.isExit(pools.enter(new Caller("more", { name: "capped", maxConcurrent: 1 }, ["a", "b"]))))
      const third = new Caller("third")
      assert.isFalse(Exit.isExit(pools.enter(third)))
      assert.strictEqual(third.state, "waiting")
      pools.leave(plain)
      assert.strictEqual(third.state, "ready")
      const shared = new Caller("shared", { class: "ConcurrentMut" })
      assert.isTrue(Exit.isExit(pools.enter(shared)))
      assert.isTrue(yield* semaphore.takeIfAvailable(1))
      assert.isFalse(yield* semaphore.takeIfAvailable(1))
      pools.leave(shared)
      assert.isTrue(yield* semaphore.takeIfAvailable(1))
    }))

  it.effect("shares the list of its permits with all others of its class", () =>
    Effect.gen(function*() {
      const pools = yield* Pools.make()
      const [a, b] = [new Caller("a"), new Caller("b")]
      yield* pools.enter(a)
      yield* pools.enter(b)
      assert.strictEqual(a.permits, b.permits)
    }))
})

describe("a call that is interrupted while it waits", () => {
  it.effect("gives up its place, and the keys that it has got already", () =>
    Effect.gen(function*() {
      const pools = yield* Pools.make({ read: 1 })
      const [a, b, c, d] = [
        new Caller("a"),
        new Caller("b", {}, ["x"]),
        new Caller("c"),
        new Caller("d", { class: "ConcurrentMut" }, ["x"])
      ] as const
      yield* pools.enter(a)
      const [fiberB, fiberC, fiberD] = [b, c, d].map((it) => Effect.runFork(pools.enter(it))) as [
        Fiber.Fiber<void>,
        Fiber.Fiber<void>,
        Fiber.Fiber<void>
      ]
      assert.deepStrictEqual([b.held, c.held, d.held], [1, 0, 0])
      yield* Fiber.interrupt(fiberB)
      // who waited for the key has it
      yield* Fiber.join(fiberD)
      pools.leave(a)
      yield* Fiber.join(fiberC)
      assert.deepStrictEqual([b.state, c.state], ["left", "ready"])
    }), { tags: ["C4"] })

  it.effect("keeps its keys where it only waits to go on", () =>
    Effect.gen(function*() {
      const pools = yield* Pools.make({ concurrent: 1 })
      const mutates = { class: "ConcurrentMut" } as const
      const [a, b, c] = [new Caller("a", mutates, ["x"]), new Caller("b", mutates), new Caller("c", {}, ["x"])] as const
      yield* pools.enter(a)
      pools.releasePermits(a)
      yield* pools.enter(b)
      const again = Effect.runFork(pools.reenter(a))
      const waiting = Effect.runFork(pools.enter(c))
      yield* Fiber.interrupt(again)
      assert.deepStrictEqual([a.held, c.state], [1, "waiting"])
      pools.leave(b)
      // nobody stands in line for it any more
      assert.isTrue(Exit.isExit(pools.enter(new Caller("d", mutates))))
      pools.leave(a)
      yield* Fiber.join(waiting)
    }))

  it.effect("stands in line anew if it comes back before its old wait has heard of its end", () =>
    Effect.gen(function*() {
      const pools = yield* Pools.make({ concurrent: 1 })
      const mutates = { class: "ConcurrentMut" } as const
      const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => new Caller(name, mutates)) as [
        Caller,
        Caller,
        Caller,
        Caller
      ]
      yield* pools.enter(a)
      pools.releasePermits(a)
      yield* pools.enter(b)
      const next = Effect.runFork(pools.enter(c))
      const old = Effect.runFork(pools.reenter(a))
      const last = Effect.runFork(pools.enter(d))
      let anew: Fiber.Fiber<void> | undefined
      // goes on inside of the release of another one, before anything else is told
      next.addObserver(() => {
        pools.releasePermits(a)
        anew = Effect.runFork(pools.reenter(a))
      })
      pools.leave(b)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(old)))
      pools.leave(c)
      yield* Fiber.join(last)
      assert.strictEqual(a.state, "waiting")
      pools.leave(d)
      yield* Fiber.join(anew!)
    }))

  it.effect("by its leaving waits no longer", () =>
    Effect.gen(function*() {
      const pools = yield* Pools.make({ read: 1 })
      const [a, b] = [new Caller("a"), new Caller("b")]
      yield* pools.enter(a)
      const wait = pools.enter(b)
      const fiber = Effect.runFork(wait)
      pools.leave(b)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      // nor does who comes to wait for it later
      assert.isTrue(Exit.hasInterrupts(yield* Effect.exit(wait)))
      assert.isTrue(Exit.hasInterrupts(yield* Effect.exit(pools.enter(b))))
    }))
})

describe("a semaphore of the host", () => {
  it.effect("goes to the host's code that stood in line first", () =>
    Effect.gen(function*() {
      const semaphore = Semaphore.makeUnsafe(1)
      const pools = yield* Pools.make({ read: semaphore })
      yield* semaphore.take(1)
      const log: Array<string> = []
      const host = (name: string) =>
        Effect.runFork(Effect.tap(semaphore.take(1), () => Effect.sync(() => log.push(name))))
      const enter = (caller: Caller) =>
        Effect.runFork(Effect.tap(pools.enter(caller), () => Effect.sync(() => log.push(caller.name))))
      const [a, b] = [new Caller("a"), new Caller("b")]
      host("host 1")
      enter(a)
      host("host 2")
      enter(b)
      yield* semaphore.release(1)
      yield* turns
      assert.deepStrictEqual(log, ["host 1"])
      yield* semaphore.release(1)
      yield* turns
      assert.deepStrictEqual(log, ["host 1", "a"])
      // not to the next call, which stands behind the host's code
      pools.leave(a)
      yield* turns
      assert.deepStrictEqual(log, ["host 1", "a", "host 2"])
      yield* semaphore.release(1)
      yield* turns
      assert.deepStrictEqual(log, ["host 1", "a", "host 2", "b"])
    }), { tags: ["C5"] })

  it.effect("has nobody in its line once no call waits", () =>
    Effect.gen(function*() {
      const semaphore = Semaphore.makeUnsafe(1)
      const pools = yield* Pools.make({ read: semaphore })
      yield* semaphore.take(1)
      const [a, b] = [new Caller("a"), new Caller("b")]
      const fibers = [Effect.runFork(pools.enter(a)), Effect.runFork(pools.enter(b))]
      const host = Effect.runFork(semaphore.take(1))
      yield* Fiber.interruptAll(fibers)
      yield* semaphore.release(1)
      yield* Fiber.join(host)
      assert.deepStrictEqual([a.held, b.held], [0, 0])
    }))

  it.effect("serves thousands of calls that end at once", () =>
    Effect.gen(function*() {
      const semaphore = Semaphore.makeUnsafe(1)
      const pools = yield* Pools.make({ read: semaphore })
      yield* semaphore.take(1)
      let ended = 0
      const fibers = Array.from({ length: 20_000 }, (_, n) => {
        const caller = new Caller(String(n))
        return Effect.runFork(Effect.map(pools.enter(caller), () => {
          ended++
          pools.leave(caller)
        }))
      })
      yield* semaphore.release(1)
      yield* Fiber.joinAll(fibers)
      assert.strictEqual(ended, 20_000)
      assert.isTrue(yield* semaphore.takeIfAvailable(1))
    }))
})

describe("a source of permits", () => {
  const source = Effect.gen(function*() {
    const lost = yield* Deferred.make<string>()
    const log: Array<string> = []
    const lease = Effect.as(
      Effect.acquireRelease(Effect.sync(() => log.push("taken")), () => Effect.sync(() => log.push("given back"))),
      { lost: Deferred.await(lost) }
    )
    return { lost, log, source: { lease } satisfies PermitSource.PermitSource }
  })

  it.effect("that takes a permit away cancels the call that holds it, and no other", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const it = yield* source
      const { process } = yield* open({
        read: () => Effect.sleep("1 hour"),
        write: { class: "SerialMut", handler: () => Effect.void }
      }, { pools: { read: it.source }, executionTimeout: "2 hours" })
      const wave = yield* Effect.forkChild(process.executeWave(calls("read", "write")))
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual(it.log, ["taken"])
      yield* Deferred.succeed(it.lost, "its server is gone")
      const { outcomes } = yield* Fiber.join(wave)
      assert.deepStrictEqual(outcomes.map((outcome) => outcome._tag), ["Cancelled", "Succeeded"])
      assert.deepInclude(outcomes[0], {
        started: true,
        duration: 1_000,
        reason: "a permit of the read pool was lost: its server is gone"
      })
      assert.deepStrictEqual(it.log, ["taken", "given back"])
    }))))

  it.effect("that has lost one when it gives it starts nothing", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const it = yield* source
      yield* Deferred.succeed(it.lost, "no more")
      let started = 0
      const { process } = yield* open({ read: () => Effect.sync(() => started++) }, { pools: { read: it.source } })
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["Cancelled"])
      assert.strictEqual(started, 0)
      assert.deepStrictEqual(it.log, ["taken", "given back"])
    }))))

  it.effect("that cannot be stopped gives what comes to the next in line, or gets it back where nobody waits any more", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const leases: Array<Deferred.Deferred<void>> = []
      const pools = yield* Pools.make({
        read: {
          lease: Effect.acquireRelease(
            Effect.suspend(() => {
              const given = Deferred.makeUnsafe<void>()
              leases.push(given)
              return Effect.as(Deferred.await(given), {})
            }),
            () => Effect.sync(() => log.push("given back"))
          )
        }
      })
      const callers = ["a", "b", "c"].map((name) => new Caller(name))
      const [first, second] = callers.slice(0, 2).map((it) => Effect.runFork(pools.enter(it)))
      yield* Fiber.interrupt(first!)
      assert.strictEqual(leases.length, 1)
      yield* Deferred.succeed(leases[0]!, undefined)
      yield* Fiber.join(second!)
      pools.leave(callers[1]!)
      assert.deepStrictEqual(log, ["given back"])
      // deaf: acquiring is not interrupted
      const third = Effect.runFork(pools.enter(callers[2]!))
      yield* Fiber.interrupt(third)
      yield* Deferred.succeed(leases[1]!, undefined)
      yield* turns
      assert.deepStrictEqual(log, ["given back", "given back"])
    }))

  it.effect("sees the one place in its line given up", () =>
    Effect.gen(function*() {
      let waiting = 0
      const lease = Effect.onInterrupt(
        Effect.suspend(() => {
          waiting++
          return Effect.never
        }),
        () => Effect.sync(() => waiting--)
      )
      const pools = yield* Pools.make({ read: { lease } })
      const fibers = ["a", "b"].map((name) => Effect.runFork(pools.enter(new Caller(name))))
      assert.strictEqual(waiting, 1)
      yield* Fiber.interruptAll(fibers)
      assert.strictEqual(waiting, 0)
      // and taken anew by the next
      Effect.runFork(pools.enter(new Caller("c")))
      assert.strictEqual(waiting, 1)
    }))

  it.effect("that dies refuses the calls, and none of them hangs", () =>
    run(
      { read: () => Effect.void },
      { pools: { read: { lease: Effect.andThen(Effect.sleep(5), Effect.die(new Error("boom"))) } } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([call("1", "read", { n: 1 }), call("2", "read", { n: 2 })])
          const because = "the read pool has no permits to give: Error: boom"
          assert.deepStrictEqual(
            wave.outcomes.map((it) => it._tag === "Denied" ? it.reason : it._tag),
            [{ _tag: "ToolBlocked", because }, { _tag: "ToolBlocked", because }]
          )
        })
    ))

  it.effect("is told from a mistake", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Pools.make({ read: "many" as never, serial: {} as never, concurrent: Infinity }))
      assert.deepStrictEqual(error.problems.map((it) => it.path), ["pools.read", "pools.concurrent", "pools.serial"])
    }))
})

/** The same by hand: arrays, nothing clever. */
class Model {
  readonly held = new Map<Caller, number>()
  readonly ready: Array<string> = []
  private readonly needs = new Map<Caller, ReadonlyArray<string>>()
  private readonly lines = new Map<string, Array<Caller>>()
  readonly taken = new Map<string, number>()
  private readonly sizes: { readonly [permit: string]: number }

  constructor(sizes: { readonly [permit: string]: number }) {
    this.sizes = sizes
  }

  sizeOf(permit: string): number {
    return this.sizes[permit] ?? 1
  }
  line(permit: string): Array<Caller> {
    if (!this.lines.has(permit)) this.lines.set(permit, [])
    return this.lines.get(permit)!
  }
  enter(caller: Caller): void {
    const { maxConcurrent, name } = caller.tool
    const cap = maxConcurrent === undefined ? [] : [`the cap of "${name}"`]
    const pool = caller.tool.class === "ReadOnly" ? "the read pool" : "the concurrent pool"
    this.needs.set(caller, [...new Set(caller.resources)].sort().concat(cap, pool))
    this.held.set(caller, 0)
    this.take(caller)
  }
  take(caller: Caller): void {
    const needs = this.needs.get(caller)!
    while (this.held.get(caller)! < needs.length) {
      const permit = needs[this.held.get(caller)!]!
      const taken = this.taken.get(permit) ?? 0
      if (taken >= this.sizeOf(permit)) {
        this.line(permit).push(caller)
        return
      }
      this.taken.set(permit, taken + 1)
      this.held.set(caller, this.held.get(caller)! + 1)
    }
    this.ready.push(caller.name)
  }
  give(caller: Caller, keep: number): void {
    const needs = this.needs.get(caller)!
    for (const line of this.lines.values()) if (line.includes(caller)) line.splice(line.indexOf(caller), 1)
    const held = this.held.get(caller)!
    this.held.set(caller, Math.min(held, keep))
    for (let i = held - 1; i >= keep; i--) {
      const next = this.line(needs[i]!).shift()
      if (next === undefined) this.taken.set(needs[i]!, this.taken.get(needs[i]!)! - 1)
      else {
        this.held.set(next, this.held.get(next)! + 1)
        this.take(next)
      }
    }
  }
}

const randomCaller = (name: string, { chance, int, pick }: SeededRandom): Caller =>
  new Caller(
    name,
    {
      ...pick([{ name: "t" }, { name: "t" }, { name: "capped", maxConcurrent: 2 }]),
      class: chance(0.6) ? "ReadOnly" : "ConcurrentMut"
    },
    chance(0.5) ? [] : Array.from({ length: 1 + int(3) }, () => pick(["a", "b", "c"]))
  )

describe("any order of takes, releases and interruptions", () => {
  it.effect(
    "gives each permit to the first in its line, to no more than there are, and leaves none unused",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(300)) {
          const random = randomFrom(seed)
          const sizes = { "the read pool": 1 + random.int(3), "the concurrent pool": 1 + random.int(2) }
          const pools = yield* Pools.make({ read: sizes["the read pool"], concurrent: sizes["the concurrent pool"] })
          const model = new Model({ ...sizes, "the cap of \"capped\"": 2 })
          const log: Array<string> = []
          const live: Array<Caller> = []
          const paused = new Set<Caller>()
          const wait = (caller: Caller, effect: Effect.Effect<void>) => {
            caller.fiber = Effect.runFork(Effect.map(effect, () => void log.push(caller.name)))
          }
          for (let step = 0; step < 60; step++) {
            const some = live.length === 0 ? undefined : random.pick(live)
            const what = random.int(6)
            if (some === undefined || what < 2) {
              const caller = randomCaller(String(step), random)
              live.push(caller)
              model.enter(caller)
              wait(caller, pools.enter(caller))
            } else if (paused.has(some)) {
              paused.delete(some)
              model.take(some)
              wait(some, pools.reenter(some))
            } else if (some.state === "waiting" && what < 5) {
              const isPause = some.held > 0 && log.includes(some.name)
              model.give(some, isPause ? new Set(some.resources).size : 0)
              some.fiber!.interruptUnsafe()
              if (isPause) paused.add(some)
              else live.splice(live.indexOf(some), 1)
            } else if (some.state === "ready" && what === 2) {
              model.give(some, new Set(some.resources).size)
              pools.releasePermits(some)
              paused.add(some)
            } else {
              model.give(some, 0)
              pools.leave(some)
              live.splice(live.indexOf(some), 1)
            }
            const where = `seed ${seed}, step ${step}`
            assert.deepStrictEqual(log, model.ready, where)
            for (const caller of live) assert.strictEqual(caller.held, model.held.get(caller), where)
            // what is counted is what is held, of what there is
            const holders = new Map<Permit, number>()
            for (const { held, permits } of live) {
              for (const permit of permits.slice(0, held)) holders.set(permit, (holders.get(permit) ?? 0) + 1)
            }
            for (const [permit, held] of holders) {
              assert.strictEqual(permit.taken, held, where)
              assert.isAtMost(held, model.sizeOf(permit.name), where)
            }
            for (const { held, permits, state } of live) {
              const next = permits[held]
              if (state === "waiting") assert.strictEqual(holders.get(next!), model.sizeOf(next!.name), where)
            }
          }
          for (const caller of live) pools.leave(caller)
          // all are back
          const last = Array.from({ length: sizes["the read pool"] }, () => pools.enter(new Caller("last")))
          assert.isTrue(last.every(Exit.isExit), `seed ${seed}`)
        }
      }),
    { tags: ["C4"] }
  )

  it.effect(
    "shares a host's semaphore: never more together than it has, calls in their order, and none waits for what is free",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(100)) {
          const random = randomFrom(seed)
          const size = 1 + random.int(3)
          const semaphore = Semaphore.makeUnsafe(size)
          const pools = yield* Pools.make({ read: semaphore })
          const line: Array<Caller> = []
          const holding: Array<Caller> = []
          const overtakers: Array<string> = []
          let atHost = 0
          const host: Array<Fiber.Fiber<unknown>> = []
          for (let step = 0; step < 50; step++) {
            const what = random.int(6)
            if (what < 2) {
              const caller = new Caller(String(step))
              line.push(caller)
              caller.fiber = Effect.runFork(Effect.map(pools.enter(caller), () => {
                if (line[0] !== caller) overtakers.push(caller.name)
                line.splice(line.indexOf(caller), 1)
                holding.push(caller)
              }))
            } else if (what === 2) {
              host.push(Effect.runFork(Effect.map(semaphore.take(1), () => void atHost++)))
            } else if (what === 3 && atHost > 0) {
              atHost--
              yield* semaphore.release(1)
            } else if (what === 4 && line.length > 0) {
              const [caller] = line.splice(random.int(line.length), 1)
              yield* Fiber.interrupt(caller!.fiber!)
            } else if (holding.length > 0) {
              pools.leave(holding.splice(random.int(holding.length), 1)[0]!)
            }
            yield* turns
            const where = `seed ${seed}, step ${step}`
            assert.deepStrictEqual(overtakers, [], where)
            assert.isAtMost(holding.length + atHost, size, where)
            const waiting = line.length + host.filter((it) => it.pollUnsafe() === undefined).length
            if (waiting > 0) assert.strictEqual(holding.length + atHost, size, where)
          }
        }
      }),
    { tags: ["C5"] }
  )
})
