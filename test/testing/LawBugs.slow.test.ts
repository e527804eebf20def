/** That the laws find bugs: each is planted in one part of the executor. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { ToolExecutor } from "effect-tool-executor"
import * as Laws from "../support/laws/Laws.ts"
import { bugs } from "./planted/bugs.ts"

describe("the laws", () => {
  for (const { laws, layer, name } of bugs) {
    it.effect(`find out that ${name}`, () =>
      Effect.gen(function*() {
        const report = yield* Laws.laws(layer, { runs: 100, shorten: 20 })
        assert.isTrue(report.violations.some((it) => laws.includes(it.law)), Laws.describe(report))
      }))
  }

  it.effect("each find one of these bugs", () =>
    Effect.gen(function*() {
      const { judged } = yield* Laws.laws(ToolExecutor.layer, { runs: 1 })
      assert.deepStrictEqual(judged.filter((law) => !bugs.some((it) => it.laws.includes(law))), [])
    }))
})
