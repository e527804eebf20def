import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import type { Permit, Ticket } from "../../../src/core/gates/Permit.ts"
import * as Pools from "../../../src/core/gates/Pools.ts"
import { type ToolHandlers } from "../../../src/index.ts"
import { findDeadlock } from "../../../src/internal/deadlock.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, open, run, tags } from "../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

/** A ticket that notes when its turn comes. */
class TestTicket implements Ticket {
  permits: ReadonlyArray<Permit> = []
  held = 0
  state: "new" | "waiting" | "ready" | "left" = "new"
  children: Set<Ticket> | undefined
  joined: Ticket | undefined
  readonly tool: ToolHandlers.RegisteredTool
  readonly parent: Ticket | undefined
  readonly resources: ReadonlyArray<string>
  private readonly log: Array<string>
  private readonly name: string

  constructor(
    name: string,
    log: Array<string>,
    tool: Partial<ToolHandlers.RegisteredTool>,
    resources: ReadonlyArray<string> = [],
    parent?: Ticket
  ) {
    this.name = name
    this.log = log
    this.tool = { name: "t", class: "ConcurrentMut", ...tool } as ToolHandlers.RegisteredTool
    this.resources = resources
    this.parent = parent
  }

  onReady(): void {
    this.log.push(this.name)
  }
  onLost(because: string): void {
    this.log.push(`${this.name} lost: ${because}`)
  }
  onDeadlock(waitsFor: string): void {
    this.log.push(`${this.name} refused: ${waitsFor}`)
  }
  onBlocked(because: string): void {
    this.log.push(`${this.name} blocked: ${because}`)
  }
}

/** Enters one after the other; what waits does so in a fiber of its own. */
const enter = (pools: Pools.Service, ...tickets: ReadonlyArray<TestTicket>) => {
  for (const ticket of tickets) Effect.runFork(Effect.map(pools.enter(ticket), () => ticket.onReady()))
}

const setup = Effect.fnUntraced(function*(options?: Pools.Options) {
  const pools = yield* Pools.make(options)
  const log: Array<string> = []
  const ticket = (
    name: string,
    resources?: ReadonlyArray<string>,
    tool: Partial<ToolHandlers.RegisteredTool> = {},
    parent?: Ticket
  ) => new TestTicket(name, log, tool, resources, parent)
  return { pools, log, ticket }
})

