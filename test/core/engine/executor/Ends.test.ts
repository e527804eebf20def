/** What is over is let go, and what was taken back stays so. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { Approvals, LocalExecutor, ToolExecutor } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { calls, run, tags, toolkit, type ToolSpec } from "../../../support/Harness.ts"

const slow: ToolSpec = { class: "SerialMut", handler: () => Effect.sleep("1 minute") }

describe("an executor", () => {
  it.effect("ends with the scope of its layer, whoever holds its batches and processes", () => {
    const { handlers, kit } = toolkit({ slow, other: () => Effect.succeed(1) })
    const layer = LocalExecutor.layer(kit, { policy: { default: "allow" } }).pipe(Layer.provide(handlers))
    return VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const scope = yield* Scope.make()
        const executor = Context.get(yield* Layer.buildWithScope(layer, scope), ToolExecutor.ToolExecutor)
        // these scopes are the host's, and stay open
        const batch = yield* executor.batch("mine")
        const process = yield* batch.process()
        const idle = yield* executor.process()
        const events = yield* Effect.forkScoped(Stream.runCollect(idle.events))
        const wave = yield* Effect.forkScoped(process.executeWave(calls("slow", "slow")))
        yield* Effect.sleep("1 second")
        yield* Scope.close(scope, Exit.void)
        const ended = yield* Fiber.join(wave)
        assert.deepStrictEqual(ended.outcomes.map((it) => it._tag === "Cancelled" && [it.started, it.reason]), [
          [true, "the executor has ended"],
          [false, "the executor has ended"]
        ])
        assert.strictEqual(yield* VirtualTime.now, 1_000)
        yield* Fiber.join(events)
        for (const late of [process, idle, yield* batch.process(), yield* executor.process()]) {
          assert.deepStrictEqual(tags(yield* late.executeWave(calls("other"))), ["Cancelled"])
        }
      })),
      { limit: "1 day" }
    )
  })
})

describe("a process", () => {
  const { handlers, kit } = toolkit({ t: () => Effect.succeed(1) })

  it.live("is released once it is unused, while its batch lives on", () =>
    Effect.gen(function*() {
      const executor = yield* ToolExecutor.ToolExecutor
      const batch = yield* executor.batch()
      const pass = Effect.gen(function*() {
        // as long as there is the process there is what it was given
        const token = {}
        const process = yield* batch.process({ meta: { token } })
        // somebody looks on for a while
        yield* Effect.scoped(Effect.forkScoped(Stream.runDrain(process.events)))
        yield* process.executeWave(calls("t"))
        return new WeakRef(token)
      })
      const passes = yield* Effect.forEach(Array.from({ length: 50 }), () => pass)
      setFlagsFromString("--expose-gc")
      const collect = runInNewContext("gc") as () => void
      // what a turn of the event loop has looked at stays until its end
      yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
      yield* Effect.sync(collect)
      assert.isAtMost(passes.filter((it) => it.deref() !== undefined).length, 2)
      assert.deepStrictEqual(tags(yield* (yield* batch.process()).executeWave(calls("t"))), ["Succeeded"])
    }).pipe(
      Effect.scoped,
      Effect.provide(
        LocalExecutor.layer(kit, { dedupe: false, policy: { default: "allow" } }).pipe(Layer.provide(handlers))
      )
    ), { tags: ["X5"] })
})

describe("a permission that was taken back", () => {
  it.effect("stays taken back for calls that wait, also when it would have expired meanwhile", () =>
    Effect.gen(function*() {
      const approvals = Context.get(yield* Layer.build(Approvals.layer()), Approvals.Approvals)
      yield* run(
        { slow, asked: slow },
        { approvals, policy: { default: "allow", ask: ["asked"] } },
        ({ executor, process }) =>
          Effect.gen(function*() {
            const first = yield* Effect.forkScoped(process.executeWave(calls("slow")))
            const second = yield* Effect.forkScoped(process.executeWave(calls("asked")))
            yield* Effect.sleep("1 second")
            const [request] = yield* approvals.list
            yield* approvals.answer(request!.id, { _tag: "ApproveForDuration", duration: "10 seconds" })
            yield* Effect.sleep("1 second")
            assert.strictEqual(yield* executor.revoke({ tool: "asked" }), 1)
            yield* Effect.sleep("20 seconds")
            assert.strictEqual(yield* executor.revoke({ tool: "slow" }), 0)
            assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
            assert.deepInclude((yield* Fiber.join(second)).outcomes[0], {
              reason: { _tag: "PermissionDenied", by: "user", reason: "revoked", permission: "asked", scope: "tool" }
            })
          })
      )
    }).pipe(Effect.scoped))
})
