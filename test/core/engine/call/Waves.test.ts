import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as WaveRuns from "../../../../src/core/engine/call/WaveRuns.ts"

const Item = Schema.Struct({
  class: Schema.Literals(["ReadOnly", "ConcurrentMut", "SerialMut", "ShortCircuit"]),
  closesRun: Schema.Boolean
})
const Wave = Schema.Array(Item)

describe("Waves.cut", () => {
  for (const mode of ["classes", "parallel", "sequential"] as const) {
    it.prop(`keeps every call once and in order (${mode})`, [Wave], ([wave]) => {
      const runs = WaveRuns.cut(wave, mode)
      assert.deepStrictEqual(runs.flat(), wave.map((_, index) => index))
      for (const run of runs) assert.isNotEmpty(run)
    }, { arbitrary: { runs: 300 } })
  }

  it.prop("makes runs of one class, SerialMut alone", [Wave], ([wave]) => {
    for (const run of WaveRuns.cut(wave, "classes")) {
      const classes = run.map((index) => wave[index]!.class).filter((it) => it !== "ShortCircuit")
      assert.isAtMost(new Set(classes).size, 1)
      if (classes.includes("SerialMut")) assert.strictEqual(classes.length, 1)
    }
  }, { arbitrary: { runs: 300 } })

  it.prop("ends a run only where it has to", [Wave], ([wave]) => {
    const runs = WaveRuns.cut(wave, "classes")
    const real = (run: ReadonlyArray<number>) =>
      run.map((index) => wave[index]!).filter((it) => it.class !== "ShortCircuit")
    for (let i = 1; i < runs.length; i++) {
      const before = real(runs[i - 1]!).at(-1)
      const after = real(runs[i]!)[0]
      // refused calls never stand between two runs: a run that has none but them is the last
      assert.isDefined(before)
      if (after === undefined) {
        assert.strictEqual(i, runs.length - 1)
        assert.isTrue(before!.closesRun || before!.class === "SerialMut")
      } else {
        assert.isTrue(before!.closesRun || before!.class === "SerialMut" || before!.class !== after.class)
      }
    }
  }, { arbitrary: { runs: 300 } })

  it.prop("cuts the same way whether refused calls are there or not", [Wave], ([wave]) => {
    const kept = wave.filter((it) => it.class !== "ShortCircuit")
    const shapes = WaveRuns.cut(wave, "classes")
      .map((run) => run.filter((index) => wave[index]!.class !== "ShortCircuit").length)
      .filter((length) => length > 0)
    assert.deepStrictEqual(shapes, WaveRuns.cut(kept, "classes").map((run) => run.length))
  }, { arbitrary: { runs: 300 } })

  it("cuts nothing into nothing", () => {
    for (const mode of ["classes", "parallel", "sequential"] as const) {
      assert.deepStrictEqual(WaveRuns.cut([], mode), [])
    }
  })
})
