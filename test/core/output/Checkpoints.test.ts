import { assert, describe, it } from "@effect/vitest"
import { CheckpointsContract } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as Checkpoints from "../../../src/core/output/Checkpoints.ts"
import { idsOf, write } from "../../support/checkpoints.ts"
import * as Contract from "../../support/contract.ts"

Contract.run("Checkpoints in memory", CheckpointsContract.make({ layer: Checkpoints.layerMemory }))

describe("Checkpoints in memory, where nothing is said,", () => {
  const open = Effect.map(Checkpoints.Checkpoints, ({ list, save }) => ({
    ids: Effect.map(list("p"), idsOf),
    save: (...of: Parameters<typeof write>) => save(write(...of))
  }))

  it.effect("keep contents of 25,000,000 bytes, no larger ones", () =>
    Effect.gen(function*() {
      const { save } = yield* open
      const { files } = yield* save({ small: new Uint8Array(25_000_000), large: new Uint8Array(25_000_001) })
      assert.deepStrictEqual(files.map(({ isKept }) => isKept), [true, false])
    }).pipe(Effect.provide(Checkpoints.layerMemory())))

  it.effect("keep a checkpoint for 7 days, and 1,000 of a principal", () =>
    Effect.gen(function*() {
      const { ids, save } = yield* open
      const { id } = yield* save({ "a.txt": "1" })
      yield* TestClock.adjust(7 * 24 * 60 * 60 * 1_000 - 1)
      assert.deepStrictEqual(yield* ids, [id])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* ids, [])
      const saved: Array<string> = []
      for (let n = 0; n < 1_001; n++) saved.unshift((yield* save({})).id)
      assert.deepStrictEqual(yield* ids, saved.slice(0, 1_000))
    }).pipe(Effect.provide(Checkpoints.layerMemory())))
})

describe("the bounds of checkpoints", () => {
  it.effect("are all looked at before anything is kept", () =>
    Effect.gen(function*() {
      const wrong = { maxAge: 0, maxBytes: -1, maxCount: 0, maxTotalBytes: Number.NaN }
      const error = yield* Effect.flip(Effect.provide(Effect.void, Checkpoints.layerMemory(wrong)))
      assert.sameMembers(error.problems.map(({ path }) => path), Object.keys(wrong))
    }))
})

describe("the checkpoints that have to go", () => {
  const bounds = Effect.runSync(Checkpoints.boundsOf({ maxBytes: 10, maxTotalBytes: 14, maxCount: 3 }))
  const surplus = (all: ReadonlyArray<readonly [id: string, bytes: number]>, othersBytes = 0) =>
    Checkpoints.surplus(all.map(([id, bytes]) => ({ id, bytes })), othersBytes, bounds).map(({ id }) => id)

  it("are none within the bounds", () => {
    assert.deepStrictEqual(surplus([]), [])
    assert.deepStrictEqual(surplus([["1", 5], ["2", 5]]), [])
    assert.deepStrictEqual(surplus([["1", 5], ["2", 5]], 4), [])
  })

  it("are the oldest, in whatever order they are given", () => {
    const all = [["3", 5], ["1", 5], ["4", 5], ["2", 5]] as const
    assert.deepStrictEqual(surplus(all), ["1", "2"])
    assert.deepStrictEqual(all.map(([id]) => id), ["3", "1", "4", "2"])
    assert.deepStrictEqual(surplus([["3", 0], ["1", 0], ["4", 0], ["2", 0]]), ["1"])
  })

  it("leave room as they go, so that no more go than have to", () => {
    assert.deepStrictEqual(surplus([["1", 8], ["2", 1], ["3", 4]]), ["1"])
    assert.deepStrictEqual(surplus([["1", 4], ["2", 1], ["3", 4]], 9), ["1"])
  })

  it("are not those without contents, where room is made", () => {
    assert.deepStrictEqual(surplus([["1", 0], ["2", 6], ["3", 6]]), ["2"])
  })
})

describe("the error of a checkpoint", () => {
  it("says what is wrong, and shows no cause", () => {
    const message = (reason: Checkpoints.CheckpointError["reason"]) =>
      new Checkpoints.CheckpointError({ reason, id: "id-1", cause: new Error("SECRET") }).message
    assert.include(message("NotFound"), "id-1")
    assert.include(message("NotKept"), "too large")
    assert.include(message("Store"), "cannot be reached")
    for (const reason of ["NotFound", "NotKept", "Store"] as const) assert.notInclude(message(reason), "SECRET")
  })
})
