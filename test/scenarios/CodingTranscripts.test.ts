/** Twenty written coding sessions, with a person who approves what is sensible. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Journal } from "../../src/index.ts"
import { all, compared } from "../support/transcripts/replay.ts"

const count = (replayed: ReadonlyArray<{ readonly asked: ReadonlyArray<unknown> }>) =>
  replayed.reduce((sum, { asked }) => sum + asked.length, 0)

describe("coding sessions with a sandbox and the rules that their first half proposes", () => {
  it.effect(
    "ask at most a fifth, repeat nothing that is approved, and run nothing that is denied",
    () =>
      Effect.gen(function*() {
        const { after, before, half, suggestions, without } = yield* compared
        assert.strictEqual(all.length, 20)
        assert.isAtLeast(count(without.slice(half)), 90)
        assert.isAtMost(count(after), count(without.slice(half)) / 5)
        assert.isAbove(suggestions.length, 2)
        for (const { denied, ran, repeated } of [...without, ...before, ...after]) {
          assert.deepStrictEqual(repeated, [])
          for (const it of denied) assert.notInclude(ran, it.replace("without sandbox: ", ""))
        }
        // what was denied before is denied still: the sandbox and the rules let none of it through
        assert.deepStrictEqual(
          [...before, ...after].map(({ denied }) => denied.map((it) => it.replace("without sandbox: ", ""))),
          without.map(({ denied }) => denied)
        )
      }).pipe(Effect.provide(Journal.layerMemory())),
    { tags: ["PA3"] }
  )
})
