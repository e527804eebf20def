/**
 * Plays the scenarios once more, through the MCP gateway: the runner is a client
 * of it.
 *
 * MCP itself refuses a name that is not listed, and has no arguments but objects:
 * of such calls there is no outcome to compare.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import type { Difference } from "../../src/testing/Comparison.ts"
import * as Scenario from "../../src/testing/Scenario.ts"
import * as ScenarioRunner from "../../src/testing/ScenarioRunner.ts"
import { isUnsent, throughGateway } from "../support/throughGateway.ts"

const folder = fileURLToPath(new URL("../scenarios/", import.meta.url))

/** Scenarios that are about what MCP does not have. */
const apart: Readonly<Record<string, string>> = {
  "interrupted-caller.json": "a client that goes away does not wait for clean-up",
  "permission-remembered.json": "a form offers an hour, the scenario wants a minute",
  "stop-at-a-refusal.json": "a call that the protocol refuses ends no wave",
  "stop-skips-at-once.json": "a call that the protocol refuses ends no wave"
}

/** What only the caller of a wave is told. */
const isUntold = ({ where }: Difference): boolean => /\.expect\.(?:needsContinuation|shouldExit)$/.test(where)

/** Whether a difference is about a call that did not reach the gateway. */
const isOfUnsent = (waves: ReadonlyArray<ScenarioRunner.WaveReport>) => ({ where }: Difference): boolean => {
  const [, step, at, which] =
    /^script\[(\d+)\]\.(?:waves\[\d+\]\.)?expect\.(outcomes|events)(?:\[|\.)([^\].]+)/.exec(where) ?? []
  const outcomes = waves.find((it) => it.step === Number(step))?.outcomes ?? []
  const of = at === "outcomes" ? outcomes[Number(which)] : outcomes.find(({ outcome }) => outcome.callId === which)
  return of !== undefined && isUnsent(of.outcome)
}

describe("scenarios through the MCP gateway", () => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json") && !Object.hasOwn(apart, name))) {
    const input = JSON.parse(readFileSync(folder + file, "utf8")) as { readonly name: string }

    it.effect(`${file}: ${input.name}`, () =>
      Effect.gen(function*() {
        const { differences, waves } = yield* ScenarioRunner.run(yield* Scenario.decode(input), {
          transport: throughGateway
        })
        assert.deepStrictEqual(differences.filter((it) => !isOfUnsent(waves)(it) && !isUntold(it)), [])
        assert.isNotEmpty(waves)
      }))
  }
})
