/** Caps and resource keys that executors of several processes share. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { SharedPermits, type SharedPool } from "../../../src/core/gates/PermitSource.ts"
import * as Pools from "../../../src/core/gates/Pools.ts"
import { ToolAnnotations, ToolContext } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, open, tags, type ToolSpec } from "../../support/Harness.ts"

/** Permits of one process, as if several had them; what was asked for together stands together. */
const permits = () => {
  const pools = new Map<string, Semaphore.Semaphore>()
  const asked: Array<string> = []
  const state = { isHeld: true, asked, blocked: Array<string>() }
  const semaphore = ({ name, size }: SharedPool) => {
    const found = pools.get(name) ?? Semaphore.makeUnsafe(size)
    pools.set(name, found)
    return found
  }
  const service = SharedPermits.of({
    source: (wanted) => ({
      lease: Effect.gen(function*() {
        asked.push(wanted.map(({ name, size }) => `${name} of ${size}`).join(" + "))
        for (const it of wanted) yield* semaphore(it).takeScoped(1)
        return { isHeld: () => state.isHeld, block: (because) => void state.blocked.push(because) }
      })
    })
  })
  return { service, state }
}

/** An executor as a process of its own. */
const processOver = (service: SharedPermits["Service"], specs: Record<string, ToolSpec>, options?: Pools.Options) =>
  open(specs, {
    pools: Pools.layer(options).pipe(Layer.orDie, Layer.provide(Layer.succeed(SharedPermits, service))),
    tools: { capped: { maxConcurrent: 2 } },
    executionTimeout: "5 seconds",
    dedupe: false
  })

const sleeping = { capped: { handler: () => Effect.sleep("1 second") } } satisfies Record<string, ToolSpec>

const writing: Record<string, ToolSpec> = {
  ...sleeping,
  write: {
    class: "ConcurrentMut",
    handler: () => Effect.sleep("1 second"),
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["b", "a", "b"])
  }
}

const timed = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const since = yield* VirtualTime.now
    yield* effect
    return (yield* VirtualTime.now) - since
  })

const together = { concurrency: "unbounded" } as const

describe("shared permits", () => {
  it.effect(
    "let the calls of two executors together run as many as the cap says",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const { service } = permits()
        const [one, two] = [yield* processOver(service, sleeping), yield* processOver(service, sleeping)]
        const wave = calls("capped", "capped")
        const all = Effect.all([one.process.executeWave(wave), two.process.executeWave(wave)], together)
        assert.strictEqual(yield* timed(all), 2_000)
      }))),
    { tags: ["C11"] }
  )

  it.effect("are asked for once per call and step: all its keys together, then its cap", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      const specs = { ...writing, capped: { ...writing["write"]!, handler: () => Effect.void } }
      const { process } = yield* processOver(service, specs)
      yield* process.executeWave(calls("capped"))
      assert.deepStrictEqual(state.asked, ["key a of 1 + key b of 1", "cap capped of 2"])
    }))))

  it.effect("are asked for only by calls that nothing holds up in their own process", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      const { process } = yield* processOver(service, writing)
      const fiber = yield* Effect.forkChild(process.executeWave(calls("write", "write", "write")))
      yield* Effect.sleep("500 millis")
      assert.lengthOf(state.asked, 1)
      yield* Fiber.join(fiber)
      assert.lengthOf(state.asked, 3)
    }))))

  it.effect("leave to a process what is not to be shared", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      const wave = calls("write", "capped", "capped")
      const own = yield* processOver(service, writing, { shared: { keys: false } })
      yield* own.process.executeWave(wave)
      assert.deepStrictEqual(state.asked, ["cap capped of 2", "cap capped of 2"])
      const keys = yield* processOver(service, writing, { shared: { caps: false } })
      yield* keys.process.executeWave(wave)
      assert.deepStrictEqual(state.asked.slice(2), ["key a of 1 + key b of 1"])
    }))))

  it.effect("are refused elsewhere while a handler that does not stop holds them: keys, not caps", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      const deaf = () => Effect.uninterruptible(Effect.sleep("1 minute"))
      const specs = { capped: { ...writing["write"]!, handler: deaf } }
      const { process } = yield* processOver(service, specs)
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("capped"))), ["TimedOut"])
      yield* Effect.sleep("30 seconds")
      assert.lengthOf(state.blocked, 1)
      assert.include(state.blocked[0], "was stopped but still runs")
    }))))

  it.effect("are not held by a call whose sub-agent needs the same cap", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      const { executor, process } = yield* processOver(service, sleeping)
      const fork = yield* executor.fork({ name: "child" })
      yield* process.executeWave(calls("capped"))
      assert.lengthOf(state.asked, 1)
      yield* Effect.flatMap(fork.process(), (it) => it.executeWave(calls("capped")))
      assert.lengthOf(state.asked, 1)
    }))))

  it.effect(
    "stop the commit of a process that stood still until its lease was over, before it notices",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const { service, state } = permits()
        const written: Array<string> = []
        const { process } = yield* processOver(service, {
          capped: {
            class: "ConcurrentMut",
            handler: () =>
              Effect.gen(function*() {
                const context = yield* ToolContext.ToolContext
                yield* context.commit(Effect.sync(() => written.push("in time")))
                yield* Effect.sync(() => state.isHeld = false)
                yield* context.commit(Effect.sync(() => written.push("late")))
              })
          }
        })
        const { outcomes } = yield* process.executeWave(calls("capped"))
        assert.deepStrictEqual(written, ["in time"])
        assert.deepInclude(outcomes[0], {
          _tag: "Cancelled",
          commits: 1,
          reason: "a permit of the cap of \"capped\" was lost: its lease has ended"
        })
      }))),
    { tags: ["C11"] }
  )

  it.effect("that are over when a call is about to start have it start nothing", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { service, state } = permits()
      let started = 0
      const { process } = yield* processOver(service, { capped: { handler: () => Effect.sync(() => started++) } })
      state.isHeld = false
      const wave = yield* process.executeWave(calls("capped"))
      assert.deepStrictEqual(tags(wave), ["Cancelled"])
      assert.deepInclude(wave.outcomes[0], { started: false })
      assert.strictEqual(started, 0)
    }))))
})
