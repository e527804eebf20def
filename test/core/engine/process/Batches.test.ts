/** How long a batch is remembered, and what its end takes with it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ToolRule } from "../../../../src/index.ts"
import { call, calls, type Handler, run, tags } from "../../../support/Harness.ts"

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1))
const once: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "MaxCalls", tool: "t", max: 1 }]
const options = { rules: once, executionTimeout: "9 hours" } as const
const twoHours = 2 * 3_600_000

describe("the counts of a batch", () => {
  it.effect("stay as long as it is busy, with whatever calls", () =>
    run({ t: sleeper, other: sleeper }, { ...options, dedupe: false }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("t"))
        for (const it of ["other", "other", "unknown", "other"]) {
          yield* Effect.sleep("59 minutes")
          yield* process.executeWave(calls([it, {}]))
        }
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["RuleViolation"])
      })))

  it.effect(
    "stay while a call of it runs, and for an hour after that",
    () =>
      run({ t: sleeper, other: sleeper }, options, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("t"))
          const long = yield* Effect.forkChild(process.executeWave(calls(["other", { sleep: 4 * 3_600_000 }])), {
            startImmediately: true
          })
          yield* Effect.sleep("3 hours")
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["RuleViolation"])
          yield* Fiber.join(long)
          yield* Effect.sleep(3_599_999)
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["RuleViolation"])
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
        })),
    { tags: ["S4"] }
  )

  it.effect(
    "are forgotten once it was unused for an hour",
    () =>
      run({ t: sleeper }, options, ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("t"))
          yield* Effect.sleep("59 minutes")
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { b: 1 }]))), ["RuleViolation"])
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { b: 2 }]))), ["Succeeded"])
        })),
    { tags: ["S4"] }
  )

  it.effect("are not forgotten while a call that they count runs, however long", () =>
    run({ t: sleeper }, options, ({ executor, process }) =>
      Effect.gen(function*() {
        const long = yield* Effect.forkChild(process.executeWave([call("l", "t", { sleep: twoHours })]), {
          startImmediately: true
        })
        yield* Effect.sleep("61 minutes")
        yield* executor.pruneExpired
        assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { b: 1 }]))), ["RuleViolation"])
        yield* Fiber.join(long)
      })))

  it.effect("are not forgotten while a call of it waits for its permit", () =>
    run(
      { t: sleeper, hold: sleeper },
      { ...options, pools: { read: 1 } },
      ({ executor, process }) =>
        Effect.gen(function*() {
          const other = yield* executor.process()
          yield* Effect.forkChild(other.executeWave(calls(["hold", { sleep: twoHours }])), { startImmediately: true })
          const waits = yield* Effect.forkChild(process.executeWave(calls("t")), { startImmediately: true })
          yield* Effect.sleep("61 minutes")
          yield* executor.pruneExpired
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { b: 1 }]))), ["RuleViolation"])
          assert.deepStrictEqual(tags(yield* Fiber.join(waits)), ["Succeeded"])
        })
    ))
})

describe("a batch that is closed", () => {
  it.effect("is closed for calls of it that come later, and its id is free", () =>
    run({ t: sleeper }, options, ({ executor }) =>
      Effect.scoped(Effect.gen(function*() {
        const old = yield* executor.process({ batch: "b" })
        assert.deepStrictEqual(tags(yield* old.executeWave(calls("t"))), ["Succeeded"])
        yield* executor.completeBatch("b")
        const next = yield* executor.process({ batch: "b" })
        assert.deepStrictEqual(tags(yield* old.executeWave(calls(["t", { b: 1 }]))), ["Cancelled"])
        assert.deepStrictEqual(tags(yield* next.executeWave(calls(["t", { b: 2 }]))), ["Succeeded"])
        assert.deepStrictEqual(tags(yield* next.executeWave(calls(["t", { b: 3 }]))), ["RuleViolation"])
      }))))

  it.effect("takes nothing from the next one of its id, though the cancelled caller begins that at once", () =>
    run({ t: sleeper, p: () => Effect.never }, options, ({ executor }) =>
      Effect.scoped(Effect.gen(function*() {
        const process = yield* executor.process({ batch: "b" })
        const next = yield* Effect.forkChild(Effect.gen(function*() {
          yield* process.executeWave(calls("p"))
          const again = yield* executor.process({ batch: "b" })
          // it is under way when the old one's end is over
          const waves = yield* Effect.forEach([1, 2], (b) => again.executeWave(calls(["t", { b, sleep: 100 }])))
          return waves.flatMap(tags)
        }))
        yield* Effect.sleep(10)
        yield* executor.completeBatch("b")
        assert.deepStrictEqual(yield* Fiber.join(next), ["Succeeded", "RuleViolation"])
      }))))
})

describe("a batch that is kept", () => {
  it.effect("goes on with its counts whenever it is entered again, until it is forgotten", () =>
    run({ t: sleeper }, options, ({ executor }) =>
      Effect.gen(function*() {
        let n = 0
        const once = (keep?: boolean) =>
          Effect.scoped(Effect.gen(function*() {
            const process = yield* (yield* executor.batch("b", { keep })).process()
            return tags(yield* process.executeWave(calls(["t", { b: ++n }])))
          }))
        assert.deepStrictEqual(yield* once(true), ["Succeeded"])
        assert.deepStrictEqual(yield* once(true), ["RuleViolation"])
        // it is open nowhere
        yield* executor.completeBatch("b")
        assert.deepStrictEqual(yield* once(true), ["Succeeded"])
        assert.deepStrictEqual(yield* once(), ["RuleViolation"])
        assert.deepStrictEqual(yield* once(), ["Succeeded"])
        // and of two who are in it one is enough
        yield* Effect.scoped(Effect.andThen(executor.batch("b"), once(true)))
        assert.deepStrictEqual(yield* once(true), ["RuleViolation"])
      })))
})

describe("cancelling a process", () => {
  it.effect("leaves the process alone that its agent begins at once, in the same batch", () =>
    run({ p: () => Effect.never, t: sleeper }, {}, ({ batch, process }) =>
      Effect.gen(function*() {
        const agent = yield* Effect.forkChild(Effect.gen(function*() {
          const first = yield* process.executeWave(calls("p"))
          const second = yield* (yield* batch.process()).executeWave(calls(["t", { sleep: 100 }]))
          return [...tags(first), ...tags(second)]
        }))
        yield* Effect.sleep(10)
        yield* process.cancel("enough")
        assert.deepStrictEqual(yield* Fiber.join(agent), ["Cancelled", "Succeeded"])
      })))

  it.effect("answers a wave that its agent begins at once in it without running anything", () => {
    let ran = 0
    return run(
      { p: () => Effect.never, t: () => Effect.sync(() => ran++) },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          const agent = yield* Effect.forkChild(Effect.gen(function*() {
            yield* process.executeWave(calls("p"))
            return yield* process.executeWave(calls("t"))
          }))
          yield* Effect.sleep(10)
          yield* process.cancel("enough")
          const wave = yield* Fiber.join(agent)
          assert.deepInclude(wave.outcomes[0], { _tag: "Cancelled", started: false, reason: "enough" })
          assert.strictEqual(ran, 0)
        })
    )
  })
})
