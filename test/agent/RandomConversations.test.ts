/**
 * However an operation ends, it comes to the same over every protocol, and its history is gone on with, by its own
 * model or another one; `npm run try -- talks` has each over all of them, and goes on with all of them.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { names } from "../support/providers/providers.ts"
import { sample } from "../support/seeds.ts"
import { talks } from "../support/talks/table.ts"
import { problemsOf } from "../support/talks/talk.ts"

describe.each(names)("a conversation over %s", (name) => {
  const at = names.indexOf(name)
  /** Each of the others in turn, behind its own model. */
  const next = (index: number) => names[(at + 1 + index % 4) % names.length]!

  // those that all protocols have: over two of them each
  const here = talks.filter(({ over }, index) => over?.includes(name) ?? (at + index) % names.length < 2)
  it.live.each(sample(here.map((talk, index) => [talk.name, talk, next(index)] as const)))(
    "has %s",
    ([, talk, other]) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* problemsOf(talk, name, [name, other]), [])
      }),
    { tags: ["AG2"] }
  )
})
