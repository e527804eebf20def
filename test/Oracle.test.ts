/**
 * Compares the executor with a model of its contract, in worlds made by chance.
 * The model leaves out worlds in which it matters what happens first in one
 * moment, since the contract does not say.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Scenario, ScenarioRunner } from "effect-tool-executor/testing"
import { foretell } from "./support/oracle.ts"
import { make } from "./support/oracleCase.ts"
import { said, toScenario } from "./support/oracleWorld.ts"
import { seeds, timeout } from "./support/seeds.ts"

describe("the executor and a model of its contract", () => {
  it.effect("agree on what becomes of every call, and when", () =>
    Effect.gen(function*() {
      for (const seed of seeds(200)) yield* compare(seed)
    }), timeout)
})

const compare = Effect.fnUntraced(function*(seed: number) {
  const world = make(seed)
  const foretold = foretell(world)
  if (foretold === undefined) return
  const { waves } = yield* ScenarioRunner.run(yield* Scenario.decode(toScenario(world)))
  assert.lengthOf(waves, foretold.length)
  for (const [wave, { outcomes, where }] of waves.entries()) {
    const played = outcomes.map(({ end, outcome, start }) => ({ says: said(outcome), start, end }))
    // who shares an outcome shares its times, too
    const expected = foretold[wave]!.map((it, index) => ({ ...it, start: it.start ?? played[index]?.start }))
    assert.deepStrictEqual(played, expected, `world ${seed}, ${where}`)
  }
})
