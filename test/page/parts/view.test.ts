import { assert, describe, it } from "@effect/vitest"
import type { Lane } from "../../../src/core/facts/Lanes.ts"
import { fit, pan, ticksOf, zoom } from "../../../src/page/parts/view.ts"

describe("the view", () => {
  const lanes = [{ from: 1000, to: 1500 }, { from: 1200, to: 1800 }] as unknown as ReadonlyArray<Lane>

  it("fits all, zooms around a point, and moves", () => {
    const all = fit(lanes, 9000)
    assert.deepStrictEqual(all, { from: 1000, to: 1800 })
    assert.deepStrictEqual(zoom(all, 0.5), { from: 1200, to: 1600 })
    assert.deepStrictEqual(zoom(all, 0.5, 1000), { from: 1000, to: 1400 })
    assert.deepStrictEqual(pan(all, 0.25), { from: 1200, to: 2000 })
    assert.strictEqual(fit([{ from: 1000, to: undefined }] as unknown as ReadonlyArray<Lane>, 9000).to, 9000)
  })

  it("cannot be zoomed out of the world", () => {
    let view = fit(lanes, 0)
    for (let at = 0; at < 200; at++) view = zoom(view, 0.5)
    assert.isAtLeast(view.to - view.from, 0.99)
    for (let at = 0; at < 200; at++) view = zoom(view, 2)
    assert.isAtMost(view.to - view.from, 604_800_000)
  })

  it("has round times on its axis, few of them", () => {
    assert.deepStrictEqual(ticksOf({ from: 1000, to: 1800 }, 1000, 8), [
      1000,
      1100,
      1200,
      1300,
      1400,
      1500,
      1600,
      1700,
      1800
    ])
    assert.isAtMost(ticksOf({ from: 0, to: 604_800_000 }, 0, 8).length, 10)
  })
})
