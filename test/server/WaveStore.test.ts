/** What was handed over, and what it came to, in a store that people and disks can damage. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import { LocalExecutor, ToolHandlers } from "../../src/index.ts"
import * as Server from "../../src/server/Server.ts"
import { Waves } from "../../src/server/Waves.ts"
import * as WaveStore from "../../src/server/WaveStore.ts"
import { toolkit } from "../support/Harness.ts"

const ada = { user: "ada", session: "s" }

const begun = (wave: string): WaveStore.HandedOver => ({
  ...ada,
  turn: `~${wave}`,
  wave,
  format: "native",
  message: [],
  beganAt: 1
})

describe("WaveStore", () => {
  it.effect("forgets what is old although something in it is damaged", () =>
    Effect.gen(function*() {
      const store = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      const waves = WaveStore.make(store)
      yield* store.set(`served.turn.${"0".repeat(32)}`, "{\"state\":")
      yield* waves.begin(begun("old"))
      yield* waves.end(begun("old"), { at: 5, messages: [], events: [] })
      yield* waves.begin(begun("new"))
      yield* waves.end(begun("new"), { at: 20, messages: [], events: [] })
      yield* waves.prune({ waves: 10, turns: 10 })
      assert.isUndefined(yield* waves.get(ada, "old"))
      assert.isDefined(yield* waves.get(ada, "new"))
      assert.lengthOf(yield* store.keys, 3)
    }).pipe(Effect.scoped))

  it.live("has what cannot be read any more run by nobody anew", () =>
    Effect.gen(function*() {
      const store = WaveStore.make(
        Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      )
      yield* store.begin({ ...begun("w"), message: { of: "another version" } })
      let runs = 0
      const { handlers, kit } = toolkit({ read: { handler: () => Effect.sync(() => ++runs) } })
      const services = yield* Layer.build(
        Server.layerExecutors().pipe(
          Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
          Layer.provide(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))),
          Layer.provide(Layer.succeed(WaveStore.WaveStore, store))
        )
      )
      const waves = Context.get(services, Waves)
      const message = [{ id: "1", name: "read", params: { index: 0 } }]
      const refused = yield* Effect.flip(waves.handOver(ada, { wave: "w", message }))
      assert.strictEqual(refused._tag, "Unavailable")
      assert.strictEqual(runs, 0)
      // others are none the worse for it
      yield* Effect.flatMap(waves.handOver(ada, { wave: "other", message }), (it) => it.ended)
      assert.strictEqual(runs, 1)
      assert.isTrue(Option.isSome(yield* waves.get(ada, "other")))
    }).pipe(Effect.scoped))
})
