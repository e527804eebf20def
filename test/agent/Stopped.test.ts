/** An operation that is stopped at any event is gone on with; `npm run try -- talks` stops at each. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Name, names } from "../support/providers/providers.ts"
import { randomFrom } from "../support/randomCase.ts"
import { sample } from "../support/seeds.ts"
import { eventsOver, executions, problemsOf, type Way } from "../support/talks/stopped.ts"

/** Some events of an operation, from a seed, each with who goes on. Few of them are deltas, which most events are. */
const stops = (way: Way, over: Name, count: number, seed: number) =>
  Effect.map(eventsOver(over), (events) => {
    const random = randomFrom(seed)
    const places = events.flatMap((tag, at) => tag !== "AssistantMessagePart" || random.chance(0.1) ? [at] : [])
    return Array.from({ length: count }, () => ({ way, over, at: random.pick(places), next: [random.pick(names)] }))
  })

const none = Effect.fnUntraced(function*(way: Way, over: Name, count: number) {
  for (const stop of sample(yield* stops(way, over, count, names.indexOf(over)))) {
    assert.deepStrictEqual(yield* problemsOf(stop), [], JSON.stringify(stop))
  }
})

const killable = sample(names)

describe.each(names)("an operation over %s", { tags: ["AG2"] }, (over) => {
  it.live(
    "starts no call once it is cancelled, at any event, and continues over any protocol",
    () => none("cancelled", over, 5),
    { tags: ["AG2"] }
  )

  it.live("starts no call once nobody reads it, and does nothing twice when it is gone on with", () =>
    none("unread", over, 8))

  // each of these starts processes, so that npm test has them over one or two protocols
  const kills = it.live.runIf(killable.includes(over))

  kills("that was killed is continued by another process, and does nothing twice", () => none("killed", over, 1))

  const execution = executions[names.indexOf(over)]!
  kills(
    `that was killed in the middle of "${execution}" does not do it twice, unless it only reads`,
    () =>
      Effect.gen(function*() {
        const problems = yield* problemsOf({ way: "killed", over, at: execution, next: [over] })
        assert.deepStrictEqual(problems, [])
      })
  )
})
