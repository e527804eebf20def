import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { LocalExecutor, ToolContext, ToolExecutor } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, layer, run, tags, value } from "../../support/Harness.ts"

describe("ToolExecutor", () => {
  it.effect("enters a batch again by its id until the last scope closes", () =>
    run(
      { t: () => Effect.void },
      { rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }] },
      ({ executor }) =>
        Effect.gen(function*() {
          const once = (n: number) =>
            Effect.flatMap(
              executor.batch("b"),
              (batch) => Effect.flatMap(batch.process(), (process) => process.executeWave([call("x", "t", { n })]))
            )
          yield* Effect.scoped(Effect.gen(function*() {
            yield* executor.batch("b")
            assert.deepStrictEqual(tags(yield* Effect.scoped(once(1))), ["Succeeded"])
            assert.deepStrictEqual(tags(yield* Effect.scoped(once(2))), ["RuleViolation"])
          }))
          assert.deepStrictEqual(tags(yield* Effect.scoped(once(3))), ["Succeeded"])
        })
    ))

  it.effect(
    "ends its batches with its layer, even if somebody holds them",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const scope = yield* Scope.make()
        const context = yield* Scope.provide(Layer.build(layer({ t: () => Effect.never })), scope)
        // the batch's own scope outlives the executor's
        const process = yield* Context.get(context, ToolExecutor.ToolExecutor).process()
        const wave = yield* Effect.forkScoped(process.executeWave(calls("t")), { startImmediately: true })
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Cancelled"])
      }))),
    { tags: ["X5"] }
  )

  it.effect("begins a process in one step, in a batch that counts and ends like any other", () =>
    run(
      { t: () => Effect.map(ToolContext.ToolContext, (it) => it.meta["user"]) },
      { rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }] },
      ({ executor }) =>
        Effect.gen(function*() {
          const batch = yield* executor.batch("b")
          const process = yield* Effect.scoped(executor.process({ batch: "b", meta: { user: "ada" } }))
          assert.strictEqual(process.batch, batch.id)
          assert.deepStrictEqual((yield* process.executeWave([call("1", "t", { n: 1 })])).outcomes.map(value), ["ada"])
          assert.deepStrictEqual(
            tags(yield* (yield* batch.process()).executeWave([call("2", "t", { n: 2 })])),
            ["RuleViolation"]
          )
          const own = yield* executor.process()
          const over = yield* Effect.scoped(executor.process())
          assert.notStrictEqual(own.batch, over.batch)
          assert.deepStrictEqual(tags(yield* own.executeWave([call("3", "t", { n: 3 })])), ["Succeeded"])
          assert.deepStrictEqual(tags(yield* over.executeWave([call("4", "t", { n: 4 })])), ["Cancelled"])
        })
    ))

  it.effect("gives batches ids of their own", () =>
    run(
      { t: () => Effect.void },
      {},
      ({ batch, executor }) => Effect.map(executor.batch(), (other) => assert.notStrictEqual(other.id, batch.id))
    ))

  it.effect("cancels calls of a process whose batch is over", () =>
    run({ t: () => Effect.void }, {}, ({ batch, executor, process }) =>
      Effect.gen(function*() {
        yield* executor.completeBatch(batch.id)
        yield* executor.completeBatch(batch.id)
        yield* executor.completeBatch("no such batch")
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Cancelled"])
        assert.deepStrictEqual(tags(yield* (yield* batch.process()).executeWave(calls("t"))), ["Cancelled"])
      })))

  it.effect("prunes what is past its window", () =>
    run(
      { t: () => Effect.void },
      { dedupe: { window: "1 second" } },
      ({ executor, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("t", "t"))
          assert.strictEqual(yield* executor.pruneExpired, 0)
          yield* Effect.sleep("1 second")
          assert.strictEqual(yield* executor.pruneExpired, 2)
        })
    ))

  it.effect("is not built with wrong settings, or a wrong turn, and says all that is wrong with them", () =>
    Effect.gen(function*() {
      const wrong = (options: Parameters<typeof layer>[1]) =>
        Effect.map(
          Effect.flip(Effect.scoped(Layer.build(layer({ t: () => Effect.void }, options)))),
          (error) => error.problems.map((it) => it.path).sort()
        )
      assert.deepStrictEqual(
        yield* wrong({
          executionTimeout: 0,
          commitTimeout: "-1 second" as "1 second",
          cleanupGrace: "soon" as "1 second"
        }),
        ["cleanupGrace", "commitTimeout", "executionTimeout"]
      )
      assert.deepStrictEqual(yield* wrong({ turn: { timeout: 0, maxCalls: 0 } }), ["turn.maxCalls", "turn.timeout"])
    }))
})

describe("LocalExecutor", () => {
  const Add = Tool.make("add", { parameters: Schema.Struct({ a: Schema.Finite }), success: Schema.Finite })
    .annotate(Tool.Readonly, true)
  const kit = Toolkit.make(Add)

  it.effect("runs reads of closed worlds with safe defaults", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const executor = yield* ToolExecutor.ToolExecutor
        const process = yield* executor.process()
        const wave = yield* process.executeWave(calls(["add", { a: 1 }], ["add", { a: 1 }], ["add", { a: "x" }]))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "InvalidParameters"])
      }).pipe(
        Effect.scoped,
        Effect.provide(
          LocalExecutor.layer(kit).pipe(Layer.provide(kit.toLayer({ add: ({ a }) => Effect.succeed(a + 1) })))
        )
      )
    ))
})
