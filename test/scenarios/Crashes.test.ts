/**
 * Plays the scenarios in which a process dies over every store there is, and the others over one that is real: what
 * becomes of calls does not depend on where their records are.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as SimulateStores from "../../src/cli/simulate/SimulateStores.ts"
import * as Scenario from "../../src/testing/Scenario.ts"
import * as ScenarioRunner from "../../src/testing/ScenarioRunner.ts"
import * as Postgres from "../support/Postgres.ts"
import { either, sample, timeout } from "../support/seeds.ts"

const filesIn = (folder: string): ReadonlyArray<readonly [name: string, input: unknown]> => {
  const path = fileURLToPath(new URL(folder, import.meta.url))
  return readdirSync(path).filter((name) => name.endsWith(".json")).sort().map((name) => [
    name,
    JSON.parse(readFileSync(path + name, "utf8"))
  ])
}

/** What differs, by file. */
const differences = Effect.fnUntraced(
  function*(store: Scenario.Store, folder: string) {
    const stores = yield* SimulateStores.make
    const found: Record<string, unknown> = {}
    const files = filesIn(folder)
    for (const [name, input] of store === "memory" ? files : sample(files)) {
      const report = yield* ScenarioRunner.run(yield* Scenario.decode(input), { store, stores })
      assert.isNotEmpty(report.waves, name)
      if (report.differences.length > 0) found[name] = report.differences
    }
    return found
    // what is refused and broken on purpose is not told of
  },
  Effect.provide([Logger.layer([]), Postgres.forSimulate]),
  Effect.scoped
)

const holds = (store: Scenario.Store, folder: string) =>
  Effect.map(differences(store, folder), (found) => assert.deepStrictEqual(found, {}))

describe("a scenario has the same outcomes", () => {
  for (const store of ["memory", ...either(["file", "sqlite", "postgres"] as const)] as const) {
    it.live(`in ${store}, where its process dies and goes on`, () => holds(store, "./crashes/"), {
      tags: ["R11", "R12"],
      timeout
    })
  }

  it.live("in sqlite, where nothing dies", () => holds("sqlite", "./"), timeout)
})
