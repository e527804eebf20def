/** Random trees of agents whose hosts stop, in every way and at any moment, and are followed by others. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomFrom } from "../support/randomCase.ts"
import { everyStep, seeds, timeout } from "../support/seeds.ts"
import { play, type Stop, stops, type Whole } from "../support/stoppedTrees.ts"

const kept = {
  "its session": { session: "s", ways: stops },
  // a killed host gives nothing back
  "the history that it gave back": { session: undefined, ways: stops.filter((it) => it !== "killed") }
}

describe("a random tree of agents whose host stops", () => {
  for (const [where, { session, ways }] of Object.entries(kept)) {
    it.effect(
      `ends like one that runs through, from ${where}, with the same requests, and nothing twice`,
      () =>
        Effect.gen(function*() {
          let stopped = 0
          for (const seed of seeds(session === undefined ? 40 : 80)) {
            const { int, pick } = randomFrom(seed + 1_000_003)
            const lives = Array.from({ length: 1 + int(3) }, (): readonly [Stop, number] => [pick(ways), int(8_000)])
            const about = `seed ${seed}: ${JSON.stringify(lives)}`
            const whole = yield* Effect.orDie(play(seed, []))
            const parts = yield* Effect.orDie(play(seed, lives, { session }))
            // a handler that cannot continue is cancelled with its host
            const isCancelled = (line: string) => /^error \S+: "slow" was cancelled while it ran/.test(line)
            const expected = whole.history.map((it, index) =>
              isCancelled(parts.history[index] ?? "") ? "cancelled" : it
            )
            const got = parts.history.map((it) => isCancelled(it) ? "cancelled" : it)
            assert.deepStrictEqual(got, expected, about)
            assert.deepStrictEqual(parts.writes, whole.writes, about)
            assert.strictEqual(parts.end.reason._tag, whole.end.reason._tag, about)
            assert.strictEqual(parts.end.text, whole.end.text, about)
            for (const [task, ids] of parts.asked) assert.strictEqual(ids.size, 1, `${about}: ${task}`)
            stopped += parts.stops
          }
          assert.isAbove(stopped, 0)
        }),
      { tags: ["AG12"], timeout }
    )
  }

  it.effect(
    "does nothing twice wherever it is killed, and ends like one that runs through unless nobody knows what happened",
    () =>
      Effect.gen(function*() {
        let isKnown = false
        for (const seed of seeds(10)) {
          const whole = yield* Effect.orDie(play(seed, []))
          for (let record = everyStep.first;; record += everyStep.next) {
            const parts = yield* Effect.orDie(play(seed, [["at record", record], ["at record", 1 + record % 7]]))
            if (parts.stops === 0) break
            const about = `seed ${seed}, record ${record}`
            assert.deepStrictEqual(parts.writes, Array.from(new Set(parts.writes)), about)
            for (const [task, ids] of parts.asked) assert.strictEqual(ids.size, 1, `${about}: ${task}`)
            if (parts.unknown > 0) continue
            isKnown = true
            assert.deepStrictEqual(parts.history, whole.history, about)
            assert.deepStrictEqual(parts.writes, whole.writes, about)
          }
        }
        assert.isTrue(isKnown)
      }),
    { tags: ["AG12"], timeout }
  )

  it.effect(
    "reads every result of an agent in the background once, and does the same as one that runs through",
    () =>
      Effect.gen(function*() {
        // when a result arrives decides how often a model says that it is done
        const isFixed = (line: string) =>
          !/has ended\.|is running, in turn|No agent|has not begun|slow|seen late/.test(line)
        const shown = ({ history }: Whole) => Array.from(new Set(history.filter(isFixed))).toSorted()
        let stopped = 0
        for (const seed of seeds(60)) {
          const { chance, int, pick } = randomFrom(seed + 1_000_003)
          const lives = Array.from({ length: 1 + int(3) }, (): readonly [Stop, number] =>
            chance(0.4) ? ["at record", 1 + int(60)] : [pick(stops), int(8_000)])
          const about = `seed ${seed}: ${JSON.stringify(lives)}`
          const whole = yield* Effect.orDie(play(seed, [], { kind: "background", session: "s" }))
          const parts = yield* Effect.orDie(play(seed, lives, { kind: "background", session: "s" }))
          const results = parts.history.filter((it) =>
            it.startsWith("user: Result of")
          )
          assert.strictEqual(new Set(results).size, results.length, about)
          assert.deepStrictEqual(parts.writes, Array.from(new Set(parts.writes)), about)
          for (const [task, ids] of parts.asked) assert.strictEqual(ids.size, 1, `${about}: ${task}`)
          stopped += parts.stops
          if (parts.unknown > 0) continue
          assert.deepStrictEqual(shown(parts), shown(whole), about)
          assert.deepStrictEqual(parts.writes, whole.writes, about)
          assert.strictEqual(parts.end.reason._tag, whole.end.reason._tag, about)
        }
        assert.isAbove(stopped, 0)
      }),
    { tags: ["AG22"], timeout }
  )
})
