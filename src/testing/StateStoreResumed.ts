/** Checks of `StateStoreContract`: calls that are submitted again after their process is gone. */
import * as Effect from "effect/Effect"
import * as assert from "node:assert/strict"
import type * as StateStore from "../core/store/StateStore.ts"
import type * as Contract from "./Contract.ts"
import {
  type Bounds,
  calls,
  check,
  group,
  hasTag,
  includes,
  inSession,
  isReserved,
  kept,
  key,
  rest
} from "./StateStoreChecks.ts"

type Store = StateStore.StateStore["Service"]

const leased = { lease: 10_000 } as const

/** What a call claims whose end may never be told. */
const claimsOf = (name: string): ReadonlyArray<StateStore.Claim> => [
  key(name, { windowMillis: 60_000 }),
  calls(1, `t${name}`),
  rest(60_000, `t${name}`)
]

/** A reservation of a process that is gone. */
const reserve = (raw: Store, name: string, more: Partial<StateStore.Request> = {}, now = 0) =>
  Effect.map(
    raw.reserve([{ owner: name, session: `s${name}`, call: name, claims: claimsOf(name), ...more }], now),
    ([it]) => it!
  )

const taken = (raw: Store, ...of: [name: string, more?: Partial<StateStore.Request>, now?: number]) =>
  Effect.map(reserve(raw, ...of), (it) => {
    isReserved(it)
    return it as StateStore.Reservation
  })

/** Lets leases end, if there are any; another process meets what is left. */
const expired = (raw: Store, later: Contract.Later, now: number) =>
  Effect.andThen(later(now), Effect.asVoid(raw.pruneExpired(now)))

