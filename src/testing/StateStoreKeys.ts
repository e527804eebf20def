/** Checks of how a store keeps the keys of equal calls. */
import * as assert from "node:assert/strict"
import type * as StateStore from "../core/store/StateStore.ts"
import type { Statement } from "./Contract.ts"
import { type Bounds, calls, check, includes, kept, key, released, running, value } from "./StateStoreChecks.ts"

export const all: ReadonlyArray<Statement<StateStore.StateStore["Service"], Bounds>> = [
  check("refuses a key in flight and says whose it is", function*({ refused, take }) {
    const a = yield* take("a", [key("1")])
    includes(yield* refused([key("1")]), { owner: "a", reservation: a.id, running: true })
  }),
  check(
    "refuses a settled key until its window is over, with what was kept",
    function*({ refused, settle, take }) {
      yield* settle(yield* take("a", [key("1")], 0), kept, 500)
      includes(yield* refused([key("1")], 1_499), { owner: "a", running: false, value })
      yield* take("b", [key("1")], 1_500)
    }
  ),
  check("frees a released key immediately", function*({ settle, take }) {
    yield* settle(yield* take("a", [key("1")]), released)
    yield* take("b", [key("1")])
  }),
  check(
    "keeps a running key in flight until it is released",
    function*({ raw, refused, settle, take }) {
      const a = yield* take("a", [key("1")])
      yield* settle(a, running)
      includes(yield* refused([key("1")], 1_000_000), { running: true })
      yield* raw.release(a, 1_000_000)
      const b = yield* take("b", [key("1")])
      yield* raw.release(a, 1_000_000)
      includes(yield* refused([key("1")]), { reservation: b.id })
    }
  ),
  check(
    "forgets the settled keys of a batch that closes, not those in flight",
    function*({ raw, refused, settle, take }) {
      const of = { scope: "batch", batch: "b" } as const
      yield* settle(yield* take("a", [key("1", of)]), kept)
      yield* settle(yield* take("a", [key("2", { ...of, batch: "c" })]), kept)
      yield* settle(yield* take("a", [key("3", of)]), running)
      yield* raw.closeBatch("b")
      yield* take("b", [key("1", of)])
      yield* refused([key("2", { ...of, batch: "c" })])
      includes(yield* refused([key("3", of)]), { running: true })
    }
  ),
  check("counts the keys that a claim says count", function*({ refused, settle, take }) {
    const told = { settled: "told", running: "told" } as const
    const none = { settled: "none", running: "none" } as const
    const host = { untold: true, ...none }
    const flying = yield* take("host", [key("1", host)])
    includes(yield* refused([key("1")]), { owner: "host", untold: true, running: true })
    const model = yield* take("model", [key("1", told)])
    yield* settle(flying, kept)
    yield* settle(model, kept)
    includes(yield* refused([key("1", told)]), { owner: "model", untold: false, process: "process-1" })
    // releases nothing of a call whose outcome the model sees
    yield* settle(yield* take("host", [key("1", host)]), kept)
    includes(yield* refused([key("1", told)]), { owner: "model" })
    yield* settle(yield* take("model", [key("1", none)]), released)
    yield* take("host", [key("1", host)])
  }),
  check("counts a key as far as it reaches, and for one sub-agent", function*({ refused, take }) {
    const reaches = ["wave", "process", "batch", "principal"] as const
    const of = { batch: "same", process: "same" }
    for (const scope of reaches) {
      for (const agent of [undefined, "", "x", "y", "same"]) {
        yield* take("a", [key("1", { ...of, scope, agent })])
        yield* refused([key("1", { ...of, scope, agent })])
      }
    }
    yield* take("b", [key("1", { ...of, scope: "process", process: "other" })])
    yield* refused([key("1", { ...of, scope: "process", batch: "other" })])
    yield* take("b", [key("1", { ...of, scope: "batch", batch: "other" })])
    yield* refused([key("1", { ...of, scope: "batch", process: "other" })])
    yield* refused([key("1", { scope: "principal", batch: "other", process: "other" })])
    // parts of a key must not run into each other
    yield* take("c", [key("1", { scope: "batch", batch: "a", tool: "bc" })])
    yield* take("c", [key("1", { scope: "batch", batch: "ab", tool: "c" })])
    yield* take("c", [key("1", { scope: "batch", agent: "a", batch: "b", tool: "c" })])
  }),
  check("keeps the keys of batches apart that take turns", function*({ refused, settle, take }) {
    const of = (batch: string, name = "1") => key(name, { scope: "batch", batch })
    yield* settle(yield* take("a", [of("x")]), released)
    yield* take("a", [of("x")])
    yield* take("b", [of("y")])
    for (const batch of ["x", "y", "x"]) yield* refused([of(batch)])
    yield* take("b", [of("z")])
    yield* take("a", [of("x", "2")])
    yield* refused([of("x")])
  }),
  check("keeps the keys of principals apart", function*({ take }) {
    yield* take("a", [key("1", { principal: "p" })])
    yield* take("b", [key("1", { principal: "q" })])
  }),
  check("takes all claims or none", function*({ raw, refused, take }) {
    yield* take("a", [key("1")])
    assert.equal((yield* refused([calls(1), key("1")]))._tag, "KeyTaken")
    yield* take("b", [calls(1)])
    assert.equal((yield* refused([key("2"), calls(1)]))._tag, "CallsUsedUp")
    yield* take("c", [key("2")])
    assert.notEqual(raw, undefined)
  }),
  check("tells the first claim that could not be had", function*({ refused, take }) {
    yield* take("a", [key("1"), calls(1)])
    assert.equal((yield* refused([key("1"), calls(1)]))._tag, "KeyTaken")
    assert.equal((yield* refused([calls(1), key("1")]))._tag, "CallsUsedUp")
  }),
  check(
    "lets a settled key die that ends with a change when another mutating call starts, none in flight",
    function*({ raw, refused, settle, take }) {
      const [ends, other] = [{ endsWithChange: true }, { endsWithChange: true, principal: "q" }]
      const flying = yield* take("a", [key("flying", ends)])
      yield* settle(yield* take("b", [key("settled", ends)]), kept)
      yield* settle(yield* take("c", [key("lasts")]), kept)
      yield* settle(yield* take("d", [key("other", other)]), kept)
      includes(yield* refused([key("settled", ends)]), { isOvertaken: false })
      yield* raw.mutated("p")
      yield* take("e", [key("settled", ends)])
      includes(yield* refused([key("lasts")]), { running: false, isOvertaken: true })
      includes(yield* refused([key("other", other)]), { isOvertaken: false })
      includes(yield* refused([key("flying", ends)]), { reservation: flying.id, running: true, isOvertaken: true })
      // what came between while it ran has made it stale
      yield* settle(flying, kept)
      yield* take("f", [key("flying", ends)])
    }
  ),
  check(
    "does not let a key die by the start and the end of its own call",
    function*({ raw, refused, settle, take }) {
      const ends = { endsWithChange: true }
      const own = yield* take("a", [key("1", ends)])
      const before = yield* take("b", [key("2", ends)])
      yield* raw.mutated("p", own)
      yield* settle(own, { ...kept, mutates: "p" })
      includes(yield* refused([key("1", ends)]), { owner: "a", running: false, isOvertaken: false })
      // the same of one that it has overtaken
      yield* raw.mutated("p", before)
      yield* settle(before, { ...kept, mutates: "p" })
      yield* take("c", [key("2", ends)])
      yield* take("d", [key("1", ends)])
    }
  ),
  check(
    "counts a settled key only in its wave where that is asked for, and one in flight in all",
    function*({ refused, settle, take }) {
      const [one, two] = [{ endsWithWave: true, wave: "1" }, { endsWithWave: true, wave: "2" }]
      const first = yield* take("a", [key("1", one)])
      includes(yield* refused([key("1", two)]), { running: true })
      yield* settle(first, kept, 300)
      includes(yield* refused([key("1", one)], 400), { owner: "a", endedAt: 300, until: 1_300 })
      yield* take("b", [key("1", two)], 400)
      // as a scope, a wave shares nothing with another
      yield* take("a", [key("2", { scope: "wave", wave: "1" })])
      yield* refused([key("2", { scope: "wave", wave: "1", process: "process-2" })])
      yield* take("b", [key("2", { scope: "wave", wave: "2" })])
    }
  ),
  check(
    "lets a settled key of another process be where that is asked for, but none in flight",
    function*({ refused, settle, take }) {
      const other = { process: "process-2", ignoreOtherProcesses: true }
      const a = yield* take("a", [key("1")])
      yield* refused([key("1", other)])
      yield* settle(a, kept)
      yield* refused([key("1", { ignoreOtherProcesses: true })])
      yield* take("b", [key("1", other)])
    }
  )
]
