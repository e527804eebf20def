/**
 * Checks for drivers of `StateStore`.
 *
 * Leases are checked with a duration of ten seconds; `later` must let them expire by the driver's clock.
 */
import * as Effect from "effect/Effect"
import * as assert from "node:assert/strict"
import * as StateStore from "../core/store/StateStore.ts"
import * as Contract from "./Contract.ts"
import { randomFrom } from "./SeededRandom.ts"
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
  released,
  rest,
  running,
  unstarted
} from "./StateStoreChecks.ts"
import * as Keys from "./StateStoreKeys.ts"
import * as Limits from "./StateStoreLimits.ts"
import * as Resumed from "./StateStoreResumed.ts"
import * as Scopes from "./StateStoreScopes.ts"

export type { Bounds } from "./StateStoreChecks.ts"

/** Makes the checks of a driver. */
export const make = <Also = never, Needs = never>(
  driver: Contract.Driver<StateStore.StateStore, Bounds, Also, Needs>
): ReadonlyArray<Contract.Check<Needs>> =>
  Contract.checks(StateStore.StateStore, driver, [
    ...general,
    ...Keys.all,
    ...Limits.all,
    ...Scopes.all,
    ...Resumed.all,
    ...sessions
  ])

type Store = StateStore.StateStore["Service"]

/** A store's answers to seeded random requests, by call. */
const answersOf = (
  store: Store,
  seed: number,
  name: string,
  ask: (requests: ReadonlyArray<StateStore.Request>, now: number) => ReturnType<Store["reserve"]>
) =>
  Effect.gen(function*() {
    const { chance, int, pick } = randomFrom(seed)
    const owners = new Map<string, string>()
    const held = new Map<string, StateStore.Reservation>()
    const seen: Array<unknown> = []
    let calling = 0
    for (let now = 0; now < 3_000; now += 300) {
      const requests = Array.from({ length: 1 + int(6) }, (): StateStore.Request => {
        const tool = pick(["t", "u"])
        const options = {
          tool,
          principal: name,
          batch: name,
          wave: pick(["1", "2"]),
          endsWithWave: chance(0.3),
          endsWithChange: chance(0.5),
          scope: pick(["batch", "principal"] as const),
          untold: chance(0.3)
        } as const
        const all = [
          key(pick(["1", "2"]), { ...options, settled: pick(["all", "told", "none"]) }),
          calls(int(8), tool, name),
          group(tool, "g", name),
          rest(pick([0, 500]), tool, name),
          { ...calls(int(9), tool, name), ...inSession },
          { ...calls(1 + int(3), tool, name), scope: "process", process: pick(["x", "y"]) } as const,
          { ...rest(300, tool, name), batch: name, ...inSession }
        ]
        const replaced = held.size > 0 && chance(0.3) ? pick(Array.from(held.keys())) : undefined
        const replaces = replaced === undefined ? undefined : held.get(replaced)
        if (replaced !== undefined) held.delete(replaced)
        return { owner: `${++calling}`, session: "s", claims: all.filter(() => chance(0.6)), replaces }
      })
      const answers = yield* ask(requests, now)
      for (const [index, answer] of answers.entries()) {
        const { owner } = requests[index]!
        if ("_tag" in answer) {
          seen.push("reservation" in answer ? { ...answer, reservation: owners.get(answer.reservation) } : answer)
        } else {
          owners.set(answer.id, owner)
          held.set(owner, answer)
          seen.push(owner)
        }
      }
      for (const [owner, reservation] of held) {
        if (chance(0.5)) continue
        held.delete(owner)
        yield* store.settle(reservation, pick([kept, released, unstarted, running]), now + 100)
      }
      if (chance(0.2)) yield* store.mutated(name)
    }
    return seen
  })

