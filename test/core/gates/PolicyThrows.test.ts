/** A policy of the host's own that throws: it says no, and only to the call that it was asked about. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { Dedupe, Permissions, Pools, Rules, ToolExecutor, ToolHandlers } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, type Handler, tags, toolkit } from "../../support/Harness.ts"

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1_000))

const build = (policy: Permissions.Permissions["Service"]) =>
  Effect.gen(function*() {
    const { handlers, kit } = toolkit({ t: sleeper, bad: sleeper })
    const gates = Layer.mergeAll(
      Rules.layerNoop,
      Dedupe.layer(),
      Pools.layer({ read: 1 }),
      Layer.succeed(Permissions.Permissions, policy)
    ).pipe(Layer.provideMerge(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))))
    const context = yield* Effect.orDie(Layer.build(ToolExecutor.layer.pipe(Layer.provide(gates))))
    return Context.get(context, ToolExecutor.ToolExecutor)
  })

/** A `decide` that throws for the tool `bad` from its nth look on. */
const throwsFrom = (look: number): Permissions.Permissions["Service"]["decide"] => {
  let looks = 0
  return (call) => {
    if (call.tool.name === "bad" && ++looks >= look) throw new Error("boom")
    return { _tag: "Allow" }
  }
}

describe("a policy that throws", () => {
  for (const look of [1, 2, 3]) {
    it.effect(
      `when it decides (look ${look}) refuses its call; the waves of others go on`,
      () =>
        VirtualTime.run(Effect.scoped(Effect.gen(function*() {
          const executor = yield* build({ decide: throwsFrom(look), sees: () => true })
          const batch = yield* executor.batch()
          const [mine, other] = [yield* batch.process(), yield* batch.process()]
          const innocent = yield* Effect.forkChild(mine.executeWave(calls("t")), { startImmediately: true })
          const guilty = yield* Effect.forkChild(other.executeWave(calls("bad", ["t", { b: 1 }])), {
            startImmediately: true
          })
          assert.deepStrictEqual(tags(yield* Fiber.join(innocent)), ["Succeeded"])
          assert.deepStrictEqual(tags(yield* Fiber.join(guilty)), ["PolicyDenied", "Succeeded"])
          assert.strictEqual(yield* VirtualTime.now, 2_000)
        }))),
      { tags: ["P6"] }
    )
  }

  it.effect("when it shows tools shows no such tool, neither as a list nor in the place of an unknown one", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const executor = yield* build({
        decide: () => ({ _tag: "Allow" }),
        sees: (tool) => {
          if (tool.name === "bad") throw new Error("boom")
          return true
        }
      })
      assert.deepStrictEqual((yield* executor.tools).map((it) => it.name), ["t"])
      const process = yield* executor.process()
      const wave = yield* process.executeWave(calls("nope", ["t", { sleep: 1 }]))
      assert.deepStrictEqual(tags(wave), ["ToolNotFound", "Succeeded"])
      assert.deepInclude(wave.outcomes[0], { reason: { _tag: "ToolNotFound", available: ["t"] } })
    }))))
})

describe("a policy of the host's own", () => {
  it.effect("is asked once for a wave which tools there are, whatever unknown names are in it", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      let asked = 0
      const executor = yield* build({
        decide: () => ({ _tag: "Allow" }),
        sees: () => {
          asked++
          return true
        }
      })
      const process = yield* executor.process()
      asked = 0
      const wave = yield* process.executeWave(calls(...Array.from({ length: 50 }, (_, i) => `nope_${i}`)))
      assert.isTrue(tags(wave).every((it) => it === "ToolNotFound"))
      assert.strictEqual(asked, 2)
    }))))
})
