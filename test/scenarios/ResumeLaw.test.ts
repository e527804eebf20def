/** Random waves and agents over every store: see `support/resumeLaw`; many more by `npm run try -- law:resume`. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as SimulateStores from "../../src/cli/simulate/SimulateStores.ts"
import * as Postgres from "../support/Postgres.ts"
import { tried } from "../support/resumeLaw.ts"
import { either, seeds, timeout } from "../support/seeds.ts"

const worlds = { memory: 40, file: 4, sqlite: 8, postgres: 3 } as const

describe("a random wave or agent that dies at any entry of its record and is resumed", () => {
  const slow = either(["file", "sqlite", "postgres"] as const)
  for (const store of ["memory", ...slow] as const) {
    it.live(`has the outcomes of one that does not, in ${store}`, () =>
      Effect.gen(function*() {
        const stores = yield* SimulateStores.make
        for (const seed of seeds(worlds[store])) {
          assert.deepStrictEqual((yield* tried(seed, 3, { store, stores })) ?? [], [])
        }
      }).pipe(Effect.provide([Logger.layer([]), Postgres.forSimulate]), Effect.scoped), timeout)
  }
})
