/** Checks of how a store keeps counts, choices and cooldowns. */
import * as assert from "node:assert/strict"
import type * as StateStore from "../core/store/StateStore.ts"
import type { Statement } from "./Contract.ts"
import {
  type Bounds,
  calls,
  check,
  group,
  hasTag,
  includes,
  key,
  released,
  rest,
  running,
  unstarted
} from "./StateStoreChecks.ts"

export const all: ReadonlyArray<Statement<StateStore.StateStore["Service"], Bounds>> = [
  check("counts calls up to the maximum, per batch and tool", function*({ refused, take }) {
    yield* take("a", [calls(2)])
    yield* take("b", [calls(2)])
    yield* refused([calls(2)])
    yield* take("c", [calls(3)])
    yield* take("d", [calls(1, "u")])
    yield* take("e", [calls(1, "t", "other")])
  }),
  check("spends what started and gives back what did not", function*({ refused, settle, take }) {
    yield* settle(yield* take("a", [calls(1)]), unstarted)
    yield* settle(yield* take("b", [calls(1)]), released)
    yield* refused([calls(1)])
  }),
  check("forgets the counts of a batch that closes", function*({ raw, take }) {
    yield* take("a", [calls(1)])
    yield* raw.closeBatch("b")
    yield* take("b", [calls(1)])
  }),
  check(
    "gives nothing back to a batch that was closed meanwhile and begun again",
    function*({ raw, refused, settle, take }) {
      const old = yield* take("a", [calls(1)])
      yield* raw.closeBatch("b")
      yield* take("b", [calls(1)])
      yield* settle(old, unstarted)
      yield* refused([calls(1)])
    }
  ),
  check(
    "lets the first tool of a group win for its batch, and repeat",
    function*({ raw, refused, settle, take }) {
      const first = yield* take("a", [group("oauth")])
      includes(yield* refused([group("basic")]), { _tag: "GroupTaken", group: "g", tool: "oauth" })
      yield* take("b", [group("oauth")])
      yield* settle(first, released)
      yield* refused([group("basic")])
      yield* take("c", [group("basic", "other group")])
      yield* take("d", [group("basic", "g", "other batch")])
      yield* raw.closeBatch("b")
      yield* take("e", [group("basic")])
    }
  ),
  check(
    "keeps what counts in a batch that is held, however long nothing else is reserved",
    function*({ raw, refused, settle, take }) {
      const hour = 3_600_000
      yield* settle(yield* take("a", [calls(1)]), released)
      const held = yield* take("wave", [{ _tag: "Batch", batch: "b" }], hour - 1)
      yield* raw.pruneExpired(5 * hour)
      yield* refused([calls(1)], 5 * hour)
      yield* settle(held, unstarted, 5 * hour)
      yield* take("z", [{ _tag: "Batch", batch: "c" }], 6 * hour - 1)
      yield* raw.pruneExpired(6 * hour - 1)
      hasTag(yield* raw.check([calls(1)], 6 * hour - 1), "CallsUsedUp")
    }
  ),
  check("settles once, however often it is asked", function*({ raw, refused, settle, take }) {
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
  }),
  check("gives a group back when none of its holders started", function*({ refused, settle, take }) {
    const a = yield* take("a", [group("oauth")])
    const b = yield* take("b", [group("oauth")])
    yield* settle(a, unstarted)
    yield* refused([group("basic")])
    yield* settle(b, unstarted)
    yield* take("c", [group("basic")])
  }),
  check("keeps a group that one of its holders has started", function*({ refused, settle, take }) {
    const a = yield* take("a", [group("oauth")])
    const b = yield* take("b", [group("oauth")])
    yield* settle(a, released)
    yield* settle(b, unstarted)
    yield* refused([group("basic")])
  }),
  check("takes no group where another claim cannot be had", function*({ refused, take }) {
    yield* refused([group("oauth"), calls(0)])
    yield* refused([group("oauth"), group("oauth", "h"), calls(0)])
    yield* take("a", [group("basic"), group("basic", "h")])
    yield* refused([group("basic"), group("oauth", "h")])
  }),
  check(
    "lets a tool rest from the end of its call, to the millisecond",
    function*({ refused, settle, take }) {
      const a = yield* take("a", [rest(1_000)], 0)
      assert.deepEqual(yield* refused([rest(1_000)], 5_000), {
        _tag: "CoolingDown",
        running: true,
        remainingMillis: 1_000
      })
      yield* settle(a, released, 10_000)
      assert.deepEqual(yield* refused([rest(1_000)], 10_999), {
        _tag: "CoolingDown",
        running: false,
        remainingMillis: 1
      })
      yield* take("b", [rest(500)], 10_999)
      yield* take("c", [rest(1_000, "u"), rest(1_000, "v")], 10_999)
      yield* take("d", [rest(1_000, "t", "q")], 10_999)
    }
  ),
  check("lets a call that never started leave no rest behind", function*({ refused, settle, take }) {
    yield* settle(yield* take("a", [rest(1_000)], 0), released, 100)
    yield* settle(yield* take("b", [rest(1_000)], 1_100), unstarted, 1_200)
    yield* take("c", [rest(1_000)], 1_200)
    yield* refused([rest(1_000)], 9_000)
  }),
  check(
    "lets a tool rest from the end of a handler that outlived its outcome, and not start before",
    function*({ raw, refused, settle, take }) {
      const a = yield* take("a", [rest(1_000)], 0)
      yield* settle(a, running, 100)
      assert.deepEqual(yield* refused([rest(1_000)], 49_000), {
        _tag: "CoolingDown",
        running: true,
        remainingMillis: 1_000
      })
      yield* raw.pruneExpired(50_000)
      yield* raw.release(a, 50_000)
      yield* refused([rest(1_000)], 50_999)
      yield* take("b", [rest(1_000)], 51_000)
    }
  )
]
