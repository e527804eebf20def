/**
 * Random trees of agents under faults, cancellation, people and budgets: every one ends,
 * and what an operation promises holds in each.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { play } from "../support/randomTree.ts"
import { seeds, share, timeout } from "../support/seeds.ts"
import { broken } from "../support/treeLaws.ts"

describe("a random tree of agents", () => {
  it.effect(
    "ends, and keeps every promise",
    () =>
      Effect.gen(function*() {
        const reasons = new Set<string>()
        const depths = new Set<number>()
        for (const seed of seeds(80)) {
          const seen = yield* Effect.orDie(play(seed))
          assert.deepStrictEqual(broken(seen), [], `seed ${seed}`)
          reasons.add(seen.reason)
          for (const { agentPath } of seen.events) depths.add(agentPath.length)
        }
        // nothing is tried that does not happen
        if (share !== "all") return
        assert.includeMembers(Array.from(reasons), ["Finished", "Cancelled", "LimitReached", "ModelFailed"])
        assert.strictEqual(depths.size, 9)
      }),
    { tags: ["AG14", "AG17"], timeout }
  )
})
