/** Checks of what a store keeps for processes and conversations. */
import * as assert from "node:assert/strict"
import type * as StateStore from "../core/store/StateStore.ts"
import type { Statement } from "./Contract.ts"
import {
  type Bounds,
  calls,
  check,
  group,
  includes,
  inSession,
  key,
  released,
  rest,
  running,
  unstarted
} from "./StateStoreChecks.ts"

const day = 86_400_000

/** A success of a tool in a wave. */
const mark = (tool: string, wave: number, index = 0) => ({
  tool,
  routes: [],
  place: { at: wave, serial: wave, by: "executor" },
  index
})

const succeeded = (tool: string, wave: number, index = 0): StateStore.Settlement => ({
  ...released,
  succeeded: mark(tool, wave, index)
})

const session: StateStore.BatchClaim = { _tag: "Batch", batch: "c", scope: "session" }
const batch: StateStore.BatchClaim = { _tag: "Batch", batch: "b" }

export const all: ReadonlyArray<Statement<StateStore.StateStore["Service"], Bounds>> = [
  check(
    "counts in a conversation beside its batches, for much longer than these",
    function*({ raw, refused, settle, take }) {
      const both = (of: string) => [key("1", { scope: "batch", batch: of }), calls(1, "t", of), {
        ...calls(2, "t", "c"),
        ...inSession
      }]
      yield* settle(yield* take("a", both("b1")), released)
      includes(yield* refused(both("b1").slice(1)), { _tag: "CallsUsedUp", scope: undefined })
      yield* raw.closeBatch("b1")
      yield* settle(yield* take("b", both("b2"), day), unstarted, day)
      yield* settle(yield* take("c", both("b2"), day), released, day)
      yield* raw.pruneExpired(2 * day)
      includes(yield* refused(both("b3"), 2 * day), { _tag: "CallsUsedUp", scope: "session" })
      yield* raw.closeBatch("c")
      yield* take("d", both("b3"), 2 * day)
    }
  ),
  check("counts each process by itself, within its batch", function*({ raw, refused, take }) {
    const of = (process: string) => ({ scope: "process", process }) as const
    yield* take("a", [{ ...calls(1), ...of("x") }, calls(3)])
    includes(yield* refused([{ ...calls(1), ...of("x") }]), { _tag: "CallsUsedUp", scope: "process" })
    yield* take("b", [{ ...calls(1), ...of("y") }, calls(3), { ...group("t"), ...of("y") }])
    yield* refused([{ ...group("u"), ...of("y") }])
    yield* take("c", [{ ...group("u"), ...of("x") }])
    yield* raw.closeBatch("b")
    yield* take("d", [{ ...calls(1), ...of("x") }])
  }),
  check(
    "lets a tool rest, and one of a group win, in one conversation only",
    function*({ raw, refused, settle, take }) {
      const rests = { ...rest(1_000), batch: "c", ...inSession }
      const a = yield* take("a", [rests, { ...group("t", "g", "c"), ...inSession }])
      includes(yield* refused([rests]), { _tag: "CoolingDown", running: true, scope: "session" })
      yield* settle(a, running, 100)
      includes(yield* refused([rests], 5_000), { running: true })
      yield* raw.release(a, 5_000)
      includes(yield* refused([rests], 5_500), { running: false, remainingMillis: 500 })
      yield* take("b", [{ ...rests, batch: "other" }, rest(1_000)], 5_500)
      yield* take("c", [rests], 6_000)
      includes(yield* refused([{ ...group("u", "g", "c"), ...inSession }], 6_000), { _tag: "GroupTaken", group: "g" })
      yield* take("d", [{ ...group("u", "g", "other"), ...inSession }], 6_000)
    }
  ),
  check("takes all of a batch and its conversation, or nothing", function*({ refused, take }) {
    yield* take("a", [{ ...calls(1, "t", "c"), ...inSession }])
    yield* refused([calls(1), { ...calls(1, "t", "c"), ...inSession }])
    yield* take("b", [calls(1)])
  }),
  check(
    "remembers what succeeded, by where it stood and not by when that was told",
    function*({ raw, settle, take }) {
      assert.deepEqual(yield* raw.recall([session, batch], 0), [undefined, undefined])
      const a = yield* take("a", [session, batch])
      const b = yield* take("b", [calls(5), session])
      const c = yield* take("c", [session])
      assert.deepEqual(yield* raw.recall([session], 0), [undefined])
      yield* settle(b, succeeded("two", 2))
      yield* settle(a, succeeded("one", 1, 3))
      yield* settle(c, released)
      const [inConversation, inBatch] = yield* raw.recall([session, batch], 0)
      assert.deepEqual(inConversation?.succeeded.toSorted(), ["one", "two"])
      assert.deepEqual(inConversation?.last, mark("two", 2))
      assert.deepEqual(inBatch?.last, mark("two", 2))
      yield* settle(yield* take("d", [session]), succeeded("one", 2, 1))
      const [later] = yield* raw.recall([session], 0)
      assert.deepEqual([later?.succeeded.length, later?.last], [2, mark("one", 2, 1)])
    }
  ),
  check(
    "says nothing twice: a success that is told again changes nothing",
    function*({ raw, settle, take }) {
      const a = yield* take("a", [session])
      assert.equal(yield* settle(a, succeeded("one", 1)), true)
      assert.equal(yield* settle(a, succeeded("two", 2)), false)
      assert.deepEqual((yield* raw.recall([session], 0))[0]?.last, mark("one", 1))
    }
  ),
  check("forgets what succeeded with its batch or its conversation", function*({ raw, settle, take }) {
    yield* settle(yield* take("a", [session, batch]), succeeded("one", 1))
    yield* raw.closeBatch("b")
    assert.deepEqual((yield* raw.recall([batch, session], 0)).map((it) => it?.last?.tool), [undefined, "one"])
    yield* raw.pruneExpired(30 * day)
    assert.deepEqual((yield* raw.recall([session], 30 * day)).map((it) => it?.last?.tool), ["one"])
    yield* raw.closeBatch("c")
    assert.deepEqual(yield* raw.recall([session], 30 * day), [undefined])
  }),
  check("forgets an idle conversation in time, and not before", function*({ raw, settle, take }) {
    yield* settle(yield* take("a", [session, { ...calls(1, "t", "c"), ...inSession }]), succeeded("one", 1))
    const held = yield* take("b", [session], 900)
    yield* raw.pruneExpired(5_000)
    assert.deepEqual((yield* raw.recall([session], 5_000))[0]?.last?.tool, "one")
    yield* settle(held, unstarted, 5_000)
    assert.deepEqual((yield* raw.recall([session], 5_999))[0]?.last?.tool, "one")
    assert.deepEqual(yield* raw.recall([session], 6_000), [undefined])
    yield* take("c", [{ ...calls(1, "t", "c"), ...inSession }], 6_000)
  }, { sessionTimeToLive: 1_000 })
]
