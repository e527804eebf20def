/** What every driver of `StateStore` keeps; each driver's own test runs it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { StateStore } from "../../src/index.ts"
import { dice } from "../support/randomCase.ts"

type Store = StateStore.StateStore["Service"]

const key = (name: string, options: Partial<StateStore.KeyClaim> = {}): StateStore.KeyClaim => ({
  _tag: "Key",
  reach: "principal",
  principal: "p",
  batch: "b",
  tool: "t",
  key: name,
  readOnly: false,
  process: "process-1",
  ignoreOtherProcesses: false,
  ...options
})

const calls = (max: number, tool = "t", batch = "b"): StateStore.CallsClaim => ({ _tag: "Calls", batch, tool, max })

const group = (tool: string, name = "g", batch = "b"): StateStore.GroupClaim => ({
  _tag: "Group",
  batch,
  group: name,
  tool
})

const rest = (millis: number, tool = "t", principal = "p"): StateStore.CooldownClaim => ({
  _tag: "Cooldown",
  principal,
  tool,
  millis
})

const value: StateStore.Kept = {
  outcome: {
    _tag: "Succeeded",
    callId: "a",
    tool: "t",
    index: 0,
    attempt: 1,
    queuedAt: 0,
    startedAt: 0,
    duration: 1,
    commits: 0,
    output: { _tag: "Inline", value: { text: ["kept"] }, modelText: "kept" },
    requestsContinuation: false,
    hasContinueRule: false
  },
  batch: "b",
  targets: [{ text: "a.txt", kind: "exact" }]
}

const kept = { started: true, key: "keep", windowMillis: 1_000, value } as const
const released = { started: true, key: "release", windowMillis: 1_000, value: undefined } as const
const unstarted = { started: false, key: "release", windowMillis: 1_000, value: undefined } as const
const running = { started: true, key: "running", windowMillis: 1_000, value: undefined } as const

/** What a store answers to the random requests of a seed, by the calls that they are of. */
const answersOf = (
  seed: number,
  ask: (store: Store, requests: ReadonlyArray<StateStore.Request>, now: number) => ReturnType<Store["reserve"]>
) =>
  Effect.gen(function*() {
    const store = yield* StateStore.StateStore
    const { chance, int, pick } = dice(seed)
    const owners = new Map<string, string>()
    const held = new Map<string, StateStore.Reservation>()
    const seen: Array<unknown> = []
    let calling = 0
    for (let now = 0; now < 3_000; now += 300) {
      const requests = Array.from({ length: 1 + int(6) }, (): StateStore.Request => {
        const tool = pick(["t", "u"])
        const options = {
          tool,
          readOnly: chance(0.5),
          reach: pick(["batch", "principal"] as const),
          untold: chance(0.3)
        } as const
        const all = [
          key(pick(["1", "2"]), { ...options, settled: pick(["all", "told", "none"]) }),
          calls(int(8), tool),
          group(tool),
          rest(pick([0, 500]), tool)
        ]
        const replaced = held.size > 0 && chance(0.3) ? pick(Array.from(held.keys())) : undefined
        const replaces = replaced === undefined ? undefined : held.get(replaced)
        if (replaced !== undefined) held.delete(replaced)
        return { owner: `${++calling}`, session: "s", claims: all.filter(() => chance(0.6)), replaces }
      })
      const answers = yield* ask(store, requests, now)
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
      if (chance(0.2)) yield* store.mutated("p")
    }
    return seen
  })

