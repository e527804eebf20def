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
    const reaches = ["process", "batch", "principal"] as const
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
    "lets every ReadOnly key die when a mutating call starts, no other",
    function*({ raw, refused, settle, take }) {
      const flying = yield* take("a", [key("flying", { readOnly: true })])
      yield* settle(yield* take("b", [key("settled", { readOnly: true })]), kept)
      yield* settle(yield* take("c", [key("write")]), kept)
      yield* settle(yield* take("d", [key("other", { readOnly: true, principal: "q" })]), kept)
      yield* raw.mutated("p")
      const next = yield* take("e", [key("flying", { readOnly: true })])
      yield* take("f", [key("settled", { readOnly: true })])
      yield* refused([key("write")])
      yield* refused([key("other", { readOnly: true, principal: "q" })])
      // the end of the old call does not affect the new call's key
      yield* settle(flying, kept)
      includes(yield* refused([key("flying", { readOnly: true })]), {
        reservation: next.id,
        running: true
      })
    }
  ),
  check(
    "keeps no key of a read during which a mutating call started",
    function*({ raw, settle, take }) {
      const read = yield* take("a", [key("1", { readOnly: true })])
      yield* raw.mutated("p")
      yield* settle(read, kept)
      yield* take("b", [key("1", { readOnly: true })])
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
