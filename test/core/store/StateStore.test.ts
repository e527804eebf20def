import { assert, describe, it } from "@effect/vitest"
import { StateStoreContract } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import * as Contract from "../../support/contract.ts"

Contract.run(
  "StateStore in memory",
  StateStoreContract.make({
    layer: ({ batchTimeToLive, sessionTimeToLive } = {}) =>
      StateStore.layerMemory({ batchTimeToLive, sessionTimeToLive })
  })
)

describe("StateStore in memory", () => {
  const spent = { started: true, key: "release", windowMillis: 0, value: undefined } as const
  type Store = StateStore.StateStore["Service"]
  const key = (name: string, principal = "p"): StateStore.KeyClaim => ({
    _tag: "Key",
    scope: "principal",
    principal,
    batch: "b",
    process: "process",
    tool: "t",
    key: name,
    wave: "wave",
    endsWithWave: false,
    endsWithChange: false,
    ignoreOtherProcesses: false
  })
  const claim = (store: Store, claims: ReadonlyArray<StateStore.Claim>, now: number) =>
    Effect.runSync(store.reserve([{ owner: "owner", session: "s", claims }], now))[0]!
  const take = (store: Store, name: string) => claim(store, [key(name)], 0)
  const keep = (store: Store, name: string) => {
    const reservation = take(store, name)
    assert.notProperty(reservation, "_tag")
    Effect.runSync(store.settle(
      reservation as StateStore.Reservation,
      { started: true, key: "keep", windowMillis: 1_000, value: undefined },
      0
    ))
  }

  it("answers at once: nobody needs a fiber", () => {
    const store = StateStore.makeMemory()
    const reserved = store.reserve([{ owner: "a", session: "s", claims: [key("1")] }], 0)
    const [reservation] = Effect.runSync(reserved) as ReadonlyArray<StateStore.Reservation>
    const answers: ReadonlyArray<unknown> = [
      reserved,
      store.check([key("1")], 0),
      store.start([reservation!], 0),
      store.renew([reservation!], 0),
      store.settle(reservation!, { ...spent, key: "running" }, 0),
      store.release(reservation!, 0),
      store.abandon("nobody", 0, []),
      store.grants("p", 0),
      store.revoke("p", "none"),
      store.mutated("p"),
      store.closeBatch("b"),
      store.pruneExpired(0)
    ]
    for (const answer of answers) assert.isTrue(Exit.isExit(answer))
  })

  it("knows nothing of what another one reserved", () => {
    const [one, other] = [StateStore.makeMemory(), StateStore.makeMemory()]
    const reservation = take(one, "1") as StateStore.Reservation
    assert.isFalse(Effect.runSync(other.settle(reservation, spent, 0)))
    assert.propertyVal(take(one, "1"), "_tag", "KeyTaken")
    assert.isTrue(Effect.runSync(one.settle(reservation, spent, 0)))
  })

  it("drops the oldest settled keys above its bound, none in flight", () => {
    const store = StateStore.makeMemory({ maxKeys: 2 })
    take(store, "flying")
    for (const name of ["1", "2", "3"]) keep(store, name)
    assert.notProperty(take(store, "1"), "_tag")
    assert.propertyVal(take(store, "3"), "_tag", "KeyTaken")
    assert.propertyVal(take(store, "flying"), "_tag", "KeyTaken")
  })

  const slot = { _tag: "Calls", batch: "b", tool: "t", max: 1 } as const
  const reserve = (store: Store, now: number) => {
    const reservation = claim(store, [slot], now)
    assert.notProperty(reservation, "_tag")
    return reservation as StateStore.Reservation
  }

  it("forgets the counts of a batch that nobody used for its time", () => {
    const store = StateStore.makeMemory({ batchTimeToLive: 1_000 })
    Effect.runSync(store.settle(reserve(store, 0), spent, 500))
    assert.propertyVal(claim(store, [slot], 1_499), "_tag", "CallsUsedUp")
    Effect.runSync(store.settle(reserve(store, 2_499), spent, 2_499))
    assert.strictEqual(Effect.runSync(store.pruneExpired(3_498)), 0)
    assert.strictEqual(Effect.runSync(store.pruneExpired(3_499)), 1)
  })

  it("keeps the counts of a batch in which a call is running, however long", () => {
    const store = StateStore.makeMemory({ batchTimeToLive: 1_000 })
    const running = reserve(store, 0)
    assert.strictEqual(Effect.runSync(store.pruneExpired(10_000)), 0)
    assert.propertyVal(claim(store, [slot], 10_000), "_tag", "CallsUsedUp")
    Effect.runSync(store.settle(running, { ...spent, started: false }, 10_000))
    reserve(store, 10_000)
  })

  it("stays small under endless distinct batches and principals, without pruning", { tags: ["S6"] }, () => {
    const store = StateStore.makeMemory({ batchTimeToLive: 1_000 })
    for (let n = 0; n < 20_000; n++) {
      const claims: ReadonlyArray<StateStore.Claim> = [
        key("k", `p${n}`),
        { _tag: "Calls", batch: `b${n}`, tool: "t", max: 1 },
        { _tag: "Cooldown", principal: `p${n}`, tool: "t", millis: 100 }
      ]
      const reservation = claim(store, claims, n) as StateStore.Reservation
      Effect.runSync(store.settle(reservation, { started: true, key: "keep", windowMillis: 500, value: undefined }, n))
    }
    // of each moment's window and time to live, not of all that ever were
    assert.isBelow(Effect.runSync(store.pruneExpired(100_000)), 4_000)
  })

  it("stays small under endless distinct keys of one principal", () => {
    const store = StateStore.makeMemory({ maxKeys: 100 })
    for (let n = 0; n < 20_000; n++) keep(store, `k${n}`)
    assert.strictEqual(Effect.runSync(store.pruneExpired(100_000)), 100)
  })
})

describe("what is kept with a key", () => {
  it("is the same after a driver has written and read it", () => {
    const codec = Schema.toCodecJson(StateStore.Kept)
    const kept: StateStore.Kept = {
      outcome: {
        _tag: "Failed",
        callId: "a",
        tool: "t",
        index: 0,
        attempt: 1,
        queuedAt: 0,
        startedAt: 0,
        duration: 1,
        commits: 0,
        error: { reason: ["no"] },
        origin: "handler",
        retryable: true,
        modelText: "no",
        requestsContinuation: false,
        hasContinueRule: false
      },
      batch: "b",
      targets: [{ text: "a.txt", kind: "protected", runBy: "shell" }]
    }
    const written = JSON.stringify(Schema.encodeSync(codec)(kept))
    assert.deepStrictEqual(Schema.decodeUnknownSync(codec)(JSON.parse(written)), kept)
  })
})