export const suite = (name: string, layer: Layer.Layer<StateStore.StateStore, unknown>): void => {
  const check = (
    what: string,
    body: (store: {
      readonly raw: Store
      readonly reserve: (owner: string, claims: ReadonlyArray<StateStore.Claim>, now?: number) => Effect.Effect<
        StateStore.Reservation | StateStore.Refused,
        StateStore.StateStoreError
      >
      readonly take: (
        owner: string,
        claims: ReadonlyArray<StateStore.Claim>,
        now?: number
      ) => Effect.Effect<StateStore.Reservation, StateStore.StateStoreError>
      readonly refused: (
        claims: ReadonlyArray<StateStore.Claim>,
        now?: number
      ) => Effect.Effect<StateStore.Refused, StateStore.StateStoreError>
      readonly settle: (
        reservation: StateStore.Reservation,
        settlement: StateStore.Settlement,
        now?: number
      ) => Effect.Effect<boolean, StateStore.StateStoreError>
    }) => Effect.Effect<void, StateStore.StateStoreError>
  ) =>
    it.effect(what, () =>
      Effect.gen(function*() {
        const raw = yield* StateStore.StateStore
        const reserve = (owner: string, claims: ReadonlyArray<StateStore.Claim>, now = 0) =>
          Effect.map(raw.reserve([{ owner, session: "s", claims }], now), ([it]) => it!)
        yield* body({
          raw,
          reserve,
          take: (owner, claims, now) =>
            Effect.map(reserve(owner, claims, now), (it) => {
              assert.notProperty(it, "_tag", "is a reservation")
              return it as StateStore.Reservation
            }),
          refused: (claims, now) =>
            Effect.map(reserve("other", claims, now), (it) => {
              assert.property(it, "_tag", "is refused")
              return it as StateStore.Refused
            }),
          settle: (reservation, settlement, now = 0) => raw.settle(reservation, settlement, now)
        })
      }).pipe(Effect.provide(layer, { local: true })))

  describe(`StateStore (${name})`, () => {
    check("gives each reservation an id of its own", ({ take }) =>
      Effect.gen(function*() {
        const a = yield* take("a", [key("1")])
        const b = yield* take("b", [key("2")])
        assert.notStrictEqual(a.id, b.id)
      }))

    check(
      "knows a reservation by its id and epoch, whatever object has them",
      ({ refused, settle, take }) =>
        Effect.gen(function*() {
          const { epoch, id } = yield* take("a", [key("1"), calls(1)])
          assert.isTrue(yield* settle({ id, epoch }, unstarted))
          const b = yield* take("b", [key("1"), calls(1)])
          assert.isFalse(yield* settle({ id, epoch }, unstarted))
          assert.isTrue(yield* settle({ ...b }, running))
          assert.deepInclude(yield* refused([key("1")]), { reservation: b.id, running: true })
        })
    )

    check(
      "takes nothing that is said of a reservation in another epoch, and says so",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const a = yield* take("a", [key("1"), calls(1), rest(1_000)])
          const other = { ...a, epoch: a.epoch - 1 }
          assert.isFalse(yield* settle(other, unstarted))
          assert.deepInclude(yield* refused([key("1")]), { running: true })
          yield* refused([calls(1)])
          assert.isTrue(yield* settle(a, running))
          assert.isFalse(yield* raw.release(other, 0))
          assert.deepInclude(yield* refused([key("1")]), { running: true })
          assert.isTrue(yield* raw.release(a, 0))
          yield* take("b", [key("1")])
        })
    )

    check("renews what is still held, and tells the rest apart", ({ raw, settle, take }) =>
      Effect.gen(function*() {
        const [a, b, c] = [yield* take("a", [key("1")]), yield* take("b", [key("2")]), yield* take("c", [key("3")])]
        yield* settle(b, kept)
        yield* settle(c, running)
        const held = yield* raw.renew([a, b, c, { ...a, epoch: a.epoch - 1 }, { id: "none", epoch: 1 }], 0)
        assert.deepStrictEqual(held.map(({ epoch, id }) => [id, epoch]), [[a.id, a.epoch], [c.id, c.epoch]])
      }))

    check(
      "reserves for a whole run in its order, and refuses each call for itself",
      ({ raw, refused, take }) =>
        Effect.gen(function*() {
          const replaces = yield* take("0", [key("0"), calls(2)])
          const answers = yield* raw.reserve([
            { owner: "1", session: "s", claims: [key("1"), calls(2)] },
            { owner: "2", session: "s", claims: [key("1"), calls(2)] },
            { owner: "3", session: "s", claims: [key("0"), calls(2)], replaces },
            { owner: "4", session: "s", claims: [key("4"), calls(2)] },
            { owner: "5", session: "s", claims: [] }
          ], 0)
          assert.deepStrictEqual(answers.map((it) => "_tag" in it ? it._tag : "reserved"), [
            "reserved",
            "KeyTaken",
            "reserved",
            "CallsUsedUp",
            "reserved"
          ])
          assert.deepInclude(answers[1], { owner: "1", reservation: (answers[0] as StateStore.Reservation).id })
          assert.deepInclude(yield* refused([key("0")]), { owner: "3" })
          yield* take("6", [key("4")])
        })
    )

    it.effect("takes n requests at once like n requests one after the other", () =>
      Effect.forEach(Array.from({ length: 100 }, (_, seed) => seed), (seed) =>
        Effect.gen(function*() {
          const one = yield* answersOf(seed, (store, requests, now) => store.reserve(requests, now)).pipe(
            Effect.provide(layer, { local: true })
          )
          const each = yield* answersOf(seed, (store, requests, now) =>
            Effect.map(
              Effect.forEach(requests, (it) => store.reserve([it], now)),
              (all) => all.flat()
            )).pipe(
              Effect.provide(layer, { local: true })
            )
          assert.deepStrictEqual(one, each, `seed ${seed}`)
        }), { discard: true }))

    check("refuses a key in flight and says whose it is", ({ refused, take }) =>
      Effect.gen(function*() {
        const a = yield* take("a", [key("1")])
        assert.deepInclude(yield* refused([key("1")]), { owner: "a", reservation: a.id, running: true })
      }))

    check(
      "refuses a settled key until its window is over, with what was kept",
      ({ refused, settle, take }) =>
        Effect.gen(function*() {
          yield* settle(yield* take("a", [key("1")], 0), kept, 500)
          assert.deepInclude(yield* refused([key("1")], 1_499), { owner: "a", running: false, value })
          yield* take("b", [key("1")], 1_500)
        })
    )

    check("frees a released key at once", ({ settle, take }) =>
      Effect.gen(function*() {
        yield* settle(yield* take("a", [key("1")]), released)
        yield* take("b", [key("1")])
      }))

    check(
      "keeps a running key in flight until it is released",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const a = yield* take("a", [key("1")])
          yield* settle(a, running)
          assert.deepInclude(yield* refused([key("1")], 1_000_000), { running: true })
          yield* raw.release(a, 1_000_000)
          const b = yield* take("b", [key("1")])
          yield* raw.release(a, 1_000_000)
          assert.deepInclude(yield* refused([key("1")]), { reservation: b.id })
        })
    )

    check(
      "forgets the settled keys of a batch that closes, not those in flight",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const of = { reach: "batch", batch: "b" } as const
          yield* settle(yield* take("a", [key("1", of)]), kept)
          yield* settle(yield* take("a", [key("2", { ...of, batch: "c" })]), kept)
          yield* settle(yield* take("a", [key("3", of)]), running)
          yield* raw.closeBatch("b")
          yield* take("b", [key("1", of)])
          yield* refused([key("2", { ...of, batch: "c" })])
          assert.deepInclude(yield* refused([key("3", of)]), { running: true })
        })
    )

    check("counts the keys that a claim says count", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        const told = { settled: "told", running: "told" } as const
        const none = { settled: "none", running: "none" } as const
        const host = { untold: true, ...none }
        const flying = yield* take("host", [key("1", host)])
        assert.deepInclude(yield* refused([key("1")]), { owner: "host", untold: true, running: true })
        const model = yield* take("model", [key("1", told)])
        yield* settle(flying, kept)
        yield* settle(model, kept)
        assert.deepInclude(yield* refused([key("1", told)]), { owner: "model", untold: false, process: "process-1" })
        // which takes nothing from one whose outcome a model is told
        yield* settle(yield* take("host", [key("1", host)]), kept)
        assert.deepInclude(yield* refused([key("1", told)]), { owner: "model" })
        yield* settle(yield* take("model", [key("1", none)]), released)
        yield* take("host", [key("1", host)])
      }))

    check("counts a key as far as it reaches, and for one sub-agent", ({ refused, take }) =>
      Effect.gen(function*() {
        const reaches = ["process", "batch", "principal"] as const
        const of = { batch: "same", process: "same" }
        for (const reach of reaches) {
          for (const agent of [undefined, "", "x", "y", "same"]) {
            yield* take("a", [key("1", { ...of, reach, agent })])
            yield* refused([key("1", { ...of, reach, agent })])
          }
        }
        yield* take("b", [key("1", { ...of, reach: "process", process: "other" })])
        yield* refused([key("1", { ...of, reach: "process", batch: "other" })])
        yield* take("b", [key("1", { ...of, reach: "batch", batch: "other" })])
        yield* refused([key("1", { ...of, reach: "batch", process: "other" })])
        yield* refused([key("1", { reach: "principal", batch: "other", process: "other" })])
        // no text of one part is taken for that of another
        yield* take("c", [key("1", { reach: "batch", batch: "a", tool: "bc" })])
        yield* take("c", [key("1", { reach: "batch", batch: "ab", tool: "c" })])
        yield* take("c", [key("1", { reach: "batch", agent: "a", batch: "b", tool: "c" })])
      }))

    check("keeps the keys of batches apart that take turns", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        const of = (batch: string, name = "1") => key(name, { reach: "batch", batch })
        yield* settle(yield* take("a", [of("x")]), released)
        yield* take("a", [of("x")])
        yield* take("b", [of("y")])
        for (const batch of ["x", "y", "x"]) yield* refused([of(batch)])
        yield* take("b", [of("z")])
        yield* take("a", [of("x", "2")])
        yield* refused([of("x")])
      }))

    check("keeps the keys of principals apart", ({ take }) =>
      Effect.gen(function*() {
        yield* take("a", [key("1", { principal: "p" })])
        yield* take("b", [key("1", { principal: "q" })])
      }))

    check("takes all claims or none", ({ raw, refused, take }) =>
      Effect.gen(function*() {
        yield* take("a", [key("1")])
        assert.strictEqual((yield* refused([calls(1), key("1")]))._tag, "KeyTaken")
        yield* take("b", [calls(1)])
        assert.strictEqual((yield* refused([key("2"), calls(1)]))._tag, "CallsUsedUp")
        yield* take("c", [key("2")])
        assert.isDefined(raw)
      }))

    check("tells the first claim that could not be had", ({ refused, take }) =>
      Effect.gen(function*() {
        yield* take("a", [key("1"), calls(1)])
        assert.strictEqual((yield* refused([key("1"), calls(1)]))._tag, "KeyTaken")
        assert.strictEqual((yield* refused([calls(1), key("1")]))._tag, "CallsUsedUp")
      }))

    check(
      "lets every ReadOnly key die when a mutating call starts, no other",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const flying = yield* take("a", [key("flying", { readOnly: true })])
          yield* settle(yield* take("b", [key("settled", { readOnly: true })]), kept)
          yield* settle(yield* take("c", [key("write")]), kept)
          yield* settle(yield* take("d", [key("other", { readOnly: true, principal: "q" })]), kept)
          yield* raw.mutated("p")
          const next = yield* take("e", [key("flying", { readOnly: true })])
          yield* take("f", [key("settled", { readOnly: true })])
          yield* refused([key("write")])
          yield* refused([key("other", { readOnly: true, principal: "q" })])
          // the end of the old one does not touch the key of the new one
          yield* settle(flying, kept)
          assert.deepInclude(yield* refused([key("flying", { readOnly: true })]), {
            reservation: next.id,
            running: true
          })
        })
    )

    check(
      "keeps no key of a read during which a mutating call started",
      ({ raw, settle, take }) =>
        Effect.gen(function*() {
          const read = yield* take("a", [key("1", { readOnly: true })])
          yield* raw.mutated("p")
          yield* settle(read, kept)
          yield* take("b", [key("1", { readOnly: true })])
        })
    )

    check(
      "lets a settled key of another process be where that is asked for, but none in flight",
      ({ refused, settle, take }) =>
        Effect.gen(function*() {
          const other = { process: "process-2", ignoreOtherProcesses: true }
          const a = yield* take("a", [key("1")])
          yield* refused([key("1", other)])
          yield* settle(a, kept)
          yield* refused([key("1", { ignoreOtherProcesses: true })])
          yield* take("b", [key("1", other)])
        })
    )

    check("counts calls up to the maximum, per batch and tool", ({ refused, take }) =>
      Effect.gen(function*() {
        yield* take("a", [calls(2)])
        yield* take("b", [calls(2)])
        yield* refused([calls(2)])
        yield* take("c", [calls(3)])
        yield* take("d", [calls(1, "u")])
        yield* take("e", [calls(1, "t", "other")])
      }))

    check("spends what started and gives back what did not", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        yield* settle(yield* take("a", [calls(1)]), unstarted)
        yield* settle(yield* take("b", [calls(1)]), released)
        yield* refused([calls(1)])
      }))

    check("forgets the counts of a batch that closes", ({ raw, take }) =>
      Effect.gen(function*() {
        yield* take("a", [calls(1)])
        yield* raw.closeBatch("b")
        yield* take("b", [calls(1)])
      }))

    check(
      "gives nothing back to a batch that was closed meanwhile and begun again",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const old = yield* take("a", [calls(1)])
          yield* raw.closeBatch("b")
          yield* take("b", [calls(1)])
          yield* settle(old, unstarted)
          yield* refused([calls(1)])
        })
    )

    check(
      "lets the first tool of a group win for its batch, and repeat",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const first = yield* take("a", [group("oauth")])
          assert.deepInclude(yield* refused([group("basic")]), { _tag: "GroupTaken", group: "g", tool: "oauth" })
          yield* take("b", [group("oauth")])
          yield* settle(first, released)
          yield* refused([group("basic")])
          yield* take("c", [group("basic", "other group")])
          yield* take("d", [group("basic", "g", "other batch")])
          yield* raw.closeBatch("b")
          yield* take("e", [group("basic")])
        })
    )

    check(
      "keeps what counts in a batch that is held, however long nothing else is reserved",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const hour = 3_600_000
          yield* settle(yield* take("a", [calls(1)]), released)
          const held = yield* take("wave", [{ _tag: "Batch", batch: "b" }], hour - 1)
          yield* raw.pruneExpired(5 * hour)
          yield* refused([calls(1)], 5 * hour)
          yield* settle(held, unstarted, 5 * hour)
          yield* take("z", [{ _tag: "Batch", batch: "c" }], 6 * hour - 1)
          yield* raw.pruneExpired(6 * hour - 1)
          assert.propertyVal(yield* raw.check([calls(1)], 6 * hour - 1), "_tag", "CallsUsedUp")
        })
    )

    check("settles once, however often it is told", ({ raw, refused, settle, take }) =>
      Effect.gen(function*() {
        yield* settle(yield* take("a", [calls(2)]), released)
        const b = yield* take("b", [key("1"), calls(2), group("basic"), rest(1_000)], 0)
        yield* settle(b, unstarted, 10)
        yield* settle(b, unstarted, 10)
        yield* settle(yield* take("c", [calls(2)]), released)
        yield* refused([calls(2)])
        const d = yield* take("d", [key("1"), rest(1_000)], 0)
        yield* settle(d, running, 0)
        yield* raw.release(d, 100)
        yield* settle(d, running, 0)
        yield* raw.release(d, 5_000)
        yield* take("e", [key("1"), rest(1_000)], 1_100)
      }))

    check(
      "frees what a session that is over did not start, and nothing said of it counts any more",
      ({ raw, settle, take }) =>
        Effect.gen(function*() {
          const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
          const lost = yield* take("a", claims, 0)
          yield* raw.abandon("other", 0)
          assert.isDefined(yield* raw.check(claims, 0))
          yield* raw.abandon("s", 0)
          assert.deepStrictEqual(yield* raw.start([lost], 0), [])
          assert.deepStrictEqual(yield* raw.renew([lost], 0), [])
          assert.isFalse(yield* settle(lost, kept))
          assert.isFalse(yield* raw.release(lost, 0))
          yield* take("b", [key("1"), calls(1), group("basic"), rest(1_000)], 0)
        })
    )

    check(
      "keeps spent what a session that is over had started: it rests, and its key counts, from its start",
      ({ raw, settle, take }) =>
        Effect.gen(function*() {
          const lost = yield* take("a", [key("1", { windowMillis: 500 }), calls(1), group("oauth"), rest(1_000)], 0)
          assert.deepStrictEqual((yield* raw.start([lost], 100)).map(({ id }) => id), [lost.id])
          yield* raw.abandon("s", 5_000)
          assert.isFalse(yield* settle(lost, unstarted, 5_000))
          const refusal = (claim: StateStore.Claim, now: number) =>
            Effect.map(raw.check([claim], now), (it) => it?._tag)
          assert.strictEqual(yield* refusal(calls(1), 5_000), "CallsUsedUp")
          assert.strictEqual(yield* refusal(group("basic"), 5_000), "GroupTaken")
          assert.deepInclude(yield* raw.check([key("1")], 599), { owner: "a", running: false, value: undefined })
          assert.isUndefined(yield* raw.check([key("1")], 600))
          assert.deepStrictEqual(yield* raw.check([rest(1_000)], 1_099), {
            _tag: "CoolingDown",
            running: false,
            remainingMillis: 1
          })
          assert.isUndefined(yield* raw.check([rest(1_000)], 1_100))
        })
    )

    check(
      "frees the key of a read that a session had started when it was over",
      ({ raw, take }) =>
        Effect.gen(function*() {
          const read = yield* take("a", [key("1", { readOnly: true })], 0)
          yield* raw.start([read], 0)
          yield* raw.abandon("s", 0)
          yield* take("b", [key("1", { readOnly: true })], 0)
        })
    )

    check(
      "frees what a handler held that outlived its outcome, once its session is over",
      ({ raw, settle, take }) =>
        Effect.gen(function*() {
          const orphan = yield* take("a", [key("1"), rest(1_000)], 0)
          yield* settle(orphan, running, 100)
          yield* raw.abandon("s", 2_000)
          assert.isFalse(yield* raw.release(orphan, 2_000))
          assert.isUndefined(yield* raw.check([key("1")], 2_000))
          assert.propertyVal(yield* raw.check([rest(1_000)], 2_999), "_tag", "CoolingDown")
          assert.isUndefined(yield* raw.check([rest(1_000)], 3_000))
        })
    )

    check(
      "gives back what its owner says never started, though it was about to",
      ({ raw, settle, take }) =>
        Effect.gen(function*() {
          const a = yield* take("a", [calls(1), rest(1_000)], 0)
          yield* raw.start([a], 0)
          yield* settle(a, unstarted, 0)
          assert.deepStrictEqual(yield* raw.start([a], 0), [])
          yield* take("b", [calls(1), rest(1_000)], 0)
        })
    )

    check("gives a group back when none of its holders started", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        const a = yield* take("a", [group("oauth")])
        const b = yield* take("b", [group("oauth")])
        yield* settle(a, unstarted)
        yield* refused([group("basic")])
        yield* settle(b, unstarted)
        yield* take("c", [group("basic")])
      }))

    check("keeps a group that one of its holders has started", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        const a = yield* take("a", [group("oauth")])
        const b = yield* take("b", [group("oauth")])
        yield* settle(a, released)
        yield* settle(b, unstarted)
        yield* refused([group("basic")])
      }))

    check("takes no group where another claim cannot be had", ({ refused, take }) =>
      Effect.gen(function*() {
        yield* refused([group("oauth"), calls(0)])
        yield* refused([group("oauth"), group("oauth", "h"), calls(0)])
        yield* take("a", [group("basic"), group("basic", "h")])
        yield* refused([group("basic"), group("oauth", "h")])
      }))

    check(
      "lets a tool rest from the end of its call, to the millisecond",
      ({ refused, settle, take }) =>
        Effect.gen(function*() {
          const a = yield* take("a", [rest(1_000)], 0)
          assert.deepStrictEqual(yield* refused([rest(1_000)], 5_000), {
            _tag: "CoolingDown",
            running: true,
            remainingMillis: 1_000
          })
          yield* settle(a, released, 10_000)
          assert.deepStrictEqual(yield* refused([rest(1_000)], 10_999), {
            _tag: "CoolingDown",
            running: false,
            remainingMillis: 1
          })
          yield* take("b", [rest(500)], 10_999)
          yield* take("c", [rest(1_000, "u"), rest(1_000, "v")], 10_999)
          yield* take("d", [rest(1_000, "t", "q")], 10_999)
        })
    )

    check("lets a call that never started leave no rest behind", ({ refused, settle, take }) =>
      Effect.gen(function*() {
        yield* settle(yield* take("a", [rest(1_000)], 0), released, 100)
        yield* settle(yield* take("b", [rest(1_000)], 1_100), unstarted, 1_200)
        yield* take("c", [rest(1_000)], 1_200)
        yield* refused([rest(1_000)], 9_000)
      }))

    check(
      "lets a tool rest from the end of a handler that outlived its outcome, and not start before",
      ({ raw, refused, settle, take }) =>
        Effect.gen(function*() {
          const a = yield* take("a", [rest(1_000)], 0)
          yield* settle(a, running, 100)
          assert.deepStrictEqual(yield* refused([rest(1_000)], 49_000), {
            _tag: "CoolingDown",
            running: true,
            remainingMillis: 1_000
          })
          yield* raw.pruneExpired(50_000)
          yield* raw.release(a, 50_000)
          yield* refused([rest(1_000)], 50_999)
          yield* take("b", [rest(1_000)], 51_000)
        })
    )

    check("tells what cannot be had without taking anything", ({ raw, take }) =>
      Effect.gen(function*() {
        const claims = [key("1"), calls(1), group("oauth"), rest(1_000)]
        assert.isUndefined(yield* raw.check(claims, 0))
        assert.isUndefined(yield* raw.check(claims, 0))
        yield* take("a", claims)
        const tags = yield* Effect.forEach(claims, (claim) =>
          Effect.map(raw.check([claim._tag === "Group" ? group("basic") : claim], 0), (it) => it?._tag))
        assert.deepStrictEqual(tags, ["KeyTaken", "CallsUsedUp", "GroupTaken", "CoolingDown"])
      }))

    check(
      "replaces what a call has reserved in one step, and gives it back if it cannot have the rest",
      ({ raw, take }) =>
        Effect.gen(function*() {
          const claims = [key("k"), calls(1), group("t"), rest(1_000)]
          const first = yield* take("1", claims)
          const others = [key("other"), calls(1), group("t"), rest(1_000)]
          const [again] = yield* raw.reserve([{ owner: "1", session: "s", claims: others, replaces: first }], 0)
          assert.notProperty(again, "_tag")
          assert.deepStrictEqual(yield* raw.check([key("k")], 0), undefined)
          assert.propertyVal(yield* raw.check([calls(1)], 0), "_tag", "CallsUsedUp")
          yield* take("2", [key("taken")])
          const replaces = again as StateStore.Reservation
          const [refused] = yield* raw.reserve([{
            owner: "1",
            session: "s",
            claims: [key("taken"), calls(1)],
            replaces
          }], 0)
          assert.propertyVal(refused, "_tag", "KeyTaken")
          assert.deepStrictEqual(
            yield* raw.check([key("other"), calls(1), group("u"), rest(1_000)], 0),
            undefined
          )
        })
    )

    check(
      "keeps the standing permissions of each principal until they expire or are revoked",
      ({ raw }) =>
        Effect.gen(function*() {
          const ids = (principal: string, now: number) =>
            Effect.map(raw.grants(principal, now), (all) => all.map((it) => it.id))
          const base = { tool: "t", agentPath: [], answer: "ApproveForScope", grantedAt: 0 } as const
          yield* raw.grant({ ...base, principal: "p", id: "a", targets: ["x"] })
          yield* raw.grant({ ...base, principal: "p", id: "b", expiresAt: 1_000 })
          yield* raw.grant({ ...base, principal: "q", id: "c" })
          assert.deepStrictEqual(yield* ids("p", 999), ["a", "b"])
          assert.deepStrictEqual(yield* ids("p", 1_000), ["a"])
          assert.isFalse(yield* raw.revoke("q", "a"))
          assert.isTrue(yield* raw.revoke("p", "a"))
          assert.isFalse(yield* raw.revoke("p", "a"))
          assert.deepStrictEqual(yield* ids("p", 999), ["b"])
          yield* raw.pruneExpired(1_000_000)
          assert.deepStrictEqual([yield* ids("p", 0), yield* ids("q", 0), yield* ids("nobody", 0)], [[], ["c"], []])
        })
    )

    check("drops what is past its window and says how much", ({ raw, settle, take }) =>
      Effect.gen(function*() {
        yield* settle(yield* take("a", [key("1")]), kept, 0)
        yield* settle(yield* take("b", [key("2")]), kept, 500)
        yield* take("c", [key("3")])
        assert.strictEqual(yield* raw.pruneExpired(1_000), 1)
        assert.strictEqual(yield* raw.pruneExpired(1_000), 0)
        assert.strictEqual(yield* raw.pruneExpired(1_500), 1)
      }))

    check("takes keys of any text", ({ refused, take }) =>
      Effect.gen(function*() {
        for (const name of ["__proto__", "constructor", "", "\n", "\u0000", "🙂", "x".repeat(100_000)]) {
          yield* take("a", [key(name), calls(1, name, name)])
          yield* refused([key(name)])
          yield* refused([calls(1, name, name)])
        }
      }))
  })
}
