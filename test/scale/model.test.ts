/** Holds the laws of the model of `scripts/scale`, and that it agrees with what was measured on small clusters. */
import { assert, describe, it } from "@effect/vitest"
import { cases, measured } from "../../scripts/scale/costs.ts"
import { type Load, simulate } from "../../scripts/scale/model.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"

const base: Load = {
  runners: 2,
  processors: 4,
  databases: 1,
  arrivals: { perSecond: 100 },
  calls: 5,
  handler: 5,
  asks: 0,
  people: 0,
  millis: 10_000,
  seed: 1
}

const some = Array.from({ length: 20 }, (_, seed): Load => {
  const random = randomFrom(seed)
  return {
    runners: 1 + random.int(6),
    processors: 1 + random.int(4),
    databases: 1 + random.int(2),
    arrivals: random.chance(0.5) ? { perSecond: 1 + random.int(400) } : { sessions: 1 + random.int(60) },
    calls: 1 + random.int(8),
    handler: random.int(50),
    asks: random.pick([0, 0.1, 1]),
    people: random.int(2_000),
    millis: 3_000,
    seed
  }
})

describe("the model of a cluster", () => {
  it("loses no wave: each has ended, runs, or waits for a person", () => {
    for (const load of some) {
      const { ended, running, started, waiting } = simulate(measured, load)
      assert.strictEqual(started, ended + running + waiting, JSON.stringify(load))
    }
  })

  it("does no more work than was asked for, and no part is busier than always", () => {
    for (const load of some) {
      const { busy, work } = simulate(measured, load)
      assert.isAtMost(work.done, work.wanted)
      for (const share of Object.values(busy)) assert.isAtMost(share, 1)
    }
  })

  it("gives the same figures for the same seed, and others for another", () => {
    assert.deepStrictEqual(simulate(measured, base), simulate(measured, base))
    assert.notDeepEqual(simulate(measured, base), simulate(measured, { ...base, seed: 2 }))
  })

  it("has as many waves in memory as arrive while one lasts (Little's law)", () => {
    for (const handler of [1, 50, 500]) {
      const { inMemory, latency, perSecond } = simulate(measured, { ...base, handler, millis: 30_000 })
      assert.closeTo(inMemory / (perSecond * latency.mean / 1_000), 1, 0.05)
    }
  })

  it("keeps nothing in memory of what waits for people, however long they take", () => {
    const [fast, slow] = [2_000, 200_000].map((people) =>
      simulate(measured, { ...base, asks: 0.5, people, millis: 30_000 })
    )
    assert.isAbove(slow!.waiting, 5 * fast!.waiting)
    assert.isBelow(slow!.inMemory, fast!.inMemory)
  })

  it("groups: one load on more runners takes more statements, more sessions on one runner fewer", () => {
    const perWave = (runners: number, sessions: number) =>
      simulate(measured, { ...base, runners, arrivals: { sessions } }).statementsPerWave
    const [one, three, crowded] = [perWave(1, 16), perWave(3, 16), perWave(1, 64)]
    assert.isAbove(three, one)
    assert.isBelow(crowded, one)
  })

  it("agrees with what was measured, within a fifth", () => {
    for (const { runners, sessions, statements } of cases) {
      const { statementsPerWave } = simulate(measured, {
        ...base,
        runners,
        processors: 2,
        handler: 1,
        arrivals: { sessions }
      })
      assert.closeTo(statementsPerWave / statements, 1, 0.2, `${runners} runners, ${sessions} sessions`)
    }
  })
})
