import { assert, describe, it } from "@effect/vitest"
import { Crowd } from "../../src/internal/crowd.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import { seeds } from "../support/seeds.ts"

describe("a crowd", () => {
  it("has each member once, oldest first, however many come and go", () => {
    for (const seed of seeds(50)) {
      const random = randomFrom(seed)
      const crowd = new Crowd<number>()
      const model = new Set<number>()
      for (let step = 0; step < 400; step++) {
        const it = random.int(60)
        // more come than go, then more go than come
        const comes = random.int(100) < (step % 200 < 100 ? 70 : 30)
        if (comes) crowd.add(it)
        else crowd.delete(it)
        if (comes) model.add(it)
        else model.delete(it)
        assert.deepStrictEqual(Array.from(crowd), Array.from(model))
        assert.strictEqual(crowd.size, model.size)
      }
    }
  })

  it("lets members leave while they are visited", () => {
    for (const count of [3, 40]) {
      const crowd = new Crowd<number>()
      for (let it = 0; it < count; it++) crowd.add(it)
      const visited: Array<number> = []
      for (const it of crowd) {
        visited.push(it)
        crowd.delete(it)
        crowd.delete(it + 1)
      }
      assert.lengthOf(visited, count)
      assert.strictEqual(crowd.size, 0)
    }
  })
})