export const all: ReadonlyArray<Contract.Statement<Store, Bounds>> = [
  check(
    "gives a resumed call what it had reserved before it was on record, and nobody else",
    function*({ later, raw }) {
      for (const starts of [undefined, { mutates: "p" }]) {
        for (const millis of [0, 11_000]) {
          const name = `${millis} ${starts === undefined ? "waits" : "starts"}`
          const first = yield* taken(raw, name, { starts })
          yield* expired(raw, later, millis)
          const isFree = millis > 0 && first.leaseMillis !== undefined && starts === undefined
          if (!isFree) hasTag(yield* reserve(raw, name, { call: "other", isResumed: true }, millis), "KeyTaken")
          if (!isFree) hasTag(yield* reserve(raw, name, {}, millis), "KeyTaken")
          const again = yield* taken(raw, name, { isResumed: true, session: "new" }, millis)
          assert.equal(yield* raw.settle(first, kept, millis), false)
          hasTag(yield* raw.check([calls(1, `t${name}`)], millis), "CallsUsedUp")
          assert.equal(yield* raw.check([calls(2, `t${name}`)], millis), undefined)
          assert.equal(yield* raw.settle(again, kept, millis), true)
          includes(yield* raw.check([key(name)], millis), { reservation: again.id, running: false })
        }
      }
    },
    leased
  ),
  check(
    "refuses no resumed call for its own end, which is not on record",
    function*({ raw, settle }) {
      const only = { claims: [key("1")] }
      yield* settle(yield* taken(raw, "1", only), kept)
      hasTag(yield* reserve(raw, "1", only), "KeyTaken")
      hasTag(yield* reserve(raw, "2", { ...only, isResumed: true }), "KeyTaken")
      yield* taken(raw, "1", { ...only, isResumed: true })
    }
  ),
  check(
    "counts rest and window of what was about to start from there, or from when its start is known",
    function*({ raw }) {
      for (const starts of [undefined, { mutates: undefined }]) {
        const name = starts === undefined ? "known" : "early"
        const reservation = yield* taken(raw, name, { starts })
        yield* raw.abandon(`s${name}`, 5_000, [reservation])
        const from = reservation.isStarted === true ? 0 : 5_000
        includes(yield* raw.check([rest(60_000, `t${name}`)], 10_000), { remainingMillis: from + 50_000 })
        includes(yield* raw.check([key(name)], from + 59_999), { running: false })
        assert.equal(yield* raw.check([key(name)], from + 60_000), undefined)
        hasTag(yield* raw.check([calls(1, `t${name}`)], 10_000), "CallsUsedUp")
      }
    }
  ),
  check(
    "counts them in the same way once a lease is over",
    function*({ later, raw }) {
      const early = yield* taken(raw, "early", { starts: { mutates: undefined } })
      const known = yield* taken(raw, "known")
      yield* expired(raw, later, 11_000)
      yield* raw.abandon("searly", 12_000, [early])
      yield* raw.abandon("sknown", 12_000, [known])
      for (const [name, from] of [["early", early.isStarted === true ? 0 : 12_000], ["known", 12_000]] as const) {
        includes(yield* raw.check([rest(60_000, `t${name}`)], 20_000), { remainingMillis: from + 40_000 })
        includes(yield* raw.check([key(name)], from + 59_999), { owner: name, running: false })
        assert.equal(yield* raw.check([key(name)], from + 60_000), undefined)
        hasTag(yield* raw.check([calls(1, `t${name}`)], 20_000), "CallsUsedUp")
      }
    },
    leased
  ),
  check(
    "counts the end of a call that is on record, though its lease be over",
    function*({ later, raw }) {
      const lives = yield* Effect.forEach(["kept", "released"], (name) =>
        Effect.flatMap(
          taken(raw, name),
          (it) => Effect.as(raw.start([it], 0), [name, it] as const)
        ))
      yield* expired(raw, later, 11_000)
      for (const [name, reservation] of lives) {
        const settlement = name === "kept" ? kept : { ...kept, key: "release" as const, value: undefined }
        const isLost = reservation.leaseMillis !== undefined
        if (isLost) assert.equal(yield* raw.settle(reservation, settlement, 500), false)
        assert.equal(yield* raw.settle(reservation, { ...settlement, isRecorded: true }, 500), true)
        assert.equal(yield* raw.settle(reservation, { ...settlement, isRecorded: true }, 500), false)
        includes(yield* raw.check([rest(60_000, `t${name}`)], 1_000), { remainingMillis: 59_500 })
        hasTag(yield* raw.check([calls(1, `t${name}`)], 1_000), "CallsUsedUp")
        assert.equal(yield* raw.check([calls(2, `t${name}`)], 1_000), undefined)
      }
      includes(yield* raw.check([key("kept")], 1_499), { owner: "kept", value: kept.value })
      assert.equal(yield* raw.check([key("kept")], 1_500), undefined)
      assert.equal(yield* raw.check([key("released")], 1_000), undefined)
    },
    leased
  ),
  check(
    "leaves out what is refused of a partial request, and refuses it if nothing is left",
    function*({ raw, take }) {
      const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
      yield* take("a", claims)
      const wanted = [key("1"), calls(1), group("basic"), rest(1_000)]
      const inConversation = { ...calls(1, "t", "conversation"), ...inSession }
      const partial = (more: ReadonlyArray<StateStore.Claim>) =>
        Effect.map(
          raw.reserve([{ owner: "b", session: "s", claims: [...wanted, ...more], isPartial: true }], 0),
          ([it]) => it!
        )
      hasTag(yield* partial([]), "CoolingDown")
      const reserved = yield* partial([inConversation])
      isReserved(reserved)
      hasTag(yield* raw.check([inConversation], 0), "CallsUsedUp")
      // what was left out is not given back with the rest
      yield* raw.settle(reserved as StateStore.Reservation, { ...kept, started: false, key: "release" }, 0)
      assert.equal(yield* raw.check([inConversation], 0), undefined)
      for (const claim of wanted) assert.notEqual(yield* raw.check([claim], 0), undefined)
    }
  )
]
