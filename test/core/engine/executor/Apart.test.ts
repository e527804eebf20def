/** What one user, one wave, one call does to others: nothing. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import {
  Dedupe,
  Permissions,
  Pools,
  Rules,
  ToolContext,
  ToolExecutor,
  ToolHandlers,
  type ToolRule
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, open, run, tags, toolkit, value } from "../../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))
const none = () => Effect.void
const once: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "MaxCalls", tool: "t", max: 1 }]

describe("two users over one store", () => {
  const both = Effect.gen(function*() {
    const store = StateStore.makeMemory()
    const rules: ReadonlyArray<ToolRule.ToolRule> = [...once, { _tag: "ExclusiveGroup", tools: ["a", "b"] }]
    const tools = { t: none, a: none, b: none }
    return [
      yield* open(tools, { store, principal: "one", rules }),
      yield* open(tools, { store, principal: "two", rules })
    ] as const
  })

  it.effect("share no counts and no choices, whatever their batches are called", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      for (const [index, { executor }] of (yield* both).entries()) {
        const process = yield* executor.process({ batch: "same" })
        const wave = yield* process.executeWave(calls("t", index === 0 ? "a" : "b"))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
      }
    }))))

  it.effect("do not close each other's batches", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const [one, two] = yield* both
      const mine = yield* one.executor.process({ batch: "same" })
      yield* two.executor.batch("same")
      assert.deepStrictEqual(tags(yield* mine.executeWave(calls("t"))), ["Succeeded"])
      yield* two.executor.completeBatch("same")
      assert.deepStrictEqual(tags(yield* mine.executeWave(calls(["t", { n: 9 }]))), ["RuleViolation"])
    }))))

  it.effect("have batches and processes of their own where they name none", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const [one, two] = yield* both
      assert.notStrictEqual(one.batch.id, two.batch.id)
      assert.notStrictEqual(one.process.id, two.process.id)
    }))))
})

describe("a policy that throws", () => {
  const build = (decide: Permissions.Permissions["Service"]["decide"]) =>
    Effect.gen(function*() {
      const { handlers, kit } = toolkit({ t: sleeper, bad: sleeper })
      const gates = Layer.mergeAll(
        Rules.layerNoop,
        Dedupe.layer(),
        Pools.layer({ read: 1 }),
        Layer.succeed(Permissions.Permissions, {
          decide,
          sees: (tool) => {
            if (tool.name === "bad") throw new Error("boom")
            return true
          }
        })
      ).pipe(Layer.provideMerge(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))))
      const context = yield* Effect.orDie(Layer.build(ToolExecutor.layer.pipe(Layer.provide(gates))))
      return Context.get(context, ToolExecutor.ToolExecutor)
    })

  for (const look of [1, 2, 3]) {
    it.effect(`refuses the call, at its look ${look} too`, () => {
      let looks = 0
      return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const executor = yield* build((it) => {
          if (it.tool.name === "bad" && ++looks >= look) throw new Error("boom")
          return { _tag: "Allow" }
        })
        assert.deepStrictEqual((yield* executor.tools).map((it) => it.name), ["t"])
        const process = yield* executor.process()
        const wave = yield* process.executeWave(calls("bad", "t"))
        assert.deepStrictEqual(tags(wave), ["PolicyDenied", "Succeeded"])
      })))
    })
  }

  it.effect("does not hold the wave that hands its permit on", () => {
    let late = false
    return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const executor = yield* build((it) => {
        if (it.tool.name === "bad" && late) throw new Error("boom")
        return { _tag: "Allow" }
      })
      const batch = yield* executor.batch()
      const [mine, other] = [yield* batch.process(), yield* batch.process()]
      const innocent = yield* Effect.forkChild(mine.executeWave(calls("t")), { startImmediately: true })
      const guilty = yield* Effect.forkChild(other.executeWave(calls("bad")), { startImmediately: true })
      late = true
      assert.deepStrictEqual(tags(yield* Fiber.join(innocent)), ["Succeeded"])
      assert.deepStrictEqual(tags(yield* Fiber.join(guilty)), ["PolicyDenied"])
    })))
  })
})

describe("cancelling", () => {
  it.effect("ends the calls of an id in the waves under way, not in those that an agent begins then", () =>
    run({ p: () => Effect.never }, {}, ({ process }) =>
      Effect.gen(function*() {
        let ended = 0
        yield* Effect.forkChild(Effect.gen(function*() {
          for (; ended < 100; ended++) yield* process.executeWave([call("1", "p", { ended })])
        }))
        yield* Effect.sleep(10)
        yield* process.cancelCall("1")
        yield* Effect.sleep(10)
        assert.strictEqual(ended, 1)
      })))

  it.effect("closes a batch without taking the counts of the next one of its id", () =>
    run({ t: none, p: () => Effect.never }, { rules: once }, ({ executor }) =>
      Effect.scoped(Effect.gen(function*() {
        const process = yield* executor.process({ batch: "b" })
        const next = yield* Effect.forkChild(Effect.gen(function*() {
          yield* process.executeWave(calls("p"))
          const again = yield* executor.process({ batch: "b" })
          const first = yield* again.executeWave(calls(["t", { a: 1 }]))
          yield* Effect.sleep(10)
          return [...tags(first), ...tags(yield* again.executeWave(calls(["t", { a: 2 }])))]
        }))
        yield* Effect.sleep(10)
        yield* executor.completeBatch("b")
        assert.deepStrictEqual(yield* Fiber.join(next), ["Succeeded", "RuleViolation"])
      }))))
})

describe("a write", () => {
  const writer = (millis: number, wrap: <A, E>(it: Effect.Effect<A, E>) => Effect.Effect<A, E> = (it) => it) => {
    let state = 0
    return {
      r: () => Effect.sync(() => state),
      w: {
        class: "SerialMut" as const,
        handler: () =>
          wrap(Effect.delay(
            Effect.sync(() => {
              state++
            }),
            millis
          ))
      }
    }
  }

  it.effect("lets a read be repeated that ran while it was under way", () =>
    run(writer(50), {}, ({ batch, process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild((yield* batch.process()).executeWave(calls("w")))
        yield* Effect.sleep(10)
        assert.strictEqual(value((yield* process.executeWave(calls(["r", {}]))).outcomes[0]), 0)
        yield* Effect.sleep(100)
        assert.strictEqual(value((yield* process.executeWave(calls(["r", {}]))).outcomes[0]), 1)
      })))

  it.effect("lets a read be repeated though it lands after its outcome", () =>
    run(
      writer(500, Effect.uninterruptible),
      { tools: { w: { timeout: 50 } } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("w", ["r", {}]))
          assert.strictEqual(value(wave.outcomes[1]), 0)
          yield* Effect.sleep(1_000)
          assert.strictEqual(value((yield* process.executeWave(calls(["r", {}]))).outcomes[0]), 1)
        })
    ))

  it.effect("inside another is not cut off from it by a timeout", () => {
    const log: Array<string> = []
    const note = (text: string) => Effect.sync(() => void log.push(text))
    return run(
      {
        t: {
          class: "SerialMut",
          handler: () =>
            Effect.flatMap(ToolContext.ToolContext, (context) =>
              context.commit(Effect.gen(function*() {
                yield* note("a")
                yield* Effect.sleep(200)
                yield* context.commit(note("b"))
                yield* note("c")
              })))
        }
      },
      { tools: { t: { timeout: 100 } } },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => {
          assert.deepStrictEqual(log, ["a", "b", "c"])
          assert.deepInclude(wave.outcomes[0], { _tag: "TimedOut", commits: 2 })
        })
    )
  })
})

describe("stop mode", () => {
  it.effect("skips what is refused together behind the place", () =>
    run(
      { t: sleeper },
      { pools: { read: 1 }, turn: { timeout: 500 }, onExecutionError: "stop" },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("t", "t", "t")),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "DeadlineExceeded", "Skipped"])
        )
    ))
})
