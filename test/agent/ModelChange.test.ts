/** Another model goes on at any turn, and the first one afterwards; `npm run try -- talks` makes every change. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { names } from "../support/providers/providers.ts"
import { changes, problemsOf } from "../support/talks/change.ts"

describe.each(names)("a change of model from %s", (from) => {
  describe.each(names)("to %s", (to) => {
    const place = names.indexOf(from) + names.indexOf(to)
    const some = changes(from, to).filter((_, index) => index === place % 5 || index === (place + 2) % 5)
    it.live.each(some)(
      "after $after turns, asking: $asks, loses nothing and tells nothing",
      (change) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* problemsOf(change), [])
        }),
      { tags: ["AG6"] }
    )
  })
})