const general: ReadonlyArray<Contract.Statement<Store, Bounds>> = [
  check("gives each reservation a different id", function*({ take }) {
    const a = yield* take("a", [key("1")])
    const b = yield* take("b", [key("2")])
    assert.notEqual(a.id, b.id)
  }),
  check(
    "knows a reservation by its id and epoch, whatever object has them",
    function*({ refused, settle, take }) {
      const { epoch, id } = yield* take("a", [key("1"), calls(1)])
      assert.equal(yield* settle({ id, epoch }, unstarted), true)
      const b = yield* take("b", [key("1"), calls(1)])
      assert.equal(yield* settle({ id, epoch }, unstarted), false)
      assert.equal(yield* settle({ ...b }, running), true)
      includes(yield* refused([key("1")]), { reservation: b.id, running: true })
    }
  ),
  check(
    "takes nothing that is said of a reservation in another epoch, and says so",
    function*({ raw, refused, settle, take }) {
      const a = yield* take("a", [key("1"), calls(1), rest(1_000)])
      const other = { ...a, epoch: a.epoch - 1 }
      assert.equal(yield* settle(other, unstarted), false)
      includes(yield* refused([key("1")]), { running: true })
      yield* refused([calls(1)])
      assert.equal(yield* settle(a, running), true)
      assert.equal(yield* raw.release(other, 0), false)
      includes(yield* refused([key("1")]), { running: true })
      assert.equal(yield* raw.release(a, 0), true)
      yield* take("b", [key("1")])
    }
  ),
  check("renews what is still held, and tells the rest apart", function*({ raw, settle, take }) {
    const [a, b, c] = [yield* take("a", [key("1")]), yield* take("b", [key("2")]), yield* take("c", [key("3")])]
    yield* settle(b, kept)
    yield* settle(c, running)
    const held = yield* raw.renew([a, b, c, { ...a, epoch: a.epoch - 1 }, { id: "none", epoch: 1 }], 0)
    assert.deepEqual(held.map(({ epoch, id }) => [id, epoch]), [[a.id, a.epoch], [c.id, c.epoch]])
  }),
  check(
    "reserves for a whole run in its order, and refuses each call for itself",
    function*({ raw, refused, take }) {
      const replaces = yield* take("0", [key("0"), calls(2)])
      const answers = yield* raw.reserve([
        { owner: "1", session: "s", claims: [key("1"), calls(2)] },
        { owner: "2", session: "s", claims: [key("1"), calls(2)] },
        { owner: "3", session: "s", claims: [key("0"), calls(2)], replaces },
        { owner: "4", session: "s", claims: [key("4"), calls(2)] },
        { owner: "5", session: "s", claims: [] }
      ], 0)
      assert.deepEqual(answers.map((it) => "_tag" in it ? it._tag : "reserved"), [
        "reserved",
        "KeyTaken",
        "reserved",
        "CallsUsedUp",
        "reserved"
      ])
      includes(answers[1], { owner: "1", reservation: (answers[0] as StateStore.Reservation).id })
      includes(yield* refused([key("0")]), { owner: "3" })
      yield* take("6", [key("4")])
    }
  ),
  check("tells what cannot be had without taking anything", function*({ raw, take }) {
    const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
    assert.equal(yield* raw.check(claims, 0), undefined)
    assert.equal(yield* raw.check(claims, 0), undefined)
    yield* take("a", claims)
    const tags = yield* Effect.forEach(
      claims,
      (claim) => Effect.map(raw.check([claim._tag === "Group" ? group("basic") : claim], 0), (it) => it?._tag)
    )
    assert.deepEqual(tags, ["KeyTaken", "CallsUsedUp", "GroupTaken", "CoolingDown"])
  }),
  check(
    "replaces what a call has reserved in one step, and gives it back if it cannot have the rest",
    function*({ raw, take }) {
      const claims = [key("k"), calls(1), group("t"), rest(1_000)]
      const first = yield* take("1", claims)
      const others = [key("other"), calls(1), group("t"), rest(1_000)]
      const [again] = yield* raw.reserve([{ owner: "1", session: "s", claims: others, replaces: first }], 0)
      isReserved(again)
      assert.deepEqual(yield* raw.check([key("k")], 0), undefined)
      hasTag(yield* raw.check([calls(1)], 0), "CallsUsedUp")
      yield* take("2", [key("taken")])
      const replaces = again as StateStore.Reservation
      const [refused] = yield* raw.reserve([{
        owner: "1",
        session: "s",
        claims: [key("taken"), calls(1)],
        replaces
      }], 0)
      hasTag(refused, "KeyTaken")
      assert.deepEqual(
        yield* raw.check([key("other"), calls(1), group("u"), rest(1_000)], 0),
        undefined
      )
    }
  ),
  check(
    "keeps the grants of each principal until they expire or are revoked",
    function*({ raw }) {
      const ids = (principal: string, now: number) =>
        Effect.map(raw.grants(principal, now), (all) => all.map((it) => it.id))
      const base = { tool: "t", agentPath: [], answer: "ApproveForScope", grantedAt: 0 } as const
      yield* raw.grant({ ...base, principal: "p", id: "a", targets: ["x"] })
      yield* raw.grant({ ...base, principal: "p", id: "b", expiresAt: 1_000 })
      yield* raw.grant({ ...base, principal: "q", id: "c" })
      assert.deepEqual(yield* ids("p", 999), ["a", "b"])
      assert.deepEqual(yield* ids("p", 1_000), ["a"])
      const all = (now: number) => Effect.map(raw.allGrants(now), (all) => all.map((it) => it.id).toSorted())
      assert.deepEqual([yield* all(999), yield* all(1_000)], [["a", "b", "c"], ["a", "c"]])
      assert.equal(yield* raw.revoke("q", "a"), false)
      assert.equal(yield* raw.revoke("p", "a"), true)
      assert.equal(yield* raw.revoke("p", "a"), false)
      assert.deepEqual(yield* ids("p", 999), ["b"])
      yield* raw.pruneExpired(1_000_000)
      assert.deepEqual([yield* ids("p", 0), yield* ids("q", 0), yield* ids("nobody", 0)], [[], ["c"], []])
    }
  ),
  check("drops what is past its window and says how much", function*({ raw, settle, take }) {
    yield* settle(yield* take("a", [key("1")]), kept, 0)
    yield* settle(yield* take("b", [key("2")]), kept, 500)
    yield* take("c", [key("3")])
    assert.equal(yield* raw.pruneExpired(1_000), 1)
    assert.equal(yield* raw.pruneExpired(1_000), 0)
    assert.equal(yield* raw.pruneExpired(1_500), 1)
  }),
  check("takes keys of any text", function*({ refused, take }) {
    for (const name of ["__proto__", "constructor", "", "\n", "\u0000", "🙂", "x".repeat(100_000)]) {
      yield* take("a", [key(name), calls(1, name, name)])
      yield* refused([key(name)])
      yield* refused([calls(1, name, name)])
    }
  }),
  check("takes n requests together like n requests one after the other", function*({ raw }) {
    for (let seed = 0; seed < 10; seed++) {
      const one = yield* answersOf(raw, seed, `one ${seed}`, (requests, now) => raw.reserve(requests, now))
      const each = yield* answersOf(
        raw,
        seed,
        `each ${seed}`,
        (requests, now) => Effect.map(Effect.forEach(requests, (it) => raw.reserve([it], now)), (all) => all.flat())
      )
      assert.deepEqual(one, each, `seed ${seed}`)
    }
  })
]

