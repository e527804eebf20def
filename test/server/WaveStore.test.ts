/** What was handed over, and what it came to, in a store that people and disks can damage. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as WaveStore from "../../src/server/WaveStore.ts"

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
})
