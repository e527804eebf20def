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
    assert.propertyVal(take(store, "3"), "_tag", "KeyTaken")
    assert.propertyVal(take(store, "flying"), "_tag", "KeyTaken")
  })

  it("bounds the characters of its keys", () => {
    const store = StateStore.makeMemory({ maxKeyChars: 100 })
    for (let n = 0; n < 10; n++) keep(store, `${n}${"x".repeat(28)}`)
    assert.notProperty(take(store, `0${"x".repeat(28)}`), "_tag")
    assert.propertyVal(take(store, `9${"x".repeat(28)}`), "_tag", "KeyTaken")
  })

  const slot = { _tag: "Calls", batch: "b", tool: "t", max: 1 } as const
  const spent = { started: true, key: "release", windowMillis: 0, value: undefined } as const
  const reserve = (store: StateStore.StateStore["Service"], claim: StateStore.Claim, now: number) => {
    const reservation = store.reserve("owner", [claim], now)
    assert.notProperty(reservation, "_tag")
    return reservation as StateStore.Reservation
  }

  it("forgets the counts of a batch that nobody used for its time", () => {
    const store = StateStore.makeMemory({ batchTtlMillis: 1_000 })
    store.settle(reserve(store, slot, 0), spent, 500)
    assert.propertyVal(store.reserve("a", [slot], 1_499), "_tag", "CallsUsedUp")
    store.settle(reserve(store, slot, 2_499), spent, 2_499)
    assert.strictEqual(store.pruneExpired(3_498), 0)
    assert.strictEqual(store.pruneExpired(3_499), 1)
  })

  it("keeps the counts of a batch in which a call is running, however long", () => {
    const store = StateStore.makeMemory({ batchTtlMillis: 1_000 })
    const running = reserve(store, slot, 0)
    assert.strictEqual(store.pruneExpired(10_000), 0)
    assert.propertyVal(store.reserve("a", [slot], 10_000), "_tag", "CallsUsedUp")
    store.settle(running, { ...spent, started: false }, 10_000)
    reserve(store, slot, 10_000)
  })

  it("stays small under endless distinct batches and principals, with nobody pruning", () => {
    const store = StateStore.makeMemory({ batchTtlMillis: 1_000 })
    for (let n = 0; n < 20_000; n++) {
      const claims: ReadonlyArray<StateStore.Claim> = [
        {
          _tag: "Key",
          principal: `p${n}`,
          tool: "t",
          key: "k",
          readOnly: false,
          process: "p",
          ignoreOtherProcesses: false
        },
        { _tag: "Calls", batch: `b${n}`, tool: "t", max: 1 },
        { _tag: "Cooldown", principal: `p${n}`, tool: "t", millis: 100 }
      ]
      const reservation = store.reserve("owner", claims, n) as StateStore.Reservation
      store.settle(reservation, { started: true, key: "keep", windowMillis: 500, value: 1 }, n)
    }
    // of each moment's window and time to live, not of all that ever were
    assert.isBelow(store.pruneExpired(100_000) as number, 4_000)
  })

  it("stays small under endless distinct keys of one principal", () => {
    const store = StateStore.makeMemory({ maxKeys: 100 })
    for (let n = 0; n < 20_000; n++) keep(store, `k${n}`)
    assert.strictEqual(store.pruneExpired(100_000), 100)
  })
})