const sessions: ReadonlyArray<Contract.Statement<Store, Bounds>> = [
  check(
    "frees what never started once its lease is over, and nothing said of it counts any more",
    function*({ later, raw, settle, take }) {
      const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
      const [lost, renewed] = [yield* take("a", claims), yield* take("b", [key("2")])]
      if (lost.leaseMillis === undefined) return
      yield* later(6_000)
      assert.equal((yield* raw.renew([renewed], 6_000)).length, 1)
      assert.notEqual(yield* raw.check(claims, 6_000), undefined)
      yield* later(6_000)
      assert.deepEqual(yield* raw.start([lost], 12_000), [])
      assert.equal(yield* settle(lost, kept, 12_000), false)
      assert.deepEqual((yield* raw.renew([lost, renewed], 12_000)).map(({ id }) => id), [renewed.id])
      yield* take("c", [key("1"), calls(1), group("basic"), rest(1_000)], 12_000)
      assert.equal(yield* settle(lost, unstarted, 12_000), false)
      assert.notEqual(yield* raw.check([calls(1)], 12_000), undefined)
    },
    { lease: 10_000 }
  ),
  check(
    "keeps spent what had started when its lease was over",
    function*({ later, raw, settle, take }) {
      const lost = yield* take("a", [key("1", { windowMillis: 60_000 }), calls(1), rest(60_000)])
      if (lost.leaseMillis === undefined) return
      yield* raw.start([lost], 100)
      yield* later(11_000)
      assert.equal(yield* settle(lost, kept, 11_000), false)
      hasTag(yield* raw.check([calls(1)], 11_000), "CallsUsedUp")
      includes(yield* raw.check([key("1")], 11_000), { owner: "a", running: false })
      includes(yield* raw.check([rest(60_000)], 11_000), { running: false, remainingMillis: 49_100 })
    },
    { lease: 10_000 }
  ),
  check(
    "corrects what was presumed at the end of a lease once it is known what had started",
    function*({ later, raw }) {
      const claims = (id: string) => [key(id, { windowMillis: 60_000 }), calls(2, `t${id}`), rest(60_000, `t${id}`)]
      const reserve = (id: string, starts: StateStore.Request["starts"]) =>
        Effect.map(
          raw.reserve([{ owner: id, session: `s${id}`, claims: claims(id), starts }], 0),
          ([it]) => it as StateStore.Reservation
        )
      const early = yield* reserve("early", { mutates: undefined })
      const [begun, waiting] = [yield* reserve("begun", { mutates: undefined }), yield* reserve("waiting", undefined)]
      if (early.leaseMillis === undefined) return
      yield* later(11_000)
      // another process meets them before anyone resumes their calls
      yield* raw.pruneExpired(11_000)
      const startedAt = early.isStarted === true ? "CoolingDown" : undefined
      assert.equal((yield* raw.check([rest(60_000, "tearly")], 11_000))?._tag, startedAt)
      yield* raw.abandon("searly", 11_000, [])
      yield* raw.abandon("sbegun", 11_000, [begun])
      yield* raw.abandon("swaiting", 11_000, [waiting])
      assert.equal(yield* raw.check(claims("early"), 11_000), undefined)
      for (const id of ["begun", "waiting"]) {
        hasTag(yield* raw.check([calls(1, `t${id}`)], 11_000), "CallsUsedUp")
        assert.equal(yield* raw.check([calls(2, `t${id}`)], 11_000), undefined)
        hasTag(yield* raw.check([rest(60_000, `t${id}`)], 11_000), "CoolingDown")
      }
      // a correction is made once
      yield* raw.abandon("searly", 11_000, [early])
      assert.equal(yield* raw.check(claims("early"), 11_000), undefined)
    },
    { lease: 10_000 }
  ),
  check(
    "frees unused state when it is pruned, and keeps what is held",
    function*({ later, raw, settle, take }) {
      const hour = 3_600_000
      const lost = yield* take("a", [calls(2), rest(1_000)])
      const held = yield* take("b", [calls(2, "t", "c")])
      if (lost.leaseMillis === undefined) return
      yield* later(6_000)
      yield* raw.renew([held], 6_000)
      yield* later(6_000)
      yield* raw.pruneExpired(12_000)
      assert.equal(yield* settle(lost, unstarted, 12_000), false)
      assert.equal(yield* raw.pruneExpired(12_000 + hour), 1)
      assert.equal(yield* settle(held, released, 12_000 + hour), true)
    },
    { lease: 10_000 }
  ),
  check(
    "gives each of many concurrent requests what is left, and no more",
    function*({ raw, settle }) {
      const reserve = (owner: number) =>
        Effect.map(raw.reserve([{ owner: `${owner}`, session: "s", claims: [calls(7), rest(0)] }], 0), ([it]) => it!)
      const owners = Array.from({ length: 40 }, (_, index) => index)
      const taken: Array<StateStore.Reservation> = []
      while (taken.length < 7) {
        const answers = yield* Effect.forEach(owners, reserve, { concurrency: "unbounded" })
        const held = answers.filter((it): it is StateStore.Reservation => !("_tag" in it))
        // one at a time: the tool is cooling down
        assert.equal(held.length, 1)
        assert.deepEqual(yield* Effect.forEach(held, (it) => settle(it, released)), [true])
        taken.push(...held)
      }
      const late = yield* Effect.forEach(owners, reserve, { concurrency: "unbounded" })
      assert.deepEqual(new Set(late.map((it) => "_tag" in it ? it._tag : "held")), new Set(["CallsUsedUp"]))
    }
  ),
  check(
    "frees what a session that is over did not start, and nothing said of it counts any more",
    function*({ raw, settle, take }) {
      const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
      const lost = yield* take("a", claims, 0)
      yield* raw.abandon("other", 0, [])
      assert.notEqual(yield* raw.check(claims, 0), undefined)
      yield* raw.abandon("s", 0, [])
      assert.deepEqual(yield* raw.start([lost], 0), [])
      assert.deepEqual(yield* raw.renew([lost], 0), [])
      assert.equal(yield* settle(lost, kept), false)
      assert.equal(yield* raw.release(lost, 0), false)
      yield* take("b", [key("1"), calls(1), group("basic"), rest(1_000)], 0)
    }
  ),
  check(
    "keeps spent what a session that is over had started: it rests, and its key counts, from its start",
    function*({ raw, settle, take }) {
      const lost = yield* take("a", [key("1", { windowMillis: 500 }), calls(1), group("oauth"), rest(1_000)], 0)
      assert.deepEqual((yield* raw.start([lost], 100)).map(({ id }) => id), [lost.id])
      yield* raw.abandon("s", 5_000, [])
      assert.equal(yield* settle(lost, unstarted, 5_000), false)
      const refusal = (claim: StateStore.Claim, now: number) => Effect.map(raw.check([claim], now), (it) => it?._tag)
      assert.equal(yield* refusal(calls(1), 5_000), "CallsUsedUp")
      assert.equal(yield* refusal(group("basic"), 5_000), "GroupTaken")
      includes(yield* raw.check([key("1")], 599), { owner: "a", running: false, value: undefined })
      assert.equal(yield* raw.check([key("1")], 600), undefined)
      assert.deepEqual(yield* raw.check([rest(1_000)], 1_099), {
        _tag: "CoolingDown",
        running: false,
        remainingMillis: 1
      })
      assert.equal(yield* raw.check([rest(1_000)], 1_100), undefined)
    }
  ),
  check(
    "keeps spent what somebody else knows to have started when its session was over, and nothing else of that",
    function*({ raw, take }) {
      const known = yield* take("a", [calls(2), rest(1_000)], 0)
      yield* take("b", [calls(2)], 0)
      yield* raw.abandon("s", 100, [known])
      yield* take("c", [calls(2)], 100)
      hasTag(yield* raw.check([calls(2)], 100), "CallsUsedUp")
      hasTag(yield* raw.check([rest(1_000)], 1_099), "CoolingDown")
      assert.equal(yield* raw.check([rest(1_000)], 1_100), undefined)
    }
  ),
  check(
    "frees the key of a read that a session had started when it was over",
    function*({ raw, take }) {
      const read = yield* take("a", [key("1", { endsWithChange: true })], 0)
      yield* raw.start([read], 0)
      yield* raw.abandon("s", 0, [])
      yield* take("b", [key("1", { endsWithChange: true })], 0)
    }
  ),
  check(
    "frees what a handler held that outlived its outcome, once its session is over",
    function*({ raw, settle, take }) {
      const orphan = yield* take("a", [key("1"), rest(1_000)], 0)
      yield* settle(orphan, running, 100)
      yield* raw.abandon("s", 2_000, [])
      assert.equal(yield* raw.release(orphan, 2_000), false)
      assert.equal(yield* raw.check([key("1")], 2_000), undefined)
      hasTag(yield* raw.check([rest(1_000)], 2_999), "CoolingDown")
      assert.equal(yield* raw.check([rest(1_000)], 3_000), undefined)
    }
  ),
  check(
    "gives back what its owner says never started, though it was about to",
    function*({ raw, settle, take }) {
      const a = yield* take("a", [calls(1), rest(1_000)], 0)
      yield* raw.start([a], 0)
      yield* settle(a, unstarted, 0)
      assert.deepEqual(yield* raw.start([a], 0), [])
      yield* take("b", [calls(1), rest(1_000)], 0)
    }
  )
]