describe("Pools", () => {
  it.effect("list every size that is not a whole number of 1 or more", () =>
    Effect.map(
      Effect.flip(Pools.make({ read: 0, concurrent: 1.5, serial: -1 })),
      (error) => assert.strictEqual(error.problems.length, 3)
    ), { tags: ["Y1"] })

  it.effect("give permits first come, first served", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 1 })
      const tickets = ["a", "b", "c", "d"].map((name) => ticket(name))
      enter(pools, ...tickets)
      for (const it of tickets) pools.leave(it)
      assert.deepStrictEqual(log, ["a", "b", "c", "d"])
    }))

  it.effect("pass over a ticket that left while it waited, and lose no permit", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 1 })
      const [a, b, c] = ["a", "b", "c"].map((name) => ticket(name)) as [TestTicket, TestTicket, TestTicket]
      enter(pools, a, b, c)
      pools.leave(b)
      pools.leave(b)
      pools.leave(a)
      pools.leave(c)
      const d = ticket("d")
      enter(pools, d)
      assert.deepStrictEqual(log, ["a", "c", "d"])
    }))

  it.effect(
    "take resource keys in one order, so that two writers of two keys get through",
    () =>
      Effect.gen(function*() {
        const { log, pools, ticket } = yield* setup()
        const a = ticket("a", ["x", "y"])
        const b = ticket("b", ["y", "x"])
        const c = ticket("c", ["y"])
        enter(pools, a, b, c)
        assert.deepStrictEqual(a.permits.slice(0, 2).map((it) => it.name), ["x", "y"])
        assert.deepStrictEqual(b.permits.slice(0, 2).map((it) => it.name), ["x", "y"])
        pools.leave(a)
        pools.leave(c)
        pools.leave(b)
        assert.deepStrictEqual([...log].sort(), ["a", "b", "c"])
      }),
    { tags: ["C7"] }
  )

  it.effect("forget a key that nobody holds or waits for", () =>
    Effect.gen(function*() {
      const { pools, ticket } = yield* setup()
      const a = ticket("a", ["x"])
      const b = ticket("b", ["x"])
      enter(pools, a, b)
      const key = a.permits[0]
      assert.strictEqual(b.permits[0], key)
      pools.leave(a)
      const c = ticket("c", ["x"])
      enter(pools, c)
      assert.strictEqual(c.permits[0], key)
      pools.leave(b)
      pools.leave(c)
      const d = ticket("d", ["x"])
      enter(pools, d)
      assert.notStrictEqual(d.permits[0], key)
    }))

  it.effect("keep the resource keys of a ticket that gives back its other permits", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 1 })
      const a = ticket("a", ["x"])
      const b = ticket("b", ["x"])
      const c = ticket("c")
      enter(pools, a, b, c)
      pools.releasePermits(a)
      pools.releasePermits(a)
      assert.deepStrictEqual(log, ["a", "c"])
      pools.leave(c)
      pools.leave(a)
      assert.deepStrictEqual(log, ["a", "c", "b"])
    }))

  it.effect("hold no permit of the pool for who waits for a key", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 2 })
      enter(pools, ticket("a", ["x"]), ticket("b", ["x"]), ticket("c", ["x"]), ticket("d", ["y"]))
      assert.deepStrictEqual(log, ["a", "d"])
    }))

  it.effect("start thousands that waited and end at once without running out of stack", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 1 })
      const first = ticket("first")
      enter(pools, first)
      let ended = 0
      for (let n = 0; n < 20_000; n++) {
        const it = new TestTicket("t", log, {})
        it.onReady = () => {
          ended++
          pools.leave(it)
        }
        enter(pools, it)
      }
      assert.strictEqual(ended, 0)
      pools.leave(first)
      assert.strictEqual(ended, 20_000)
    }))

  it.effect("block a key for those who wait for it, and no longer than its holder stays", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup()
      const [a, b, c] = ["a", "b", "c"].map((name) => ticket(name, ["x"])) as [TestTicket, TestTicket, TestTicket]
      enter(pools, a, b)
      pools.block(a, "no")
      enter(pools, c)
      pools.leave(c)
      pools.leave(a)
      enter(pools, ticket("d", ["x"]))
      pools.leave(b)
      assert.deepStrictEqual(log, ["a", "b blocked: no", "c blocked: no", "b", "d"])
    }))

  it.effect("let a ticket wait for what its parent's host holds, who may give it back", () =>
    Effect.gen(function*() {
      const semaphore = Semaphore.makeUnsafe(1)
      const { log, pools, ticket } = yield* setup({ read: semaphore })
      yield* semaphore.take(1)
      const parent = ticket("parent")
      enter(pools, parent)
      const child = ticket("child", [], { class: "ReadOnly" }, parent)
      enter(pools, child)
      assert.deepStrictEqual([log, child.state], [["parent"], "waiting"])
    }))

  it.effect("know before a call queues that it would wait for its own caller", () =>
    Effect.gen(function*() {
      const { pools, ticket } = yield* setup({ concurrent: 2 })
      const [parent, other] = [ticket("parent", ["x"]), ticket("other")]
      enter(pools, parent, other)
      const child = ticket("child", [], {}, parent)
      assert.strictEqual(pools.reentry(child, { resources: ["x"] }), "x")
      // the other one will make room
      assert.isUndefined(pools.reentry(child, { resources: ["y"] }))
      assert.strictEqual(pools.reentry(child, { joined: parent }), "its own result")
      pools.leave(other)
      pools.leave(parent)
      assert.isUndefined(pools.reentry(child, { resources: ["x"] }))
    }))

  it.effect("refuse a ticket whose parent holds what it needs", () =>
    Effect.gen(function*() {
      const { log, pools, ticket } = yield* setup({ concurrent: 1 })
      const parent = ticket("parent")
      enter(pools, parent)
      enter(pools, ticket("child", [], {}, parent))
      assert.deepStrictEqual(log, ["parent", "child refused: the concurrent pool"])
    }))

  describe("a semaphore that the host shares", () => {
    it.effect(
      "is never held more often than it has permits, by any holder",
      () =>
        VirtualTime.run(Effect.scoped(Effect.gen(function*() {
          const shared = Semaphore.makeUnsafe(2)
          let running = 0
          let most = 0
          const work = Effect.gen(function*() {
            most = Math.max(most, ++running)
            yield* Effect.sleep(10)
            running--
          })
          const { process } = yield* open({ t: () => work }, { pools: { read: shared } })
          const host = yield* Effect.forkChild(
            Effect.forEach(Array.from({ length: 20 }), () => shared.withPermit(work), { concurrency: "unbounded" })
          )
          const wave = yield* process.executeWave(Array.from({ length: 20 }, (_, n) => call(String(n), "t", { n })))
          yield* Fiber.join(host)
          assert.deepStrictEqual(new Set(tags(wave)), new Set(["Succeeded"]))
          assert.strictEqual(most, 2)
          assert.strictEqual(yield* VirtualTime.now, 200)
          // all are back
          assert.isTrue((yield* shared.withPermitsIfAvailable(2)(Effect.void))._tag === "Some")
        }))),
      { tags: ["C3"] }
    )

    it.effect("starts a call that waits once host code gives its permit back", () =>
      VirtualTime.run(
        Effect.scoped(Effect.gen(function*() {
          const shared = Semaphore.makeUnsafe(1)
          const { process } = yield* open({ t: sleeper }, { pools: { read: shared } })
          yield* Effect.forkChild(shared.withPermit(Effect.sleep(100)))
          yield* Effect.sleep(1)
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
          assert.strictEqual(yield* VirtualTime.now, 1_100)
        }))
      ))

    it.effect("comes back when those who waited for it are cancelled", () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const shared = Semaphore.makeUnsafe(1)
        const { process } = yield* open({ t: sleeper }, { pools: { read: shared } })
        const host = yield* Effect.forkChild(shared.withPermit(Effect.sleep(100)))
        yield* Effect.sleep(1)
        const fiber = yield* Effect.forkChild(process.executeWave(calls("t", "t")))
        yield* Effect.sleep(1)
        yield* Fiber.interrupt(fiber)
        yield* Fiber.join(host)
        yield* Effect.sleep(1)
        assert.isTrue((yield* shared.withPermitsIfAvailable(1)(Effect.void))._tag === "Some")
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
      }))))

    it.effect("goes to host code that waits before calls that come later", () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const shared = Semaphore.makeUnsafe(1)
        const { process } = yield* open({ t: sleeper }, { pools: { read: shared } })
        const fiber = yield* Effect.forkChild(
          process.executeWave(Array.from({ length: 10 }, (_, n) => call(String(n), "t", { n, sleep: 10 })))
        )
        yield* Effect.sleep(1)
        const host = yield* Effect.forkChild(shared.withPermit(VirtualTime.now))
        yield* Effect.sleep(1)
        const late = yield* process.executeWave([call("late", "t", { late: true, sleep: 10 })])
        assert.isAtMost(yield* Fiber.join(host), late.outcomes[0]!.startedAt!)
        yield* Fiber.join(fiber)
      }))))
  })

  it.effect("of class none let all run, but caps and keys hold", () =>
    run(
      { t: { class: "SerialMut", handler: sleeper }, capped: sleeper },
      { pools: Pools.layerNoop, mode: "parallel", tools: { capped: { maxConcurrent: 2 } } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("t", "t", "t", "t"))
          assert.strictEqual(yield* VirtualTime.now, 1_000)
          yield* process.executeWave(calls("capped", "capped", "capped", "capped"))
          assert.strictEqual(yield* VirtualTime.now, 3_000)
        })
    ))

  it.effect("keep their width after waves are interrupted at every instant", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const pools = Layer.succeed(Pools.Pools, yield* Effect.orDie(Pools.make({ read: 3, concurrent: 2 })))
      const env = yield* open({ r: sleeper, w: { class: "ConcurrentMut", handler: sleeper } }, {
        pools,
        dedupe: false,
        tools: { r: { maxConcurrent: 2 } }
      })
      for (let at = 0; at < 40; at++) {
        const fiber = yield* Effect.forkChild(
          env.process.executeWave(
            calls(["r", { sleep: 7 }], ["r", { sleep: 9 }], ["r", { sleep: 4 }], ["w", { sleep: 6 }], ["w", {
              sleep: 3
            }], ["w", { sleep: 5 }])
          )
        )
        yield* Effect.sleep(at)
        yield* Fiber.interrupt(fiber)
      }
      const before = yield* VirtualTime.now
      yield* env.process.executeWave(calls("r", "r"))
      yield* env.process.executeWave(calls("w", "w"))
      assert.strictEqual(yield* VirtualTime.now, before + 2_000)
    }))))
})

