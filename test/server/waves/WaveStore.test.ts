/** What was handed over, and what it came to, in a store that people and disks can damage. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryRows from "../../../src/core/store/MemoryRows.ts"
import type { Change, Listed } from "../../../src/core/store/SessionRows.ts"
import { LocalExecutor, ToolHandlers } from "../../../src/index.ts"
import type { WaveInfo } from "../../../src/server/api/ApiModels.ts"
import * as Server from "../../../src/server/api/Server.ts"
import * as Access from "../../../src/server/users/Access.ts"
import { toPrincipal } from "../../../src/server/users/Principals.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as WaveStore from "../../../src/server/waves/WaveStore.ts"
import { toolkit } from "../../support/Harness.ts"

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

const keyOf = (of: "end" | "turn" | "wave", name: string): string => `served.${of}.${WaveStore.idOf(ada, name)}`

const put = (key: string, value: string, listed?: Listed): Change => ({ _tag: "Put", key, value, listed })

const newRows = Effect.sync(() => {
  const rows = MemoryRows.make()
  return { rows, own: rows.of(toPrincipal(ada)) }
})

describe("WaveStore", () => {
  it.effect("forgets what is old although something in it is damaged", () =>
    Effect.gen(function*() {
      const { own, rows } = yield* newRows
      const waves = WaveStore.make(rows)
      yield* own.write([
        put(keyOf("turn", "damaged"), "{\"state\":", { kind: WaveStore.kinds.turn, isOpen: false, at: 1 })
      ])
      yield* begin(waves, "old")
      yield* waves.end(begun("old"), endOf("old", 5))
      yield* own.write([put(keyOf("end", "old"), "{\"v\":")])
      yield* begin(waves, "new")
      yield* waves.end(begun("new"), endOf("new", 20))
      yield* waves.prune({ waves: 10, turns: 10 })
      assert.isUndefined(yield* waves.get(ada, "old"))
      assert.isDefined(yield* waves.get(ada, "new"))
      const left = yield* own.read({ keys: [keyOf("turn", "damaged"), keyOf("end", "old"), keyOf("end", "new")] })
      assert.deepStrictEqual(Array.from(left.keys()), [keyOf("end", "new")])
    }))

  it.live("has what cannot be read any more run by nobody anew", () =>
    Effect.gen(function*() {
      const store = WaveStore.make(MemoryRows.make())
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
      const { own, rows } = yield* newRows
      const before = WaveStore.make(rows)
      for (const wave of ["damaged", "one", "later", "ended", "two"]) yield* begin(before, wave)
      yield* before.end(begun("ended"), endOf("ended", 5))
      yield* own.write([
        put(keyOf("wave", "damaged"), "{\"user\":"),
        put(keyOf("wave", "later"), JSON.stringify({ v: 2, of: "wave" }))
      ])
      const waves = WaveStore.make(rows)
      for (const open of [waves.open, waves.openOf(ada)]) {
        assert.deepStrictEqual((yield* open).map(({ wave }) => wave), ["one", "two"])
      }
      // it is neither none nor anything that could go on
      assert.strictEqual(
        (yield* Effect.flip(waves.get(ada, "later"))).message,
        "The record of wave \"later\" cannot be read: it has version 2, and this release reads 1"
      )
    }))

  it.effect("forgets what all lives have left, and not the turn of a wave that is under way", () =>
    Effect.gen(function*() {
      const { own, rows } = yield* newRows
      const state = {
        rules: { succeeded: [], succeededInBatch: [], exitWanted: false, held: 0, letThrough: false },
        blocked: [],
        calls: 0
      }
      const play = Effect.fnUntraced(function*(life: number) {
        const waves = WaveStore.make(rows)
        for (let at = 10 * life; at < 10 * life + 10; at++) {
          const wave = { ...begun(`w${at}`), turn: `t${life}` }
          yield* waves.begin(wave, infoOf(wave))
          yield* waves.end(wave, endOf(`w${at}`, at, { state, wave: `w${at}`, at: 10 * life }))
        }
        return waves
      })
      yield* play(0)
      const first = yield* play(1)
      yield* first.prune({ waves: 5, turns: 0 })
      const last = yield* play(2)
      const there = Effect.filter(
        Array.from({ length: 30 }, (_, at) => at),
        (at) => Effect.map(last.get(ada, `w${at}`), (it) => it !== undefined)
      )
      assert.strictEqual((yield* there)[0], 5)
      yield* last.prune({ waves: 15, turns: 5 })
      assert.strictEqual((yield* there)[0], 15)
      assert.isUndefined(yield* last.turn(ada, "t0"))
      assert.isDefined(yield* last.turn(ada, "t1"))
      const next = { ...begun("next"), turn: "t2" }
      yield* last.begin(next, infoOf(next))
      yield* last.prune({ waves: 100, turns: 100 })
      assert.deepStrictEqual(yield* there, [])
      assert.isUndefined(yield* last.turn(ada, "t1"))
      assert.isDefined(yield* last.turn(ada, "t2"))
      yield* last.end(next, endOf("next", 30, { state, wave: "next", at: 30 }))
      yield* last.prune({ waves: 100, turns: 100 })
      assert.isUndefined(yield* last.turn(ada, "t2"))
      assert.deepStrictEqual(yield* own.open(WaveStore.kinds.wave), [])
    }))
})
