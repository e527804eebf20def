/** What was handed over, and what it came to, in a store that people and disks can damage. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import { LocalExecutor, ToolHandlers } from "../../src/index.ts"
import type { WaveInfo } from "../../src/server/api/ApiModels.ts"
import * as Server from "../../src/server/api/Server.ts"
import * as Access from "../../src/server/users/Access.ts"
import { Waves } from "../../src/server/waves/Waves.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import { toolkit } from "../support/Harness.ts"

const ada = { user: "ada", session: "s" }

const begun = (wave: string): WaveStore.SubmittedWave => ({
  ...ada,
  turn: `~${wave}`,
  wave,
  format: "native",
  message: [],
  beganAt: 1
})

const infoOf = ({ format: _, message: __, ...wave }: WaveStore.SubmittedWave): WaveInfo => ({
  ...wave,
  status: "running",
  calls: 0,
  tools: []
})

const endOf = (wave: string, at: number, turn?: WaveStore.KeptTurn): WaveStore.End => ({
  ended: { at, messages: [], events: [] },
  info: { ...infoOf(begun(wave)), status: "ended", endedAt: at },
  turn
})

const begin = (store: WaveStore.WaveStore["Service"], wave: string) => store.begin(begun(wave), infoOf(begun(wave)))

describe("WaveStore", () => {
  it.effect("forgets what is old although something in it is damaged", () =>
    Effect.gen(function*() {
      const store = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      yield* store.set(`served.turn.${"0".repeat(32)}`, "{\"state\":")
      const waves = yield* WaveStore.make(store)
      yield* waves.open
      yield* begin(waves, "old")
      yield* waves.end(begun("old"), endOf("old", 5))
      yield* begin(waves, "new")
      yield* waves.end(begun("new"), endOf("new", 20))
      yield* waves.prune({ waves: 10, turns: 10 })
      assert.isUndefined(yield* waves.get(ada, "old"))
      assert.isDefined(yield* waves.get(ada, "new"))
      assert.lengthOf(yield* store.keys, 3)
    }).pipe(Effect.scoped))

  it.live("has what cannot be read any more run by nobody anew", () =>
    Effect.gen(function*() {
      const store = yield* WaveStore.make(
        Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      )
      yield* store.begin({ ...begun("w"), message: { of: "another version" } }, infoOf(begun("w")))
      let runs = 0
      const { handlers, kit } = toolkit({ read: { handler: () => Effect.sync(() => ++runs) } })
      const services = yield* Layer.build(
        Server.layerExecutors().pipe(
          Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
          Layer.provide(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))),
          Layer.provide([Layer.succeed(WaveStore.WaveStore, store), Access.layer({ users: [] })])
        )
      )
      const waves = Context.get(services, Waves)
      const message = [{ id: "1", name: "read", params: { index: 0 } }]
      const refused = yield* Effect.flip(waves.submit(ada, { wave: "w", message }))
      assert.strictEqual(refused._tag, "WaveUnreadable")
      assert.strictEqual(runs, 0)
      // others are none the worse for it
      yield* Effect.flatMap(waves.submit(ada, { wave: "other", message }), (it) => it.ended)
      assert.strictEqual(runs, 1)
      assert.isTrue(Option.isSome(yield* waves.get(ada, "other")))
    }).pipe(Effect.scoped))

  it.effect("goes by what has no end, whatever else is damaged or of a later version", () =>
    Effect.gen(function*() {
      const store = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      const before = yield* WaveStore.make(store)
      for (const wave of ["damaged", "one", "later", "ended", "two"]) yield* begin(before, wave)
      yield* before.end(begun("ended"), endOf("ended", 5))
      const keyOf = Effect.fnUntraced(function*(wave: string) {
        for (const key of yield* store.keys) {
          if (key.startsWith("served.wave.") && (yield* store.get(key))?.includes(`"${wave}"`) === true) return key
        }
        return assert.fail("there is none")
      })
      yield* store.set(yield* keyOf("damaged"), "{\"user\":")
      yield* store.set(yield* keyOf("later"), JSON.stringify({ v: 2, of: "wave" }))
      const waves = yield* WaveStore.make(store)
      assert.deepStrictEqual((yield* waves.open).map(({ wave }) => wave), ["one", "two"])
      // it is neither none nor anything that could go on
      assert.strictEqual(
        (yield* Effect.flip(waves.get(ada, "later"))).message,
        "The record of wave \"later\" cannot be read: it has version 2, and this release reads 1"
      )
    }).pipe(Effect.scoped))

  it.effect("forgets what all lives have left, though it lists its keys only once", () =>
    Effect.gen(function*() {
      const memory = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      let listed = 0
      const store: KeyValueStore.KeyValueStore = {
        ...memory,
        keys: Effect.suspend(() => {
          listed++
          return memory.keys
        })
      }
      const state = {
        rules: { succeeded: [], succeededInBatch: [], exitWanted: false, held: 0, letThrough: false },
        blocked: [],
        calls: 0
      }
      const play = Effect.fnUntraced(function*(life: number) {
        const waves = yield* WaveStore.make(store)
        yield* waves.open
        for (let at = 10 * life; at < 10 * life + 10; at++) {
          yield* begin(waves, `w${at}`)
          const wave = { ...begun(`w${at}`), turn: `t${life}` }
          yield* waves.end(wave, endOf(`w${at}`, at, { state, wave: `w${at}`, at: 10 * life }))
        }
        return waves
      })
      yield* play(0)
      const first = yield* play(1)
      yield* first.prune({ waves: 5, turns: 0 })
      const last = yield* play(2)
      listed = 0
      const there = Effect.filter(
        Array.from({ length: 30 }, (_, at) => at),
        (at) => Effect.map(last.get(ada, `w${at}`), (it) => it !== undefined)
      )
      assert.deepStrictEqual((yield* there)[0], 5)
      yield* last.prune({ waves: 15, turns: 5 })
      assert.deepStrictEqual((yield* there)[0], 15)
      assert.isUndefined(yield* last.turn(ada, "t0"))
      assert.isDefined(yield* last.turn(ada, "t1"))
      yield* last.prune({ waves: 100, turns: 15 })
      assert.deepStrictEqual(yield* there, [])
      assert.isUndefined(yield* last.turn(ada, "t1"))
      assert.strictEqual(listed, 0)
      // that of the turn of this life, which ends it by itself
      assert.lengthOf(yield* memory.keys, 1)
    }).pipe(Effect.scoped))

  it.effect("keeps the end of a wave that is being written, however soon it is forgotten", () =>
    Effect.gen(function*() {
      const memory = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
      const slow: KeyValueStore.KeyValueStore = {
        ...memory,
        set: (key, value) => Effect.andThen(Effect.yieldNow, memory.set(key, value))
      }
      const waves = yield* WaveStore.make(slow)
      yield* begin(waves, "w")
      const ending = yield* Effect.forkChild(waves.end(begun("w"), endOf("w", 5)), {
        startImmediately: true
      })
      yield* waves.prune({ waves: 10, turns: 10 })
      yield* Fiber.join(ending)
      assert.isDefined((yield* waves.get(ada, "w"))?.ended)
      yield* waves.prune({ waves: 10, turns: 10 })
      assert.lengthOf(yield* memory.keys, 0)
    }).pipe(Effect.scoped))
})