describe("findDeadlock", () => {
  interface Node {
    permits: ReadonlyArray<ReadonlyArray<Node> | undefined>
    held: number
    state: "new" | "waiting" | "ready" | "left"
    parent: Node | undefined
    children: ReadonlySet<Node> | undefined
    joined: Node | undefined
  }
  const node = (): Node => ({
    permits: [],
    held: 0,
    state: "ready",
    parent: undefined,
    children: undefined,
    joined: undefined
  })
  const find = (ticket: Node) => findDeadlock(ticket, (holders) => holders)
  const runs = (it: Node, ...children: ReadonlyArray<Node>) => {
    it.children = new Set(children)
    for (const child of children) child.parent = it
  }
  const waits = (it: Node, ...holders: ReadonlyArray<Node>) => {
    it.state = "waiting"
    it.permits = [holders]
  }

  it("lets a call wait for others that can go on by a way found later", () => {
    const [ticket, h, x, y, u, inU, v, inV, w] = Array.from({ length: 9 }, node) as [
      Node,
      Node,
      Node,
      Node,
      Node,
      Node,
      Node,
      Node,
      Node
    ]
    waits(ticket, h)
    runs(h, x, y)
    waits(x, u)
    runs(u, inU)
    // V waits for U, U for V or W, and W goes on
    waits(inU, v, w)
    runs(v, inV)
    waits(inV, u)
    waits(y, v)
    assert.isUndefined(find(ticket))
  })

  it("finds a ring", () => {
    const [a, inA, b, inB] = Array.from({ length: 4 }, node) as [Node, Node, Node, Node]
    runs(a, inA)
    runs(b, inB)
    waits(inA, b)
    waits(inB, a)
    assert.include([inA, inB], find(inA))
  })

  it("finds nothing where one of the holders is free", () => {
    const [a, inA, b] = Array.from({ length: 3 }, node) as [Node, Node, Node]
    runs(a, inA)
    waits(inA, a, b)
    assert.isUndefined(find(inA))
  })
})
