import { assert, describe, it } from "@effect/vitest"
import { StateStore } from "../../src/index.ts"
import { suite } from "./StateStoreTest.ts"

suite("memory", StateStore.layerMemory())

describe("StateStore in memory", () => {
  const take = (store: StateStore.StateStore["Service"], name: string, readOnly = false, now = 0) =>
    store.reserve("owner", [{
      _tag: "Key",
      principal: "p",
      tool: "t",
      key: name,
      readOnly,
      process: "process",
      ignoreOtherProcesses: false
    }], now) as StateStore.Reservation | StateStore.Refused
  const keep = (store: StateStore.StateStore["Service"], name: string) => {
    const reservation = take(store, name)
    assert.notProperty(reservation, "_tag")
    store.settle(
      reservation as StateStore.Reservation,
      { started: true, key: "keep", windowMillis: 1_000, value: 1 },
      0
    )
  }

  it("drops the oldest settled keys above its bound, none in flight", () => {
    const store = StateStore.makeMemory({ maxKeys: 2 })
    take(store, "flying")
    for (const name of ["1", "2", "3"]) keep(store, name)
    assert.notProperty(take(store, "1"), "_tag")
    assert.propertyVal(take(store, "3"), "_tag", "Refused")
    assert.propertyVal(take(store, "flying"), "_tag", "Refused")
  })

  it("bounds the characters of its keys", () => {
    const store = StateStore.makeMemory({ maxKeyChars: 100 })
    for (let n = 0; n < 10; n++) keep(store, `${n}${"x".repeat(28)}`)
    assert.notProperty(take(store, `0${"x".repeat(28)}`), "_tag")
    assert.propertyVal(take(store, `9${"x".repeat(28)}`), "_tag", "Refused")
  })

  it("forgets the counts of a batch that nobody used for its time", () => {
    const store = StateStore.makeMemory({ batchTtlMillis: 1_000 })
    const claim = { _tag: "Calls", batch: "b", tool: "t", max: 1 } as const
    assert.notProperty(store.reserve("a", [claim], 0), "_tag")
    assert.propertyVal(store.reserve("a", [claim], 999), "_tag", "Refused")
    assert.notProperty(store.reserve("a", [claim], 2_000), "_tag")
    assert.strictEqual(store.pruneExpired(3_000), 1)
  })

  it("does not let a call that ends late give a slot of a forgotten batch back", () => {
    const store = StateStore.makeMemory({ batchTtlMillis: 1_000 })
    const claim = { _tag: "Calls", batch: "b", tool: "t", max: 1 } as const
    const old = store.reserve("a", [claim], 0) as StateStore.Reservation
    assert.notProperty(store.reserve("a", [claim], 2_000), "_tag")
    store.settle(old, { started: false, key: "release", windowMillis: 0, value: undefined }, 2_000)
    assert.propertyVal(store.reserve("a", [claim], 2_000), "_tag", "Refused")
  })
})
